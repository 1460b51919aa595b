// The store of vertex_gradients.hpp.
#include "vertex_gradients.hpp"

#include <algorithm>

namespace dcfw {

namespace {

constexpr std::size_t memory = 1 << 20;  // numbers to keep, unless fewer than two matrices
constexpr int longest = 32;              // updates before the whole product is taken again, against drift

int differences(const int* p, const int* q, int n) {
    int count = 0;
    for (int i = 0; i < n; ++i) count += p[i] != q[i];
    return count;
}

}  // namespace

VertexGradients::VertexGradients(int n)
    : n_(n), most_(std::clamp<std::size_t>(memory / (std::size_t(n) * n), 2, 8)) {}

const double* VertexGradients::at(const Quadratic& f, const int* p) {
    if (f.id() != function_) entries_.clear();
    function_ = f.id();
    Entry *nearest = nullptr, *oldest = nullptr;
    int least = n_ + 1;
    for (Entry& entry : entries_) {
        const int count = differences(entry.p.data(), p, n_);
        if (count < least) {
            least = count;
            nearest = &entry;
        }
        if (!oldest || entry.used < oldest->used) oldest = &entry;
    }
    if (least > 0) {
        const bool update = nearest && 3 * least <= 2 * n_ && nearest->updates < longest;
        if (entries_.size() < most_) {
            const std::size_t at = nearest ? nearest - entries_.data() : 0;
            oldest = &entries_.emplace_back();
            nearest = nearest ? &entries_[at] : nullptr;
            oldest->gradient.resize(std::size_t(n_) * n_);
        }
        if (update) {
            if (oldest != nearest) *oldest = *nearest;
            f.follow(oldest->p.data(), p, oldest->gradient.data());
            ++oldest->updates;
        } else {
            f.at_vertex(p, oldest->gradient.data());
            oldest->updates = 0;
        }
        oldest->p.assign(p, p + n_);
        nearest = oldest;
    }
    nearest->used = ++now_;
    return nearest->gradient.data();
}

}  // namespace dcfw
