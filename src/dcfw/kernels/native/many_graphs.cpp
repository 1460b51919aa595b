// The loop of many_graphs.hpp.
#include "many_graphs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lap.hpp"
#include "tabu_search.hpp"

namespace dcfw {

namespace many_graphs {

double largest(const double* M, std::size_t size) {
    double found = 0.0;
    for (std::size_t k = 0; k < size; ++k) found = std::max(found, std::abs(M[k]));
    return found;
}

// The nodes from low to high sums of their rows and columns, to which the neighbours' sums are added.
std::vector<int> ranking(const double* M, double unit, int n) {
    std::vector<double> sums(n), standing(n);
    const double scale = unit > 1e-290 ? 1.0 / unit : 0.0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            const double x = M[std::size_t(n) * i + j] * scale;
            sums[i] += x;
            sums[j] += x;
        }
    double total = 0.0, squares = 0.0;
    for (double x : sums) {
        total += x;
        squares += x * x;
    }
    const double mean = std::copysign(std::sqrt(squares / n), total);
    for (int i = 0; i < n && squares > 0.0; ++i) {
        double around = 0.0;
        for (int j = 0; j < n; ++j) around += M[std::size_t(n) * i + j] * sums[j];
        standing[i] = sums[i] + around * scale / mean;
    }
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int i, int j) { return standing[i] != standing[j] ? standing[i] < standing[j] : i < j; });
    return order;
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

// Where a search begins: without C the nodes in the order of their standing, high ones to low ones.
std::vector<int> start(const double* A, const double* B, const double* C, double a, double b, int n) {
    if (C) return assigned(A, B, C, n);
    const std::vector<int> x = ranking(A, a, n), y = ranking(B, b, n);
    std::vector<int> p(n);
    for (int k = 0; k < n; ++k) p[x[k]] = y[n - 1 - k];
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
