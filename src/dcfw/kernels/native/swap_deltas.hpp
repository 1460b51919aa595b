// All changes of the objective by swaps of two items, kept up to date in O(1) a pair (Taillard 1991; Frieze et al. 1989).
//
// With S = A^T B' + A B'^T + C', B'[i, j] = B[p(i), p(j)], C'[i, j] = C[i, p(j)], the swap of i and j changes the
// objective by S[i, j] + S[j, i] - S[i, i] - S[j, j] + a b, where a = A[i, i] + A[j, j] - A[i, j] - A[j, i] and b is
// the same of B'.  Three observations:
// - the columns of S are kept by place instead of by item, S[i, j] = place[i, p(j)]: then a swap of r and s adds
//   x w^T (x = A[r] - A[s], w = B[p(s)] - B[p(r)]) and exchanges nothing, and no permuted copy of B is needed;
// - the delta of a pair u, v that the swap does not touch grows by (x_u - x_v)(y_u - y_v), y_u = -w[p(u)];
// - this update and the search for the next swap are one pass over the lower triangle.
//
// The passes are compiled in swap_deltas.cpp for several instruction sets; searches call them through Passes<T>.
#pragma once
#include "assignment_problem.hpp"
#include "lanes.hpp"

namespace dcfw::swaps {

struct Pair {
    int r = -1, s = -1;  // r > s; r < 0 where no pair is allowed
};

template <class T>
struct Passes;

template <class T>
class SwapDeltas {
  public:
    using Value = typename AssignmentProblem<T>::Value;
    // As wide as T, so that bans and deltas are compared lane by lane.
    using Step = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

    const AssignmentProblem<T>& problem;
    int fixed;  // the first items stay where they are
    std::vector<int> p;
    Value value = 0;        // of p
    Array<Step> ban;  // ban[r, s], r > s: the last step in which the swap is forbidden

    explicit SwapDeltas(const AssignmentProblem<T>& given, int first = 0) : problem(given), fixed(first) {
        const std::size_t all = problem.n * problem.stride;
        delta_.assign(all, none());
        ban.assign(all, 0);
        place_.assign(all, T(0));
        for (auto* v : {&x_, &xt_, &y_, &yt_, &w_, &wt_, &diagonal_, &diagonal_A_, &diagonal_B_, &column_, &row_, &b_})
            v->assign(problem.stride, T(0));
        for (int i = 0; i < problem.n; ++i) diagonal_A_[i] = problem.row_A(i)[i];
    }

    // Larger than every delta, and still so after an update has been added to it.
    static constexpr T none() {
        if constexpr (std::is_floating_point_v<T>)
            return std::numeric_limits<T>::infinity();
        else
            return std::numeric_limits<T>::max() / 2;
    }
    T delta(int r, int s) const { return delta_[std::max(r, s) * problem.stride + std::min(r, s)]; }

    // What a delta must stay below for a value below `goal`.
    T aspired(Value goal, Value from) const {
        if constexpr (std::is_same_v<T, double>) {
            return goal - from - problem.tolerance;
        } else {  // exact; the limits are beyond every delta and fit into T
            const Value limit = Value(1) << (sizeof(T) == 4 ? 29 : 61);
            return static_cast<T>(std::clamp<Value>(goal - from, -limit, limit));
        }
    }

    // With inexact numbers: remove the rounding errors that updates have gathered, every now and then.
    void count_towards_refresh() {
        if (problem.tolerance > T(0) && ++since_refresh_ >= REFRESH) Passes<T>::refresh(*this);
    }

    // With inexact numbers: compute everything anew unless that was just done; return whether it was necessary.
    bool refresh_if_stale() {
        if (!(problem.tolerance > T(0)) || since_refresh_ == 0) return false;
        Passes<T>::refresh(*this);
        return true;
    }

    void set(const std::vector<int>& permutation) {
        p = permutation;
        Passes<T>::refresh(*this);
    }

    // Compute everything from p; O(n^3) for a dense A.
    void refresh() {
        value = problem.value(p);
        since_refresh_ = 0;
        for (int i = 0; i < problem.n; ++i) {
            T* row = place_.data() + i * problem.stride;
            std::fill(row, row + problem.stride, T(0));
            if (!problem.C.empty()) std::copy(problem.row_C(i), problem.row_C(i) + problem.stride, row);
            const T *a = problem.row_A(i), *at = problem.row_At(i);
            for (int k = 0; k < problem.n; ++k) {
                if (problem.symmetric) {
                    add(row, 2 * a[k], problem.row_B(p[k]));
                } else {
                    add(row, at[k], problem.row_B(p[k]));
                    add(row, a[k], problem.row_Bt(p[k]));
                }
            }
        }
        for (auto* v : {&x_, &xt_, &y_, &yt_}) std::fill(v->begin(), v->end(), T(0));
        read_diagonals();
        for (int i = fixed; i < problem.n; ++i) touch(i);
    }

