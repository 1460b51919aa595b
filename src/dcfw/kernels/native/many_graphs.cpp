// The loop of many_graphs.hpp.
#include "many_graphs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "clones.hpp"
#include "graduated_path.hpp"
#include "tabu_search.hpp"

namespace dcfw {

namespace many_graphs {

// What a pass over a matrix tells.
struct Facts {
    double squares = 0, largest = 0;
    bool symmetric = true;
};

DCFW_CLONES Facts look(const double* M, int n) {
    Facts facts;
    for (int i = 0; i < n; ++i) {
        const double* row = M + std::size_t(n) * i;
        double odd = 0.0;
        for (int j = 0; j < n; ++j) {
            facts.squares += row[j] * row[j];
            facts.largest = std::max(facts.largest, std::abs(row[j]));
        }
        for (int j = 0; j < i; ++j) odd += row[j] != M[std::size_t(n) * j + i];
        facts.symmetric = facts.symmetric && odd == 0.0;
    }
    return facts;
}

// The path of problems of one size, with its memory.
class ShortPath {
  public:
    explicit ShortPath(int n) : n_(n), size_(std::size_t(n) * n), lap_(n), same_(n) {
        problem_.n = n;
        for (auto* M : {&problem_.A, &problem_.B, &problem_.C, &problem_.AtA, &problem_.BBt}) M->resize(size_);
        std::iota(same_.begin(), same_.end(), 0);
    }
    int size() const { return n_; }

    // The path from the barycentre with r = 1/2 ||A X||^2 + 1/2 ||X B||^2.
    std::vector<int> follow(const double* A, const double* B, const double* C, const Facts& a, const Facts& b,
                            const ManyPlan& plan) {
        const double unit_a = a.squares > 0.0 ? 1.0 / std::sqrt(a.squares) : 1.0;
        const double unit_b = b.squares > 0.0 ? 1.0 / std::sqrt(b.squares) : 1.0;
        for (std::size_t k = 0; k < size_; ++k) {
            problem_.A[k] = A[k] * unit_a;
            problem_.B[k] = B[k] * unit_b;
            problem_.C[k] = C ? C[k] * (unit_a * unit_b) : 0.0;
        }
        problem_.symmetric = a.symmetric && b.symmetric;
        if (!problem_.symmetric) {
            problem_.At = transposed(problem_.A);
            problem_.Bt = transposed(problem_.B);
        }
        const std::vector<double>& At = problem_.symmetric ? problem_.A : problem_.At;
        const std::vector<double>& Bt = problem_.symmetric ? problem_.B : problem_.Bt;
        std::fill(problem_.AtA.begin(), problem_.AtA.end(), 0.0);
        std::fill(problem_.BBt.begin(), problem_.BBt.end(), 0.0);
        add_product(NonZeros(At.data(), n_), problem_.A.data(), same_.data(), n_, problem_.AtA.data());
        add_product(NonZeros(problem_.B.data(), n_), Bt.data(), same_.data(), n_, problem_.BBt.data());
        lap_.reset();
        return dcfw::follow(problem_, lap_, std::vector<double>(size_, 1.0 / n_), gradient(), plan.thetas, plan.steps,
                            plan.tolerance, std::int64_t(1) << 60).columns;
    }

  private:
    int n_;
    std::size_t size_;
    Lap lap_;
    PathProblem problem_;
    std::vector<int> same_;

    std::vector<double> transposed(const std::vector<double>& M) const {
        std::vector<double> out(size_);
        for (int i = 0; i < n_; ++i)
            for (int j = 0; j < n_; ++j) out[std::size_t(n_) * i + j] = M[std::size_t(n_) * j + i];
        return out;
    }

    // At the barycentre.
    std::vector<double> gradient() const {
        std::vector<double> rows(n_), columns(n_), out(n_), in(n_), G(problem_.C);
        for (int i = 0; i < n_; ++i)
            for (int j = 0; j < n_; ++j) {
                const double a = problem_.A[std::size_t(n_) * i + j] / n_, b = problem_.B[std::size_t(n_) * i + j];
                rows[i] += a;
                columns[j] += a;
                out[i] += b;
                in[j] += b;
            }
        for (int i = 0; i < n_; ++i)
            for (int j = 0; j < n_; ++j) G[std::size_t(n_) * i + j] += rows[i] * out[j] + columns[i] * in[j];
        return G;
    }
};

// Return M in integers, or nothing if it holds others.
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
    search.run(plan.swaps * problem.n, std::numeric_limits<typename swaps::TabuSearch<T>::Value>::lowest());
    return search.best_p;
}

}  // namespace many_graphs

void solve_many(const ManyProblems& problems, const ManyPlan& plan, const std::function<bool()>& stop,
                std::int64_t* permutations) {
    using namespace many_graphs;
    std::unique_ptr<ShortPath> path;
    for (std::size_t k = 0; k < problems.size.size() && !stop(); ++k) {
        const int n = problems.size[k];
        const double *A = problems.A + problems.offset[k], *B = problems.B + problems.offset[k];
        const double* C = problems.C ? problems.C + problems.offset[k] : nullptr;
        const Facts a = look(A, n), b = look(B, n);
        std::vector<int> p;
        if (!plan.thetas.empty()) {
            if (!path || path->size() != n) path = std::make_unique<ShortPath>(n);
            p = path->follow(A, B, C, a, b, plan);
        }
        if (int(p.size()) != n) {
            p.resize(n);
            std::iota(p.begin(), p.end(), 0);
        }
        if (plan.swaps > 0 && n > 1) {
            const std::size_t size = std::size_t(n) * n;
            const double c = C ? look(C, n).largest : 0.0, most = std::max(a.largest, 1.0) * std::max(b.largest, 1.0);
            std::vector<std::int32_t> x, y, z;
            if (16.0 * (n + 8) * most + 4.0 * c < double(1 << 28)) {
                x = integers(A, size);
                y = integers(B, size);
                if (C) z = integers(C, size);
            }
            if (x.empty() || y.empty() || (C && z.empty())) {
                const double scale = std::max(a.largest, b.largest);
                const swaps::AssignmentProblem<double> problem(A, B, C, n, 1e-12 * scale * scale);
                p = searched(problem, p, plan, k);
            } else {
                const swaps::AssignmentProblem<std::int32_t> problem(x.data(), y.data(), C ? z.data() : nullptr, n, 0);
                p = searched(problem, p, plan, k);
            }
        }
        std::copy(p.begin(), p.end(), permutations + problems.place[k]);
    }
}

}  // namespace dcfw
