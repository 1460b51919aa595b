#include "frank_wolfe.hpp"

#include <algorithm>
#include <cmath>

#include "clones.hpp"
#include "rows.hpp"
#include "vectors.hpp"

namespace dcfw {
namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();

// Take the step of length eta: X towards the vertex (whose ones are added by the caller), grad with it.
DCFW_CLONES void move(double* X, double* grad, const double* change, double eta, std::size_t size) {
#pragma omp simd
    for (std::size_t k = 0; k < size; ++k) {
        X[k] *= 1.0 - eta;
        grad[k] += eta * change[k];
    }
}

}  // namespace

FrankWolfe::FrankWolfe(int n) : n(n), lap(n), vertex(n, -1), gradients_(n), change_(std::size_t(n) * n) { begin(); }

void FrankWolfe::begin() {
    gap = bound = infinity;
    gained = 0.0;
}

const double* FrankWolfe::slope(const double* grad, const double* linear) {
    if (!linear) return grad;
    slope_.resize(change_.size());
    subtract(grad, linear, slope_.data(), slope_.size());
    return slope_.data();
}

bool FrankWolfe::measure(const double* G, const double* X) {
    if (lap.solve(G, vertex.data()) != Lap::optimal) return false;
    gap = std::max(dot(G, X, change_.size()) - along(G, vertex.data(), n), 0.0);
    bound = std::min(bound, gained + gap);
    return true;
}

bool FrankWolfe::settled(const double* G, const double* X, const Plan& plan, Batch& batch) {
    ++batch.solved;
    if (!measure(G, X)) {
        batch.reason = bad_gradient;
        return true;
    }
    batch.gaps.push_back(gap);
    batch.gains.push_back(gained);
    batch.reason = gap <= (plan.progress ? gained : plan.threshold) ? gap_met : steps_done;
    return batch.reason == gap_met;
}

Batch FrankWolfe::advance(const Quadratic& f, const double* linear, double* X, double* grad, const Plan& plan) {
    const std::size_t size = change_.size();
    double* change = change_.data();
    Batch batch;
    for (;; ++batch.steps) {
        const bool last = batch.steps == plan.steps;
        if (last && !plan.measured) {
            gap = infinity;
            return batch;
        }
        const bool known = plan.started && batch.steps == 0;
        if (!known && settled(slope(grad, linear), X, plan, batch)) return batch;
        if (last) return batch;

        const double slope_at_X = subtract_along(gradients_.at(f, vertex.data()), grad, X, change, size);
        ++batch.gradients;
        double curvature = along(change, vertex.data(), n) - slope_at_X;
        if (curvature < 0.0 && plan.convex) {
            const double scale =
                std::sqrt(dot(change, change, size)) * (std::sqrt(dot(X, X, size)) + std::sqrt(double(n)));
            if (curvature < -64.0 * epsilon * scale) {
                batch.curvature = curvature;
                batch.reason = negative;
                return batch;
            }
            curvature = 0.0;
        }
        const double eta = curvature <= 0.0 || gap >= curvature ? 1.0 : gap / curvature;
        if (eta < 0.25 * epsilon) {
            batch.reason = tiny;
            return batch;
        }
        double length = infinity;
        if (plan.shortest > 0.0)
            length = eta * std::sqrt(std::max(dot(X, X, size) + n - 2.0 * along(X, vertex.data(), n), 0.0));
        move(X, grad, change, eta, size);
        for (int i = 0; i < n; ++i) X[std::size_t(n) * i + vertex[i]] += eta;
        gained += eta * (gap - 0.5 * eta * curvature);
        if (length < plan.shortest) {
            ++batch.steps;
            batch.reason = short_step;
            return batch;
        }
    }
}

}  // namespace dcfw
