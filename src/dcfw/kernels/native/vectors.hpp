// Operations on arrays of numbers, for every vector width with the same results.
#pragma once
#include <cstddef>

namespace dcfw {

double dot(const double* x, const double* y, std::size_t size);
// out = x - y, where out may be x.
void subtract(const double* x, const double* y, double* out, std::size_t size);
// out = x - y; return <along, out>.
double subtract_along(const double* x, const double* y, const double* along, double* out, std::size_t size);
// to += factor * from
void add_scaled(double factor, const double* from, double* to, std::size_t size);
// sum_i M[i, p[i]] for an n x n matrix
double along(const double* M, const int* p, int n);

}  // namespace dcfw
