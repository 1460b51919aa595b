// Products over the observed entries of an alignment: row i of the result is the sum of e <e, x_i> over the
// words e that are observed for i.
#pragma once
#include <cstddef>
#include <cstdint>

namespace dcfw {

// Words and X have d numbers a row; the words of row i are indices[starts[i]], ..., indices[starts[i + 1] - 1].
// Return false, with `out` unfinished, where one of these is out of range.
bool observed_product(const double* words, std::size_t n_words, const std::int64_t* starts,
                      const std::int64_t* indices, std::size_t n_indices, const double* X, double* out,
                      std::size_t n, std::size_t d);
bool observed_product(const float* words, std::size_t n_words, const std::int64_t* starts,
                      const std::int64_t* indices, std::size_t n_indices, const float* X, float* out,
                      std::size_t n, std::size_t d);

}  // namespace dcfw
