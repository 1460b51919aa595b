// The Python class dcfw._kernels.Lap.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "guarded.hpp"
#include "lap.hpp"

namespace nb = nanobind;

namespace dcfw {

namespace {

constexpr int wrong_size = 4;  // beside the statuses of Lap
constexpr std::int64_t largest_counter = std::int64_t(1) << 53;

using PythonLap = Guarded<Lap>;

int solve(PythonLap& self, const Matrix& cost, Indices out) {
    const std::size_t n = self.it.size();
    if (out.shape(0) != n) throw nb::value_error("the columns have a wrong shape");
    if (cost.shape(0) != n || cost.shape(1) != n) return wrong_size;
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> lock(self.mutex);
    const Lap::Status status = self.it.solve(cost.data());
    if (status == Lap::optimal) std::copy_n(self.it.state.columns.begin(), n, out.data());
    return status;
}

std::vector<std::int64_t> counters(const LapState& s) {
    return {s.ready, s.work, s.spent, s.warm_mean, s.cold_mean};
}

void restore(PythonLap& self, const Vector& prices, const ConstIndices& columns,
             const std::vector<std::int64_t>& numbers) {
    const std::size_t n = self.it.size();
    if (prices.shape(0) != n || columns.shape(0) != n || numbers.size() != 5)
        throw nb::value_error("the state has a wrong size");
    for (std::int64_t number : numbers)
        if (number < 0 || number > largest_counter) throw nb::value_error("a counter is out of range");
    std::lock_guard<std::mutex> lock(self.mutex);
    LapState& s = self.it.state;
    std::copy_n(prices.data(), n, s.prices.begin());
    for (std::size_t i = 0; i < n; ++i)
        s.columns[i] = 0 <= columns(i) && columns(i) < std::int64_t(n) ? int(columns(i)) : -1;
    s.ready = numbers[0];
    s.work = numbers[1];
    s.spent = numbers[2];
    s.warm_mean = numbers[3];
    s.cold_mean = numbers[4];
}

}  // namespace

void bind_lap(nb::module_& m) {
    nb::class_<PythonLap>(m, "Lap", "Solver of n x n assignment problems that keeps its prices.")
        .def(nb::init<int>(), nb::arg("n"))
        .def("solve", &solve, nb::arg("cost").noconvert(), nb::arg("columns").noconvert(),
             "Write the columns of the least assignment; return 0, or the reason why there is none.")
        .def("reset", locked<Lap>([](Lap& lap) { lap.reset(); }), "Forget the past.")
        .def_prop_ro("u", locked<Lap>([](Lap& lap) { return copied(lap.row_prices.data(), lap.size()); }),
                     nb::rv_policy::move)
        .def_prop_ro("v", locked<Lap>([](Lap& lap) { return copied(lap.state.prices.data(), lap.size()); }),
                     nb::rv_policy::move)
        .def_prop_ro("columns", locked<Lap>([](Lap& lap) { return copied(lap.state.columns.data(), lap.size()); }),
                     nb::rv_policy::move)
        .def_prop_ro("counters", locked<Lap>([](Lap& lap) { return counters(lap.state); }),
                     "ready, work, spent, warm_mean and cold_mean.")
        .def_prop_ro("blocked",
                     locked<Lap>([](Lap& lap) { return std::make_pair(lap.blocked_rows, lap.blocked_columns); }),
                     "Rows and columns that prove a problem infeasible.")
        .def("restore", &restore, nb::arg("prices"), nb::arg("columns"), nb::arg("counters"),
             "Go on from prices, columns and counters; any numbers in the arrays are safe.");
}

}  // namespace dcfw
