// The Python class dcfw._kernels.DualAscent.
#include "arrays.hpp"
#include "dual_ascent.hpp"

namespace dcfw {

void bind_bounds(nb::module_& m) {
    nb::class_<DualAscent>(m, "DualAscent", "Rounds of a dual ascent for a quadratic assignment problem.")
        .def("__init__", [](DualAscent* self, const Matrix& A, const Matrix& B, const Matrix& C) {
            const std::size_t n = A.shape(0);
            if (n < 2 || n > 64) throw nb::value_error("n must be between 2 and 64");
            for (const Matrix* M : {&A, &B, &C})
                if (M->shape(0) != n || M->shape(1) != n) throw nb::value_error("the matrices must be square and of one size");
            nb::gil_scoped_release released;
            new (self) DualAscent(A.data(), B.data(), C.data(), static_cast<int>(n));
        }, "A"_a, "B"_a, "C"_a)
        .def("round", &DualAscent::round, Unlocked(), "give_back"_a, "Make one round; return False if an assignment problem failed.")
        .def_ro("best", &DualAscent::best)
        .def_ro("total", &DualAscent::total)
        .def_ro("rounds", &DualAscent::rounds);
}

}  // namespace dcfw
