// The gradients of quadratic.hpp.
#include "quadratic.hpp"

#include <algorithm>
#include <cstddef>

#include "product.hpp"
#include "vectors.hpp"

namespace dcfw {

void Quadratic::gradient(const double* X, double* out) const {
    const std::size_t size = std::size_t(n) * n;
    for (std::size_t k = 0; k < size; ++k) out[k] = weight * X[k];
    add_scaled(1.0, C.data(), out, C.size());
    Numbers first(pairs.empty() ? 0 : size), second;
    for (const Pair& pair : pairs) {
        multiply(X, pair.Q.data(), nullptr, first.data(), n, n, n, false);
        multiply(pair.P.data(), first.data(), nullptr, out, n, n, n, true);
    }
    for (const Thin& t : thin) {
        first.resize(std::max(first.size(), std::size_t(t.rank) * n));
        second.resize(std::size_t(t.rank) * n);
        multiply(t.V.data(), X, nullptr, first.data(), t.rank, n, n, false);
        multiply(first.data(), t.R.data(), nullptr, second.data(), t.rank, n, n, false);
        multiply(t.U.data(), second.data(), nullptr, out, n, t.rank, n, true);
    }
    if (!left.empty()) multiply(left.data(), X, nullptr, out, n, n, n, true);
    if (!right.empty()) multiply(X, right.data(), nullptr, out, n, n, n, true);
}

void Quadratic::at_vertex(const int* p, double* out) const {
    bool begun = false;
    Numbers product;
    for (const Pair& pair : pairs) {
        multiply(pair.P.data(), pair.Q.data(), p, out, n, n, n, begun);
        begun = true;
    }
    for (const Thin& t : thin) {
        product.resize(std::size_t(t.rank) * n);
        multiply(t.V.data(), t.R.data(), p, product.data(), t.rank, n, n, false);
        multiply(t.U.data(), product.data(), nullptr, out, n, t.rank, n, begun);
        begun = true;
    }
    if (!begun) std::fill_n(out, std::size_t(n) * n, 0.0);
    for (int i = 0; i < n; ++i) {
        double* row = out + std::size_t(n) * i;
        if (!right.empty())
            for (int j = 0; j < n; ++j) row[j] += right[std::size_t(n) * p[i] + j];
        if (!left.empty())
            for (int j = 0; j < n; ++j) row[p[j]] += left[std::size_t(n) * i + j];
        row[p[i]] += weight;
    }
    add_scaled(1.0, C.data(), out, C.size());
}

long Quadratic::cost() const {
    long rank = 0;
    for (const Thin& t : thin) rank += t.rank;
    return 3 * rank + long(n) * (2 * long(pairs.size()) + !left.empty() + !right.empty());
}

}  // namespace dcfw
