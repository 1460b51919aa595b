#include "tree_search.hpp"

#include <cmath>
#include <numeric>

namespace dcfw::swaps {

bool TreeSearch::is_forest(const std::vector<double>& M, int n) {
    std::vector<int> root(n);
    std::iota(root.begin(), root.end(), 0);
    int edges = 0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < i; ++j) {
            if (M[i * n + j] == 0) continue;
            if (++edges >= n) return false;
            int a = i, b = j;
            while (root[a] != a) a = root[a];
            while (root[b] != b) b = root[b];
            if (a == b) return false;
            root[a] = b;
        }
    return edges > 0;
}

// Return the permutation in the user's order of items and places, or a user's in ours.
std::vector<int> TreeSearch::turned(const std::vector<int>& p) const {
    if (!inverted_) return p;
    std::vector<int> q(n_);
    for (int i = 0; i < n_; ++i) q[p[i]] = i;
    return q;
}

void TreeSearch::prepare(const std::vector<double>& flows) {
    items_.resize(n_);
    at_.assign(n_, -1);
    for (int i = 0; i < n_; ++i)
        for (int j = 0; j < n_; ++j) {
            linear_[i * n_ + j] += flows[i * n_ + i] * distances_[j * n_ + j];
            if (i != j && flows[i * n_ + j] != 0) items_[i].edges.push_back({j, 2 * flows[i * n_ + j]});
        }
    std::vector<int> waiting;
    std::vector<bool> seen(n_, false);
    int rank = 0;
    for (int root = 0; root < n_; ++root) {
        if (!seen[root]) waiting.push_back(root);
        while (!waiting.empty()) {
            const int i = waiting.back();
            waiting.pop_back();
            seen[i] = true;
            items_[i].rank = rank++;
            for (const Edge& edge : items_[i].edges) {
                if (seen[edge.item]) continue;
                items_[edge.item].parent = i;
                items_[edge.item].weight = edge.weight;
                waiting.push_back(edge.item);
            }
        }
    }
    std::vector<int> p(n_);
    std::iota(p.begin(), p.end(), 0);
    constexpr int SAMPLES = 300;
    for (int k = 0; k < SAMPLES; ++k) {
        for (int i = n_ - 1; i > 0; --i) std::swap(p[i], p[random_.below(i + 1)]);
        const double before = evaluate(p);
        std::swap(p[0], p[1 + random_.below(n_ - 1)]);
        unit_ += std::abs(evaluate(p) - before) / SAMPLES;
    }
}

double TreeSearch::evaluate(const std::vector<int>& p) const {
    double sum = 0;
    for (int i = 0; i < n_; ++i) {
        const Item& item = items_[i];
        sum += linear_[i * n_ + p[i]];
        if (item.parent >= 0) sum += item.weight * distances_[p[i] * n_ + p[item.parent]];
    }
    return sum;
}

void TreeSearch::restart(const std::vector<int>& start) {
    p_ = best_ = turned(start);
    value_ = best = evaluate(p_);
    last_improved = steps;
}

void TreeSearch::run(std::int64_t count, double target) {
    const std::int64_t cycle = static_cast<std::int64_t>(CYCLE) * n_;
    for (; count > 0 && best > target; --count) {
        const double share = static_cast<double>(steps % cycle) / static_cast<double>(cycle);
        if (steps % cycle == 0) value_ = evaluate(p_);  // without the rounding of updates
        step(unit_ * HOT * std::pow(COLD / HOT, share));
        ++steps;
        if (value_ < best - tolerance) {
            best_ = p_;
            best = value_ = evaluate(p_);
            last_improved = steps;
        }
    }
}

void TreeSearch::step(double temperature) {
    choose();
    const double now = lay_out();
    limit_ = now - temperature * std::log(1.0 - random_.uniform());
    nodes_ = 0;
    better_ = false;
    place(0, bound_below(), 0);
    if (!better_) return;
    for (int k = 0; k < free_; ++k) p_[item_[k]] = place_[found_[k]];
    value_ += limit_ - now;
}

