// Pairwise steps in the space of weights.
//
// With atoms a_1, ..., a_m, weights w on the simplex and an affine gradient (Hessian H), everything about steps
// that move weight between the atoms is in M_ij = <H a_i, a_j> and the slopes scores_j = <grad m(x), a_j>:
// moving t from atom a to atom s changes scores_j by t (M_sj - M_aj), and the curvature of that move is
// M_ss - 2 M_sa + M_aa.  One constant added to all of M changes nothing.
#pragma once
#include <cstddef>

namespace dcfw {

struct Weighing {
    long steps = 0;       // pairwise steps taken
    double gained = 0.0;  // what they gained, a sum of positive numbers
    bool convex = true;   // whether every curvature was at least -slack; one that was not ends the steps
};

// Scores that differ by this fraction of their range count as equal, and then the first is taken.  An exact
// step between two atoms leaves both with one score: rounding must not decide which of them is next.
constexpr double tie = 1e-9;

// Move weight from the worst atom in use to the best atom until their scores differ by at most `aim`.  Each
// step is an exact line search; one that takes all the weight of an atom leaves it at exactly 0.
Weighing pairwise_steps(const double* M, std::size_t stride, double* w, double* scores, int m, double aim,
                        long limit, double slack);

}  // namespace dcfw