    // Bring p, value and S up to date, and the deltas of pairs with r or s except for what update_row adds to them.
    void prepare(int r, int s) {
        if (delta(r, s) < none()) value += static_cast<Value>(delta(r, s));  // else they are interchangeable
        const int pr = p[r], ps = p[s];
        const T factor = problem.symmetric ? T(2) : T(1);
        difference(problem.row_A(r), problem.row_A(s), T(1), x_.data());
        difference(problem.row_B(ps), problem.row_B(pr), factor, w_.data());
        for (int i = 0; i < problem.n; ++i) add(place_.data() + i * problem.stride, x_[i], w_.data());
        if (!problem.symmetric) {
            difference(problem.row_At(r), problem.row_At(s), T(1), xt_.data());
            difference(problem.row_Bt(ps), problem.row_Bt(pr), T(1), wt_.data());
            for (int i = 0; i < problem.n; ++i) add(place_.data() + i * problem.stride, xt_[i], wt_.data());
        }
        std::swap(p[r], p[s]);
        for (int i = 0; i < problem.n; ++i) y_[i] = -w_[p[i]];
        if (!problem.symmetric)
            for (int i = 0; i < problem.n; ++i) yt_[i] = -wt_[p[i]];
        read_diagonals();
        for (int item : {r, s}) touch(item);
    }

    // Exchange p[r] and p[s].
    void swap(int r, int s) {
        Passes<T>::prepare(*this, r, s);
        for (int u = fixed + 1; u < problem.n; ++u) update_row(u);
    }

    // Exchange p[r] and p[s]; return the best pair whose ban ended before step `before` or whose delta is below `aspired`.
    Pair swap_and_find(int r, int s, Step before, T aspired) {
        if (!problem.symmetric) {
            Passes<T>::swap(*this, r, s);
            return Passes<T>::find(*this, before, aspired);
        }
        Passes<T>::prepare(*this, r, s);
        const Vec<T> big = fill(none()), limit = fill(aspired);
        const Vec<Step> now = fill(before);
        const T *x = x_.data(), *y = y_.data();
        Lowest best;
        for (int u = fixed + 1; u < problem.n; ++u) {
            T* d = delta_.data() + u * problem.stride;
            const Step* b = ban.data() + u * problem.stride;
            const Vec<T> xu = fill(x[u]), yu = fill(y[u]);
            Vec<T> low = big;
            for (int v = 0; v < u; v += lanes) {
                const Vec<T> c = load(d + v) + (xu - load(x + v)) * (yu - load(y + v));
                store(d + v, c);
                const Vec<T> e = ((load(b + v) < now) | (c < limit)) ? c : big;
                low = e < low ? e : low;
            }
            close_row(u);
            best.take(u, least<T>(low));
        }
        return locate(best, before, aspired);
    }

    Pair find(Step before, T aspired) const {
        const Vec<T> big = fill(none()), limit = fill(aspired);
        const Vec<Step> now = fill(before);
        Lowest best;
        for (int u = fixed + 1; u < problem.n; ++u) {
            const T* d = delta_.data() + u * problem.stride;
            const Step* b = ban.data() + u * problem.stride;
            Vec<T> low = big;
            for (int v = 0; v < u; v += lanes) {
                const Vec<T> c = load(d + v), e = ((load(b + v) < now) | (c < limit)) ? c : big;
                low = e < low ? e : low;
            }
            best.take(u, least<T>(low));
        }
        return locate(best, before, aspired);
    }

    // Exchange p[r] and p[s]; return the pair of the smallest delta.
    Pair swap_and_find_best(int r, int s) {
        Passes<T>::prepare(*this, r, s);
        Lowest best;
        for (int u = fixed + 1; u < problem.n; ++u) {
            update_row(u);
            best.take(u, lowest_of_row(u));
        }
        return locate(best, 0, none());
    }

    Pair find_best() const {
        Lowest best;
        for (int u = fixed + 1; u < problem.n; ++u) best.take(u, lowest_of_row(u));
        return locate(best, 0, none());
    }

  private:
    static constexpr int lanes = Vector<T>::lanes, REFRESH = 2000;
    int since_refresh_ = 0;
    struct Lowest {
        T value = none() / 2;
        int row = -1;
        void take(int u, T candidate) {
            if (candidate < value) {
                value = candidate;
                row = u;
            }
        }
    };

    Array<T> delta_, place_;
    Array<T> x_, xt_, y_, yt_, w_, wt_, diagonal_, diagonal_A_, diagonal_B_, column_, row_, b_;

    void add(T* row, T factor, const T* other) {
        if (factor == T(0)) return;
        const Vec<T> f = fill(factor);
        const std::size_t stride = problem.stride;
        for (std::size_t k = 0; k < stride; k += lanes) store(row + k, load(row + k) + f * load(other + k));
    }

