// Python classes of the swap searches, one of each for int32 and for float64 data.
#include <string>

#include "annealing.hpp"
#include "arrays.hpp"
#include "breakout_search.hpp"
#include "descents.hpp"
#include "tabu_search.hpp"
#include "tree_search.hpp"

namespace dcfw {
namespace swaps {
namespace {

// Check that the entries are distinct integers from 0 to n - 1.
std::vector<int> distinct(const ConstIndices& given, int n) {
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
std::vector<int> permutation(const ConstIndices& given, int n) {
    if (given.shape(0) != static_cast<std::size_t>(n)) throw nb::value_error("the permutation must have n entries");
    return distinct(given, n);
}

template <class T>
void make_problem(AssignmentProblem<T>* self, Contiguous<const T, 2> A, Contiguous<const T, 2> B, nb::object C,
                  T tolerance) {
    const std::size_t n = A.shape(0);
    if (n > 30000) throw nb::value_error("swap searches are for at most 30000 items");
    auto linear = C.is_none() ? A : nb::cast<Contiguous<const T, 2>>(C);
    for (const auto* M : {&A, &B, &linear})
        if (M->shape(0) != n || M->shape(1) != n) throw nb::value_error("A, B and C must be square and of one size");
    const T* rewards = C.is_none() ? nullptr : linear.data();
    nb::gil_scoped_release released;
    new (self) AssignmentProblem<T>(A.data(), B.data(), rewards, static_cast<int>(n), tolerance);
}

template <class T>
struct Descent {
    SwapDeltas<T> state;
    Descent(const AssignmentProblem<T>& problem, const std::vector<int>& p, int fixed) : state(problem, fixed) { state.set(p); }
    std::int64_t run(std::int64_t count) { return descend_by_best(state, count); }
};

template <class Search, class T, class... Options>
auto maker() {
    return [](Search* self, const AssignmentProblem<T>& problem, ConstIndices p, Options... options) {
        auto start = permutation(p, problem.n);
        nb::gil_scoped_release released;
        new (self) Search(problem, start, options...);
    };
}

constexpr const char* run_doc = "Make up to `count` steps, or until the best value is `target` or lower.";

template <class Search>
void bind_search(nb::class_<Search>& c) {
    c.def("run", &Search::run, Unlocked(), "count"_a, "target"_a, run_doc)
        .def("restart", [](Search& s, ConstIndices p) {
            auto start = permutation(p, s.state.problem.n);
            nb::gil_scoped_release released;
            s.restart(start);
        })
        .def_prop_ro("best_p", [](const Search& s) { return copied(s.best_p); }, nb::rv_policy::move)
        .def_prop_ro("p", [](const Search& s) { return copied(s.state.p); }, nb::rv_policy::move)
        .def_prop_ro("value", [](const Search& s) { return s.state.value; })
        .def_ro("best", &Search::best)
        .def_ro("steps", &Search::steps)
        .def_ro("last_improved", &Search::last_improved);
}

template <class T>
void bind(nb::module_& m, const std::string& kind) {
    using Problem = AssignmentProblem<T>;
    nb::class_<Problem>(m, ("AssignmentProblem_" + kind).c_str())
        .def("__init__", &make_problem<T>, "A"_a, "B"_a, "C"_a.none(), "tolerance"_a)
        .def("has_forest", [](const Problem& problem) { return TreeSearch::forest(problem) > 0; })
        .def("value", [](const Problem& problem, ConstIndices p) { return problem.value(permutation(p, problem.n)); });

    using Tabu = TabuSearch<T>;
    auto tabu = nb::class_<Tabu>(m, ("TabuSearch_" + kind).c_str());
    tabu.def("__init__", maker<Tabu, T, std::uint64_t, bool, int>(), nb::keep_alive<1, 2>(), "problem"_a, "p"_a, "seed"_a,
             "skewed"_a, "fixed"_a);
    bind_search(tabu);

    using Breakout = BreakoutSearch<T>;
    auto breakout = nb::class_<Breakout>(m, ("BreakoutSearch_" + kind).c_str());
    breakout.def("__init__", maker<Breakout, T, std::uint64_t>(), nb::keep_alive<1, 2>(), "problem"_a, "p"_a, "seed"_a);
    bind_search(breakout);

    using Anneal = Annealing<T>;
    nb::class_<Anneal>(m, ("Annealing_" + kind).c_str())
        .def("__init__", maker<Anneal, T, std::uint64_t>(), nb::keep_alive<1, 2>(), "problem"_a, "p"_a, "seed"_a)
        .def("run", &run_annealing<T>, Unlocked(), "count"_a, "hot"_a, "cold"_a, "sweeps"_a)
        .def("restart", [](Anneal& s, ConstIndices p) { s.restart(permutation(p, s.problem.n)); })
        .def("mean_delta", &Anneal::mean_delta, "samples"_a)
        .def_prop_ro("best_p", [](const Anneal& s) { return copied(s.best_p); }, nb::rv_policy::move)
        .def_prop_ro("p", [](const Anneal& s) { return copied(s.p); }, nb::rv_policy::move)
        .def_ro("value", &Anneal::value)
        .def_ro("best", &Anneal::best)
        .def_ro("mean", &Anneal::mean)
        .def_ro("trials", &Anneal::trials)
        .def_ro("idle", &Anneal::idle);

    using Down = Descent<T>;
    nb::class_<Down>(m, ("Descent_" + kind).c_str())
        .def("__init__", maker<Down, T, int>(), nb::keep_alive<1, 2>(), "problem"_a, "p"_a, "fixed"_a)
        .def("run", &Down::run, Unlocked(), "count"_a, "Make at most `count` best swaps and return their number.")
        .def_prop_ro("p", [](const Down& s) { return copied(s.state.p); }, nb::rv_policy::move)
        .def_prop_ro("value", [](const Down& s) { return s.state.value; });

    using First = FirstDescent<T>;
    nb::class_<First>(m, ("FirstDescent_" + kind).c_str())
        .def("__init__", [](First* self, const Problem& problem, ConstIndices p, ConstIndices order, int fixed) {
            new (self) First(problem, permutation(p, problem.n), distinct(order, problem.n), fixed);
        }, nb::keep_alive<1, 2>(), "problem"_a, "p"_a, "order"_a, "fixed"_a)
        .def("run", &First::run, Unlocked(), "count"_a, "cyclic"_a, "Make at most `count` swaps and return their number.")
        .def_ro("looked", &First::looked)
        .def_prop_ro("p", [](const First& s) { return copied(s.state.p); }, nb::rv_policy::move);
}

void bind_trees(nb::module_& m) {
    nb::class_<TreeSearch>(m, "TreeSearch")
        .def("__init__", maker<TreeSearch, std::int32_t, std::uint64_t>(), "problem"_a, "p"_a, "seed"_a)
        .def("__init__", maker<TreeSearch, double, std::uint64_t>(), "problem"_a, "p"_a, "seed"_a)
        .def("run", &TreeSearch::run, Unlocked(), "count"_a, "target"_a, run_doc)
        .def("restart", [](TreeSearch& s, ConstIndices p) { s.restart(permutation(p, s.n())); })
        .def_prop_ro("best_p", [](const TreeSearch& s) { return copied(s.best_p()); }, nb::rv_policy::move)
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
