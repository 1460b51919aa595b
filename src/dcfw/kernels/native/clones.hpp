// Vector width at run time: a function marked DCFW_CLONES is compiled for several instruction sets, and the
// loader picks one.  Elsewhere (other compilers, systems without ifunc) there is one portable version.
// None of the clones may change a result: no fused multiply-adds, and sums have a fixed number of lanes.
#pragma once
#include <cstdlib>  // defines __GLIBC__ where it is one

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define DCFW_CLONES __attribute__((target_clones("default", "avx2")))
#else
#define DCFW_CLONES
#endif
