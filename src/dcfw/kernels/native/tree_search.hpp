// Search for problems in which A or B is the weighted adjacency matrix of a forest (chr* of QAPLIB).
//
// A step frees a few items and finds the best other arrangement of them among their places, the rest being fixed: a
// small problem on a forest.  A dynamic programme over it, in which items may share a place unless an edge joins them,
// gives a lower bound for each item, each place and everything below the item (Christofides and Benavent 1989); a
// depth-first search with these bounds looks at some 40 nodes.  What it finds is accepted as in annealing, at
// temperatures that fall and rise again.
#pragma once
#include "assignment_problem.hpp"

namespace dcfw::swaps {

class TreeSearch {
  public:
    double best = 0, tolerance;
    std::int64_t steps = 0, last_improved = 0;

    // Return whether A (1), B (2) or none of them (0) is a forest with an edge; both must be symmetric.
    template <class T>
    static int forest(const AssignmentProblem<T>& problem) {
        if (!problem.symmetric || problem.n < 4) return 0;
        if (is_forest(widened(problem.A, problem), problem.n)) return 1;
        return is_forest(widened(problem.B, problem), problem.n) ? 2 : 0;
    }

    template <class T>
    TreeSearch(const AssignmentProblem<T>& problem, const std::vector<int>& start, std::uint64_t seed)
        : tolerance(problem.tolerance), n_(problem.n), random_(seed) {
        const int which = forest(problem);
        if (which == 0) throw std::invalid_argument("a tree search needs a symmetric problem with a forest");
        inverted_ = which == 2;
        linear_.assign(static_cast<std::size_t>(n_) * n_, 0.0);
        if (!problem.C.empty()) linear_ = widened(problem.C, problem);
        if (inverted_)
            for (int i = 0; i < n_; ++i)
                for (int j = 0; j < i; ++j) std::swap(linear_[i * n_ + j], linear_[j * n_ + i]);
        distances_ = widened(inverted_ ? problem.A : problem.B, problem);
        prepare(widened(inverted_ ? problem.B : problem.A, problem));
        restart(start);
    }

    int n() const { return n_; }
    std::vector<int> best_p() const { return turned(best_); }
    void restart(const std::vector<int>& start);
    // Make `count` steps, or fewer if the best value reaches `target`.
    void run(std::int64_t count, double target);

  private:
    struct Edge {
        int item;
        double weight;
    };
    struct Item {
        int rank = 0, parent = -1;
        double weight = 0;  // of the edge to the parent
        std::vector<Edge> edges;
    };
    static constexpr int LEAST = 4, FEW = 8, MOST = 12;  // items that a step frees: few, or more in one of RARE steps
    static constexpr int RARE = 8;
    static constexpr int NODES = 50;           // of its search, for each free item
    static constexpr int CYCLE = 600;          // steps of a cycle of temperatures, for each item
    static constexpr double HOT = 0.3, COLD = 0.05;  // in units of the mean change by a random swap

    int n_;
    bool inverted_ = false;  // items and places are exchanged
    std::vector<double> distances_, linear_;
    Random random_;
    std::vector<Item> items_;
    std::vector<int> p_, best_, at_;  // at_: the number of a free item, else -1
    double value_ = 0, unit_ = 0;

    // The free items, parents first, and the dynamic programme over them.
    int free_, item_[MOST], place_[MOST], parent_[MOST], choice_[MOST], found_[MOST], nodes_;
    double weight_[MOST], between_[MOST][MOST], below_[MOST][MOST], least_[MOST][MOST], limit_;
    bool better_;

    template <class T>
    static std::vector<double> widened(const Array<T>& rows, const AssignmentProblem<T>& problem) {
        std::vector<double> out;
        for (int i = 0; i < problem.n; ++i)
            out.insert(out.end(), rows.begin() + i * problem.stride, rows.begin() + i * problem.stride + problem.n);
        return out;
    }
    static bool is_forest(const std::vector<double>& M, int n);
    std::vector<int> turned(const std::vector<int>& p) const;
    void prepare(const std::vector<double>& flows);
    double evaluate(const std::vector<int>& p) const;
    void step(double temperature);
    void choose();
    double lay_out();
    double bound_below();
    void place(int k, double bound, unsigned used);
};

}  // namespace dcfw::swaps
