#include "graph_path.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "clones.hpp"

namespace dcfw {

float Csr::at(int i, int j) const {
    const auto from = index.begin() + start[i], to = index.begin() + start[i + 1];
    const auto found = std::lower_bound(from, to, j);
    return found != to && *found == j ? value[found - index.begin()] : 0.0f;
}

namespace graph_path {

constexpr double slack_share = 0.02;  // of the last gap: what inexact assignments may lose

DCFW_CLONES void scale(float* row, float factor, int m) {
#pragma omp simd
    for (int j = 0; j < m; ++j) row[j] *= factor;
}
DCFW_CLONES void combine(const float* G, const float* R, float theta, float* cost, int m) {
#pragma omp simd
    for (int j = 0; j < m; ++j) cost[j] = G[j] + theta * R[j];
}
DCFW_CLONES void add_constant(float* row, float constant, const float* vector, int m) {
#pragma omp simd
    for (int j = 0; j < m; ++j) row[j] += constant * vector[j];
}

class Path {
  public:
    Path(const GraphProblem& problem, const GraphPlan& plan, const std::function<bool()>& stop)
        : at_(problem), plan_(plan), stop_(stop), m_(problem.m), size_(std::size_t(m_) * m_), G_(size_), R_(size_),
          lap_(m_), p_(problem.n), inverse_(m_) {
        for (int k = 0; k < at_.n; ++k) p_[k] = k;
    }

    GraphReport run() {
        GraphReport report;
        const double last = plan_.thetas.back();
        begin();
        if (plan_.weight > 0.0) {
            std::copy_n(plan_.start.begin(), m_, p_.begin());
            const Vertex S = inspect();
            advance(S, plan_.weight);
        }
        bool settled = false;
        for (std::size_t stage = 0; stage < plan_.thetas.size() && !settled && !report.ended; ++stage) {
            ++report.stages;
            const double theta = plan_.thetas[stage];
            double first = -1.0;
            const int steps = stage == 0 ? plan_.first_steps : plan_.steps;
            for (int k = 0; k < steps; ++k) {
                report.ended = report.n_lmo >= plan_.max_lmo || stop_();
                if (report.ended) break;
                if (!next(theta, report)) return report;
                const Vertex S = inspect();
                const double slope = S.G - g_ + theta * (S.R - r_);
                const double curvature = S.own_G - (S.G - S.c + c_) - S.G + g_ + theta * (S.own_R - 2.0 * S.R + r_);
                const double gap = -slope, size = std::abs(g_) + std::abs(theta * r_);
                if (first < 0.0) first = gap;
                if (!(gap > 1e-6 * size)) {
                    settled = vertex_;  // where r is largest: a lower theta makes it more of a minimum
                    break;
                }
                ++report.n_inner;
                lap_.slack = float(slack_share * gap / m_);
                advance(S, curvature > gap ? gap / curvature : 1.0);
                if (gap <= plan_.tolerance * first) break;
            }
        }
        finish(last, report);
        return report;
    }

  private:
    struct Vertex {
        double G = 0, R = 0;          // <gradients at X, S>
        double own_G = 0, own_R = 0;  // <gradients at S, S>
        double c = 0;                 // <linear part, S>: C and the seeds
    };

    const GraphProblem& at_;
    const GraphPlan& plan_;
    const std::function<bool()>& stop_;
    const int m_;
    const std::size_t size_;
    std::vector<float> G_, R_;
    FloatLap lap_;
    std::vector<int> p_, inverse_;
    double g_ = 0, r_ = 0, c_ = 0;  // <G, X>, <R, X> and <linear part, X>
    bool vertex_ = false;           // X is one

    // The barycentre.
    void begin() {
        const int m = m_, n = at_.n;
        std::fill(G_.begin(), G_.end(), 0.0f);
        std::vector<float> row(n), column(m), one(m, 1.0f);
        for (std::size_t q = 0; q < at_.left.size(); ++q) {
            const Csr &L = at_.left[q], &N = at_.right[q];
            std::fill(column.begin(), column.end(), 0.0f);
            for (int k = 0; k < m; ++k)
                for (auto e = N.start[k]; e < N.inner[k]; ++e) column[N.index[e]] += N.value[e];
            for (int i = 0; i < m; ++i) {
                float total = 0.0f;
                for (auto e = L.start[i]; e < L.inner[i]; ++e) total += L.value[e];
                if (total != 0.0f) add_constant(&G_[std::size_t(m) * i], total / m, column.data(), m);
            }
        }
        std::fill(column.begin(), column.end(), 0.0f);
        for (int k = 0; k < m; ++k)
            for (auto e = at_.V.start[k]; e < at_.V.inner[k]; ++e) column[at_.V.index[e]] += at_.V.value[e] / m;
        c_ = g_ = r_ = 0.0;
        for (int i = 0; i < m; ++i) {
            float total = 0.0f, *g = &G_[std::size_t(m) * i], *r = &R_[std::size_t(m) * i];
            for (auto e = at_.U.start[i]; e < at_.U.inner[i]; ++e) total += at_.U.value[e];
            std::copy(column.begin(), column.end(), r);
            add_constant(r, total / m, one.data(), m);
            double before = 0.0, after = 0.0, of_r = 0.0;
            for (int j = 0; j < m; ++j) before += g[j];
            add_linear(i, 1.0f, g);
            for (int j = 0; j < m; ++j) {
                after += g[j];
                of_r += r[j];
            }
            c_ += (after - before) / m;
            g_ += after / m;
            r_ += of_r / m;
        }
    }

