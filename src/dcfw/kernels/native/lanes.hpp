// Vectors of 32 bytes for the inner loops, in the notation of GCC and Clang: a + b, a < b ? c : d work lane by lane.
//
// The compiler maps them to what the processor has; sums are taken lane by lane in a fixed order, so that results do
// not depend on the machine.
#pragma once
#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

namespace dcfw::swaps {

template <class T>
struct Vector {
    typedef T type __attribute__((vector_size(32)));
    static constexpr int lanes = 32 / sizeof(T);
};
template <class T>
using Vec = typename Vector<T>::type;

// Rows that start on cache lines.
template <class T>
struct OnCacheLines {
    using value_type = T;
    OnCacheLines() = default;
    template <class U>
    OnCacheLines(const OnCacheLines<U>&) {}
    T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(64))); }
    void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t(64)); }
    bool operator==(const OnCacheLines&) const { return true; }
    bool operator!=(const OnCacheLines&) const { return false; }
};
template <class T>
using Array = std::vector<T, OnCacheLines<T>>;

template <class T>
[[gnu::always_inline]] inline Vec<T> load(const T* from) {
    Vec<T> v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
template <class T>
[[gnu::always_inline]] inline void store(T* to, const Vec<T>& v) {
    std::memcpy(to, &v, sizeof v);
}
template <class T>
[[gnu::always_inline]] inline Vec<T> fill(T x) {
    return x - Vec<T>{};
}
template <class T>
[[gnu::always_inline]] inline T sum(const Vec<T>& v) {
    T total = 0;
    for (int l = 0; l < Vector<T>::lanes; ++l) total += v[l];
    return total;
}
template <class T>
[[gnu::always_inline]] inline T least(const Vec<T>& v) {
    T low = v[0];
    for (int l = 1; l < Vector<T>::lanes; ++l) low = v[l] < low ? v[l] : low;
    return low;
}

}  // namespace dcfw::swaps
