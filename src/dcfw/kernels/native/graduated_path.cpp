#include "graduated_path.hpp"

#include <algorithm>
#include <cmath>

#include "clones.hpp"
#include "lanes.hpp"

namespace dcfw {
namespace {

using swaps::fill;
using swaps::load;
using swaps::store;
using Four = swaps::Vec<double>;

// out += sum_k M[i, k] N[place(k), :], for all i; `width` columns.
[[gnu::flatten]] DCFW_CLONES void add_product(const double* M, const double* N, const int* place, int n, double* out) {
    constexpr int tile = 16;
    for (int j = 0; j < n; j += tile) {
        const int width = std::min(tile, n - j);
        for (int i = 0; i < n; ++i) {
            const double* m = M + static_cast<std::size_t>(i) * n;
            double* o = out + static_cast<std::size_t>(i) * n + j;
            if (width == tile) {
                Four a = load(o), b = load(o + 4), c = load(o + 8), d = load(o + 12);
                for (int k = 0; k < n; ++k) {
                    const double factor = m[k];
                    if (factor == 0.0) continue;
                    const Four f = fill(factor);
                    const double* row = N + static_cast<std::size_t>(place[k]) * n + j;
                    a += f * load(row);
                    b += f * load(row + 4);
                    c += f * load(row + 8);
                    d += f * load(row + 12);
                }
                store(o, a);
                store(o + 4, b);
                store(o + 8, c);
                store(o + 12, d);
                continue;
            }
            for (int k = 0; k < n; ++k) {
                const double factor = m[k];
                if (factor == 0.0) continue;
                const double* row = N + static_cast<std::size_t>(place[k]) * n + j;
                for (int l = 0; l < width; ++l) o[l] += factor * row[l];
            }
        }
    }
}

// The value along X + eta (S - X) of phi + theta r: slope and curvature, and the two halves of the slope.
struct Line {
    double slope = 0, curvature = 0;
};
[[gnu::flatten]] DCFW_CLONES Line inspect(std::size_t size, double theta, const double* X, const double* G, const double* R,
                                          const double* S, const double* GS, const double* RS) {
    Four slope{}, curvature{};
    std::size_t k = 0;
    const Four t = fill(theta);
    for (; k + 4 <= size; k += 4) {
        const Four d = load(S + k) - load(X + k), g = load(G + k) + t * load(R + k);
        slope += g * d;
        curvature += (load(GS + k) + t * load(RS + k) - g) * d;
    }
    Line line{swaps::sum<double>(slope), swaps::sum<double>(curvature)};
    for (; k < size; ++k) {
        const double d = S[k] - X[k], g = G[k] + theta * R[k];
        line.slope += g * d;
        line.curvature += (GS[k] + theta * RS[k] - g) * d;
    }
    return line;
}
DCFW_CLONES void move_towards(std::size_t size, double eta, double* X, const double* S) {
    const double keep = 1.0 - eta;
    for (std::size_t k = 0; k < size; ++k) X[k] = keep * X[k] + eta * S[k];
}
DCFW_CLONES void combine(std::size_t size, double theta, const double* G, const double* R, double* out) {
    for (std::size_t k = 0; k < size; ++k) out[k] = G[k] + theta * R[k];
}

class Path {
  public:
    Path(const PathProblem& problem, Lap& lap, std::vector<double> X, std::vector<double> G)
        : problem_(problem), lap_(lap), n_(problem.n), size_(static_cast<std::size_t>(n_) * n_), X_(std::move(X)),
          G_(std::move(G)), R_(size_), S_(size_), GS_(size_), RS_(size_), cost_(size_), columns_(n_), vertex_(n_, -1),
          inverse_(n_) {
        if (problem.AtA.empty()) {
            R_ = X_;
            return;
        }
        // grad r(X) = A^T A X + X B B^T, at the barycentre sums of rows and columns
        if (std::all_of(X_.begin(), X_.end(), [this](double x) { return x == X_[0]; })) {
            std::vector<double> column(n_, 0.0);
            for (std::size_t k = 0; k < size_; ++k) column[k % n_] += X_[0] * problem.BBt[k];
            for (int i = 0; i < n_; ++i) {
                const double* a = problem.AtA.data() + static_cast<std::size_t>(i) * n_;
                double row = 0.0;
                for (int j = 0; j < n_; ++j) row += X_[0] * a[j];
                for (int j = 0; j < n_; ++j) R_[static_cast<std::size_t>(i) * n_ + j] = row + column[j];
            }
            return;
        }
        std::vector<int> same(n_);
        for (int i = 0; i < n_; ++i) same[i] = i;
        std::fill(R_.begin(), R_.end(), 0.0);
        add_product(problem.AtA.data(), X_.data(), same.data(), n_, R_.data());
        add_product(X_.data(), problem.BBt.data(), same.data(), n_, R_.data());
    }

