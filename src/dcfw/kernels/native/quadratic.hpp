// Quadratic functions of an n x n matrix X whose gradient is
//     sum_k P_k X Q_k + sum_k U_k V_k X R_k + left X + X right + weight X + C,
// with thin U_k and V_k: dcfw.qap.quadratics.MatrixQuadratic.  At a permutation matrix most of it is a gather.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "product.hpp"

namespace dcfw {

class Quadratic {
  public:
    using Numbers = std::vector<double>;

    Quadratic(int n, double weight) : n(n), weight(weight) { changed(); }

    // Write the gradient at X.
    void gradient(const double* X, double* out) const;
    // Write the gradient at the permutation matrix with a 1 in row i and column p[i].
    void at_vertex(const int* p, double* out) const;
    // Turn the gradient at one permutation matrix into that at another.
    void follow(const int* from, const int* to, double* gradient) const;
    // A number that no other function has; whoever adds a matrix says so.
    std::uint64_t id() const { return id_; }
    void changed();
    // What the gradient at a matrix costs, in units of n^2 multiplications.
    long cost() const;
    // Whether `follow` over this many rows costs less than `at_vertex`.
    bool follows(int rows) const;

    struct Pair {
        Pair(int n, Numbers P, Numbers Q) : P(std::move(P)), Q(std::move(Q)), few(this->P.data(), n) {}
        Numbers P, Q;
        FewEntries few;  // of P
    };
    struct Thin {
        int rank;
        Numbers U, V, R;
    };
    int n;
    double weight;
    std::vector<Pair> pairs;
    std::vector<Thin> thin;
    Numbers left, right, C;  // empty: not there

  private:
    std::uint64_t id_;
};

}  // namespace dcfw
