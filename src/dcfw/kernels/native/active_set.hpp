// Blended pairwise Frank-Wolfe over the Birkhoff polytope: steps with an active set.
//
// The permutations met so far are kept as atoms, with weights that make up X and with their gradients.  Because
// the gradient is affine, a step that only moves weight between atoms needs the Gram matrix of gram.hpp, and
// neither a gradient nor an assignment problem.  Between two assignment problems the weights are optimised
// until what is left to gain there is a fraction of the last Frank-Wolfe gap.
//
// K. Tsuji, K. Tanaka and S. Pokutta, "Pairwise conditional gradients without swap steps and sparser kernel
// herding", ICML 2022.
#pragma once
#include <vector>

#include "frank_wolfe.hpp"

namespace dcfw {

class ActiveSet : public FrankWolfe {
  public:
    // `cap`: how many atoms may be kept.
    ActiveSet(int n, int cap);

    // Make X, with the gradient `grad`, the only atom with weight.  The others stay at hand for what they know
    // of the same f; with `forget` they do not.
    void restart(const Quadratic& f, const double* X, const double* grad, bool forget);
    // As FrankWolfe::advance, where a step is an assignment problem and the pairwise steps after it.
    Batch advance(const Quadratic& f, const double* linear, double* X, double* grad, const Plan& plan);
    // Scale the weights to the sum 1, and write the point that they stand for.
    void normalise(double* X);
    void point(double* X) const;

    // Atom 0 is dense: the start, and whatever has been merged since.  The others are permutations.
    int atoms() const { return count_; }
    int cap;
    std::vector<double> dense, weights, offsets;  // offsets: <C, atom>, which is no part of the Gram matrix
    std::vector<double> gram;                     // cap x cap
    std::vector<std::vector<double>> images;      // the gradients at the atoms
    const int* permutation(int atom) const { return &perms_[std::size_t(n) * atom]; }

  private:
    int find(const int* p, std::size_t* place) const;
    int join(const Quadratic& f);
    void fill_gram(int atom);
    void write_slopes(const double* G);
    void move(int source, int target);
    void make_room();
    void merge_lightest(int most);
    void follow(const std::vector<double>& before, double* grad) const;

    int count_ = 1, limit_;  // atoms, and the number of them at which those without weight are dropped
    std::vector<int> perms_, table_;
    std::vector<double> scores_;
};

}  // namespace dcfw
