// One step of matching by candidates: which pairs of nodes do the neighbours of a node's candidates suggest?
#pragma once
#include "graph_path.hpp"

namespace dcfw {

// Return the `keep` largest entries of each row of sum L X N over the pairs (L, N): O(n keep) memory, O(edges of the
// candidates) time.  X has a row for each node of the first graph.
Csr propagate(const std::vector<Csr>& left, const Csr& X, const std::vector<Csr>& right, int columns, int keep);

}  // namespace dcfw
