// The Python class dcfw._kernels.Lap.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <new>
#include <optional>

#include "arrays.hpp"
#include "guarded.hpp"
#include "lap.hpp"

namespace dcfw {
namespace {

constexpr int briefly = 32;     // problems up to this size take less time than handing over the lock
constexpr std::int64_t largest_counter = std::int64_t(1) << 53;

using PythonLap = Guarded<Lap>;

// The memory of an array by the buffer protocol: an assignment problem of ten rows takes less time than nb::ndarray.
class View {
  public:
    View(nb::handle array, int flags) : known_(PyObject_GetBuffer(array.ptr(), &view_, flags) == 0) {
        if (!known_) PyErr_Clear();
    }
    View(const View&) = delete;
    ~View() {
        if (known_) PyBuffer_Release(&view_);
    }
    bool known() const { return known_; }
    // Whether this is an aligned n x n array of doubles.
    bool is_square(Py_ssize_t n) const {
        return known_ && view_.ndim == 2 && view_.shape[0] == n && view_.shape[1] == n && view_.format &&
               std::strcmp(view_.format, "d") == 0 && std::uintptr_t(view_.buf) % sizeof(double) == 0;
    }
    template <class Number>
    Number* numbers() const {
        return static_cast<Number*>(view_.buf);
    }

  private:
    Py_buffer view_;
    bool known_;
};

PyObject *numpy_array, *numpy_empty, *numpy_int64;  // live as long as the module

// The columns of the least assignment in a new array; None without one, or for costs of another type or shape.
nb::object assign(PythonLap& self, nb::handle cost) {
    const int n = self.it.size();
    if (cost.type().ptr() != numpy_array) return nb::none();  // a subclass may mean something else
    const View from(cost, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
    if (!from.is_square(n)) return nb::none();
    const nb::int_ size(n);
    PyObject* arguments[] = {size.ptr(), numpy_int64};
    nb::object columns = nb::steal(PyObject_Vectorcall(numpy_empty, arguments, 2, nullptr));
    if (!columns) throw nb::python_error();
    const View to(columns, PyBUF_WRITABLE);
    if (!to.known()) throw std::bad_alloc();
    Lap::Status status;
    {
        std::optional<nb::gil_scoped_release> release;
        if (n > briefly) release.emplace();
        std::lock_guard<std::mutex> lock(self.mutex);
        status = self.it.solve(from.numbers<double>());
        if (status == Lap::optimal) std::copy_n(self.it.state.columns.begin(), n, to.numbers<std::int64_t>());
    }
    return status == Lap::optimal ? columns : nb::none();
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
    std::int64_t* counters[] = {&s.ready, &s.work, &s.spent, &s.warm_mean, &s.cold_mean};
    for (int k = 0; k < 5; ++k) *counters[k] = numbers[k];
}

}  // namespace

void bind_lap(nb::module_& m) {
    const nb::module_ numpy = nb::module_::import_("numpy");
    numpy_array = nb::object(numpy.attr("ndarray")).release().ptr();
    numpy_empty = nb::object(numpy.attr("empty")).release().ptr();
    numpy_int64 = numpy.attr("dtype")("int64").release().ptr();
    nb::class_<PythonLap>(m, "Lap", "Solver of n x n assignment problems that keeps its prices.")
        .def(nb::init<int>(), "n"_a)
        .def("assign", &assign, "Return the columns of the least assignment, or None.")
        .def("reset", locked<Lap>([](Lap& lap) { lap.reset(); }), "Make the next start cold.")
        .def_prop_ro("u", locked<Lap>([](Lap& lap) { return copied(lap.row_prices); }), nb::rv_policy::move)
        .def_prop_ro("v", locked<Lap>([](Lap& lap) { return copied(lap.state.prices.data(), lap.size()); }),
                     nb::rv_policy::move)
        .def_prop_ro("columns", locked<Lap>([](Lap& lap) { return copied(lap.state.columns); }), nb::rv_policy::move)
        .def_prop_ro("counters", locked<Lap>([](Lap& lap) {
            const LapState& s = lap.state;
            return std::vector<std::int64_t>{s.ready, s.work, s.spent, s.warm_mean, s.cold_mean};
        }), "ready, work, spent, warm_mean and cold_mean.")
        .def_prop_ro("blocked",
                     locked<Lap>([](Lap& lap) { return std::make_pair(lap.blocked_rows, lap.blocked_columns); }),
                     "Rows and columns that prove a problem infeasible.")
        .def("restore", &restore, "prices"_a, "columns"_a, "counters"_a,
             "Continue from prices, columns and counters; any numbers in the arrays are safe.");
}

}  // namespace dcfw