// Free some items, most of them neighbours of others, so that parts of the forest move as a whole.
void TreeSearch::choose() {
    const bool few = random_.below(RARE) > 0;
    const int size = std::min(n_, few ? LEAST + random_.below(FEW - LEAST + 1) : FEW + 1 + random_.below(MOST - FEW));
    for (free_ = 0; free_ < size;) {
        int i = random_.below(n_);
        if (free_ > 0 && random_.uniform() < 0.7) {
            const auto& edges = items_[item_[random_.below(free_)]].edges;
            if (!edges.empty()) {
                const int neighbour = edges[random_.below(static_cast<int>(edges.size()))].item;
                if (at_[neighbour] < 0) i = neighbour;
            }
        }
        if (at_[i] >= 0) continue;
        at_[i] = 0;
        item_[free_++] = i;
    }
    std::sort(item_, item_ + free_, [this](int a, int b) { return items_[a].rank < items_[b].rank; });
}

// Fill in the small problem and return what the free items cost now.
double TreeSearch::lay_out() {
    for (int k = 0; k < free_; ++k) {
        at_[item_[k]] = k;
        place_[k] = p_[item_[k]];
    }
    double now = 0;
    for (int k = 0; k < free_; ++k) {
        const Item& item = items_[item_[k]];
        parent_[k] = item.parent >= 0 ? at_[item.parent] : -1;
        weight_[k] = item.weight;
        double* own = below_[k];
        for (int a = 0; a < free_; ++a) {
            own[a] = linear_[item_[k] * n_ + place_[a]];
            between_[k][a] = distances_[place_[k] * n_ + place_[a]];
        }
        for (const Edge& edge : item.edges) {
            if (at_[edge.item] >= 0) continue;
            const double* row = &distances_[p_[edge.item] * n_];
            for (int a = 0; a < free_; ++a) own[a] += edge.weight * row[place_[a]];
        }
        now += own[k] + (parent_[k] < 0 ? 0.0 : weight_[k] * between_[parent_[k]][k]);
    }
    for (int k = 0; k < free_; ++k) at_[item_[k]] = -1;
    return now;
}

// Add to below_[k][a] what the items below k cost at least if k is at place a; return a bound for all free items.
double TreeSearch::bound_below() {
    double bound = 0;
    for (int k = free_ - 1; k >= 0; --k) {
        const double* own = below_[k];
        if (parent_[k] < 0) {
            least_[k][0] = *std::min_element(own, own + free_);
            bound += least_[k][0];
            continue;
        }
        for (int a = 0; a < free_; ++a) {
            double low = std::numeric_limits<double>::infinity();
            for (int b = 0; b < free_; ++b)
                if (b != a) low = std::min(low, weight_[k] * between_[a][b] + own[b]);
            least_[k][a] = low;
            below_[parent_[k]][a] += low;
        }
    }
    return bound;
}

// Place item k and those after it; limit_ and found_ become the value and places of the best arrangement.
void TreeSearch::place(int k, double bound, unsigned used) {
    if (k == free_) {
        bool same = true;
        for (int a = 0; a < free_; ++a) same &= choice_[a] == a;
        if (same) return;
        limit_ = bound;
        std::copy(choice_, choice_ + free_, found_);
        better_ = true;
        return;
    }
    if (++nodes_ > NODES * free_) return;
    const int above = parent_[k] < 0 ? -1 : choice_[parent_[k]];
    bound -= least_[k][std::max(above, 0)];
    double bounds[MOST];
    int places[MOST], count = 0;
    for (int a = 0; a < free_; ++a) {
        if (used >> a & 1U) continue;
        const double b = bound + below_[k][a] + (above < 0 ? 0.0 : weight_[k] * between_[above][a]);
        if (!(b < limit_)) continue;
        int at = count++;
        for (; at > 0 && bounds[at - 1] > b; --at) {
            bounds[at] = bounds[at - 1];
            places[at] = places[at - 1];
        }
        bounds[at] = b;
        places[at] = a;
    }
    for (int j = 0; j < count && bounds[j] < limit_; ++j) {
        choice_[k] = places[j];
        place(k + 1, bounds[j], used | 1U << places[j]);
    }
}

}  // namespace dcfw::swaps
