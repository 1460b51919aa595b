// Products of matrices, all of them row by row.  An entry is summed in the order of its terms, so that the
// result does not depend on the processor, on threads or on how the work is divided.
#pragma once
#include <vector>

namespace dcfw {

// out (n x m) = A (n x depth) B (depth x m), or out + A B where `add`.  With `rows`, row k of B is row rows[k]
// of what `B` points to: the product with a permuted matrix, without permuting it.
void multiply(const double* A, const double* B, const int* rows, double* out, int n, int depth, int m, bool add);

// The nonzero entries of a square matrix, row by row, if these are so few that they are better taken one by one.
class FewEntries {
  public:
    FewEntries(const double* A, int n);
    bool are_few() const { return !begin_.empty(); }
    long size() const { return long(entry_.size()); }
    // out (n x n) += A B, with `rows` as for `multiply`, which has the same result (but for the sign of a zero).
    void add_product(const double* B, const int* rows, double* out, int n) const;

  private:
    std::vector<int> begin_, column_;  // empty: not few
    std::vector<double> entry_;
};

}  // namespace dcfw
