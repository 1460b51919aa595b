// Swap descents (2-opt): make improving swaps until none is left.
#pragma once
#include "swap_deltas.hpp"

namespace dcfw::swaps {

// Make at most `count` best swaps; return how many were made (fewer than `count`: none is left).
template <class T>
std::int64_t descend_by_best(SwapDeltas<T>& state, std::int64_t count) {
    Pair next = Passes<T>::find_best(state);
    for (std::int64_t made = 0; made < count; ++made) {
        if (next.r < 0 || !(state.delta(next.r, next.s) < -state.problem.tolerance)) {
            if (!state.refresh_if_stale()) return made;
            next = Passes<T>::find_best(state);
            if (next.r < 0 || !(state.delta(next.r, next.s) < -state.problem.tolerance)) return made;
        }
        next = Passes<T>::swap_and_find_best(state, next.r, next.s);
        state.count_towards_refresh();
    }
    return count;
}

// Make the first improving swap of the pairs (u, v), u < v, in the order of `order`, going on from the place of the last
// one (`cyclic`) or starting at the first pair again, as SciPy's 2-opt does.  `looked` counts the pairs looked
// at (without `cyclic` those of an item with itself too, as SciPy does).
template <class T>
class FirstDescent {
  public:
    SwapDeltas<T> state;
    std::int64_t looked = 0;

    FirstDescent(const AssignmentProblem<T>& problem, const std::vector<int>& p, const std::vector<int>& order, int fixed)
        : state(problem, fixed), order_(order) {
        state.set(p);
    }

    // Make at most `count` swaps; return how many were made (fewer than `count`: none is left).
    std::int64_t run(std::int64_t count, bool cyclic) {
        const std::int64_t m = static_cast<std::int64_t>(order_.size()), pairs = m * (m - 1) / 2;
        for (std::int64_t made = 0; made < count; ++made) {
            if (!cyclic) {
                i_ = 0;
                j_ = 0;
            }
            std::int64_t seen = 0;
            bool found = false;
            for (; seen < pairs && !found; ++seen) {
                if (++j_ >= m) {
                    i_ = i_ + 2 < m ? i_ + 1 : 0;
                    j_ = i_ + 1;
                }
                found = state.delta(order_[i_], order_[j_]) < -state.problem.tolerance;
            }
            if (!found && state.refresh_if_stale()) {  // the fruitless pass is made again, with exact deltas
                --made;
                continue;
            }
            looked += seen + (cyclic ? 0 : found ? i_ + 1 : m);
            if (!found) return made;
            Passes<T>::swap(state, order_[i_], order_[j_]);
            state.count_towards_refresh();
        }
        return count;
    }

  private:
    std::vector<int> order_;
    std::int64_t i_ = 0, j_ = 0;
};

}  // namespace dcfw::swaps
