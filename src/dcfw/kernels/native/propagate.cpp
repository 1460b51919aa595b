#include "propagate.hpp"

#include <algorithm>

namespace dcfw {

Csr propagate(const std::vector<Csr>& left, const Csr& X, const std::vector<Csr>& right, int columns, int keep) {
    const std::size_t rows = X.start.size() - 1;
    Csr out;
    out.start.assign(1, 0);
    std::vector<float> sum(columns, 0.0f);
    std::vector<int> touched;
    for (std::size_t i = 0; i < rows; ++i) {
        touched.clear();
        for (std::size_t q = 0; q < left.size(); ++q) {
            const Csr &L = left[q], &N = right[q];
            for (auto e = L.start[i]; e < L.start[i + 1]; ++e) {
                const int k = L.index[e];
                for (auto c = X.start[k]; c < X.start[k + 1]; ++c) {
                    const int l = X.index[c];
                    const float factor = L.value[e] * X.value[c];
                    for (auto b = N.start[l]; b < N.start[l + 1]; ++b) {
                        const int j = N.index[b];
                        if (sum[j] == 0.0f) touched.push_back(j);
                        sum[j] += factor * N.value[b];
                    }
                }
            }
        }
        std::sort(touched.begin(), touched.end());
        touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
        if (touched.size() > std::size_t(keep)) {
            std::vector<int> best(touched);
            std::nth_element(best.begin(), best.begin() + keep, best.end(), [&](int a, int b) {
                return sum[a] != sum[b] ? sum[a] > sum[b] : a < b;
            });
            for (auto it = best.begin() + keep; it != best.end(); ++it) sum[*it] = 0.0f;
            best.resize(keep);
            std::sort(best.begin(), best.end());
            touched.swap(best);
        }
        for (int j : touched) {
            if (sum[j] != 0.0f) {
                out.index.push_back(j);
                out.value.push_back(sum[j]);
            }
            sum[j] = 0.0f;
        }
        out.start.push_back(std::int64_t(out.index.size()));
    }
    return out;
}

}  // namespace dcfw
