#include "many_graphs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "clones.hpp"
#include "lanes.hpp"
#include "lap.hpp"
#include "tabu_search.hpp"

namespace dcfw {

namespace many_graphs {

double largest(const double* M, std::size_t size) {
    double found[4] = {};  // four at once: a maximum waits for the one before it
    for (std::size_t k = 0; k < size; ++k) found[k % 4] = std::max(found[k % 4], std::abs(M[k]));
    return std::max(std::max(found[0], found[1]), std::max(found[2], found[3]));
}

// to += factor * row, for rows of `width` numbers.
[[gnu::always_inline]] inline void add(float* to, float factor, const float* row, int width) {
    using swaps::fill, swaps::load, swaps::store;
    for (int k = 0; k < width; k += swaps::Vector<float>::lanes) store(to + k, load(to + k) + fill(factor) * load(row + k));
}

// Five numbers of each node, a row of `width` for each kind: of M scaled, made symmetric and centred (which changes no
// matching), the weights of walks of one, two and three steps, of triangles, and the neighbours' squared first numbers.
constexpr int FEATURES = 5;

DCFW_CLONES void features(const double* M, double scale, int n, int width, float* S, float* out) {
    std::fill(S, S + std::size_t(n + 1) * width, 0.0f);
    std::fill(out, out + FEATURES * width, 0.0f);
    float *one = out, *two = out + width, *three = two + width, *triangles = three + width, *squares = triangles + width;
    float* product = S + std::size_t(n) * width;
    double total = 0.0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < i; ++j) {
            const double x = 0.5 * (scale * M[std::size_t(n) * i + j] + scale * M[std::size_t(n) * j + i]);
            S[std::size_t(width) * i + j] = S[std::size_t(width) * j + i] = float(x);
            total += x;
        }
    const float mean = float(2.0 * total / (double(n) * std::max(n - 1, 1)));
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) S[std::size_t(width) * i + j] -= mean;
        S[std::size_t(width) * i + i] = float(scale * M[std::size_t(n + 1) * i]);
    }
    // Rows are added instead of multiplied: no sum depends on how many of its terms are taken at once.
    for (int k = 0; k < n; ++k) add(one, 1.0f, S + std::size_t(width) * k, width);
    for (int k = 0; k < n; ++k) {
        add(two, one[k], S + std::size_t(width) * k, width);
        add(squares, one[k] * one[k], S + std::size_t(width) * k, width);
    }
    for (int k = 0; k < n; ++k) {
        const float* row = S + std::size_t(width) * k;
        add(three, two[k], row, width);
        std::fill(product, product + width, 0.0f);
        for (int l = 0; l < n; ++l) add(product, row[l], S + std::size_t(width) * l, width);
        for (int i = 0; i < n; ++i) triangles[i] += product[i] * row[i];
    }
    for (float* row = out; row < out + FEATURES * width; row += width) {
        double sum = 0.0, size = 0.0;
        for (int i = 0; i < n; ++i) sum += row[i];
        for (int i = 0; i < n; ++i) {
            row[i] -= float(sum / n);
            size += double(row[i]) * row[i];
        }
        const float unit = size > 1e-12 ? float(1.0 / std::sqrt(size)) : 0.0f;
        for (int i = 0; i < n; ++i) row[i] *= unit;
    }
}

// The assignment that the gradient at the barycentre asks for, with its linear term.
std::vector<int> assigned(const double* A, const double* B, const double* C, int n) {
    std::vector<double> rows(n), columns(n), out(n), in(n), cost(C, C + std::size_t(n) * n);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            const std::size_t k = std::size_t(n) * i + j;
            rows[i] += A[k] / n;
            columns[j] += A[k] / n;
            out[i] += B[k];
            in[j] += B[k];
        }
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) cost[std::size_t(n) * i + j] += rows[i] * out[j] + columns[i] * in[j];
    std::vector<int> p(n);
    if (Lap(n).solve(cost.data(), p.data()) != Lap::optimal) std::iota(p.begin(), p.end(), 0);  // too large
    return p;
}

// Where a search begins: without C the assignment of nodes whose features in -A and in B are alike.
std::vector<int> start(const double* A, const double* B, const double* C, double a, double b, int n) {
    if (C) return assigned(A, B, C, n);
    const int width = (n + 7) / 8 * 8;
    std::vector<float> room(std::size_t(n + 1) * width), x(FEATURES * width), y(FEATURES * width);
    features(A, a > 1e-290 ? -1.0 / a : 0.0, n, width, room.data(), x.data());
    features(B, b > 1e-290 ? 1.0 / b : 0.0, n, width, room.data(), y.data());
    std::vector<double> cost(std::size_t(n) * n);
    for (int i = 0; i < n; ++i) {  // the squared distances of features less what is the same for all assignments
        std::fill(room.begin(), room.begin() + width, 0.0f);
        for (int f = 0; f < FEATURES; ++f) add(room.data(), -x[f * width + i], &y[f * width], width);
        std::copy(room.begin(), room.begin() + n, cost.begin() + std::size_t(n) * i);
    }
    std::vector<int> p(n);
    if (Lap(n).solve(cost.data(), p.data()) != Lap::optimal) std::iota(p.begin(), p.end(), 0);
    return p;
}

// Return M in integers, or nothing if it holds other numbers.
std::vector<std::int32_t> integers(const double* M, std::size_t size) {
    std::vector<std::int32_t> out(size);
    bool exact = true;
    for (std::size_t k = 0; k < size; ++k) {
        out[k] = std::int32_t(M[k]);
        exact = exact && out[k] == M[k];
    }
    return exact ? out : std::vector<std::int32_t>{};
}

// A short tabu search from p, twice as fast in integers of four bytes.
template <class T>
std::vector<int> searched(const swaps::AssignmentProblem<T>& problem, const std::vector<int>& p, const ManyPlan& plan,
                          std::size_t k) {
    swaps::TabuSearch<T> search(problem, p, plan.seed + k, false);
    search.run(plan.steps, std::numeric_limits<typename swaps::TabuSearch<T>::Value>::lowest());
    return search.best_p;
}

}  // namespace many_graphs

void solve_many(const ManyProblems& problems, const ManyPlan& plan, const std::function<bool()>& stop,
                std::int64_t* permutations) {
    using namespace many_graphs;
    for (std::size_t k = 0; k < problems.size.size() && !stop(); ++k) {
        const int n = problems.size[k];
        const std::size_t size = std::size_t(n) * n;
        const double *A = problems.A + problems.offset[k], *B = problems.B + problems.offset[k];
        const double* C = problems.C ? problems.C + problems.offset[k] : nullptr;
        const double a = largest(A, size), b = largest(B, size), c = C ? largest(C, size) : 0.0;
        std::vector<int> p = start(A, B, C, a, b, n);
        if (plan.steps > 0 && n > 1) {
            std::vector<std::int32_t> x, y, z;
            if (16.0 * (n + 8) * std::max(a, 1.0) * std::max(b, 1.0) + 4.0 * c < double(1 << 28)) {
                x = integers(A, size);
                y = integers(B, size);
                if (C) z = integers(C, size);
            }
            if (x.empty() || y.empty() || (C && z.empty())) {
                p = searched(swaps::AssignmentProblem<double>(A, B, C, n, 1e-12 * (a * b + c)), p, plan, k);
            } else {
                const std::int32_t* linear = C ? z.data() : nullptr;
                p = searched(swaps::AssignmentProblem<std::int32_t>(x.data(), y.data(), linear, n, 0), p, plan, k);
            }
        }
        std::copy(p.begin(), p.end(), permutations + problems.place[k]);
    }
}

}  // namespace dcfw
