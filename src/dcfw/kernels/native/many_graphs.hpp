// Many small matchings in one call: nodes with like neighbourhoods are paired, then a short tabu search.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace dcfw {

struct ManyPlan {
    std::int64_t steps = 0;  // of each tabu search
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
