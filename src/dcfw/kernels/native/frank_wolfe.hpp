// Frank-Wolfe over the Birkhoff polytope with exact line search, for Quadratic functions: one assignment problem
// and one gradient, at a vertex, for each step.
//
// M. Frank and P. Wolfe, "An algorithm for quadratic programming", Naval Research Logistics Quarterly 3 (1956).
#pragma once
#include <vector>

#include "lap.hpp"
#include "quadratic.hpp"
#include "vertex_gradients.hpp"

namespace dcfw {

// Why a kernel returned.
enum Reason { gap_met = 0, steps_done = 1, negative = 2, tiny = 3, bad_gradient = 4, short_step = 5 };

// Where the steps begin and where they end.
struct Plan {
    double threshold = -1.0;  // stop when the gap is at most this,
    bool progress = false;    // or (instead) at most what was gained so far
    double shortest = 0.0;    // stop after a step shorter than this
    bool convex = true;       // whether negative curvature along a step is an error
    bool started = false;     // the vertex at X and the gap are known: the step comes first
    bool measured = true;     // the gap after the last step is wanted
    long steps = 0;           // the most steps
};

// What a kernel did.
struct Batch {
    Reason reason = steps_done;
    long steps = 0, solved = 0;       // Frank-Wolfe steps and assignment problems
    long gradients = 0, moved = 0;    // gradients counted, and pairwise steps
    double curvature = 0.0;           // if negative: along which no step was taken
    std::vector<double> gaps, gains;  // where the gap was measured: it, and what was gained before
};

// The solver's memory of one run: the last vertex, its gap, what was gained since begin().
class FrankWolfe {
  public:
    explicit FrankWolfe(int n);

    void begin();
    // Take steps from X, whose gradient of f is `grad` (both are updated), on f - <linear, X>.
    Batch advance(const Quadratic& f, const double* linear, double* X, double* grad, const Plan& plan);

    double gap, gained, bound;  // bound: on how much can be gained, counted from begin()
    int n;
    Lap lap;
    std::vector<int> vertex;

  protected:
    // Find the vertex at X and the gap; return whether the gradient G is finite.
    bool measure(const double* G, const double* X);
    // Measure for a batch; return whether the batch ends here.
    bool settled(const double* G, const double* X, const Plan& plan, Batch& batch);
    // The gradient of f - linear: `grad` itself, or a difference in memory of its own.
    const double* slope(const double* grad, const double* linear);

    VertexGradients gradients_;
    std::vector<double> slope_, change_;
};

}  // namespace dcfw
