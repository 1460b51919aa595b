#include "active_set.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "gram.hpp"
#include "rows.hpp"
#include "vectors.hpp"

namespace dcfw {
namespace {

constexpr double local_aim = 0.5;  // weights are optimised to this fraction of the last Frank-Wolfe gap
constexpr int fetch = 8;           // multiplications of a product that take the time of adding a stored number
constexpr int idle = 2;            // atoms per atom with weight before the idle ones are dropped

std::size_t table_size(int cap) {
    std::size_t size = 1;
    while (size < 4 * std::size_t(cap)) size *= 2;
    return size;
}

}  // namespace

ActiveSet::ActiveSet(int n, int cap)
    : FrankWolfe(n), cap(cap), dense(std::size_t(n) * n), weights(cap), offsets(cap),
      gram(std::size_t(cap) * cap), images(cap), limit_(std::min(32, cap)), perms_(std::size_t(cap) * n),
      table_(table_size(cap)), scores_(cap) {
    images[0].resize(dense.size());
}

// The atom that is p, or -1, and its place in the hash table (FNV-1a, linear probing).
int ActiveSet::find(const int* p, std::size_t* place) const {
    std::uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < n; ++i) hash = (hash ^ std::uint64_t(p[i])) * 1099511628211u;
    const std::size_t mask = table_.size() - 1;
    std::size_t at = hash & mask;
    for (; table_[at] > 0; at = (at + 1) & mask)
        if (std::equal(p, p + n, permutation(table_[at]))) break;
    *place = at;
    return table_[at] > 0 ? table_[at] : -1;
}

// Fill row and column `atom` of the Gram matrix.  The Hessian is symmetric, so one image is enough: that of
// `atom`, which has just been computed and is in the cache.
void ActiveSet::fill_gram(int atom) {
    const double* image = images[atom].data();
    double* row = &gram[std::size_t(cap) * atom];
    if (weights[0] > 0.0) row[0] = dot(image, dense.data(), dense.size()) - offsets[0];
    for (int i = 1; i < count_; ++i) row[i] = along(image, permutation(i), n) - offsets[i];
    for (int i = 0; i < count_; ++i) gram[std::size_t(cap) * i + atom] = row[i];
}

// Write <G, atom> for all atoms.  The dense one is a candidate only as long as it has weight.
void ActiveSet::write_slopes(const double* G) {
    scores_[0] = weights[0] > 0.0 ? dot(G, dense.data(), dense.size()) : infinity;
    for (int j = 1; j < count_; ++j) scores_[j] = along(G, permutation(j), n);
}

void ActiveSet::move(int source, int target) {
    std::copy_n(&perms_[std::size_t(n) * source], n, &perms_[std::size_t(n) * target]);
    images[source].swap(images[target]);
    offsets[target] = offsets[source];
    weights[target] = weights[source];
    std::copy_n(&gram[std::size_t(cap) * source], count_, &gram[std::size_t(cap) * target]);
    for (int i = 0; i < count_; ++i) gram[std::size_t(cap) * i + target] = gram[std::size_t(cap) * i + source];
}

// Drop the atoms without weight; if too many are left, merge the lightest ones into the dense one.
void ActiveSet::make_room() {
    int kept = 1;
    for (int j = 1; j < count_; ++j)
        if (weights[j] > 0.0) {
            if (kept != j) move(j, kept);
            ++kept;
        }
    count_ = kept;
    const int most = 3 * cap / 4;
    if (kept > most) merge_lightest(most);
    std::fill(weights.begin() + count_, weights.end(), 0.0);
    std::fill(table_.begin(), table_.end(), 0);
    for (int j = 1; j < count_; ++j) {
        std::size_t place;
        find(permutation(j), &place);
        table_[place] = j;
    }
    limit_ = std::min(idle * count_ + 32, cap);
}

