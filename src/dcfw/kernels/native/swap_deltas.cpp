// The loops over all pairs and the annealing loop, compiled for several instruction sets.
#include "annealing.hpp"
#include "clones.hpp"
#include "swap_deltas.hpp"

#define DCFW_CLONED [[gnu::flatten]] DCFW_CLONES

// Clones for T = NUMBER.  They are overloads rather than templates: only functions can have clones.
#define DCFW_PASSES(NUMBER)                                                                                            \
    namespace {                                                                                                        \
    using Deltas_##NUMBER = SwapDeltas<NUMBER>;                                                                        \
    using Step_##NUMBER = Deltas_##NUMBER::Step;                                                                       \
    DCFW_CLONED void refresh(Deltas_##NUMBER& state) { state.refresh(); }                                              \
    DCFW_CLONED void prepare(Deltas_##NUMBER& state, int r, int s) { state.prepare(r, s); }                            \
    DCFW_CLONED void swap(Deltas_##NUMBER& state, int r, int s) { state.swap(r, s); }                                  \
    DCFW_CLONED Pair swap_and_find(Deltas_##NUMBER& state, int r, int s, Step_##NUMBER before, NUMBER aspired) {       \
        return state.swap_and_find(r, s, before, aspired);                                                             \
    }                                                                                                                  \
    DCFW_CLONED Pair swap_and_find_best(Deltas_##NUMBER& state, int r, int s) { return state.swap_and_find_best(r, s); } \
    DCFW_CLONED Pair find(const Deltas_##NUMBER& state, Step_##NUMBER before, NUMBER aspired) {                        \
        return state.find(before, aspired);                                                                            \
    }                                                                                                                  \
    DCFW_CLONED Pair find_best(const Deltas_##NUMBER& state) { return state.find_best(); }                             \
    DCFW_CLONED void anneal(Annealing<NUMBER>& search, std::int64_t count, double hot, double cold, int sweeps) {      \
        search.run(count, hot, cold, sweeps);                                                                          \
    }                                                                                                                  \
    }

namespace dcfw::swaps {

using std::int32_t;
DCFW_PASSES(int32_t)
DCFW_PASSES(double)

template <class T>
void Passes<T>::refresh(Deltas& state) { swaps::refresh(state); }
template <class T>
void Passes<T>::prepare(Deltas& state, int r, int s) { swaps::prepare(state, r, s); }
template <class T>
void Passes<T>::swap(Deltas& state, int r, int s) { swaps::swap(state, r, s); }
template <class T>
Pair Passes<T>::swap_and_find(Deltas& state, int r, int s, Step before, T aspired) {
    return swaps::swap_and_find(state, r, s, before, aspired);
}
template <class T>
Pair Passes<T>::swap_and_find_best(Deltas& state, int r, int s) { return swaps::swap_and_find_best(state, r, s); }
template <class T>
Pair Passes<T>::find(const Deltas& state, Step before, T aspired) { return swaps::find(state, before, aspired); }
template <class T>
Pair Passes<T>::find_best(const Deltas& state) { return swaps::find_best(state); }
template <class T>
void run_annealing(Annealing<T>& search, std::int64_t count, double hot, double cold, int sweeps) {
    anneal(search, count, hot, cold, sweeps);
}

template struct Passes<std::int32_t>;
template struct Passes<double>;
template void run_annealing(Annealing<std::int32_t>&, std::int64_t, double, double, int);
template void run_annealing(Annealing<double>&, std::int64_t, double, double, int);

}  // namespace dcfw::swaps

#undef DCFW_PASSES
#undef DCFW_CLONED
