// The Python functions pairwise_steps and observed_product of dcfw._kernels.
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "gram.hpp"
#include "observed.hpp"

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
void observed(const Contiguous<const Number, 2>& words, const ConstIndices& starts, const ConstIndices& indices,
              const Contiguous<const Number, 2>& X, Contiguous<Number, 2> out) {
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
    m.def("pairwise_steps", &steps, "M"_a.noconvert(), "w"_a.noconvert(), "scores"_a.noconvert(), "m"_a, "aim"_a,
          "limit"_a, "slack"_a,
          "Move weight between atoms; return the number of steps, what they gained, and whether M is convex.");
    const auto bind_product = [&m](auto product, const char* doc) {
        m.def("observed_product", product, "words"_a.noconvert(), "starts"_a.noconvert(), "indices"_a.noconvert(),
              "X"_a.noconvert(), "out"_a.noconvert(), doc);
    };
    bind_product(&observed<double>,
                 "Write, in row i, the sum of e <e, x_i> over the words e of indices[starts[i]:starts[i + 1]].");
    bind_product(&observed<float>, "The same in single precision.");
}

}  // namespace dcfw
