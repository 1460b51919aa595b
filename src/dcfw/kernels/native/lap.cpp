#include "lap.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "clones.hpp"
#include "rows.hpp"

namespace dcfw {
namespace {

constexpr int trial_after = 32;        // a trial of the other start is due after this many times its work
constexpr int unit = 16;               // means of the work are integers in sixteenths
constexpr double highest_price = 8.0;  // prices beyond this many times max|C| would cost more than 3 bits
constexpr double largest_cost = 0x1p1000;  // sums of a few thousand such numbers are finite

int padded_width(int n) {
    if (n < 1 || n > 1 << 15) throw std::invalid_argument("n must be from 1 to 32768");
    for (int width : {8, 12, 16, 32, 48, 64})
        if (n <= width) return width;
    return n;
}

// Find the largest finite |C_ij|.
DCFW_CLONES Lap::Status measure(const double* cost, int n, double* largest) {
    const int size = n * n;
    double top = 0.0, odd = 0.0;  // odd: how many are Inf, NaN or too large
#pragma omp simd reduction(max : top) reduction(+ : odd)
    for (int k = 0; k < size; ++k) {
        const double x = std::fabs(cost[k]);
        top = x > top ? x : top;
        odd += x <= largest_cost ? 0.0 : 1.0;
    }
    if (odd > 0.0) {
        top = 0.0;
        for (int k = 0; k < size; ++k) {
            if (std::isnan(cost[k]) || cost[k] == -infinity) return Lap::not_a_cost;
            if (cost[k] < infinity) top = std::max(top, std::fabs(cost[k]));
        }
    }
    *largest = top;
    return top > largest_cost ? Lap::too_large : Lap::optimal;
}

}  // namespace

struct LapSearch {
    Lap& lap;
    const double* cost;  // rows of lap.width_ numbers

    // A column at the distance `low`: j itself if one is free, width + j if all are taken, or +Inf for none.
    template <class Value>
    [[gnu::always_inline]] double pick(int width, double low, Value value) const {
        const double* order = lap.order_.data();
        return least(width, [=](int j) { return value(j) == low ? order[j] : infinity; });
    }

    // Parts 1 to 3.  Return the number of free rows, or -1 if a row forbids every column.
    template <int Fixed>
    [[gnu::always_inline]] int match(int n) const {
        const int width = Fixed ? Fixed : lap.width_;
        double *v = lap.state.prices.data(), *u = lap.row_prices.data();
        double *slack = lap.slack_.data(), *order = lap.order_.data();
        int *column_of = lap.state.columns.data(), *row_of = lap.row_of_.data(), *free = lap.free_.data();
        for (int j = 0; j < width; ++j) {
            order[j] = j;
            slack[j] = infinity;
        }
        int candidates = 0, left = 0;
        for (int i = 0; i < n; ++i) {
            const double* row = cost + std::size_t(width) * i;
            const double low = least(width, [=](int j) { return row[j] - v[j]; });
            u[i] = low;
            if (low == infinity) {
                lap.tree_rows_[0] = i;
                return -1;
            }
#pragma omp simd
            for (int j = 0; j < width; ++j) {
                const double over = row[j] - low;
                slack[j] = over < slack[j] ? over : slack[j];
            }
            const int j = column_of[i];
            if (0 <= j && j < n && order[j] < width && row[j] - v[j] == low) {
                order[j] = width + j;
                row_of[j] = i;
            } else {
                free[candidates++] = i;
            }
        }
        for (int q = 0; q < candidates; ++q) {
            const int i = free[q];
            const double* row = cost + std::size_t(width) * i;
            const double found = pick(width, u[i], [=](int j) { return row[j] - v[j]; });
            if (found < n) {
                const int j = static_cast<int>(found);
                order[j] = width + j;
                row_of[j] = i;
                column_of[i] = j;
            } else {
                free[left++] = i;
            }
        }
        for (int j = 0; j < n; ++j)
            if (order[j] < width && slack[j] < infinity) v[j] = slack[j];
        return left;
    }

    // Part 4 from one free row.  Return the number of columns in the search tree; -1 - that if the tree
    // cannot be left.  A column that joins the tree has v = -Inf and distance +Inf for the rest of the
    // search: its candidates are +Inf then, and the loop needs no test for it.
    template <int Fixed>
    [[gnu::always_inline]] int augment(int source) const {
        const int width = Fixed ? Fixed : lap.width_;
        double *v = lap.state.prices.data(), *dist = lap.dist_.data();
        double *tree_dist = lap.tree_dist_.data(), *tree_price = lap.tree_price_.data();
        double* shifts = lap.tree_shift_.data();
        int *rows = lap.tree_rows_.data(), *columns = lap.tree_columns_.data(), *row_of = lap.row_of_.data();
        const double* row = cost + std::size_t(width) * source;
        const double shift = lap.row_prices[source];  // distances from u_i keep tight pairs at exactly 0
        rows[0] = source;
        shifts[0] = shift;
        double low = least(width, [=](int j) { return dist[j] = row[j] - v[j] - shift; });
        int size = 0, j;
        for (;;) {
            const double found = low < infinity ? pick(width, low, [=](int k) { return dist[k]; }) : infinity;
            if (!(found < 2 * width)) return -1 - size;
            j = static_cast<int>(found);
            if (j < width) break;
            j -= width;
            const int i = row_of[j];
            row = cost + std::size_t(width) * i;
            const double over = (row[j] - v[j]) - low;
            columns[size] = j;
            tree_dist[size] = low;
            tree_price[size] = v[j];
            ++size;
            rows[size] = i;
            shifts[size] = over;
            v[j] = -infinity;
            dist[j] = infinity;
            low = least(width, [=](int k) {
                const double x = row[k] - v[k] - over;
                return dist[k] = x < dist[k] ? x : dist[k];
            });
        }
        for (int k = 0; k < size; ++k) v[columns[k]] = tree_price[k] + (tree_dist[k] - low);
        flip(j, low, size, width);
        return size;
    }

