// The Python classes Quadratic, FrankWolfe, ActiveSet and Batch of dcfw._kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "active_set.hpp"
#include "arrays.hpp"
#include "frank_wolfe.hpp"
#include "guarded.hpp"
#include "quadratic.hpp"

namespace nb = nanobind;

namespace dcfw {

namespace {

constexpr int largest_order = 1 << 15;

int order(int n) {
    if (n < 1 || n > largest_order) throw nb::value_error("n must be from 1 to 32768");
    return n;
}

template <class Array>
void check(const Array& M, int rows, int columns) {
    if (M.shape(0) != std::size_t(rows) || M.shape(1) != std::size_t(columns))
        throw nb::value_error("a matrix has a wrong shape");
}

std::vector<double> numbers(const Matrix& M, int rows, int columns) {
    check(M, rows, columns);
    return {M.data(), M.data() + M.size()};
}

void add_thin(Quadratic& f, const Matrix& U, const Matrix& V, const Matrix& R) {
    if (U.shape(1) > std::size_t(f.n)) throw nb::value_error("a thin matrix has more columns than rows");
    const int rank = int(U.shape(1));
    f.thin.push_back({rank, numbers(U, f.n, rank), numbers(V, rank, f.n), numbers(R, f.n, f.n)});
    f.changed();
}

template <Quadratic::Numbers Quadratic::* member>
void set(Quadratic& f, const Matrix& M) {
    f.*member = numbers(M, f.n, f.n);
    f.changed();
}

std::vector<int> checked_permutation(const ConstIndices& p, int n) {
    std::vector<int> columns(n);
    if (p.shape(0) != std::size_t(n)) throw nb::value_error("the permutation has a wrong size");
    for (int i = 0; i < n; ++i) {
        if (p(i) < 0 || p(i) >= n) throw nb::value_error("the permutation has an entry that is no column");
        columns[i] = int(p(i));
    }
    return columns;
}

template <class Solver>
Batch advance(Guarded<Solver>& self, const Quadratic& f, OutMatrix X, OutMatrix grad, std::optional<Matrix> linear,
              const Plan& plan) {
    const int n = self.it.n;
    if (f.n != n) throw nb::value_error("f is of another order");
    if (plan.steps < 0) throw nb::value_error("steps must be at least 0");
    check(X, n, n);
    check(grad, n, n);
    if (linear) check(*linear, n, n);
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> lock(self.mutex);
    for (int column : self.it.vertex)  // no vertex is known before the first assignment problem
        if (plan.started && column < 0) throw nb::value_error("there is no vertex to start with");
    return self.it.advance(f, linear ? linear->data() : nullptr, X.data(), grad.data(), plan);
}

// What FrankWolfe and ActiveSet have in common.
template <class Solver>
nb::class_<Guarded<Solver>> solver(nb::module_& m, const char* name, const char* doc) {
    return nb::class_<Guarded<Solver>>(m, name, doc)
        .def("begin", locked<Solver>([](Solver& it) { it.begin(); }), "Count gains from here.")
        .def("advance", &advance<Solver>, nb::arg("f"), nb::arg("X").noconvert(), nb::arg("grad").noconvert(),
             nb::arg("linear").noconvert().none(), nb::arg("plan"),
             "Take steps, writing to X and grad; return what was done.")
        .def_prop_ro("gap", locked<Solver>([](Solver& it) { return it.gap; }))
        .def_prop_ro("gained", locked<Solver>([](Solver& it) { return it.gained; }))
        .def_prop_ro("bound", locked<Solver>([](Solver& it) { return it.bound; }))
        .def_prop_ro("vertex", locked<Solver>([](Solver& it) { return copied(it.vertex.data(), it.n); }),
                     nb::rv_policy::move, "The columns of the last vertex.");
}

void bind_records(nb::module_& m) {
    nb::class_<Plan>(m, "Plan", "Where the steps of a batch begin and where they end.")
        .def("__init__",
             [](Plan* self, long steps, double threshold, bool progress, double shortest, bool convex, bool started,
                bool measured) {
                 new (self) Plan{threshold, progress, shortest, convex, started, measured, steps};
             },
             nb::kw_only(), nb::arg("steps"), nb::arg("threshold") = -1.0, nb::arg("progress") = false,
             nb::arg("shortest") = 0.0, nb::arg("convex") = true, nb::arg("started") = false,
             nb::arg("measured") = true);
    nb::class_<Batch>(m, "Batch", "What a batch of steps did.")
        .def_prop_ro("reason", [](const Batch& b) { return int(b.reason); })
        .def_ro("steps", &Batch::steps)
        .def_ro("solved", &Batch::solved)
        .def_ro("gradients", &Batch::gradients)
        .def_ro("moved", &Batch::moved)
        .def_ro("curvature", &Batch::curvature)
        .def_prop_ro("gaps", [](const Batch& b) { return copied(b.gaps.data(), b.gaps.size()); },
                     nb::rv_policy::move)
        .def_prop_ro("gains", [](const Batch& b) { return copied(b.gains.data(), b.gains.size()); },
                     nb::rv_policy::move);
}

}  // namespace

void bind_qap(nb::module_& m) {
    bind_records(m);
    nb::class_<Quadratic>(m, "Quadratic", "A quadratic function of an n x n matrix; the matrices are copied.")
        .def("__init__", [](Quadratic* self, int n, double weight) { new (self) Quadratic(order(n), weight); },
             nb::arg("n"), nb::arg("weight"))
        .def("add_pair", [](Quadratic& f, const Matrix& P, const Matrix& Q) {
            f.pairs.push_back({numbers(P, f.n, f.n), numbers(Q, f.n, f.n)});
            f.changed();
        }, nb::arg("P"), nb::arg("Q"))
        .def("add_thin", &add_thin, nb::arg("U"), nb::arg("V"), nb::arg("R"))
        .def("set_left", &set<&Quadratic::left>, nb::arg("M"))
        .def("set_right", &set<&Quadratic::right>, nb::arg("M"))
        .def("set_linear", &set<&Quadratic::C>, nb::arg("M"))
        .def("gradient", [](const Quadratic& f, const Matrix& X, OutMatrix out) {
            check(X, f.n, f.n);
            check(out, f.n, f.n);
            nb::gil_scoped_release release;
            f.gradient(X.data(), out.data());
        }, nb::arg("X"), nb::arg("out").noconvert(), "Write the gradient at X.")
        .def("at_vertex", [](const Quadratic& f, const ConstIndices& p, OutMatrix out) {
            check(out, f.n, f.n);
            const std::vector<int> columns = checked_permutation(p, f.n);
            nb::gil_scoped_release release;
            f.at_vertex(columns.data(), out.data());
        }, nb::arg("p"), nb::arg("out").noconvert(), "Write the gradient at the permutation matrix of p.");

    solver<FrankWolfe>(m, "FrankWolfe", "Frank-Wolfe over the Birkhoff polytope.")
        .def("__init__", [](Guarded<FrankWolfe>* self, int n) { new (self) Guarded<FrankWolfe>(order(n)); },
             nb::arg("n"));

    solver<ActiveSet>(m, "ActiveSet", "Blended pairwise Frank-Wolfe over the Birkhoff polytope.")
        .def("__init__", [](Guarded<ActiveSet>* self, int n, int cap) {
            if (cap < 4 || cap > (1 << 20)) throw nb::value_error("cap must be from 4 to 2^20");
            new (self) Guarded<ActiveSet>(order(n), cap);
        }, nb::arg("n"), nb::arg("cap"))
        .def("restart", [](Guarded<ActiveSet>& self, const Quadratic& f, const Matrix& X, const Matrix& grad,
                           bool forget) {
            const int n = self.it.n;
            if (f.n != n) throw nb::value_error("f is of another order");
            check(X, n, n);
            check(grad, n, n);
            std::lock_guard<std::mutex> lock(self.mutex);
            self.it.restart(f, X.data(), grad.data(), forget);
        }, nb::arg("f"), nb::arg("X"), nb::arg("grad"), nb::arg("forget"),
             "Make X the only atom with weight; forget the others unless they are of the same f.")
        .def("normalise", [](Guarded<ActiveSet>& self, OutMatrix X) {
            check(X, self.it.n, self.it.n);
            std::lock_guard<std::mutex> lock(self.mutex);
            self.it.normalise(X.data());
        }, nb::arg("X").noconvert(), "Scale the weights to the sum 1 and write their point.")
        .def_prop_ro("atoms", locked<ActiveSet>([](ActiveSet& it) {
            std::vector<nb::tuple> rows;
            for (int j = 0; j < it.atoms(); ++j) {
                std::vector<double> gram(&it.gram[std::size_t(it.cap) * j],
                                         &it.gram[std::size_t(it.cap) * j] + it.atoms());
                rows.push_back(nb::make_tuple(it.weights[j], copied(it.permutation(j), it.n),
                                              copied(it.images[j].data(), it.images[j].size()), gram,
                                              it.offsets[j]));
            }
            return rows;
        }), "Weight, columns, gradient, row of the Gram matrix and offset of each atom; the first is dense.")
        .def_prop_ro("dense", locked<ActiveSet>([](ActiveSet& it) {
            return copied(it.dense.data(), it.dense.size());
        }), nb::rv_policy::move, "The first atom.");
}

}  // namespace dcfw
