// All-or-nothing flows: a shortest path tree for each source, and the demands loaded onto it.
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace dcfw {
namespace {

// A graph in compressed rows: node i has the edges rows[i] to rows[i + 1] - 1, which lead to heads[e].
struct Graph {
    std::size_t nodes;
    const std::int64_t* rows;
    const std::int64_t* heads;
    const double* costs;
};

// Dijkstra's algorithm from one source; nodes are settled in the order of their distance.
class Tree {
public:
    explicit Tree(const Graph& graph)
        : graph_(graph), distance_(graph.nodes), edge_(graph.nodes), parent_(graph.nodes), flow_(graph.nodes) {}

    // Add the flow of the demands from the source to that of each edge.
    void load(std::int64_t source, const double* demands, std::size_t count, double* flow) {
        std::fill(flow_.begin(), flow_.end(), 0.0);
        std::copy_n(demands, count, flow_.begin());
        grow(source, std::count_if(demands, demands + count, [](double demand) { return demand > 0.0; }));
        // From the farthest node on, each passes its flow to the node before it.
        for (std::size_t k = order_.size(); k-- > 1;) {
            const std::int64_t node = order_[k];
            if (flow_[node] == 0.0) continue;
            flow[edge_[node]] += flow_[node];
            flow_[parent_[node]] += flow_[node];
        }
    }

private:
    void grow(std::int64_t source, std::size_t wanted) {
        std::fill(distance_.begin(), distance_.end(), std::numeric_limits<double>::infinity());
        order_.clear();
        heap_ = {};
        distance_[source] = 0.0;
        heap_.emplace(0.0, source);
        while (!heap_.empty() && wanted > 0) {
            const auto [far, node] = heap_.top();
            heap_.pop();
            if (far > distance_[node]) continue;  // settled before, at a smaller distance
            distance_[node] = -far;               // settled
            order_.push_back(node);
            wanted -= flow_[node] > 0.0;
            for (std::int64_t e = graph_.rows[node]; e < graph_.rows[node + 1]; ++e) {
                const std::int64_t head = graph_.heads[e];
                const double through = far + graph_.costs[e];
                if (through < distance_[head]) {
                    distance_[head] = through;
                    edge_[head] = e;
                    parent_[head] = node;
                    heap_.emplace(through, head);
                }
            }
        }
    }

    using Entry = std::pair<double, std::int64_t>;
    const Graph graph_;
    std::vector<double> distance_;
    std::vector<std::int64_t> edge_, parent_, order_;
    std::vector<double> flow_;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> heap_;
};

void load(const Vector& costs, const ConstIndices& rows, const ConstIndices& heads, const ConstIndices& sources,
          const Matrix& demands, OutVector flow) {
    const std::size_t nodes = rows.shape(0) - 1, edges = heads.shape(0);
    if (rows.shape(0) == 0 || costs.shape(0) != edges || flow.shape(0) != edges ||
        demands.shape(0) != sources.shape(0) || demands.shape(1) > nodes)
        throw nb::value_error("the graph, the costs or the demands have a wrong shape");
    for (std::size_t i = 0; i < nodes; ++i)
        if (rows(i) < 0 || rows(i) > rows(i + 1) || rows(i + 1) > std::int64_t(edges))
            throw nb::value_error("the rows of the graph are out of range");
    for (std::size_t e = 0; e < edges; ++e)
        if (heads(e) < 0 || heads(e) >= std::int64_t(nodes) || !(costs(e) >= 0.0))
            throw nb::value_error("the heads or the costs of the graph are out of range");
    for (std::size_t s = 0; s < sources.shape(0); ++s)
        if (sources(s) < 0 || sources(s) >= std::int64_t(nodes)) throw nb::value_error("a source is out of range");
    nb::gil_scoped_release release;
    std::fill_n(flow.data(), edges, 0.0);
    Tree tree(Graph{nodes, rows.data(), heads.data(), costs.data()});
    for (std::size_t s = 0; s < sources.shape(0); ++s)
        tree.load(sources(s), demands.data() + s * demands.shape(1), demands.shape(1), flow.data());
}

}  // namespace

void bind_flows(nb::module_& m) {
    m.def("load_shortest_paths", &load, "costs"_a.noconvert(), "rows"_a.noconvert(), "heads"_a.noconvert(),
          "sources"_a.noconvert(), "demands"_a.noconvert(), "flow"_a.noconvert(),
          "Write the flow of each edge when every demand takes a shortest path from its source.");
}

}  // namespace dcfw