    // Assign along the path from the free column j back to the source.  The predecessor of a column is the
    // row of the tree whose candidate equals its distance: found again here, it is not stored in the scans.
    void flip(int j, double distance, int size, int width) const {
        lap.order_[j] = width + j;
        double price = lap.state.prices[j];
        for (int k = size;; --k) {
            while (k > 0 && cost[std::size_t(width) * lap.tree_rows_[k] + j] - price -
                                    lap.tree_shift_[k] != distance)
                --k;
            lap.row_of_[j] = lap.tree_rows_[k];
            lap.state.columns[lap.tree_rows_[k]] = j;
            if (k == 0) return;
            j = lap.tree_columns_[k - 1];
            price = lap.tree_price_[k - 1];
            distance = lap.tree_dist_[k - 1];
        }
    }

    // Return the work, or -1 - (columns in the last tree) where there is no assignment.
    template <int Fixed>
    [[gnu::always_inline]] std::int64_t run(int n) const {
        const int left = match<Fixed>(n);
        std::int64_t work = 0;
        if (left < 0) return -1;
        for (int q = 0; q < left; ++q) {
            const int size = augment<Fixed>(lap.free_[q]);
            if (size < 0) return size;
            work += size + 1;
        }
        return work;
    }
};

namespace {

DCFW_CLONES std::int64_t search(const LapSearch& of, int width, int n) {
    switch (width) {
        case 8: return of.run<8>(n);
        case 12: return of.run<12>(n);
        case 16: return of.run<16>(n);
        case 32: return of.run<32>(n);
        case 48: return of.run<48>(n);
        case 64: return of.run<64>(n);
        default: return of.run<0>(n);
    }
}

}  // namespace

Lap::Lap(int n)
    : n_(n), width_(padded_width(n)),
      padded_(width_ > n ? std::size_t(n) * width_ : 0, infinity),
      slack_(width_), dist_(width_), order_(width_), tree_dist_(n + 1), tree_price_(n + 1), tree_shift_(n + 1),
      row_of_(width_), free_(n), tree_columns_(n + 1), tree_rows_(n + 1) {
    row_prices.resize(n);
    reset();
}

void Lap::reset() {
    state = LapState{};
    state.prices.assign(width_, 0.0);
    state.columns.assign(n_, -1);
    std::fill(row_prices.begin(), row_prices.end(), 0.0);
    blocked_rows.clear();
    blocked_columns.clear();
}

Lap::Status Lap::solve(const double* cost, int* columns) {
    const Status status = solve(cost);
    if (status == optimal) std::copy(state.columns.begin(), state.columns.end(), columns);
    return status;
}

Lap::Status Lap::solve(const double* cost) {
    const bool ready = state.ready;
    state.ready = false;
    double largest = 0.0;
    const bool pad = width_ > n_;
    const Status status = measure(cost, n_, &largest);
    for (int i = 0; pad && i < n_; ++i)
        for (int j = 0; j < n_; ++j) padded_[std::size_t(width_) * i + j] = cost[std::size_t(n_) * i + j];

    // Which start is better is learnt: the one that needed less work lately is preferred, and the other is
    // tried again when the preferred one has cost `trial_after` times what the trial is expected to cost.
    const bool prefer_warm = state.warm_mean <= state.cold_mean;
    const bool trial = state.spent > trial_after * std::max(state.warm_mean, state.cold_mean);
    bool warm = ready && prefer_warm != trial && status == optimal;
    for (int j = 0; j < n_ && warm; ++j)  // a NaN fails this test as well
        warm = std::fabs(state.prices[j]) <= highest_price * largest;
    if (!warm) std::fill(state.prices.begin(), state.prices.end(), 0.0);
    const std::int64_t work =
        status == optimal ? search(LapSearch{*this, pad ? padded_.data() : cost}, width_, n_) : 0;
    if (status != optimal || work < 0) {
        if (status == optimal) {
            const std::int64_t size = -1 - work;
            blocked_rows.assign(tree_rows_.begin(), tree_rows_.begin() + size + 1);
            blocked_columns.assign(tree_columns_.begin(), tree_columns_.begin() + size);
        }
        std::fill(state.prices.begin(), state.prices.end(), 0.0);
        std::fill(state.columns.begin(), state.columns.end(), -1);
        std::fill(row_prices.begin(), row_prices.end(), 0.0);
        return status == optimal ? infeasible : status;
    }
    for (int i = 0; i < n_; ++i) {
        const int j = state.columns[i];
        row_prices[i] = cost[std::size_t(n_) * i + j] - state.prices[j];
    }
    std::int64_t& mean = warm ? state.warm_mean : state.cold_mean;
    mean = mean == 0 ? unit * work : mean + ((unit * work - mean) >> 2);  // rounds down, as a mean must
    state.spent = warm == prefer_warm ? state.spent + unit * work : 0;
    state.work = work;
    state.ready = true;
    return optimal;
}

}  // namespace dcfw
