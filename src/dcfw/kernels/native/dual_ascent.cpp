#include "dual_ascent.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dcfw {

DualAscent::DualAscent(const double* A, const double* B, const double* linear, int n)
    : n_(n), pairs_(static_cast<std::size_t>(n) * n * n * n, 0.0), leader_(linear, linear + n * n),
      costs_(static_cast<std::size_t>(n) * n), order_(n * n), small_(n - 1), large_(n) {
    std::iota(order_.begin(), order_.end(), 0);
    double least = 0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            leader_[i * n + j] += A[i * n + i] * B[j * n + j];
            total += std::abs(leader_[i * n + j]);
            for (int k = 0; k < n; ++k)
                for (int l = 0; l < n; ++l) {
                    if (k == i || l == j) continue;
                    pair(i, j, k, l) = A[i * n + k] * B[j * n + l] + A[k * n + i] * B[l * n + j];
                    least = std::min(least, pair(i, j, k, l));
                    total += std::abs(pair(i, j, k, l));
                }
        }
    if (least < 0) {  // n (n - 1) / 2 pairs are chosen
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j)
                for (int k = 0; k < n; ++k)
                    for (int l = 0; l < n; ++l)
                        if (k != i && l != j) pair(i, j, k, l) -= least;
        start_ = 0.5 * least * n * (n - 1);
        total -= least * static_cast<double>(pairs_.size());
    }
    best = -std::numeric_limits<double>::infinity();
    constant_ = start_;
}

bool DualAscent::round(double give_back) {
    ++rounds;
    for (int k = n_ * n_ - 1; k > 0; --k) std::swap(order_[k], order_[random_.below(k + 1)]);
    for (const int here : order_)
        if (!reduce(here / n_, here % n_)) return false;
    if (large_.solve(leader_.data()) != Lap::optimal) return false;
    double gain = 0, low = 0;
    for (int i = 0; i < n_; ++i) gain += large_.row_prices[i] + large_.state.prices[i];
    for (int i = 0; i < n_; ++i)
        for (int j = 0; j < n_; ++j) {
            leader_[i * n_ + j] -= large_.row_prices[i] + large_.state.prices[j];
            low = std::min(low, leader_[i * n_ + j]);  // rounding
        }
    for (double& cost : leader_) cost -= low;
    constant_ += gain + n_ * low;
    best = std::max(best, constant_);
    const double back = give_back * std::max(constant_ - start_, 0.0);
    constant_ -= back;
    for (double& cost : leader_) cost += back / n_;
    return true;
}

// Move a part of what the pairs of (i, j) cost at least to its leader.
bool DualAscent::reduce(int i, int j) {
    const int m = n_ - 1;
    const double share = leader_[i * n_ + j] / m;
    double* to = costs_.data();
    for (int k = 0; k < n_; ++k) {
        if (k == i) continue;
        for (int l = 0; l < n_; ++l)
            if (l != j) *to++ = pair(i, j, k, l) + share;
    }
    if (small_.solve(costs_.data()) != Lap::optimal) return false;
    const double *u = small_.row_prices.data(), *v = small_.state.prices.data();
    double value = 0, low = 0;
    for (int a = 0; a < m; ++a) value += u[a] + v[a];
    for (int a = 0; a < m; ++a)
        for (int b = 0; b < m; ++b) {
            costs_[a * m + b] -= u[a] + v[b];
            low = std::min(low, costs_[a * m + b]);  // rounding
        }
    value += m * low;
    const double part = 0.2 + 0.7 * random_.uniform();
    const double taken = value > 0 ? part * value : value;  // so that no pair has a negative cost
    leader_[i * n_ + j] = taken;
    const double rest = (value - taken) / m - low;
    const double* from = costs_.data();
    for (int k = 0; k < n_; ++k) {
        if (k == i) continue;
        for (int l = 0; l < n_; ++l)
            if (l != j) pair(i, j, k, l) = pair(k, l, i, j) = *from++ + rest;
    }
    return true;
}

}  // namespace dcfw