    PathReport run(const std::vector<double>& thetas, int steps, double tolerance, std::int64_t max_lmo) {
        PathReport report;
        bool settled = false;
        for (std::size_t stage = 0; stage < thetas.size() && !settled; ++stage) {
            const double theta = thetas[stage];
            ++report.stages;
            double first = -1.0;
            for (int k = 0; k < steps && report.n_lmo < max_lmo; ++k) {
                if (!next_vertex(theta, report)) return report;
                const Line line = inspect(size_, theta, X_.data(), G_.data(), R_.data(), S_.data(), GS_.data(), RS_.data());
                const double gap = -line.slope;
                if (first < 0.0) first = gap;
                if (!(gap > 0.0)) {
                    settled = X_ == S_;
                    break;
                }
                ++report.n_inner;
                const double eta = line.curvature > 0.0 ? std::min(1.0, gap / line.curvature) : 1.0;
                move_towards(size_, eta, X_.data(), S_.data());
                move_towards(size_, eta, G_.data(), GS_.data());
                move_towards(size_, eta, R_.data(), RS_.data());
                if (eta == 1.0) {
                    X_ = S_;
                    G_ = GS_;
                    R_ = RS_;
                }
                if (gap <= tolerance * first) break;
            }
            if (report.n_lmo >= max_lmo) break;
        }
        finish(thetas.empty() ? -1.0 : thetas.back(), report, max_lmo);
        return report;
    }

  private:
    const PathProblem& problem_;
    Lap& lap_;
    int n_;
    std::size_t size_;
    std::vector<double> X_, G_, R_, S_, GS_, RS_, cost_;
    std::vector<int> columns_, vertex_, inverse_;

    // Solve the assignment problem of the gradient at X; bring S and its gradients up to date.
    bool next_vertex(double theta, PathReport& report) {
        combine(size_, theta, G_.data(), R_.data(), cost_.data());
        ++report.n_lmo;
        if (lap_.solve(cost_.data(), columns_.data()) != Lap::optimal) return false;
        report.columns = columns_;
        if (columns_ == vertex_) return true;
        vertex_ = columns_;
        for (int i = 0; i < n_; ++i) inverse_[vertex_[i]] = i;
        std::fill(S_.begin(), S_.end(), 0.0);
        for (int i = 0; i < n_; ++i) S_[static_cast<std::size_t>(i) * n_ + vertex_[i]] = 1.0;
        // grad phi(S) = A S B^T + A^T S B + C:  row k of S B^T is row p(k) of B^T.
        GS_ = problem_.C;
        if (problem_.symmetric) {
            std::fill(GS_.begin(), GS_.end(), 0.0);
            add_product(problem_.A.data(), problem_.B.data(), vertex_.data(), n_, GS_.data());
            for (std::size_t k = 0; k < size_; ++k) GS_[k] = 2.0 * GS_[k] + problem_.C[k];
        } else {
            add_product(problem_.A.data(), problem_.Bt.data(), vertex_.data(), n_, GS_.data());
            add_product(problem_.At.data(), problem_.B.data(), vertex_.data(), n_, GS_.data());
        }
        if (problem_.AtA.empty()) {
            RS_ = S_;
            return true;
        }
        for (int i = 0; i < n_; ++i) {
            const double *a = problem_.AtA.data() + static_cast<std::size_t>(i) * n_;
            const double *b = problem_.BBt.data() + static_cast<std::size_t>(vertex_[i]) * n_;
            double* r = RS_.data() + static_cast<std::size_t>(i) * n_;
            for (int j = 0; j < n_; ++j) r[j] = a[inverse_[j]] + b[j];
        }
        return true;
    }

    // Full steps on the concave end, which never raise it, until a vertex repeats.
    void finish(double theta, PathReport& report, std::int64_t max_lmo) {
        std::vector<int> last;
        while (report.n_lmo < std::max<std::int64_t>(max_lmo, 1) && next_vertex(theta, report) && report.columns != last) {
            last = report.columns;
            X_ = S_;
            G_ = GS_;
            R_ = RS_;
        }
    }
};

}  // namespace

PathReport follow(const PathProblem& problem, Lap& lap, std::vector<double> X, std::vector<double> G,
                  const std::vector<double>& thetas, int steps, double tolerance, std::int64_t max_lmo) {
    return Path(problem, lap, std::move(X), std::move(G)).run(thetas, steps, tolerance, max_lmo);
}

}  // namespace dcfw
