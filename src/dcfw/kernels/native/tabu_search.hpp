// Robust tabu search (Taillard 1991).
//
// Each step makes the best swap that is allowed, even if it raises the objective, and then forbids for a random while
// that either of the two items returns to the place it left.  A swap that gives the best value so far is always
// allowed, and a swap that has not been possible for 5 n^2 steps is forced, which drives the search into new regions.
// Bans last between 0.9 n and 1.1 n steps, or with `skewed` u^3 8 n steps, u uniform: mostly short, now and then long.
#pragma once
#include "swap_deltas.hpp"

namespace dcfw::swaps {

template <class T>
class TabuSearch {
  public:
    using Value = typename SwapDeltas<T>::Value;
    using Step = typename SwapDeltas<T>::Step;
    SwapDeltas<T> state;
    Value best = 0;
    std::vector<int> best_p;
    std::int64_t steps = 0, last_improved = 0;

    TabuSearch(const AssignmentProblem<T>& problem, const std::vector<int>& p, std::uint64_t seed, bool skew, int fixed = 0)
        : state(problem, fixed), random_(seed), skewed_(skew) {
        restart(p);
    }

    void restart(const std::vector<int>& p) {
        state.set(p);
        best = state.value;
        best_p = p;
        const int n = state.problem.n;
        left_.assign(static_cast<std::size_t>(n) * n, 0);
        for (int i = 0; i < n * n; ++i) left_[i] = -i - 1;
        for (int u = 0; u < n; ++u)
            for (int v = 0; v < u; ++v) state.ban[u * state.problem.stride + v] = pair_ban(u, v);
        now_ = 1;
        oldest_ = std::numeric_limits<Step>::min();
        last_improved = steps;
        next_ = Passes<T>::find(state, now_, T(0) - state.problem.tolerance);
    }

    // Make up to `count` steps, or until the best value is `target` or lower.
    void run(std::int64_t count, Value target) {
        const int n = state.problem.n;
        if (n - state.fixed < 2) return;
        const Step forced = static_cast<Step>(5) * n * n;
        const T tolerance = state.problem.tolerance;
        for (std::int64_t k = 0; k < count && best > target; ++k, ++steps) {
            if (now_ > std::numeric_limits<Step>::max() / 2) rewind();
            const T aspired = state.aspired(best, state.value);
            Pair move = next_;
            const bool improves = move.r >= 0 && state.delta(move.r, move.s) < aspired;
            if (oldest_ < now_ - forced && !improves) {
                oldest_ = oldest_ban();
                if (oldest_ < now_ - forced) {
                    const Pair other = Passes<T>::find(state, now_ - forced, aspired);
                    if (other.r >= 0) move = other;
                }
            }
            ++now_;
            if (move.r < 0) {  // every swap is banned, which happens for tiny n only: wait
                next_ = Passes<T>::find(state, now_, aspired);
                continue;
            }
            const auto [r, s] = move;
            const T by = state.delta(r, s);
            Step first, second;
            if (skewed_) {
                do {
                    const double u = random_.uniform();
                    first = static_cast<Step>(u * u * u * 8 * n);
                } while (first <= 2);
                second = first;
            } else {
                first = static_cast<Step>((0.9 + 0.2 * random_.uniform()) * n);
                second = static_cast<Step>((0.9 + 0.2 * random_.uniform()) * n);
            }
            left_[static_cast<std::size_t>(r) * n + state.p[r]] = now_ + first;
            left_[static_cast<std::size_t>(s) * n + state.p[s]] = now_ + second;
            std::swap(state.p[r], state.p[s]);
            for (int u = state.fixed; u < n; ++u) {
                if (u != r) set_ban(u, r);
                if (u != s) set_ban(u, s);
            }
            std::swap(state.p[r], state.p[s]);
            const Value reached = state.value + static_cast<Value>(by);
            const bool better = reached < best - static_cast<Value>(tolerance);
            next_ = Passes<T>::swap_and_find(state, r, s, now_, state.aspired(better ? reached : best, reached));
            state.count_towards_refresh();
            if (better) {
                best = reached;
                best_p = state.p;
                last_improved = steps;
            }
        }
    }

  private:
    Random random_;
    bool skewed_;
    std::vector<Step> left_;  // left_[i, l]: the last step in which item i may not return to place l
    Step now_ = 1, oldest_ = 0;
    Pair next_;

    Step pair_ban(int u, int v) const {
        const std::size_t n = state.problem.n;
        return std::min(left_[u * n + state.p[v]], left_[v * n + state.p[u]]);
    }
    void set_ban(int u, int v) {
        const Step b = pair_ban(u, v);
        state.ban[std::max(u, v) * state.problem.stride + std::min(u, v)] = b;
        oldest_ = std::min(oldest_, b);
    }
    Step oldest_ban() const {
        Step low = std::numeric_limits<Step>::max();
        for (int u = state.fixed + 1; u < state.problem.n; ++u)
            for (int v = state.fixed; v < u; ++v) low = std::min(low, state.ban[u * state.problem.stride + v]);
        return low;
    }
    // Count steps from 0 again, before they overflow.
    void rewind() {
        for (auto& b : left_) b = std::max<Step>(b - now_, -static_cast<Step>(left_.size()));
        now_ = 0;
        for (int u = 0; u < state.problem.n; ++u)
            for (int v = 0; v < u; ++v) state.ban[u * state.problem.stride + v] = pair_ban(u, v);
        oldest_ = std::numeric_limits<Step>::min();
    }
};

}  // namespace dcfw::swaps
