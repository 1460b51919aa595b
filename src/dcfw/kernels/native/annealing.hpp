// Simulated annealing over swaps, pairs in cyclic order (Connolly 1990); the caller sets the temperatures.
//
// One trial costs O(n): with q the inverse of p, the items' interactions are summed by place l,
//     sum_l (A[r, q(l)] - A[s, q(l)]) (B[p(s), l] - B[p(r), l]),
// over rows of B and of a copy of A whose columns are in the order of places; an accepted swap exchanges two
// columns of that copy.  Where A or B is sparse and both are symmetric, the sum is over the nonzero entries of the
// sparser one (sparse_rows.hpp), and an accepted swap costs O(1).
#pragma once
#include <cmath>

#include "assignment_problem.hpp"
#include "sparse_rows.hpp"

namespace dcfw::swaps {

template <class T>
class Annealing {
  public:
    using Value = typename AssignmentProblem<T>::Value;
    const AssignmentProblem<T>& problem;
    std::vector<int> p, best_p;
    Value value = 0, best = 0;
    std::int64_t trials = 0, idle = 0;
    double mean = 0;  // of the objective during the last run

    Annealing(const AssignmentProblem<T>& given, const std::vector<int>& start, std::uint64_t seed)
        : problem(given), random_(seed), sparse_A_(given.A, given.n, given.stride), sparse_B_(given.B, given.n, given.stride) {
        if (problem.symmetric && sparse_A_.thin() && sparse_A_.size() <= sparse_B_.size())
            over_ = Over::A;
        else if (problem.symmetric && sparse_B_.thin())
            over_ = Over::B;
        for (int k = 0; k < TABLE; ++k) threshold_[k] = -std::log((k + 0.5) / TABLE);
        restart(start);
    }

    void restart(const std::vector<int>& start) {
        p = best_p = start;
        value = best = problem.value(p);
        idle = 0;
        inverse_.resize(problem.n);
        for (int i = 0; i < problem.n; ++i) inverse_[p[i]] = i;
        if (over_ != Over::all) return;
        by_place_ = permuted(problem.A);
        if (!problem.symmetric) by_place_t_ = permuted(problem.At);
    }

    // Return the mean of |delta| over random swaps, a unit for temperatures.
    double mean_delta(int samples) {
        double total = 0;
        for (int k = 0; k < samples; ++k) {
            const int r = random_.below(problem.n), s = random_.below(problem.n);
            if (r != s) total += std::abs(static_cast<double>(delta(r, s)));
        }
        return samples > 0 ? total / samples : 0.0;
    }

    // Make `count` trials while the temperature falls geometrically; stop once every swap was
    // refused `sweeps` times in turn.
    void run(std::int64_t count, double hot, double cold, int sweeps) {
        const int n = problem.n;
        if (n < 2) return;
        const std::int64_t enough = static_cast<std::int64_t>(n) * (n - 1) / 2 * sweeps;
        const std::int64_t chunks = (count + CHUNK - 1) / CHUNK;
        const double ratio = chunks > 1 ? std::pow(cold / hot, 1.0 / static_cast<double>(chunks - 1)) : 1.0;
        double temperature = hot, total = 0;
        std::int64_t done = 0;
        for (std::int64_t chunk = 0; chunk < chunks && idle < enough; ++chunk, temperature *= ratio) {
            for (int k = 0; k < CHUNK; ++k) {
                if (++s_ >= n) {
                    if (++r_ >= n - 1) r_ = 0;
                    s_ = r_ + 1;
                }
                ++idle;
                if (problem.same(p, r_, s_)) continue;
                const T d = delta(r_, s_);
                if (!(static_cast<double>(d) <= temperature * threshold_[random_.next() >> (64 - BITS)])) continue;
                if (d > problem.tolerance && value < best) keep();
                if (d != T(0)) idle = 0;
                exchange(r_, s_);
                value += static_cast<Value>(d);
            }
            trials += CHUNK;
            total += static_cast<double>(value);
            ++done;
        }
        if (done > 0) mean = total / static_cast<double>(done);
        if (value < best) keep();
    }

  private:
    static constexpr int BITS = 12, TABLE = 1 << BITS, CHUNK = 256;
    enum class Over { all, A, B };  // what the sum of a delta runs over
    Random random_;
    SparseRows<T> sparse_A_, sparse_B_;
    Over over_ = Over::all;
    std::vector<int> inverse_;
    int r_ = 0, s_ = 0;
    double threshold_[TABLE];  // exponentially distributed: d is accepted with probability exp(-d / temperature)
    Array<T> by_place_, by_place_t_;

    void keep() {
        best = value;
        best_p = p;
    }

    Array<T> permuted(const Array<T>& rows) const {
        Array<T> out(rows.size(), T(0));
        for (int i = 0; i < problem.n; ++i)
            for (int k = 0; k < problem.n; ++k) out[i * problem.stride + p[k]] = rows[i * problem.stride + k];
        return out;
    }

    T product(const Array<T>& a, const Array<T>& b, int r, int s) const {
        constexpr int lanes = Vector<T>::lanes;
        const std::size_t stride = problem.stride;
        const T *ar = a.data() + r * stride, *as = a.data() + s * stride;
        const T *br = b.data() + p[r] * stride, *bs = b.data() + p[s] * stride;
        Vec<T> even{}, odd{};
        for (std::size_t k = 0; k < stride; k += 2 * lanes) {
            even += (load(ar + k) - load(as + k)) * (load(bs + k) - load(br + k));
            odd += (load(ar + k + lanes) - load(as + k + lanes)) * (load(bs + k + lanes) - load(br + k + lanes));
        }
        return sum<T>(even + odd);
    }

    T delta(int r, int s) const {
        T d = over_ == Over::A   ? sparse_A_.product(r, s, p, problem.row_B(p[s]), problem.row_B(p[r]))
              : over_ == Over::B ? sparse_B_.product(p[s], p[r], inverse_, problem.row_A(r), problem.row_A(s))
                                 : product(by_place_, problem.B, r, s);
        d += problem.symmetric ? d : product(by_place_t_, problem.Bt, r, s);
        d += problem.inner_change(p, r, s);
        if (!problem.C.empty()) {
            const T *cr = problem.row_C(r), *cs = problem.row_C(s);
            d += cr[p[s]] + cs[p[r]] - cr[p[r]] - cs[p[s]];
        }
        return d;
    }

    void exchange(int r, int s) {
        if (over_ == Over::all) swap_columns(by_place_, p[r], p[s]);
        if (!problem.symmetric) swap_columns(by_place_t_, p[r], p[s]);
        std::swap(p[r], p[s]);
        inverse_[p[r]] = r;
        inverse_[p[s]] = s;
    }
    void swap_columns(Array<T>& a, int i, int j) {
        T *x = a.data() + i, *y = a.data() + j;
        const std::size_t stride = problem.stride, end = problem.n * stride;
        for (std::size_t k = 0; k < end; k += stride) std::swap(x[k], y[k]);
    }
};

// Annealing<T>::run, for the processor at hand.
template <class T>
void run_annealing(Annealing<T>& search, std::int64_t count, double hot, double cold, int sweeps);

}  // namespace dcfw::swaps
