#include "observed.hpp"

#include <algorithm>

#include "clones.hpp"
#include "rows.hpp"

namespace dcfw {
namespace {

template <class Number>
[[gnu::always_inline]] inline bool product(const Number* words, std::size_t n_words, const std::int64_t* starts,
                                           const std::int64_t* indices, std::size_t n_indices, const Number* X,
                                           Number* out, std::size_t n, std::size_t d) {
    std::fill_n(out, n * d, Number(0));
    for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t start = starts[i], end = starts[i + 1];
        if (start < 0 || end > std::int64_t(n_indices)) return false;
        const Number* x = X + d * i;
        Number* total = out + d * i;
        for (std::int64_t at = start; at < end; ++at) {
            const std::int64_t index = indices[at];
            if (index < 0 || index >= std::int64_t(n_words)) return false;
            const Number* e = words + d * std::size_t(index);
            const Number along = sum<Number>(d, [=](std::size_t k) { return e[k] * x[k]; });
#pragma omp simd
            for (std::size_t k = 0; k < d; ++k) total[k] += along * e[k];
        }
    }
    return true;
}

}  // namespace

DCFW_CLONES bool observed_product(const double* words, std::size_t n_words, const std::int64_t* starts,
                                  const std::int64_t* indices, std::size_t n_indices, const double* X, double* out,
                                  std::size_t n, std::size_t d) {
    return product(words, n_words, starts, indices, n_indices, X, out, n, d);
}

DCFW_CLONES bool observed_product(const float* words, std::size_t n_words, const std::int64_t* starts,
                                  const std::int64_t* indices, std::size_t n_indices, const float* X, float* out,
                                  std::size_t n, std::size_t d) {
    return product(words, n_words, starts, indices, n_indices, X, out, n, d);
}

}  // namespace dcfw
