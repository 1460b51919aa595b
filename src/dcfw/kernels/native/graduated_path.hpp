// The graduated path of a quadratic assignment problem: Frank-Wolfe on phi + theta r over the Birkhoff polytope while
// theta falls from 1 (convex) to -1 (concave), where r is convex and constant on permutations.
//
// References: Zaslavskiy, Bach, Vert, "A path following algorithm for the graph matching problem" (PATH, 2009); Liu,
// Qiao, "GNCCP" (2014).  Both gradients are linear in X, so one step needs them at the new vertex only: for a
// permutation, grad phi is one product with gathered rows, and grad r is X itself (r = c/2 ||X||^2) or two gathers
// from A^T A and B B^T (r = 1/2 ||A X||^2 + 1/2 ||X B||^2, the sum of the paper's f and g).
#pragma once
#include <cstdint>
#include <vector>

#include "lap.hpp"

namespace dcfw {

struct PathProblem {
    int n;
    std::vector<double> A, At, B, Bt, C;  // n x n, row by row; C is all zero where there is no linear term
    std::vector<double> AtA, BBt;         // empty for r = 1/2 ||X||^2
    bool symmetric;
};

struct PathReport {
    std::vector<int> columns;  // the permutation at the end of the path
    std::int64_t n_lmo = 0, n_inner = 0;
    int stages = 0;
};

// Follow theta over `thetas`, with at most `steps` Frank-Wolfe steps each, from X with grad phi(X) = G.
// `tolerance` ends a stage: the gap relative to the stage's first one.
PathReport follow(const PathProblem& problem, Lap& lap, std::vector<double> X, std::vector<double> G,
                  const std::vector<double>& thetas, int steps, double tolerance, std::int64_t max_lmo);

}  // namespace dcfw
