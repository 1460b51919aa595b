// The linear assignment problem (LAP) for sequences of close cost matrices.
//
// The permutation p of least sum_i C[i, p(i)] has prices u (rows) and v (columns) with u_i + v_j <= C_ij for
// all pairs and equality (a *tight* pair) on the assignment.  One solve has four parts:
//   1. Row prices: any v is a feasible start with u_i = min_j (C_ij - v_j), so the v of the last solve can be
//      kept whatever the new matrix is.  A cold start has v = 0.
//   2. Old partners: rows whose old column is still tight keep it; the others take a free tight column.
//   3. Column prices: v_j of a column that nobody wants is raised to min_i (C_ij - u_i).
//   4. Shortest augmenting paths from the rows still free: Dijkstra on C_ij - u_i - v_j in the dense form of
//      Jonker and Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment
//      problems", Computing 38 (1987).
// There is no tolerance: pairs are tight when the floating-point numbers are equal.
#pragma once
#include <cstdint>
#include <vector>

namespace dcfw {

// What a solve starts from, besides the costs.  Any numbers in the two arrays are safe.
struct LapState {
    std::vector<double> prices;  // v, padded with zeros
    std::vector<int> columns;    // the last partner of each row; what is no column is ignored
    std::int64_t ready = 0;      // 0: the next start is cold
    std::int64_t work = 0;       // rows scanned by the path searches of the last solve
    std::int64_t spent = 0;      // work since the last trial of the other start, in sixteenths of a row
    std::int64_t warm_mean = 0;  // mean work of warm and of cold starts, in sixteenths of a row
    std::int64_t cold_mean = 0;
};

class Lap {
  public:
    enum Status { optimal = 0, not_a_cost = 1, too_large = 2, infeasible = 3 };

    explicit Lap(int n);  // throws std::invalid_argument unless 1 <= n <= 2^15

    // Find the least assignment of the n x n row-major costs (+Inf forbids a pair): state.columns.  After a
    // failure there are no columns (-1) and the next start is cold.
    Status solve(const double* cost);
    // The same, with the columns copied to where the caller wants them.
    Status solve(const double* cost, int* columns);

    void reset();
    int size() const { return n_; }

    LapState state;
    std::vector<double> row_prices;                  // u of the last solve; 0 after a failure
    std::vector<int> blocked_rows, blocked_columns;  // if infeasible: these rows allow these columns only

  private:
    friend struct LapSearch;
    int n_, width_;  // short rows are padded with +Inf to one of a few widths
    std::vector<double> padded_;
    std::vector<double> slack_, dist_;  // of each column
    std::vector<double> order_;         // j for a free column j, width + j for one that has a row
    // The search tree: its k-th column with distance and price, its k-th row with the shift of its costs.
    std::vector<double> tree_dist_, tree_price_, tree_shift_;
    std::vector<int> row_of_, free_, tree_columns_, tree_rows_;
};

}  // namespace dcfw
