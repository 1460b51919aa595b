#include "quadratic.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "product.hpp"
#include "vectors.hpp"

namespace dcfw {
namespace {

// out += P M, where row k of M is row rows[k] of what `M` points to.
void add_product(const Quadratic::Pair& pair, const double* M, const int* rows, double* out, int n) {
    if (pair.few.are_few())
        pair.few.add_product(M, rows, out, n);
    else
        multiply(pair.P.data(), M, rows, out, n, n, n, true);
}

}  // namespace

void Quadratic::gradient(const double* X, double* out) const {
    const std::size_t size = std::size_t(n) * n;
    for (std::size_t k = 0; k < size; ++k) out[k] = weight * X[k];
    add_scaled(1.0, C.data(), out, C.size());
    Numbers first(pairs.empty() ? 0 : size), second;
    for (const Pair& pair : pairs) {
        multiply(X, pair.Q.data(), nullptr, first.data(), n, n, n, false);
        add_product(pair, first.data(), nullptr, out, n);
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
    Numbers product;
    std::fill_n(out, std::size_t(n) * n, 0.0);
    for (const Pair& pair : pairs) add_product(pair, pair.Q.data(), p, out, n);
    for (const Thin& t : thin) {
        product.resize(std::size_t(t.rank) * n);
        multiply(t.V.data(), t.R.data(), p, product.data(), t.rank, n, n, false);
        multiply(t.U.data(), product.data(), nullptr, out, n, t.rank, n, true);
    }
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

void Quadratic::follow(const int* from, const int* to, double* gradient) const {
    std::vector<int> rows;
    for (int i = 0; i < n; ++i)
        if (from[i] != to[i]) rows.push_back(i);
    const int count = int(rows.size());
    Numbers columns(std::size_t(n) * count), change(columns.size()), product;
    // The columns of M that belong to these rows of X, and how the rows of M X change with the rows of N.
    const auto gather = [&](const Numbers& M, int height, const Numbers& N) {
        for (int r = 0; r < height; ++r)
            for (int k = 0; k < count; ++k) columns[std::size_t(count) * r + k] = M[std::size_t(n) * r + rows[k]];
        for (int k = 0; k < count; ++k)
            subtract(&N[std::size_t(n) * to[rows[k]]], &N[std::size_t(n) * from[rows[k]]],
                     &change[std::size_t(n) * k], n);
    };
    for (const Pair& pair : pairs) {
        gather(pair.P, n, pair.Q);
        multiply(columns.data(), change.data(), nullptr, gradient, n, count, n, true);
    }
    for (const Thin& t : thin) {
        gather(t.V, t.rank, t.R);
        product.resize(std::size_t(t.rank) * n);
        multiply(columns.data(), change.data(), nullptr, product.data(), t.rank, count, n, false);
        multiply(t.U.data(), product.data(), nullptr, gradient, n, t.rank, n, true);
    }
    for (int i : rows) {
        double* row = gradient + std::size_t(n) * i;
        if (!right.empty())
            for (int j = 0; j < n; ++j) row[j] += right[std::size_t(n) * to[i] + j] - right[std::size_t(n) * from[i] + j];
        row[to[i]] += weight;
        row[from[i]] -= weight;
    }
    if (!left.empty())
        for (int r = 0; r < n; ++r)
            for (int i : rows) {
                gradient[std::size_t(n) * r + to[i]] += left[std::size_t(n) * r + i];
                gradient[std::size_t(n) * r + from[i]] -= left[std::size_t(n) * r + i];
            }
}

bool Quadratic::follows(int rows) const {
    const long square = long(n) * n;
    long whole = square * long(thin.size());
    for (const Pair& pair : pairs) whole += pair.few.are_few() ? pair.few.size() : square;
    return 3 * long(rows) * n * long(pairs.size() + thin.size()) <= 2 * whole;
}

void Quadratic::changed() {
    static std::atomic<std::uint64_t> last{0};
    id_ = ++last;
}

long Quadratic::cost() const {
    long rank = 0;
    for (const Thin& t : thin) rank += t.rank;
    return 3 * rank + long(n) * (2 * long(pairs.size()) + !left.empty() + !right.empty());
}

}  // namespace dcfw