    void read_diagonals() {
        for (int i = 0; i < problem.n; ++i) {
            diagonal_[i] = place_[i * problem.stride + p[i]];
            diagonal_B_[i] = problem.row_B(p[i])[p[i]];
        }
    }

    void difference(const T* a, const T* b, T factor, T* out) const {
        const Vec<T> f = fill(factor);
        for (std::size_t k = 0; k < problem.stride; k += lanes) store(out + k, f * (load(a + k) - load(b + k)));
    }

    // Compute the deltas of all pairs with r, less what update_row is going to add.
    void touch(int r) {
        const std::size_t stride = problem.stride;
        const T *a = problem.row_A(r), *at = problem.row_At(r), *b = problem.row_B(p[r]), *bt = problem.row_Bt(p[r]);
        const T* s = place_.data() + r * stride;
        for (int j = 0; j < problem.n; ++j) {
            row_[j] = s[p[j]] + place_[j * stride + p[r]];
            b_[j] = b[p[j]] + bt[p[j]];
        }
        const Vec<T> own = fill(diagonal_[r]), own_A = fill(diagonal_A_[r]), own_B = fill(diagonal_B_[r]);
        const Vec<T> xr = fill(x_[r]), yr = fill(y_[r]), xtr = fill(xt_[r]), ytr = fill(yt_[r]);
        for (std::size_t k = 0; k < stride; k += lanes) {
            const Vec<T> A = own_A + load(&diagonal_A_[k]) - load(a + k) - load(at + k);
            const Vec<T> B = own_B + load(&diagonal_B_[k]) - load(&b_[k]);
            Vec<T> d = load(&row_[k]) - own - load(&diagonal_[k]) + A * B;
            d = d - (xr - load(&x_[k])) * (yr - load(&y_[k]));
            if (!problem.symmetric) d = d - (xtr - load(&xt_[k])) * (ytr - load(&yt_[k]));
            store(&column_[k], d);
        }
        const int group = problem.item_group[r], place = problem.place_group[p[r]];
        for (int j = fixed; j < problem.n; ++j)
            if (group == problem.item_group[j] || place == problem.place_group[p[j]]) column_[j] = none();
        T* out = delta_.data();
        for (int j = fixed; j < r; ++j) out[r * stride + j] = column_[j];
        for (int j = r + 1; j < problem.n; ++j) out[j * stride + r] = column_[j];
    }

    // Entries at and beyond the diagonal, and those of fixed items, stay `none`.
    void close_row(int u) {
        T* d = delta_.data() + u * problem.stride;
        const int end = (u + lanes - 1) / lanes * lanes;
        for (int v = u; v < end; ++v) d[v] = none();
        for (int v = 0; v < fixed; ++v) d[v] = none();
    }

    void update_row(int u) {
        T* d = delta_.data() + u * problem.stride;
        const T *x = x_.data(), *y = y_.data(), *xt = xt_.data(), *yt = yt_.data();
        const Vec<T> xu = fill(x[u]), yu = fill(y[u]), xtu = fill(xt[u]), ytu = fill(yt[u]);
        for (int v = 0; v < u; v += lanes) store(d + v, load(d + v) + (xu - load(x + v)) * (yu - load(y + v)));
        if (!problem.symmetric)
            for (int v = 0; v < u; v += lanes) store(d + v, load(d + v) + (xtu - load(xt + v)) * (ytu - load(yt + v)));
        close_row(u);
    }

    T lowest_of_row(int u) const {
        const T* d = delta_.data() + u * problem.stride;
        Vec<T> low = fill(none());
        for (int v = 0; v < u; v += lanes) {
            const Vec<T> c = load(d + v);
            low = c < low ? c : low;
        }
        return least<T>(low);
    }

    Pair locate(const Lowest& best, Step before, T aspired) const {
        if (best.row < 0) return {};
        const T* d = delta_.data() + best.row * problem.stride;
        const Step* b = ban.data() + best.row * problem.stride;
        for (int v = fixed; v < best.row; ++v)
            if (d[v] == best.value && (b[v] < before || d[v] < aspired)) return {best.row, v};
        return {};
    }
};

// The loops of SwapDeltas, for the processor at hand.
template <class T>
struct Passes {
    using Deltas = SwapDeltas<T>;
    using Step = typename Deltas::Step;
    static void refresh(Deltas& state);
    static void prepare(Deltas& state, int r, int s);
    static void swap(Deltas& state, int r, int s);
    static Pair swap_and_find(Deltas& state, int r, int s, Step before, T aspired);
    static Pair swap_and_find_best(Deltas& state, int r, int s);
    static Pair find(const Deltas& state, Step before, T aspired);
    static Pair find_best(const Deltas& state);
};

}  // namespace dcfw::swaps
