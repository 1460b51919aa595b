// The graduated path of dcfw/qap/graduated.py with r = 1/2 ||A X||^2 + 1/2 ||X B||^2, for sparse graphs.
//
// phi(X) = sum over pairs (L, N) of <X, L X N> / 2 + <C, X>, so that grad phi(X) = sum L X N + C; r has the
// gradient U X + X V with sparse U and V.  The first m nodes of both graphs are free; node k >= m of one graph is
// matched to node k of the other (a seed) and takes part in every product.
//
// No X is stored and no dense matrices are multiplied: the gradients G and R at X (m x m floats) are convex
// combinations of those at vertices, which are sparse and added row by row, and the values that a step needs are
// numbers that follow from <G, S> and <R, S> at the vertex S.  Memory: G, R and the costs, 12 m^2 bytes.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "float_lap.hpp"

namespace dcfw {

// Rows of sorted columns; `inner` is where the columns below m end.
struct Csr {
    std::vector<std::int64_t> start, inner;
    std::vector<int> index;
    std::vector<float> value;

    float at(int i, int j) const;
};

struct GraphProblem {
    int n = 0, m = 0;
    std::vector<Csr> left, right;  // the pairs (L, N)
    Csr U, V, linear, forbidden;   // linear and forbidden are m x m, or empty
};

struct GraphPlan {
    std::vector<double> thetas;
    int first_steps = 0, steps = 0;  // at the first theta and at the others, at most
    double tolerance = 0.1;          // relative gap that ends a stage
    double weight = 0.0;             // the share of `start` in the first point; the rest is the barycentre
    std::vector<int> start;
    std::int64_t max_lmo = 0;
};

struct GraphReport {
    std::vector<int> columns;  // of the free rows; empty if there is no assignment without forbidden pairs
    std::int64_t n_lmo = 0, n_inner = 0, stages = 0;
    bool ended = false;  // by `stop`
};

// Follow a path; `stop` is asked once a step and ends it.
GraphReport follow(const GraphProblem& problem, const GraphPlan& plan, const std::function<bool()>& stop);

}  // namespace dcfw
