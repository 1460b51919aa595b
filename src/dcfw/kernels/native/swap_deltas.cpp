// The loops over all pairs and the annealing loop, compiled for several instruction sets.
#include "annealing.hpp"
#include "clones.hpp"
#include "swap_deltas.hpp"

namespace dcfw::swaps {

namespace {

// Overloads rather than templates: only functions can have clones.
[[gnu::flatten]] DCFW_CLONES void refresh(SwapDeltas<std::int32_t>& s) { s.refresh(); }
[[gnu::flatten]] DCFW_CLONES void prepare(SwapDeltas<std::int32_t>& s, int i, int j) { s.prepare(i, j); }
[[gnu::flatten]] DCFW_CLONES void swap(SwapDeltas<std::int32_t>& s, int i, int j) { s.swap(i, j); }
[[gnu::flatten]] DCFW_CLONES Pair swap_and_find(SwapDeltas<std::int32_t>& s, int i, int j, SwapDeltas<std::int32_t>::Step before, std::int32_t aspired) {
    return s.swap_and_find(i, j, before, aspired);
}
[[gnu::flatten]] DCFW_CLONES Pair swap_and_find_best(SwapDeltas<std::int32_t>& s, int i, int j) { return s.swap_and_find_best(i, j); }
[[gnu::flatten]] DCFW_CLONES Pair find(const SwapDeltas<std::int32_t>& s, SwapDeltas<std::int32_t>::Step before, std::int32_t aspired) { return s.find(before, aspired); }
[[gnu::flatten]] DCFW_CLONES Pair find_best(const SwapDeltas<std::int32_t>& s) { return s.find_best(); }
[[gnu::flatten]] DCFW_CLONES void anneal(Annealing<std::int32_t>& s, std::int64_t count, double hot, double cold, int sweeps) {
    s.run(count, hot, cold, sweeps);
}

[[gnu::flatten]] DCFW_CLONES void refresh(SwapDeltas<double>& s) { s.refresh(); }
[[gnu::flatten]] DCFW_CLONES void prepare(SwapDeltas<double>& s, int i, int j) { s.prepare(i, j); }
[[gnu::flatten]] DCFW_CLONES void swap(SwapDeltas<double>& s, int i, int j) { s.swap(i, j); }
[[gnu::flatten]] DCFW_CLONES Pair swap_and_find(SwapDeltas<double>& s, int i, int j, SwapDeltas<double>::Step before, double aspired) {
    return s.swap_and_find(i, j, before, aspired);
}
[[gnu::flatten]] DCFW_CLONES Pair swap_and_find_best(SwapDeltas<double>& s, int i, int j) { return s.swap_and_find_best(i, j); }
[[gnu::flatten]] DCFW_CLONES Pair find(const SwapDeltas<double>& s, SwapDeltas<double>::Step before, double aspired) { return s.find(before, aspired); }
[[gnu::flatten]] DCFW_CLONES Pair find_best(const SwapDeltas<double>& s) { return s.find_best(); }
[[gnu::flatten]] DCFW_CLONES void anneal(Annealing<double>& s, std::int64_t count, double hot, double cold, int sweeps) {
    s.run(count, hot, cold, sweeps);
}

}  // namespace

template <class T>
void Passes<T>::refresh(Deltas& state) {
    swaps::refresh(state);
}
template <class T>
void Passes<T>::prepare(Deltas& state, int r, int s) {
    swaps::prepare(state, r, s);
}
template <class T>
void Passes<T>::swap(Deltas& state, int r, int s) {
    swaps::swap(state, r, s);
}
template <class T>
Pair Passes<T>::swap_and_find(Deltas& state, int r, int s, Step before, T aspired) {
    return swaps::swap_and_find(state, r, s, before, aspired);
}
template <class T>
Pair Passes<T>::swap_and_find_best(Deltas& state, int r, int s) {
    return swaps::swap_and_find_best(state, r, s);
}
template <class T>
Pair Passes<T>::find(const Deltas& state, Step before, T aspired) {
    return swaps::find(state, before, aspired);
}
template <class T>
Pair Passes<T>::find_best(const Deltas& state) {
    return swaps::find_best(state);
}
template <class T>
void run_annealing(Annealing<T>& search, std::int64_t count, double hot, double cold, int sweeps) {
    anneal(search, count, hot, cold, sweeps);
}

template struct Passes<std::int32_t>;
template struct Passes<double>;
template void run_annealing(Annealing<std::int32_t>&, std::int64_t, double, double, int);
template void run_annealing(Annealing<double>&, std::int64_t, double, double, int);

}  // namespace dcfw::swaps