    // What the seeds and C add to a row of the gradient.
    void add_linear(int i, float factor, float* row) const {
        for (std::size_t q = 0; q < at_.left.size(); ++q) {
            const Csr &L = at_.left[q], &N = at_.right[q];
            for (auto e = L.inner[i]; e < L.start[i + 1]; ++e) add_row(N, L.index[e], factor * L.value[e], row);
        }
        if (!at_.linear.index.empty()) add_row(at_.linear, i, factor, row);
    }
    void add_row(const Csr& M, int k, float factor, float* row) const {
        if (M.inner[k] - M.start[k] == m_) return add_constant(row, factor, &M.value[M.start[k]], m_);
        for (auto e = M.start[k]; e < M.inner[k]; ++e) row[M.index[e]] += factor * M.value[e];
    }

    // Solve the assignment problem at theta; p_ is the vertex.
    bool next(double theta, GraphReport& report) {
        ++report.n_lmo;
        const int m = m_;
        for (int i = 0; i < m; ++i) {
            float* cost = lap_.row(i);
            combine(&G_[std::size_t(m) * i], &R_[std::size_t(m) * i], float(theta), cost, m);
            if (!at_.forbidden.index.empty())
                for (auto e = at_.forbidden.start[i]; e < at_.forbidden.start[i + 1]; ++e)
                    cost[at_.forbidden.index[e]] = std::numeric_limits<float>::infinity();
        }
        if (!lap_.solve()) {
            report.columns.clear();
            return false;
        }
        std::copy_n(lap_.columns.begin(), m, p_.begin());
        report.columns = lap_.columns;
        return true;
    }

    // The numbers of the vertex p_.
    Vertex inspect() {
        Vertex S;
        for (int i = 0; i < m_; ++i) inverse_[p_[i]] = i;
        for (int i = 0; i < m_; ++i) {
            const int j = p_[i];
            S.G += G_[std::size_t(m_) * i + j];
            S.R += R_[std::size_t(m_) * i + j];
            S.own_R += double(at_.U.at(i, i)) + at_.V.at(j, j);
            for (std::size_t q = 0; q < at_.left.size(); ++q) {
                const Csr &L = at_.left[q], &N = at_.right[q];
                for (auto e = L.start[i]; e < L.start[i + 1]; ++e) {
                    const double product = double(L.value[e]) * N.at(p_[L.index[e]], j);
                    S.own_G += product;
                    if (e >= L.inner[i]) S.c += product;
                }
            }
            if (!at_.linear.index.empty()) {
                const double given = at_.linear.at(i, j);
                S.c += given;
                S.own_G += given;
            }
        }
        return S;
    }

    // Move X by eta towards the vertex p_.
    void advance(const Vertex& S, double eta) {
        const int m = m_;
        const float keep = float(1.0 - eta), part = float(eta);
        for (int i = 0; i < m; ++i) {
            float *g = &G_[std::size_t(m) * i], *r = &R_[std::size_t(m) * i];
            if (eta < 1.0) {
                scale(g, keep, m);
                scale(r, keep, m);
            } else {
                std::fill_n(g, m, 0.0f);
                std::fill_n(r, m, 0.0f);
            }
            for (std::size_t q = 0; q < at_.left.size(); ++q) {
                const Csr &L = at_.left[q], &N = at_.right[q];
                for (auto e = L.start[i]; e < L.inner[i]; ++e) add_row(N, p_[L.index[e]], part * L.value[e], g);
            }
            add_linear(i, part, g);
            for (auto e = at_.U.start[i]; e < at_.U.inner[i]; ++e) r[p_[at_.U.index[e]]] += part * at_.U.value[e];
            add_row(at_.V, p_[i], part, r);
        }
        const double kept = 1.0 - eta;
        g_ = kept * kept * g_ + kept * eta * (2.0 * S.G - S.c + c_) + eta * eta * S.own_G;
        r_ = kept * kept * r_ + 2.0 * kept * eta * S.R + eta * eta * S.own_R;
        c_ = kept * c_ + eta * S.c;
        vertex_ = eta == 1.0;
    }

    // Full steps on the concave end, which never raise it, until a vertex repeats.
    void finish(double theta, GraphReport& report) {
        lap_.slack = 0.0f;
        std::vector<int> last;
        while (next(theta, report) && report.columns != last && !stop_() && report.n_lmo < plan_.max_lmo) {
            last = report.columns;
            advance(inspect(), 1.0);
        }
    }
};

}  // namespace graph_path

GraphReport follow(const GraphProblem& problem, const GraphPlan& plan, const std::function<bool()>& stop) {
    return graph_path::Path(problem, plan, stop).run();
}

}  // namespace dcfw
