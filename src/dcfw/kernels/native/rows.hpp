// Minima and sums over a row of numbers, with the same result for every vector width.  `omp simd` speaks to
// the compiler's vectoriser only (-fopenmp-simd): there are no threads and there is no run-time library.
#pragma once
#include <cmath>
#include <cstddef>
#include <limits>

namespace dcfw {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The least of value(0), ..., value(width - 1), or +Inf.  A NaN is skipped.  Where the compiler does not know the
// width, eight minima are kept side by side: one alone would wait for itself in every step.
template <class Value>
[[gnu::always_inline]] inline double least(int width, Value value) {
    constexpr int lanes = 8;
    double low = infinity;
    const int whole = __builtin_constant_p(width) ? 0 : width / lanes * lanes;
    if (whole > 0) {
        double lows[lanes];
        for (int k = 0; k < lanes; ++k) lows[k] = infinity;
        for (int j = 0; j < whole; j += lanes)
#pragma omp simd
            for (int k = 0; k < lanes; ++k) {
                const double x = value(j + k);
                lows[k] = x < lows[k] ? x : lows[k];
            }
        for (int half = lanes / 2; half > 0; half /= 2)
            for (int k = 0; k < half; ++k) lows[k] = lows[k + half] < lows[k] ? lows[k + half] : lows[k];
        low = lows[0];
    }
#pragma omp simd reduction(min : low)
    for (int j = whole; j < width; ++j) {
        const double x = value(j);
        low = x < low ? x : low;
    }
    return low;
}

// The sum of value(0), ..., value(size - 1), always in the same sixteen lanes.
template <class Number = double, class Value>
[[gnu::always_inline]] inline Number sum(std::size_t size, Value value) {
    constexpr int lanes = 16;
    Number total[lanes] = {};
    const std::size_t whole = size / lanes * lanes;
    for (std::size_t j = 0; j < whole; j += lanes)
#pragma omp simd
        for (int k = 0; k < lanes; ++k) total[k] += value(j + k);
    for (std::size_t j = whole; j < size; ++j) total[j - whole] += value(j);
    for (int half = lanes / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) total[k] += total[k + half];
    return total[0];
}

}  // namespace dcfw
