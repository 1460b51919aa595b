// Python classes of the swap searches, one of each for int32 and for float64 data.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>

#include "annealing.hpp"
#include "breakout_search.hpp"
#include "descents.hpp"
#include "tabu_search.hpp"
#include "tree_search.hpp"

namespace nb = nanobind;

namespace dcfw {
namespace swaps {
namespace {

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Check that the entries are a permutation of 0, ..., n - 1 (distinct ones among them, if fewer are given).
std::vector<int> distinct(const Indices& given, int n) {
    std::vector<int> out(given.shape(0));
    std::vector<bool> seen(n, false);
    for (std::size_t k = 0; k < given.shape(0); ++k) {
        const std::int64_t i = given.data()[k];
        if (i < 0 || i >= n || seen[i]) throw nb::value_error("the entries must be distinct integers from 0 to n - 1");
        seen[i] = true;
        out[k] = static_cast<int>(i);
    }
    return out;
}
std::vector<int> permutation(const Indices& given, int n) {
    if (given.shape(0) != static_cast<std::size_t>(n)) throw nb::value_error("the permutation must have n entries");
    return distinct(given, n);
}
nb::object numpy_array(const std::vector<int>& p) {
    auto* copy = new std::int64_t[p.size() + 1];
    std::copy(p.begin(), p.end(), copy);
    nb::capsule owner(copy, [](void* memory) noexcept { delete[] static_cast<std::int64_t*>(memory); });
    return nb::cast(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(copy, {p.size()}, owner));
}

template <class T>
void make_problem(AssignmentProblem<T>* self, Matrix<T> A, Matrix<T> B, nb::object C, T tolerance) {
    const std::size_t n = A.shape(0);
    if (n > 30000) throw nb::value_error("swap searches are for at most 30000 items");
    const T* linear = nullptr;
    Matrix<T> matrix;
    if (!C.is_none()) {
        matrix = nb::cast<Matrix<T>>(C);
        linear = matrix.data();
    }
    for (const Matrix<T>* M : {&A, &B, C.is_none() ? &A : &matrix})
        if (M->shape(0) != n || M->shape(1) != n) throw nb::value_error("A, B and C must be square and of one size");
    nb::gil_scoped_release released;
    new (self) AssignmentProblem<T>(A.data(), B.data(), linear, static_cast<int>(n), tolerance);
}

template <class T>
struct Descent {
    SwapDeltas<T> state;
    Descent(const AssignmentProblem<T>& problem, const std::vector<int>& p, int fixed) : state(problem, fixed) { state.set(p); }
};

template <class Search, class T, class... Options>
auto maker() {
    return [](Search* self, const AssignmentProblem<T>& problem, Indices p, Options... options) {
        auto start = permutation(p, problem.n);
        nb::gil_scoped_release released;
        new (self) Search(problem, start, options...);
    };
}

template <class Search, class T, class Class>
void bind_search(Class& c) {
    using Value = typename AssignmentProblem<T>::Value;
    c.def("run", [](Search& s, std::int64_t count, Value target) {
         nb::gil_scoped_release released;
         s.run(count, target);
     }, nb::arg("count"), nb::arg("target"), "Make up to `count` steps, or until the best value is `target` or lower.")
        .def("restart", [](Search& s, Indices p) {
            auto start = permutation(p, s.state.problem.n);
            nb::gil_scoped_release released;
            s.restart(start);
        })
        .def_prop_ro("best_p", [](const Search& s) { return numpy_array(s.best_p); })
        .def_prop_ro("p", [](const Search& s) { return numpy_array(s.state.p); })
        .def_prop_ro("value", [](const Search& s) { return s.state.value; })
        .def_ro("best", &Search::best)
        .def_ro("steps", &Search::steps)
        .def_ro("last_improved", &Search::last_improved);
}

template <class T>
void bind(nb::module_& m, const std::string& kind) {
    using Problem = AssignmentProblem<T>;
    nb::class_<Problem>(m, ("AssignmentProblem_" + kind).c_str())
        .def("__init__", &make_problem<T>, nb::arg("A"), nb::arg("B"), nb::arg("C").none(), nb::arg("tolerance"))
        .def("has_forest", [](const Problem& problem) { return TreeSearch::forest(problem) > 0; })
        .def("value", [](const Problem& problem, Indices p) { return problem.value(permutation(p, problem.n)); });

    using Tabu = TabuSearch<T>;
    auto tabu = nb::class_<Tabu>(m, ("TabuSearch_" + kind).c_str());
    tabu.def("__init__", maker<Tabu, T, std::uint64_t, bool, int>(), nb::keep_alive<1, 2>(), nb::arg("problem"),
             nb::arg("p"), nb::arg("seed"), nb::arg("skewed"), nb::arg("fixed"));
    bind_search<Tabu, T>(tabu);

    using Breakout = BreakoutSearch<T>;
    auto breakout = nb::class_<Breakout>(m, ("BreakoutSearch_" + kind).c_str());
    breakout.def("__init__", maker<Breakout, T, std::uint64_t>(), nb::keep_alive<1, 2>(), nb::arg("problem"),
                 nb::arg("p"), nb::arg("seed"));
    bind_search<Breakout, T>(breakout);

    using Anneal = Annealing<T>;
    nb::class_<Anneal>(m, ("Annealing_" + kind).c_str())
        .def("__init__", maker<Anneal, T, std::uint64_t>(), nb::keep_alive<1, 2>(), nb::arg("problem"), nb::arg("p"),
             nb::arg("seed"))
        .def("run", [](Anneal& s, std::int64_t count, double hot, double cold, int sweeps) {
            nb::gil_scoped_release released;
            run_annealing(s, count, hot, cold, sweeps);
        }, nb::arg("count"), nb::arg("hot"), nb::arg("cold"), nb::arg("sweeps"))
        .def("restart", [](Anneal& s, Indices p) { s.restart(permutation(p, s.problem.n)); })
        .def("mean_delta", &Anneal::mean_delta, nb::arg("samples"))
        .def_prop_ro("best_p", [](const Anneal& s) { return numpy_array(s.best_p); })
        .def_prop_ro("p", [](const Anneal& s) { return numpy_array(s.p); })
        .def_ro("value", &Anneal::value)
        .def_ro("best", &Anneal::best)
        .def_ro("mean", &Anneal::mean)
        .def_ro("trials", &Anneal::trials)
        .def_ro("idle", &Anneal::idle);

    using Down = Descent<T>;
    nb::class_<Down>(m, ("Descent_" + kind).c_str())
        .def("__init__", maker<Down, T, int>(), nb::keep_alive<1, 2>(), nb::arg("problem"), nb::arg("p"), nb::arg("fixed"))
        .def("run", [](Down& s, std::int64_t count) {
            nb::gil_scoped_release released;
            return descend_by_best(s.state, count);
        }, nb::arg("count"), "Make at most `count` best swaps and return their number.")
        .def_prop_ro("p", [](const Down& s) { return numpy_array(s.state.p); })
        .def_prop_ro("value", [](const Down& s) { return s.state.value; });

    using First = FirstDescent<T>;
    nb::class_<First>(m, ("FirstDescent_" + kind).c_str())
        .def("__init__", [](First* self, const Problem& problem, Indices p, Indices order, int fixed) {
            new (self) First(problem, permutation(p, problem.n), distinct(order, problem.n), fixed);
        }, nb::keep_alive<1, 2>(), nb::arg("problem"), nb::arg("p"), nb::arg("order"), nb::arg("fixed"))
        .def("run", [](First& s, std::int64_t count, bool cyclic) {
            nb::gil_scoped_release released;
            return s.run(count, cyclic);
        }, nb::arg("count"), nb::arg("cyclic"), "Make at most `count` swaps and return their number.")
        .def_ro("looked", &First::looked)
        .def_prop_ro("p", [](const First& s) { return numpy_array(s.state.p); });
}

void bind_trees(nb::module_& m) {
    nb::class_<TreeSearch>(m, "TreeSearch")
        .def("__init__", maker<TreeSearch, std::int32_t, std::uint64_t>(), nb::arg("problem"), nb::arg("p"), nb::arg("seed"))
        .def("__init__", maker<TreeSearch, double, std::uint64_t>(), nb::arg("problem"), nb::arg("p"), nb::arg("seed"))
        .def("run", [](TreeSearch& s, std::int64_t count, double target) {
            nb::gil_scoped_release released;
            s.run(count, target);
        }, nb::arg("count"), nb::arg("target"), "Make up to `count` steps, or until the best value is `target` or lower.")
        .def("restart", [](TreeSearch& s, Indices p) { s.restart(permutation(p, s.n())); })
        .def_prop_ro("best_p", [](const TreeSearch& s) { return numpy_array(s.best_p()); })
        .def_prop_ro("best", [](const TreeSearch& s) -> nb::object {
            if (s.tolerance > 0) return nb::float_(s.best);
            return nb::int_(static_cast<std::int64_t>(s.best));
        })
        .def_ro("steps", &TreeSearch::steps)
        .def_ro("last_improved", &TreeSearch::last_improved);
}

}  // namespace
}  // namespace swaps

void bind_swaps(nb::module_& m) {
    swaps::bind<std::int32_t>(m, "int32");
    swaps::bind<double>(m, "float64");
    swaps::bind_trees(m);
}

}  // namespace dcfw
