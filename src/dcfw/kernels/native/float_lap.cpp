#include "float_lap.hpp"

#include <algorithm>
#include <limits>

#include "clones.hpp"

namespace dcfw {

namespace float_lap {

constexpr float far = std::numeric_limits<float>::infinity();
constexpr int lanes = 16;
constexpr int bids_per_row = 8;

struct Two {
    float least, second;
};

// The two least numbers of row - v.
DCFW_CLONES Two best_two(const float* row, const float* v, int n) {
    float one[lanes], two[lanes];
    for (int k = 0; k < lanes; ++k) one[k] = two[k] = far;
    const int whole = n / lanes * lanes;
    for (int j = 0; j < whole; j += lanes)
#pragma omp simd
        for (int k = 0; k < lanes; ++k) {
            const float x = row[j + k] - v[j + k];
            const float high = x < one[k] ? one[k] : x;
            one[k] = x < one[k] ? x : one[k];
            two[k] = high < two[k] ? high : two[k];
        }
    Two found{far, far};
    const auto take = [&](float x) {
        found.second = std::min(found.second, std::max(x, found.least));
        found.least = std::min(found.least, x);
    };
    for (int j = whole; j < n; ++j) take(row[j] - v[j]);
    for (int k = 0; k < lanes; ++k) {
        take(one[k]);
        take(two[k]);
    }
    return found;
}

// A column where row - v (v may be missing) is `low`, a free one if there is one; -1 if there is none.
DCFW_CLONES int find(const float* row, const float* v, float low, const int* row_of, int n) {
    int found = -1;
    for (int j = 0; j < n; j += lanes) {
        const int width = std::min(lanes, n - j);
        int any = 0;
        if (v) {
#pragma omp simd reduction(| : any)
            for (int k = 0; k < width; ++k) any |= row[j + k] - v[j + k] == low;
        } else {
#pragma omp simd reduction(| : any)
            for (int k = 0; k < width; ++k) any |= row[j + k] == low;
        }
        if (!any) continue;
        for (int k = j; k < j + width; ++k)
            if ((v ? row[k] - v[k] : row[k]) == low) {
                if (row_of[k] < 0) return k;
                if (found < 0) found = k;
            }
    }
    return found;
}

// Shorten the distances by paths through row i; return the least.
DCFW_CLONES float relax(const float* row, const float* v, float shift, int i, float* dist, int* previous, int n) {
    float low = far;
#pragma omp simd reduction(min : low)
    for (int j = 0; j < n; ++j) {
        const float x = row[j] - v[j] - shift;
        const bool shorter = x < dist[j];
        dist[j] = shorter ? x : dist[j];
        previous[j] = shorter ? i : previous[j];
        low = dist[j] < low ? dist[j] : low;
    }
    return low;
}

}  // namespace float_lap

FloatLap::FloatLap(int n)
    : columns(n, -1), n_(n), cost_(std::size_t(n) * n), v_(n), u_(n), dist_(n), row_of_(n), previous_(n) {}

bool FloatLap::solve() {
    if (!keep()) return false;
    bid();
    for (int i : free_)
        if (!augment(i)) {
            std::fill(columns.begin(), columns.end(), -1);
            std::fill(v_.begin(), v_.end(), 0.0f);
            return false;
        }
    return true;
}

// Let rows keep the column of the last solve where it is still good enough.
bool FloatLap::keep() {
    std::fill(row_of_.begin(), row_of_.end(), -1);
    free_.clear();
    for (int i = 0; i < n_; ++i) {
        const float* cost = row(i);
        u_[i] = float_lap::best_two(cost, v_.data(), n_).least;
        if (u_[i] == float_lap::far) return false;
        int& j = columns[i];
        if (j >= 0 && cost[j] - v_[j] <= u_[i] + slack && row_of_[j] < 0) {
            row_of_[j] = i;
        } else {
            j = -1;
            free_.push_back(i);
        }
    }
    return true;
}

// Let free rows bid, up to a number of bids.
void FloatLap::bid() {
    std::vector<int> waiting(free_.rbegin(), free_.rend()), left;
    for (std::int64_t made = 0, most = std::int64_t(float_lap::bids_per_row) * n_; !waiting.empty(); ++made) {
        const int i = waiting.back();
        waiting.pop_back();
        if (made >= most) {
            left.push_back(i);
            continue;
        }
        ++bids;
        const float* cost = row(i);
        const float_lap::Two best = float_lap::best_two(cost, v_.data(), n_);
        const int j = float_lap::find(cost, v_.data(), best.least, row_of_.data(), n_);
        const int owner = row_of_[j];
        u_[i] = best.least;
        if (owner >= 0) {
            const float raise = best.second - best.least + slack;
            if (!(raise > 0.0f && raise < float_lap::far)) {  // a tie, or the only column that it may have
                left.push_back(i);
                continue;
            }
            v_[j] -= raise;
            u_[i] = best.second;
        }
        row_of_[j] = i;
        columns[i] = j;
        if (owner >= 0) {
            columns[owner] = -1;
            waiting.push_back(owner);
        }
    }
    free_.swap(left);
}

// Match one more row along a shortest path to a free column.
bool FloatLap::augment(int source) {
    std::fill(dist_.begin(), dist_.end(), float_lap::far);
    tree_.clear();
    u_[source] = float_lap::best_two(row(source), v_.data(), n_).least;
    std::vector<float> prices, lengths;
    float low = float_lap::relax(row(source), v_.data(), u_[source], source, dist_.data(), previous_.data(), n_);
    ++scans;
    int end;
    for (;;) {
        if (low == float_lap::far) return false;
        end = float_lap::find(dist_.data(), nullptr, low, row_of_.data(), n_);
        const int i = row_of_[end];
        if (i < 0) break;
        tree_.push_back(end);
        prices.push_back(v_[end]);
        lengths.push_back(low);
        v_[end] = -float_lap::far;
        dist_[end] = float_lap::far;
        low = float_lap::relax(row(i), v_.data(), u_[i] - low, i, dist_.data(), previous_.data(), n_);
        ++scans;
    }
    u_[source] += low;
    for (std::size_t k = 0; k < tree_.size(); ++k) {
        const float change = std::min(lengths[k] - low, 0.0f);
        v_[tree_[k]] = prices[k] + change;
        u_[row_of_[tree_[k]]] -= change;
    }
    for (int j = end;;) {
        const int i = previous_[j];
        row_of_[j] = i;
        std::swap(columns[i], j);
        if (i == source) break;
    }
    return true;
}

}  // namespace dcfw
