// Products of matrices, all of them row by row.  An entry is summed in the order of its terms, so that the
// result does not depend on the processor, on threads or on how the work is divided.
#pragma once

namespace dcfw {

// out (n x m) = A (n x depth) B (depth x m), or out + A B where `add`.  With `rows`, row k of B is row rows[k]
// of what `B` points to: the product with a permuted matrix, without permuting it.
void multiply(const double* A, const double* B, const int* rows, double* out, int n, int depth, int m, bool add);

}  // namespace dcfw
