// The Python functions pairwise_steps and observed_product of dcfw._kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "gram.hpp"
#include "observed.hpp"

namespace nb = nanobind;

namespace dcfw {

namespace {

std::tuple<long, double, bool> steps(const Matrix& M, OutVector w, OutVector scores, int m, double aim, long limit,
                                     double slack) {
    const std::size_t size = M.shape(1);
    if (m < 0 || std::size_t(m) > std::min({M.shape(0), size, w.shape(0), scores.shape(0)}))
        throw nb::value_error("m must be at most the number of atoms");
    nb::gil_scoped_release release;
    const Weighing done = pairwise_steps(M.data(), size, w.data(), scores.data(), m, aim, limit, slack);
    return {done.steps, done.gained, done.convex};
}

template <class Number>
using Rows = nb::ndarray<const Number, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class Number>
using OutRows = nb::ndarray<Number, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Number>
void observed(const Rows<Number>& words, const ConstIndices& starts, const ConstIndices& indices,
              const Rows<Number>& X, OutRows<Number> out) {
    const std::size_t n = X.shape(0), d = X.shape(1);
    if (words.shape(1) != d || out.shape(0) != n || out.shape(1) != d || starts.shape(0) != n + 1)
        throw nb::value_error("the arrays have shapes that do not fit");
    nb::gil_scoped_release release;
    const bool inside = observed_product(words.data(), words.shape(0), starts.data(), indices.data(),
                                         indices.shape(0), X.data(), out.data(), n, d);
    if (!inside) throw nb::value_error("starts or indices are out of range");
}

}  // namespace

void bind_sums(nb::module_& m) {
    m.def("pairwise_steps", &steps, nb::arg("M").noconvert(), nb::arg("w").noconvert(),
          nb::arg("scores").noconvert(), nb::arg("m"), nb::arg("aim"), nb::arg("limit"), nb::arg("slack"),
          "Move weight between atoms; return the number of steps, what they gained, and whether M is convex.");
    m.def("observed_product", &observed<double>, nb::arg("words").noconvert(), nb::arg("starts").noconvert(),
          nb::arg("indices").noconvert(), nb::arg("X").noconvert(), nb::arg("out").noconvert(),
          "Write, in row i, the sum of e <e, x_i> over the words e of indices[starts[i]:starts[i + 1]].");
    m.def("observed_product", &observed<float>, nb::arg("words").noconvert(), nb::arg("starts").noconvert(),
          nb::arg("indices").noconvert(), nb::arg("X").noconvert(), nb::arg("out").noconvert());
}

}  // namespace dcfw
