// Gradients of a Quadratic at the vertices that Frank-Wolfe visits.
//
// The vertices of close steps share most of their rows, and many come back.  The gradients at the last few
// are kept, and that at a new vertex is the one at the nearest of them plus the rows that differ: for c rows
// c n^2 multiplications, where the whole product takes n^3.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "quadratic.hpp"

namespace dcfw {

class VertexGradients {
  public:
    explicit VertexGradients(int n);

    // The gradient of f at the permutation matrix of p, valid until the next call.
    const double* at(const Quadratic& f, const int* p);

  private:
    struct Entry {
        std::vector<int> p;
        double* gradient;
        int updates = 0;         // since the whole product
        std::uint64_t used = 0;  // when it was asked for
    };
    int n_;
    std::size_t size_, most_;
    std::uint64_t function_ = 0, now_ = 0;
    std::unique_ptr<double[]> memory_;  // of all entries: one large block is reused by the next solve
    std::vector<Entry> entries_;
};

}  // namespace dcfw
