// Many small matchings in one call: a short graduated path and a short tabu search each.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace dcfw {

struct ManyPlan {
    std::vector<double> thetas;
    int steps = 0;            // of the path at each theta, at most
    double tolerance = 0.1;   // relative gap that ends a stage
    std::int64_t swaps = 0;   // steps of tabu search for each node
    std::uint64_t seed = 0;
};

// Problem k minimises <A X, X B> + <C, X> over permutations of size[k] nodes; its matrices begin at offset[k] and its
// permutation at place[k].
struct ManyProblems {
    const double *A, *B, *C;  // C may be null
    std::vector<int> size;
    std::vector<std::size_t> offset, place;
};

// Solve the problems; `stop` is asked before each and ends the loop.
void solve_many(const ManyProblems& problems, const ManyPlan& plan, const std::function<bool()>& stop,
                std::int64_t* permutations);

}  // namespace dcfw
