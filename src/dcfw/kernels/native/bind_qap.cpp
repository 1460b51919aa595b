// The Python classes Quadratic, FrankWolfe, ActiveSet and Batch of dcfw._kernels.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "active_set.hpp"
#include "arrays.hpp"
#include "frank_wolfe.hpp"
#include "guarded.hpp"
#include "quadratic.hpp"

namespace dcfw {
namespace {

int order(int n) {
    if (n < 1 || n > 1 << 15) throw nb::value_error("n must be from 1 to 32768");
    return n;
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
    check_shape(X, n, n);
    check_shape(grad, n, n);
    if (linear) check_shape(*linear, n, n);
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> lock(self.mutex);
    for (int column : self.it.vertex)  // there is none before the first assignment problem
        if (plan.started && column < 0) throw nb::value_error("there is no vertex to start with");
    return self.it.advance(f, linear ? linear->data() : nullptr, X.data(), grad.data(), plan);
}

// The common methods of FrankWolfe and ActiveSet.
template <class Solver>
nb::class_<Guarded<Solver>> solver(nb::module_& m, const char* name, const char* doc) {
    return nb::class_<Guarded<Solver>>(m, name, doc)
        .def("begin", locked<Solver>([](Solver& it) { it.begin(); }), "Count gains from here.")
        .def("advance", &advance<Solver>, "f"_a, "X"_a.noconvert(), "grad"_a.noconvert(), "linear"_a.noconvert().none(),
             "plan"_a, "Take steps, writing to X and grad; return what was done.")
        .def_prop_ro("gap", locked<Solver>([](Solver& it) { return it.gap; }))
        .def_prop_ro("gained", locked<Solver>([](Solver& it) { return it.gained; }))
        .def_prop_ro("bound", locked<Solver>([](Solver& it) { return it.bound; }))
        .def_prop_ro("vertex", locked<Solver>([](Solver& it) { return copied(it.vertex); }),
                     nb::rv_policy::move, "The columns of the last vertex.");
}

void bind_records(nb::module_& m) {
    nb::class_<Plan>(m, "Plan", "Where the steps of a batch begin and where they end.")
        .def("__init__",
             [](Plan* self, long steps, double threshold, bool progress, double shortest, bool convex, bool started,
                bool measured) {
                 new (self) Plan{threshold, progress, shortest, convex, started, measured, steps};
             },
             nb::kw_only(), "steps"_a, "threshold"_a = -1.0, "progress"_a = false, "shortest"_a = 0.0,
             "convex"_a = true, "started"_a = false, "measured"_a = true);
    nb::class_<Batch>(m, "Batch", "The outcome of a batch of steps.")
        .def_prop_ro("reason", [](const Batch& b) { return int(b.reason); })
        .def_ro("steps", &Batch::steps)
        .def_ro("solved", &Batch::solved)
        .def_ro("gradients", &Batch::gradients)
        .def_ro("moved", &Batch::moved)
        .def_ro("curvature", &Batch::curvature)
        .def_prop_ro("gaps", [](const Batch& b) { return copied(b.gaps); }, nb::rv_policy::move)
        .def_prop_ro("gains", [](const Batch& b) { return copied(b.gains); }, nb::rv_policy::move);
}

}  // namespace

void bind_qap(nb::module_& m) {
    bind_records(m);
    nb::class_<Quadratic>(m, "Quadratic", "A quadratic function of an n x n matrix; the matrices are copied.")
        .def("__init__", [](Quadratic* self, int n, double weight) { new (self) Quadratic(order(n), weight); }, "n"_a,
             "weight"_a)
        .def("add_pair", [](Quadratic& f, const Matrix& P, const Matrix& Q) {
            f.pairs.emplace_back(f.n, numbers(P, f.n, f.n), numbers(Q, f.n, f.n));
            f.changed();
        }, "P"_a, "Q"_a)
        .def("add_thin", &add_thin, "U"_a, "V"_a, "R"_a)
        .def("set_left", &set<&Quadratic::left>, "M"_a)
        .def("set_right", &set<&Quadratic::right>, "M"_a)
        .def("set_linear", &set<&Quadratic::C>, "M"_a)
        .def("gradient", [](const Quadratic& f, const Matrix& X, OutMatrix out) {
            check_shape(X, f.n, f.n);
            check_shape(out, f.n, f.n);
            nb::gil_scoped_release release;
            f.gradient(X.data(), out.data());
        }, "X"_a, "out"_a.noconvert(), "Write the gradient at X.")
        .def("at_vertex", [](const Quadratic& f, const ConstIndices& p, OutMatrix out) {
            check_shape(out, f.n, f.n);
            const std::vector<int> columns = checked_permutation(p, f.n);
            nb::gil_scoped_release release;
            f.at_vertex(columns.data(), out.data());
        }, "p"_a, "out"_a.noconvert(), "Write the gradient at the permutation matrix of p.");

    solver<FrankWolfe>(m, "FrankWolfe", "Frank-Wolfe over the Birkhoff polytope.")
        .def("__init__", [](Guarded<FrankWolfe>* self, int n) { new (self) Guarded<FrankWolfe>(order(n)); }, "n"_a);

    solver<ActiveSet>(m, "ActiveSet", "Blended pairwise Frank-Wolfe over the Birkhoff polytope.")
        .def("__init__", [](Guarded<ActiveSet>* self, int n, int cap) {
            if (cap < 4 || cap > (1 << 20)) throw nb::value_error("cap must be from 4 to 2^20");
            new (self) Guarded<ActiveSet>(order(n), cap);
        }, "n"_a, "cap"_a)
        .def("restart", [](Guarded<ActiveSet>& self, const Quadratic& f, const Matrix& X, const Matrix& grad,
                           bool forget) {
            const int n = self.it.n;
            if (f.n != n) throw nb::value_error("f is of another order");
            check_shape(X, n, n);
            check_shape(grad, n, n);
            std::lock_guard<std::mutex> lock(self.mutex);
            self.it.restart(f, X.data(), grad.data(), forget);
        }, "f"_a, "X"_a, "grad"_a, "forget"_a,
             "Make X the only atom with weight; forget the others unless they are of the same f.")
        .def("normalise", [](Guarded<ActiveSet>& self, OutMatrix X) {
            check_shape(X, self.it.n, self.it.n);
            std::lock_guard<std::mutex> lock(self.mutex);
            self.it.normalise(X.data());
        }, "X"_a.noconvert(), "Scale the weights to the sum 1 and write their point.")
        .def_prop_ro("atoms", locked<ActiveSet>([](ActiveSet& it) {
            std::vector<nb::tuple> rows;
            for (int j = 0; j < it.atoms(); ++j) {
                const double* row = &it.gram[std::size_t(it.cap) * j];
                rows.push_back(nb::make_tuple(it.weights[j], copied(it.permutation(j), it.n), copied(it.images[j]),
                                              std::vector<double>(row, row + it.atoms()), it.offsets[j]));
            }
            return rows;
        }), "Weight, columns, gradient, row of the Gram matrix and offset of each atom; the first is dense.")
        .def_prop_ro("dense", locked<ActiveSet>([](ActiveSet& it) { return copied(it.dense); }), nb::rv_policy::move,
                     "The first atom.");
}

}  // namespace dcfw
