// The Python module dcfw._kernels: each file of this folder registers its own functions.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_kernels, m) {
    m.doc() = "Compiled kernels of dcfw; dcfw.kernels is their Python interface.";
}
