// The loop of many_graphs.hpp.
#include "many_graphs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "graduated_path.hpp"
#include "tabu_search.hpp"

namespace dcfw {

namespace many_graphs {

double norm(const double* M, std::size_t size) {
    double total = 0.0;
    for (std::size_t k = 0; k < size; ++k) total += M[k] * M[k];
    return total > 0.0 ? std::sqrt(total) : 1.0;
}

// M N for matrices of n rows, of which many entries are 0.
std::vector<double> product(const std::vector<double>& M, const std::vector<double>& N, int n) {
    std::vector<double> out(M.size());
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k) {
            const double factor = M[std::size_t(n) * i + k];
            if (factor == 0.0) continue;
            for (int j = 0; j < n; ++j) out[std::size_t(n) * i + j] += factor * N[std::size_t(n) * k + j];
        }
    return out;
}

// The path from the barycentre with r = 1/2 ||A X||^2 + 1/2 ||X B||^2.
std::vector<int> path(const double* A, const double* B, const double* C, int n, Lap& lap, const ManyPlan& plan) {
    const std::size_t size = std::size_t(n) * n;
    const double a = norm(A, size), b = norm(B, size);
    PathProblem problem;
    problem.n = n;
    problem.A.resize(size);
    problem.B.resize(size);
    problem.C.assign(size, 0.0);
    for (std::size_t k = 0; k < size; ++k) {
        problem.A[k] = A[k] / a;
        problem.B[k] = B[k] / b;
        if (C) problem.C[k] = C[k] / (a * b);
    }
    const auto transposed = [n](const std::vector<double>& M) {
        std::vector<double> out(M.size());
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) out[std::size_t(n) * i + j] = M[std::size_t(n) * j + i];
        return out;
    };
    problem.At = transposed(problem.A);
    problem.Bt = transposed(problem.B);
    problem.symmetric = problem.A == problem.At && problem.B == problem.Bt;
    problem.AtA = product(problem.At, problem.A, n);
    problem.BBt = product(problem.B, problem.Bt, n);
    std::vector<double> rows(n), columns(n), out(n), in(n), X(size, 1.0 / n), G(problem.C);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            rows[i] += problem.A[std::size_t(n) * i + j];
            columns[j] += problem.A[std::size_t(n) * i + j];
            out[i] += problem.B[std::size_t(n) * i + j];
            in[j] += problem.B[std::size_t(n) * i + j];
        }
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) G[std::size_t(n) * i + j] += (rows[i] * out[j] + columns[i] * in[j]) / n;
    lap.reset();
    return follow(problem, lap, std::move(X), std::move(G), plan.thetas, plan.steps, plan.tolerance,
                  std::int64_t(1) << 60).columns;
}

double largest(const double* M, std::size_t size) {
    double found = 0.0;
    for (std::size_t k = 0; k < size; ++k) found = std::max(found, std::abs(M[k]));
    return found;
}
bool integers(const double* M, std::size_t size) {
    return std::all_of(M, M + size, [](double x) { return x == std::nearbyint(x); });
}

// A short tabu search from p; twice as fast in integers of four bytes.
template <class T>
std::vector<int> searched(const swaps::AssignmentProblem<T>& problem, const std::vector<int>& p, const ManyPlan& plan,
                          std::size_t k) {
    swaps::TabuSearch<T> search(problem, p, plan.seed + k, false);
    search.run(plan.swaps * problem.n, std::numeric_limits<typename swaps::TabuSearch<T>::Value>::lowest());
    return search.best_p;
}

}  // namespace many_graphs

void solve_many(const ManyProblems& problems, const ManyPlan& plan, const std::function<bool()>& stop,
                std::int64_t* permutations) {
    std::unique_ptr<Lap> lap;
    for (std::size_t k = 0; k < problems.size.size() && !stop(); ++k) {
        const int n = problems.size[k];
        const double *A = problems.A + problems.offset[k], *B = problems.B + problems.offset[k];
        const double* C = problems.C ? problems.C + problems.offset[k] : nullptr;
        if (!lap || lap->size() != n) lap = std::make_unique<Lap>(n);
        std::vector<int> p;
        if (!plan.thetas.empty()) p = many_graphs::path(A, B, C, n, *lap, plan);
        if (int(p.size()) != n) {
            p.resize(n);
            std::iota(p.begin(), p.end(), 0);
        }
        if (plan.swaps > 0 && n > 1) {
            using namespace many_graphs;
            const std::size_t size = std::size_t(n) * n;
            const double a = largest(A, size), b = largest(B, size), c = C ? largest(C, size) : 0.0;
            const bool exact = 16.0 * (n + 8) * std::max(a, 1.0) * std::max(b, 1.0) + 4.0 * c < double(1 << 28) && integers(A, size) && integers(B, size) &&
                               (!C || integers(C, size));
            if (exact) {
                const auto copy = [size](const double* M) { return std::vector<std::int32_t>(M, M + (M ? size : 0)); };
                const auto x = copy(A), y = copy(B), z = copy(C);
                const swaps::AssignmentProblem<std::int32_t> problem(x.data(), y.data(), C ? z.data() : nullptr, n, 0);
                p = searched(problem, p, plan, k);
            } else {
                const double scale = std::max(a, b);
                const swaps::AssignmentProblem<double> problem(A, B, C, n, 1e-12 * scale * scale);
                p = searched(problem, p, plan, k);
            }
        }
        std::copy(p.begin(), p.end(), permutations + problems.place[k]);
    }
}

}  // namespace dcfw
