// The nonzero entries of a symmetric matrix, row by row.
#pragma once
#include "lanes.hpp"

namespace dcfw::swaps {

template <class T>
class SparseRows {
  public:
    SparseRows(const Array<T>& m, int n, std::size_t stride) : begin_(n + 1, 0), n_(n) {
        for (int i = 0; i < n; ++i) {
            const T* row = m.data() + i * stride;
            for (int k = 0; k < n; ++k)
                if (row[k] != T(0)) {
                    at_.push_back(k);
                    entry_.push_back(row[k]);
                }
            begin_[i + 1] = static_cast<int>(at_.size());
        }
    }
    std::size_t size() const { return at_.size(); }

    // Whether a sum over the entries of two rows is cheaper than one over whole rows in vectors.
    bool thin() const {
        return size() * Vector<T>::lanes <= static_cast<std::size_t>(n_) * n_;
    }

    // Return sum_k (m[i, k] - m[j, k]) (x[where[k]] - y[where[k]]).
    T product(int i, int j, const std::vector<int>& where, const T* x, const T* y) const {
        T sum = 0;
        for (int e = begin_[i]; e < begin_[i + 1]; ++e) sum += entry_[e] * (x[where[at_[e]]] - y[where[at_[e]]]);
        for (int e = begin_[j]; e < begin_[j + 1]; ++e) sum -= entry_[e] * (x[where[at_[e]]] - y[where[at_[e]]]);
        return sum;
    }

  private:
    std::vector<int> begin_, at_;
    std::vector<T> entry_;
    int n_;
};

}  // namespace dcfw::swaps
