// The arrays that cross the border to Python: C-contiguous, in host memory.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dcfw {

namespace nb = nanobind;
using namespace nb::literals;

using Unlocked = nb::call_guard<nb::gil_scoped_release>;  // for functions that touch no Python object

template <class Number, int dimensions>
using Contiguous = nb::ndarray<Number, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
using Matrix = Contiguous<const double, 2>;
using OutMatrix = Contiguous<double, 2>;
using Vector = Contiguous<const double, 1>;
using OutVector = Contiguous<double, 1>;
using Indices = Contiguous<std::int64_t, 1>;
using ConstIndices = Contiguous<const std::int64_t, 1>;

// A new NumPy array with these numbers; integers become int64.
template <class Number>
auto copied(const Number* from, std::size_t size) {
    using Kept = std::conditional_t<std::is_integral_v<Number>, std::int64_t, Number>;
    Kept* data = new Kept[size];
    std::copy_n(from, size, data);
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<Kept*>(p); });
    return nb::ndarray<nb::numpy, Kept, nb::ndim<1>>(data, {size}, owner);
}
template <class Number>
auto copied(const std::vector<Number>& from) {
    return copied(from.data(), from.size());
}

// The numbers of a rows x columns matrix.
template <class Array>
void check_shape(const Array& M, std::size_t rows, std::size_t columns) {
    if (M.shape(0) != rows || M.shape(1) != columns) throw nb::value_error("a matrix has a wrong shape");
}
inline std::vector<double> numbers(const Matrix& M, std::size_t rows, std::size_t columns) {
    check_shape(M, rows, columns);
    return {M.data(), M.data() + M.size()};
}

}  // namespace dcfw