void ActiveSet::merge_lightest(int most) {
    std::vector<int> order(count_ - 1);
    for (int j = 1; j < count_; ++j) order[j - 1] = j;
    std::stable_sort(order.begin(), order.end(), [this](int a, int b) { return weights[a] < weights[b]; });
    order.resize(std::min<std::size_t>(count_ - most / 2, order.size()));
    std::sort(order.begin(), order.end());
    double total = weights[0];
    for (int k : order) total += weights[k];
    double* image = images[0].data();
    const double own = weights[0] / total;
    for (std::size_t k = 0; k < dense.size(); ++k) {
        dense[k] *= own;
        image[k] *= own;
    }
    offsets[0] *= own;
    for (int k : order) {
        const double share = weights[k] / total;
        offsets[0] += share * offsets[k];
        for (int i = 0; i < n; ++i) dense[std::size_t(n) * i + permutation(k)[i]] += share;
        add_scaled(share, images[k].data(), image, dense.size());
    }
    weights[0] = total;
    int kept = 1;
    std::size_t next = 0;
    for (int j = 1; j < count_; ++j) {
        if (next < order.size() && order[next] == j) {
            ++next;
            continue;
        }
        if (kept != j) move(j, kept);
        ++kept;
    }
    count_ = kept;
    fill_gram(0);
}

// Return the atom that is the last vertex, a new one where there is none.
int ActiveSet::join(const Quadratic& f) {
    std::size_t place;
    const int known = find(vertex.data(), &place);
    if (known > 0) return known;
    if (count_ >= limit_) {
        make_room();
        find(vertex.data(), &place);
    }
    const int atom = count_++;
    table_[place] = atom;
    std::copy(vertex.begin(), vertex.end(), &perms_[std::size_t(n) * atom]);
    weights[atom] = 0.0;
    offsets[atom] = f.C.empty() ? 0.0 : along(f.C.data(), vertex.data(), n);
    images[atom].resize(dense.size());
    f.at_vertex(vertex.data(), images[atom].data());
    fill_gram(atom);
    return atom;
}

// Bring the gradient up to date after a change of the weights, in pieces that stay in the first cache.
void ActiveSet::follow(const std::vector<double>& before, double* grad) const {
    constexpr std::size_t block = 1024;
    for (std::size_t start = 0; start < dense.size(); start += block) {
        const std::size_t length = std::min(block, dense.size() - start);
        for (int j = 0; j < count_; ++j)
            if (weights[j] != before[j])
                add_scaled(weights[j] - before[j], &images[j][start], grad + start, length);
    }
}

void ActiveSet::point(double* X) const {
    for (std::size_t k = 0; k < dense.size(); ++k) X[k] = weights[0] > 0.0 ? weights[0] * dense[k] : 0.0;
    for (int j = 1; j < count_; ++j)
        if (weights[j] > 0.0)
            for (int i = 0; i < n; ++i) X[std::size_t(n) * i + permutation(j)[i]] += weights[j];
}

void ActiveSet::normalise(double* X) {
    double total = 0.0;
    for (int j = 0; j < count_; ++j) total += weights[j];
    for (int j = 0; j < count_; ++j) weights[j] /= total;
    point(X);
}

void ActiveSet::restart(const Quadratic& f, const double* X, const double* grad, bool forget) {
    if (forget) {
        count_ = 1;
        limit_ = std::min(32, cap);
        std::fill(table_.begin(), table_.end(), 0);
    }
    std::copy_n(X, dense.size(), dense.begin());
    std::copy_n(grad, dense.size(), images[0].begin());
    offsets[0] = f.C.empty() ? 0.0 : dot(f.C.data(), X, dense.size());
    std::fill(weights.begin(), weights.end(), 0.0);
    weights[0] = 1.0;
    fill_gram(0);
}

Batch ActiveSet::advance(const Quadratic& f, const double* linear, double* X, double* grad, const Plan& plan) {
    Batch batch;
    for (;; ++batch.steps) {
        const bool last = batch.steps == plan.steps;
        if (last && !plan.measured) {
            gap = infinity;
            return batch;
        }
        const bool known = plan.started && batch.steps == 0;
        const double* G = slope(grad, linear);
        if (!known && settled(G, X, plan, batch)) return batch;
        if (last) return batch;

        join(f);
        write_slopes(G);
        const std::vector<double> before(weights.begin(), weights.begin() + count_);
        const Weighing done = pairwise_steps(gram.data(), cap, weights.data(), scores_.data(), count_,
                                             local_aim * gap, 1000 + 50L * count_, infinity);
        batch.moved += done.steps;
        if (done.steps == 0 || !(done.gained > 0.0)) {
            batch.reason = tiny;
            return batch;
        }
        gained += done.gained;
        ++batch.gradients;
        point(X);
        long changed = 0;
        for (int j = 0; j < count_; ++j) changed += weights[j] != before[j];
        if (changed * fetch > f.cost())
            f.gradient(X, grad);
        else
            follow(before, grad);
    }
}

}  // namespace dcfw
