// Breakout local search (Benlic and Hao, "Breakout local search for the quadratic assignment problem", 2013).
//
// Descend by best swaps; leave the local minimum by a number of jumps that grows while the descent falls back to the
// same value, and that is large after `patience` descents without a better best.  The jumps are directed (best swap
// that is not tabu) with a probability that falls with the time since the last improvement, else swaps made longest
// ago, or random ones.
#pragma once
#include <cmath>

#include "swap_deltas.hpp"

namespace dcfw::swaps {

template <class T>
class BreakoutSearch {
  public:
    using Value = typename SwapDeltas<T>::Value;
    using Step = typename SwapDeltas<T>::Step;
    SwapDeltas<T> state;
    Value best = 0;
    std::vector<int> best_p;
    std::int64_t steps = 0, last_improved = 0;

    BreakoutSearch(const AssignmentProblem<T>& problem, const std::vector<int>& p, std::uint64_t seed)
        : state(problem), random_(seed) {
        restart(p);
    }

    void restart(const std::vector<int>& p) {
        state.set(p);
        best = previous_ = state.value;
        best_p = p;
        std::fill(state.ban.begin(), state.ban.end(), std::numeric_limits<Step>::min() / 2);
        made_.assign(state.ban.size(), 0);
        now_ = 0;
        jumps_ = std::ceil(SHARE * state.problem.n);
        without_ = 0;
        last_improved = steps;
    }

    // Make descents and jumps, at least `count` swaps in all, or until the best value is `target` or lower.
    void run(std::int64_t count, Value target) {
        const int n = state.problem.n;
        if (n < 2) return;
        const std::int64_t until = steps + count;
        while (steps < until && best > target) {
            if (now_ > std::numeric_limits<Step>::max() / 2) restart(std::vector<int>(best_p));
            const bool descended = descend(target);
            if (best <= target) return;
            if (!(state.value < previous_ || state.value > previous_)) {
                jumps_ += 1;
            } else if (descended) {
                ++without_;
                jumps_ = std::max(5.0, std::ceil(SHARE * n));
            }
            if (without_ > PATIENCE) {
                without_ = 0;
                jumps_ = n * (0.4 + 0.2 * random_.uniform());
            }
            jumps_ = std::min(jumps_, 2.0 * n);
            previous_ = state.value;
            const double directed = std::max(0.75, std::exp(-static_cast<double>(without_) / PATIENCE));
            if (random_.uniform() < directed)
                jump_directed(target);
            else if (random_.uniform() < 0.3)
                for (int k = 0; k < jumps_; ++k) move(longest_ago());
            else
                for (int k = 0; k < jumps_; ++k) move(any());
        }
    }

  private:
    static constexpr double SHARE = 0.15;
    static constexpr int PATIENCE = 2500;
    Random random_;
    Array<Step> made_;  // when a pair was swapped last
    Step now_ = 0;
    double jumps_ = 0;
    int without_ = 0;
    Value previous_ = 0;

    bool descend(Value target) {
        bool moved = false;
        Pair next = Passes<T>::find_best(state);
        while (next.r >= 0 && state.delta(next.r, next.s) < -state.problem.tolerance) {
            mark(next);
            next = Passes<T>::swap_and_find_best(state, next.r, next.s);
            record();
            moved = true;
            if (best <= target) break;
        }
        return moved;
    }
    void jump_directed(Value target) {
        Pair next = Passes<T>::find(state, now_, state.aspired(best, state.value));
        for (int k = 0; k < jumps_ && best > target; ++k) {
            if (next.r < 0) {  // everything is banned or interchangeable: wait
                ++now_;
                ++steps;
                next = Passes<T>::find(state, now_, state.aspired(best, state.value));
                continue;
            }
            mark(next);
            const Value reached = state.value + static_cast<Value>(state.delta(next.r, next.s));
            next = Passes<T>::swap_and_find(state, next.r, next.s, now_, state.aspired(std::min(best, reached), reached));
            record();
        }
    }
    void move(Pair pair) {
        mark(pair);
        Passes<T>::swap(state, pair.r, pair.s);
        record();
    }
    void mark(Pair pair) {
        const int n = state.problem.n;
        const std::size_t at = pair.r * state.problem.stride + pair.s;
        made_[at] = now_;
        state.ban[at] = now_ + static_cast<Step>(0.7 * n) + random_.below(std::max(1, static_cast<int>(0.2 * n)));
        ++now_;
        ++steps;
    }
    void record() {
        state.count_towards_refresh();
        if (state.value < best - static_cast<Value>(state.problem.tolerance)) {
            best = state.value;
            best_p = state.p;
            without_ = 0;
            last_improved = steps;
        }
    }
    Pair any() {
        const int r = random_.below(state.problem.n), s = random_.below(state.problem.n - 1);
        const int other = s < r ? s : s + 1;
        return {std::max(r, other), std::min(r, other)};
    }
    Pair longest_ago() const {
        Step low = std::numeric_limits<Step>::max();
        int at = 1;
        for (int u = 1; u < state.problem.n; ++u) {
            const Step* m = made_.data() + u * state.problem.stride;
            const Step least = *std::min_element(m, m + u);
            if (least < low) {
                low = least;
                at = u;
            }
        }
        const Step* m = made_.data() + at * state.problem.stride;
        return {at, static_cast<int>(std::min_element(m, m + at) - m)};
    }
};

}  // namespace dcfw::swaps
