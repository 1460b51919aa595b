// The Python class dcfw._kernels.GraphPath: a pair of sparse graphs, many paths.
#include <nanobind/stl/vector.h>

#include <chrono>

#include "arrays.hpp"
#include "graph_path.hpp"
#include "many_graphs.hpp"
#include "propagate.hpp"

namespace dcfw {
namespace bind_graphs_parts {

// A matrix of `rows` rows whose columns are below `width`, sorted; `m` as in Csr.
Csr csr(nb::tuple given, std::size_t rows, int width, int m) {
    const auto starts = nb::cast<ConstIndices>(given[0]);
    const auto columns = nb::cast<Contiguous<const std::int32_t, 1>>(given[1]);
    const auto values = nb::cast<Contiguous<const float, 1>>(given[2]);
    const std::size_t size = columns.shape(0);
    if (starts.shape(0) != rows + 1 || values.shape(0) != size || starts(0) != 0 ||
        starts(rows) != std::int64_t(size))
        throw nb::value_error("a sparse matrix has a wrong shape");
    Csr M;
    M.start.assign(starts.data(), starts.data() + rows + 1);
    M.index.assign(columns.data(), columns.data() + size);
    M.value.assign(values.data(), values.data() + size);
    M.inner.resize(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        if (M.start[i] > M.start[i + 1] || M.start[i + 1] > std::int64_t(size))
            throw nb::value_error("the rows of a sparse matrix are out of order");
        for (auto e = M.start[i]; e < M.start[i + 1]; ++e)
            if (M.index[e] < 0 || M.index[e] >= width || (e > M.start[i] && M.index[e] <= M.index[e - 1]))
                throw nb::value_error("the columns of a sparse matrix are out of order");
        M.inner[i] = std::lower_bound(M.index.begin() + M.start[i], M.index.begin() + M.start[i + 1], m) -
                     M.index.begin();
    }
    return M;
}

void add_pairs(nb::list pairs, int rows, int columns, int m, int k, std::vector<Csr>& left, std::vector<Csr>& right) {
    for (nb::handle pair : pairs) {
        const auto both = nb::cast<nb::tuple>(pair);
        left.push_back(csr(nb::cast<nb::tuple>(both[0]), rows, rows, m));
        right.push_back(csr(nb::cast<nb::tuple>(both[1]), columns, columns, k));
    }
}

GraphProblem pose(int n, int m, nb::list pairs, nb::tuple U, nb::tuple V, nb::object linear, nb::object forbidden) {
    if (m < 1 || n < m) throw nb::value_error("there must be 1 <= m <= n nodes");
    GraphProblem problem;
    problem.n = n;
    problem.m = m;
    add_pairs(pairs, n, n, m, m, problem.left, problem.right);
    problem.U = csr(U, n, n, m);
    problem.V = csr(V, n, n, m);
    if (!linear.is_none()) problem.linear = csr(nb::cast<nb::tuple>(linear), m, m, m);
    if (!forbidden.is_none()) problem.forbidden = csr(nb::cast<nb::tuple>(forbidden), m, m, m);
    return problem;
}

// Whether to stop for a signal (checked a few times a second) or at the end of the time.
struct Interrupt {
    using Clock = std::chrono::steady_clock;
    Clock::time_point looked = Clock::now(), end;
    bool raised = false;

