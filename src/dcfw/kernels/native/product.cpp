// Products of matrices in tiles of 4 x 8 sums that stay in registers.
#include "product.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "clones.hpp"
#include "vectors.hpp"

namespace dcfw {
namespace {

constexpr int tile_rows = 4, tile_columns = 8;
constexpr std::size_t few = 8;  // at most one entry of so many: a tile does about as many at once
constexpr int block = 256;  // terms of a sum before the next part of B is fetched: 16 kB stay in the cache

// out (Rows x width) += A B for a panel of B: its columns, padded to tile_columns, one row after the other.
// Whole: width is tile_columns.
template <int Rows, bool Whole>
[[gnu::always_inline]] inline void tile(const double* A, int stride, const double* panel, int depth, double* out,
                                        int m, int rest) {
    const int width = Whole ? tile_columns : rest;
    double total[Rows][tile_columns] = {};
    for (int r = 0; r < Rows; ++r)
        for (int c = 0; c < width; ++c) total[r][c] = out[std::size_t(m) * r + c];
    for (int k = 0; k < depth; ++k)
        for (int r = 0; r < Rows; ++r) {
            const double a = A[std::size_t(stride) * r + k];
#pragma omp simd
            for (int c = 0; c < tile_columns; ++c) total[r][c] += a * panel[k * tile_columns + c];
        }
    for (int r = 0; r < Rows; ++r)
        for (int c = 0; c < width; ++c) out[std::size_t(m) * r + c] = total[r][c];
}

template <bool Whole>
[[gnu::always_inline]] inline void tiles(const double* A, int stride, const double* panel, int depth, double* out,
                                         int n, int m, int width) {
    int i = 0;
    const auto next = [&](auto rows) {
        constexpr int count = decltype(rows)::value;
        for (; i + count <= n; i += count)
            tile<count, Whole>(A + std::size_t(stride) * i, stride, panel, depth, out + std::size_t(m) * i, m, width);
    };
    next(std::integral_constant<int, tile_rows>());
    next(std::integral_constant<int, 2>());
    next(std::integral_constant<int, 1>());
}

DCFW_CLONES void add_panel(const double* A, int stride, const double* panel, int depth, double* out, int n, int m,
                           int width) {
    if (width == tile_columns)
        tiles<true>(A, stride, panel, depth, out, n, m, width);
    else
        tiles<false>(A, stride, panel, depth, out, n, m, width);
}

}  // namespace

void multiply(const double* A, const double* B, const int* rows, double* out, int n, int depth, int m, bool add) {
    double panel[block * tile_columns];
    if (!add) std::fill_n(out, std::size_t(n) * m, 0.0);
    for (int j = 0; j < m; j += tile_columns) {
        const int width = std::min(tile_columns, m - j);
        for (int start = 0; start < depth; start += block) {
            const int length = std::min(block, depth - start);
            for (int k = 0; k < length; ++k) {
                const double* row = B + std::size_t(m) * (rows ? rows[start + k] : start + k) + j;
                for (int c = 0; c < tile_columns; ++c) panel[k * tile_columns + c] = c < width ? row[c] : 0.0;
            }
            add_panel(A + start, depth, panel, length, out + j, n, m, width);
        }
    }
}

FewEntries::FewEntries(const double* A, int n) {
    const std::size_t size = std::size_t(n) * n;
    if (few * (size - std::count(A, A + size, 0.0)) > size) return;
    begin_.assign(1, 0);
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < n; ++k)
            if (A[std::size_t(n) * i + k] != 0.0) {
                column_.push_back(k);
                entry_.push_back(A[std::size_t(n) * i + k]);
            }
        begin_.push_back(int(column_.size()));
    }
}

void FewEntries::add_product(const double* B, const int* rows, double* out, int n) const {
    for (int i = 0; i < n; ++i)
        for (int e = begin_[i]; e < begin_[i + 1]; ++e)
            add_scaled(entry_[e], B + std::size_t(n) * (rows ? rows[column_[e]] : column_[e]),
                       out + std::size_t(n) * i, n);
}

}  // namespace dcfw
