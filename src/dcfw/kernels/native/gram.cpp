#include "gram.hpp"

#include "clones.hpp"
#include "rows.hpp"

namespace dcfw {

DCFW_CLONES Weighing pairwise_steps(const double* M, std::size_t stride, double* w, double* scores, int m,
                                    double aim, long limit, double slack) {
    Weighing done;
    for (; done.steps < limit; ++done.steps) {
        const double low = least(m, [=](int j) { return scores[j]; });
        const double high = -least(m, [=](int j) { return w[j] > 0.0 ? -scores[j] : infinity; });
        if (!(aim < high - low && high - low < infinity)) return done;
        const double close = tie * (high - low);
        const double best = least(m, [=](int j) { return scores[j] <= low + close ? double(j) : infinity; });
        const double worst = least(
            m, [=](int j) { return w[j] > 0.0 && scores[j] >= high - close ? double(j) : infinity; });
        if (!(best < m && worst < m)) return done;
        const int s = int(best), a = int(worst);
        const double *to = M + stride * s, *from = M + stride * a;
        const double gap = scores[a] - scores[s];
        const double curvature = to[s] - 2.0 * to[a] + from[a];
        if (curvature < -slack) {
            done.convex = false;
            return done;
        }
        double step = w[a];
        if (curvature > 0.0 && gap < curvature * step) {
            step = gap / curvature;
            w[a] -= step;
            done.gained += 0.5 * step * gap;
        } else {
            w[a] = 0.0;
            done.gained += step * (gap - 0.5 * step * (curvature > 0.0 ? curvature : 0.0));
        }
        w[s] += step;
#pragma omp simd
        for (int j = 0; j < m; ++j) scores[j] += step * (to[j] - from[j]);
    }
    return done;
}

}  // namespace dcfw
