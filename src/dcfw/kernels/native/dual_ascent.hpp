// A dual ascent on the first-level reformulation-linearisation of the QAP (after Hahn and Grant 1998), with kicks.
//
// The objective is a constant, plus sum_ij leader[i, j] x_ij, plus the costs of pairs of assignments (i, j), (k, l)
// with i != k, j != l.  A round visits the assignments in random order: the pair costs of (i, j), with its leader
// spread over them, are the costs of an assignment problem.  A random part of its value goes to the leader, the rest
// and the reduced costs go back to the pairs.  Then the value of the assignment problem of the leaders goes to the
// constant.  All costs stay nonnegative, so that the constant is a lower bound.
//
// Such an ascent ends at a point where no single move helps, well below the bound of the linear programme.  Random
// parts help it on, and so does giving back a part of the constant after each round, less and less of it.
#pragma once
#include <cstdint>
#include <vector>

#include "assignment_problem.hpp"
#include "lap.hpp"

namespace dcfw {

class DualAscent {
  public:
    double best = 0;   // the highest constant
    double total = 0;  // sum of the absolute costs at the start, for the caller's allowance for rounding
    std::int64_t rounds = 0;

    // A, B and the linear costs, row by row; n >= 2.
    DualAscent(const double* A, const double* B, const double* linear, int n);

    // Make one round, then give back this share of what was gained; return false if an assignment problem failed.
    bool round(double give_back);

  private:
    int n_;
    double constant_ = 0, start_ = 0;
    std::vector<double> pairs_;  // [i, j, k, l]: the cost of (i, j) with (k, l), the same both ways
    std::vector<double> leader_, costs_;
    std::vector<int> order_;
    Lap small_, large_;
    swaps::Random random_{1};

    double& pair(int i, int j, int k, int l) { return pairs_[((static_cast<std::size_t>(i) * n_ + j) * n_ + k) * n_ + l]; }
    bool reduce(int i, int j);
};

}  // namespace dcfw
