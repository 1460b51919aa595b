#include "vectors.hpp"

#include "clones.hpp"
#include "rows.hpp"

namespace dcfw {

DCFW_CLONES double dot(const double* x, const double* y, std::size_t size) {
    return sum(size, [=](std::size_t k) { return x[k] * y[k]; });
}

DCFW_CLONES void subtract(const double* x, const double* y, double* out, std::size_t size) {
#pragma omp simd
    for (std::size_t k = 0; k < size; ++k) out[k] = x[k] - y[k];
}

DCFW_CLONES double subtract_along(const double* x, const double* y, const double* along, double* out,
                                  std::size_t size) {
    return sum(size, [=](std::size_t k) { return along[k] * (out[k] = x[k] - y[k]); });
}

DCFW_CLONES void add_scaled(double factor, const double* from, double* to, std::size_t size) {
#pragma omp simd
    for (std::size_t k = 0; k < size; ++k) to[k] += factor * from[k];
}

DCFW_CLONES double along(const double* M, const int* p, int n) {
    return sum(n, [=](std::size_t i) { return M[n * i + p[i]]; });
}

}  // namespace dcfw
