// What Python holds of a solver: the solver and a lock, so that threads may share it.
#pragma once
#include <mutex>
#include <utility>

namespace dcfw {

template <class Solver>
struct Guarded {
    Solver it;
    std::mutex mutex;

    template <class... Arguments>
    explicit Guarded(Arguments... arguments) : it(arguments...) {}
};

// A method that calls `use` with the solver while no other thread uses it.
template <class Solver, class Use>
auto locked(Use use) {
    return [use](Guarded<Solver>& self) {
        std::lock_guard<std::mutex> lock(self.mutex);
        return use(self.it);
    };
}

}  // namespace dcfw