    explicit Interrupt(double seconds) : end(looked + std::chrono::milliseconds(std::int64_t(seconds * 1e3))) {}
    bool operator()() {
        const auto now = Clock::now();
        if (!raised && now - looked > std::chrono::milliseconds(100)) {
            looked = now;
            nb::gil_scoped_acquire acquired;
            raised = PyErr_CheckSignals() != 0;
        }
        return raised || now >= end;
    }
};

nb::tuple follow_path(const GraphProblem& problem, std::vector<double> thetas, int first_steps, int steps,
                      double tolerance, double weight, const ConstIndices& start, double seconds) {
    if (thetas.empty()) throw nb::value_error("there must be a theta");
    GraphPlan plan{std::move(thetas), first_steps, steps, tolerance, weight, {}, std::int64_t(1) << 60};
    if (weight > 0.0) {
        std::vector<char> seen(problem.m);
        if (int(start.shape(0)) != problem.m) throw nb::value_error("the start has a wrong size");
        for (int i = 0; i < problem.m; ++i) {
            const auto j = start(i);
            if (j < 0 || j >= problem.m || seen[j]++) throw nb::value_error("the start is no permutation");
            plan.start.push_back(int(j));
        }
    }
    GraphReport report;
    Interrupt interrupt(std::min(seconds, 1e9));
    {
        nb::gil_scoped_release released;
        report = follow(problem, plan, std::ref(interrupt));
    }
    if (interrupt.raised) throw nb::python_error();
    return nb::make_tuple(copied(report.columns), report.n_lmo, report.n_inner, report.stages, report.ended);
}

nb::tuple propagated(nb::list pairs, nb::tuple X, int rows, int columns, int keep) {
    if (rows < 1 || columns < 1 || keep < 1) throw nb::value_error("sizes must be positive");
    std::vector<Csr> left, right;
    add_pairs(pairs, rows, columns, rows, columns, left, right);
    const Csr start = csr(X, rows, columns, columns);
    Csr out;
    {
        nb::gil_scoped_release released;
        out = propagate(left, start, right, columns, keep);
    }
    return nb::make_tuple(copied(out.start), copied(out.index), copied(out.value));
}

void match_many(const Vector& A, const Vector& B, nb::object C, const ConstIndices& sizes, std::int64_t steps,
                std::uint64_t seed, Indices out) {
    ManyProblems problems{A.data(), B.data(), nullptr, {}, {}, {}};
    std::size_t entries = 0, nodes = 0;
    for (std::size_t k = 0; k < sizes.shape(0); ++k) {
        const auto n = sizes(k);
        if (n < 1 || n > 30000) throw nb::value_error("a size is out of range");
        problems.size.push_back(int(n));
        problems.offset.push_back(entries);
        problems.place.push_back(nodes);
        entries += std::size_t(n) * n;
        nodes += n;
    }
    if (A.shape(0) != entries || B.shape(0) != entries || out.shape(0) != nodes)
        throw nb::value_error("the matrices have a wrong size");
    if (!C.is_none()) {
        const auto linear = nb::cast<Vector>(C);
        if (linear.shape(0) != entries) throw nb::value_error("the rewards have a wrong size");
        problems.C = linear.data();
    }
    const ManyPlan plan{steps, seed};
    Interrupt interrupt(1e9);
    {
        nb::gil_scoped_release released;
        solve_many(problems, plan, std::ref(interrupt), out.data());
    }
    if (interrupt.raised) throw nb::python_error();
}

}  // namespace bind_graphs_parts

void bind_graphs(nb::module_& m) {
    using namespace bind_graphs_parts;
    m.def("propagate", &propagated, "pairs"_a, "X"_a, "rows"_a, "columns"_a, "keep"_a,
          "Return the `keep` largest entries of each row of sum L X N as starts, columns and values.");
    m.def("match_many", &match_many, "A"_a, "B"_a, "C"_a.none(), "sizes"_a, "steps"_a, "seed"_a, "out"_a,
          "Write the permutations of many small problems, one after the other.");
    nb::class_<GraphProblem>(m, "GraphPath", "The graduated path of two sparse graphs.")
        .def("__init__",
             [](GraphProblem* self, int n, int m, nb::list pairs, nb::tuple U, nb::tuple V, nb::object linear,
                nb::object forbidden) { new (self) GraphProblem(pose(n, m, pairs, U, V, linear, forbidden)); },
             "n"_a, "m"_a, "pairs"_a, "U"_a, "V"_a, "linear"_a.none(), "forbidden"_a.none())
        .def("follow", &follow_path, "thetas"_a, "first_steps"_a, "steps"_a, "tolerance"_a, "weight"_a, "start"_a,
             "seconds"_a,
             "Return the free rows' columns (none if every assignment is forbidden), LAP solves, steps, stages and "
             "whether the time ended the path.");
}

}  // namespace dcfw
