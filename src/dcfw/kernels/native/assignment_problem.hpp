// A quadratic assignment problem laid out for swap searches: minimise
//
//     sum_ij A[i, j] B[p(i), p(j)] + sum_i C[i, p(i)].
//
// Rows are padded to a multiple of 16 entries, so that inner loops have no remainder.  T is a type in which every
// number that a search meets is exact (the caller checks the sizes), or double for data that are not integers;
// then a step counts as an improvement only if it exceeds `tolerance`.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "lanes.hpp"

namespace dcfw::swaps {

// Rows of 2^k cache lines would all fall into the same few sets of the cache, so they get one line more.
inline std::size_t padded(int n) {
    const std::size_t width = (static_cast<std::size_t>(n) + 15) / 16 * 16;
    return width % 128 == 0 ? width + 16 : width;
}

// xorshift64* (Vigna 2016): one word of state, the same numbers on every machine.
struct Random {
    std::uint64_t state;
    explicit Random(std::uint64_t seed) : state(seed * 0x9E3779B97F4A7C15ULL) {
        if (state == 0) state = 0x9E3779B97F4A7C15ULL;
        for (int k = 0; k < 8; ++k) next();
    }
    std::uint64_t next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 2685821657736338717ULL;
    }
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
    int below(int n) { return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(n)) >> 32); }
};

template <class T>
struct AssignmentProblem {
    using Value = std::conditional_t<std::is_same_v<T, double>, double, std::int64_t>;

    int n;
    std::size_t stride;
    bool symmetric;  // both A and B are, and At, Bt are not stored
    Array<T> A, At, B, Bt, C;
    T tolerance;
    // Items (places) of one group are interchangeable: exchanging two of them changes nothing, and no search tries to.
    std::vector<int> item_group, place_group;

    // C may be null.
    AssignmentProblem(const T* a, const T* b, const T* c, int size, T tol)
        : n(size), stride(padded(size)), symmetric(true), tolerance(tol) {
        A = rows(a);
        B = rows(b);
        if (c != nullptr) C = rows(c);
        for (int i = 0; i < n && symmetric; ++i)
            for (int j = 0; j < i; ++j)
                if (a[at(i, j)] != a[at(j, i)] || b[at(i, j)] != b[at(j, i)]) symmetric = false;
        if (!symmetric) {
            At = transposed(a);
            Bt = transposed(b);
        }
        item_group = groups(a, [this](int i, int j) {
            return C.empty() || std::equal(row_C(i), row_C(i) + n, row_C(j));
        });
        place_group = groups(b, [this](int i, int j) {
            for (int k = 0; k < n && !C.empty(); ++k)
                if (row_C(k)[i] != row_C(k)[j]) return false;
            return true;
        });
    }
    bool same(const std::vector<int>& p, int i, int j) const {
        return item_group[i] == item_group[j] || place_group[p[i]] == place_group[p[j]];
    }
    const T* row_A(int i) const { return A.data() + i * stride; }
    const T* row_B(int i) const { return B.data() + i * stride; }
    const T* row_At(int i) const { return (symmetric ? A : At).data() + i * stride; }
    const T* row_Bt(int i) const { return (symmetric ? B : Bt).data() + i * stride; }
    const T* row_C(int i) const { return C.data() + i * stride; }

    Value value(const std::vector<int>& p) const {
        Value sum = 0;
        for (int i = 0; i < n; ++i) {
            const T *a = row_A(i), *b = row_B(p[i]);
            for (int j = 0; j < n; ++j) sum += static_cast<Value>(a[j]) * static_cast<Value>(b[p[j]]);
            if (!C.empty()) sum += static_cast<Value>(row_C(i)[p[i]]);
        }
        return sum;
    }

    // The part of the change by a swap of items i and j that concerns the two alone.
    T inner_change(const std::vector<int>& p, int i, int j) const {
        const T *ai = row_A(i), *aj = row_A(j), *bi = row_B(p[i]), *bj = row_B(p[j]);
        return (ai[i] + aj[j] - ai[j] - aj[i]) * (bi[p[i]] + bj[p[j]] - bi[p[j]] - bj[p[i]]);
    }

  private:
    std::size_t at(int i, int j) const { return static_cast<std::size_t>(i) * n + j; }
    // Return a number for each row such that rows of one number are interchangeable.
    template <class Alike>
    std::vector<int> groups(const T* m, Alike alike) const {
        std::vector<int> group(n, -1), filled(n, 0);
        for (int i = 0; i < n; ++i)
            for (int k = 0; k < n; ++k) filled[i] += m[at(i, k)] != T(0);
        int count = 0;
        std::vector<int> first;  // of each group
        for (int i = 0; i < n; ++i) {
            for (int g = 0; g < count && group[i] < 0; ++g)
                if (filled[i] == filled[first[g]] && interchangeable(m, i, first[g]) && alike(i, first[g])) group[i] = g;
            if (group[i] < 0) {
                group[i] = count++;
                first.push_back(i);
            }
        }
        return group;
    }
    bool interchangeable(const T* m, int i, int j) const {
        if (m[at(i, i)] != m[at(j, j)] || m[at(i, j)] != m[at(j, i)]) return false;
        for (int k = 0; k < n; ++k)
            if (k != i && k != j && (m[at(i, k)] != m[at(j, k)] || m[at(k, i)] != m[at(k, j)])) return false;
        return true;
    }
    Array<T> rows(const T* m) const {
        Array<T> out(n * stride, T(0));
        for (int i = 0; i < n; ++i) std::copy(m + at(i, 0), m + at(i, 0) + n, out.begin() + i * stride);
        return out;
    }
    Array<T> transposed(const T* m) const {
        Array<T> out(n * stride, T(0));
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) out[i * stride + j] = m[at(j, i)];
        return out;
    }
};

}  // namespace dcfw::swaps
