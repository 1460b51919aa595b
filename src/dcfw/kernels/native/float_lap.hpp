// Assignment problems of float costs, for sequences of close matrices with n in the thousands.
//
// Like lap.hpp it keeps the column prices of the last solve.  Rows bid for columns first (the auction of Bertsekas,
// "The auction algorithm", Annals of OR 14 (1988), which is the row reduction of Jonker and Volgenant where slack is
// 0), a few times each; shortest augmenting paths match the rest.  A row may keep a column that is at most `slack`
// worse than its best one: the assignment is then the least one of costs that are lower by at most `slack`, so that
// its cost is within n * slack of the least.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dcfw {

class FloatLap {
  public:
    explicit FloatLap(int n);

    // The costs of row i (+Inf forbids a pair), to be written before a solve.
    float* row(int i) { return &cost_[std::size_t(n_) * i]; }
    // Find an assignment; return whether there is one.
    bool solve();

    std::vector<int> columns;
    float slack = 0.0f;
    std::int64_t bids = 0, scans = 0;  // rows read by the two parts of all solves

  private:
    int n_;
    std::vector<float> cost_, v_, u_, dist_;
    std::vector<int> row_of_, previous_, free_, tree_;

    bool keep();
    void bid();
    bool augment(int source);
};

}  // namespace dcfw
