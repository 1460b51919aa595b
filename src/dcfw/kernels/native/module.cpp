// The Python module dcfw._kernels: each file bind_*.cpp of this folder registers its own functions.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace dcfw {

void bind_bounds(nb::module_&);
void bind_flows(nb::module_&);
void bind_lap(nb::module_&);
void bind_graduated(nb::module_&);
void bind_graphs(nb::module_&);
void bind_qap(nb::module_&);
void bind_sums(nb::module_&);
void bind_swaps(nb::module_&);

}  // namespace dcfw

NB_MODULE(_kernels, m) {
    m.doc() = "Compiled kernels of dcfw; dcfw.kernels is their Python interface.";
    m.attr("source_hash") = DCFW_SOURCE_HASH;
    dcfw::bind_bounds(m);
    dcfw::bind_flows(m);
    dcfw::bind_lap(m);
    dcfw::bind_graduated(m);
    dcfw::bind_graphs(m);
    dcfw::bind_qap(m);
    dcfw::bind_sums(m);
    dcfw::bind_swaps(m);
}
