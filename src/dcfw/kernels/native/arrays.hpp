// The arrays that cross the border to Python: C-contiguous, in the memory of the host.
#pragma once

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>

namespace dcfw {

using Matrix = nanobind::ndarray<const double, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
using OutMatrix = nanobind::ndarray<double, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
using Vector = nanobind::ndarray<const double, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using OutVector = nanobind::ndarray<double, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Indices = nanobind::ndarray<std::int64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using ConstIndices =
    nanobind::ndarray<const std::int64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

// A new NumPy array with these numbers; integers become int64.
template <class Number>
auto copied(const Number* from, std::size_t size) {
    using Kept = std::conditional_t<std::is_integral_v<Number>, std::int64_t, Number>;
    Kept* data = new Kept[size];
    std::copy_n(from, size, data);
    nanobind::capsule owner(data, [](void* p) noexcept { delete[] static_cast<Kept*>(p); });
    return nanobind::ndarray<nanobind::numpy, Kept, nanobind::ndim<1>>(data, {size}, owner);
}

}  // namespace dcfw
