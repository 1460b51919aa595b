// The Python class dcfw._kernels.GraduatedPath: one problem, many paths.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "arrays.hpp"
#include "graduated_path.hpp"

namespace dcfw {
namespace {

std::vector<double> squared(const Matrix& M, std::size_t n) {
    if (M.shape(0) != n || M.shape(1) != n) throw nb::value_error("the matrices must be square and of one size");
    return numbers(M, n, n);
}
std::vector<double> transposed(const std::vector<double>& M, std::size_t n) {
    std::vector<double> out(M.size());
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) out[i * n + j] = M[j * n + i];
    return out;
}

struct GraduatedPath {
    PathProblem problem;
    Lap lap;
    std::mutex mutex;

    GraduatedPath(const Matrix& A, const Matrix& B, const Matrix& C, nb::object squares_A, nb::object squares_B)
        : lap(static_cast<int>(std::max<std::size_t>(A.shape(0), 1))) {
        const std::size_t n = A.shape(0);
        if (n < 1 || n > 30000) throw nb::value_error("n must be between 1 and 30000");
        problem.n = static_cast<int>(n);
        problem.A = squared(A, n);
        problem.B = squared(B, n);
        problem.C = squared(C, n);
        problem.At = transposed(problem.A, n);
        problem.Bt = transposed(problem.B, n);
        problem.symmetric = problem.A == problem.At && problem.B == problem.Bt;
        if (!squares_A.is_none()) {
            problem.AtA = squared(nb::cast<Matrix>(squares_A), n);
            problem.BBt = squared(nb::cast<Matrix>(squares_B), n);
        }
    }
};

}  // namespace

void bind_graduated(nb::module_& m) {
    nb::class_<GraduatedPath>(m, "GraduatedPath", "Frank-Wolfe on phi + theta r over a falling theta.")
        .def(nb::init<const Matrix&, const Matrix&, const Matrix&, nb::object, nb::object>(), "A"_a, "B"_a, "C"_a,
             "squares_A"_a.none(), "squares_B"_a.none())
        .def("follow", [](GraduatedPath& self, const Matrix& X, const Matrix& G, std::vector<double> thetas, int steps,
                          double tolerance, std::int64_t max_lmo) {
            const std::size_t n = self.problem.n;
            std::vector<double> x = squared(X, n), g = squared(G, n);
            const PathReport report = [&] {
                nb::gil_scoped_release released;
                std::lock_guard<std::mutex> lock(self.mutex);
                self.lap.reset();
                return dcfw::follow(self.problem, self.lap, std::move(x), std::move(g), thetas, steps, tolerance, max_lmo);
            }();
            return nb::make_tuple(copied(report.columns), report.n_lmo, report.n_inner, report.stages);
        }, "X"_a, "G"_a, "thetas"_a, "steps"_a, "tolerance"_a, "max_lmo"_a,
             "Return the permutation (empty if an assignment problem failed), LAP solves, steps and stages.");
}

}  // namespace dcfw
