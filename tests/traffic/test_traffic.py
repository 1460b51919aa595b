"""Traffic assignment: equilibria and optima that are known, on generated and on real networks."""

import numpy as np
import pytest

from dcfw import functions, kernels, traffic
from dcfw.data import find
from dcfw.sets.flows import FlowPolytope
from dcfw.sets.graphs import Edges, Paths


def grid(side=4, seed=0, power=4.0):
    """Return a grid of two-way streets with random times, capacities and demands."""
    rng = np.random.default_rng(seed)
    at = np.arange(side * side).reshape(side, side)
    pairs = np.vstack(
        [
            np.column_stack([at[:, :-1].ravel(), at[:, 1:].ravel()]),
            np.column_stack([at[:-1].ravel(), at[1:].ravel()]),
        ]
    )
    links = np.vstack([pairs, pairs[:, ::-1]])
    m = len(links)
    demands = rng.uniform(0.0, 3.0, (side * side, side * side)) * (rng.random((side * side,) * 2) < 0.3)
    ones = np.ones(m)
    return traffic.Network(
        links, rng.uniform(1, 3, m), rng.uniform(5, 20, m), 0.15 * ones, power * ones, demands
    )


def real(name):
    """Return a network of the collection, where the files are there."""
    try:
        find(f"tntp/{name}_net.tntp")
    except FileNotFoundError:
        pytest.skip("needs the TransportationNetworks files in the folder named by DCFW_DATA")
    return traffic.read(name)


def total_time(network, v):
    return float(v @ network.times(v))


@pytest.mark.parametrize("power", [1.0, 4.0, 2.5])
def test_the_system_optimum_is_the_user_equilibrium_under_marginal_tolls(power):
    network = grid(power=power)
    user, system = (traffic.assign(network, kind, rtol=1e-6) for kind in ("user", "system"))
    tolls = network.system_optimum.grad(system.x) - network.times(system.x)
    tolled = network.user_equilibrium + functions.Quadratic(np.zeros((len(tolls),) * 2), tolls, convex=True)
    assert total_time(network, system.x) < total_time(network, user.x)
    assert network.relative_gap(user.x) <= 1e-6
    again = traffic.assign(network, tolled, rtol=1e-6)
    assert total_time(network, again.x) == pytest.approx(total_time(network, system.x), rel=1e-5)


def test_in_equilibrium_no_trip_has_a_faster_route():
    network = grid()
    res = traffic.assign(network, rtol=1e-7)
    times = network.times(res.x)
    at_least = float(times @ network.domain.lmo(times))  # what all trips take on their fastest routes
    assert total_time(network, res.x) == pytest.approx(at_least, rel=1e-7)


@pytest.mark.parametrize(("name", "rtol"), [("SiouxFalls", 1e-6), ("Anaheim", 1e-6)])
def test_the_objective_is_that_of_the_published_flows_to_six_digits(name, rtol):
    network = real(name)
    res = traffic.assign(network, rtol=rtol)
    table = np.loadtxt(find(f"tntp/{name}_flow.tntp"), skiprows=1, usecols=(0, 1, 2))
    flows = {(int(i) - 1, int(j) - 1): v for i, j, v in table}
    best = np.array([flows[int(i), int(j)] for i, j in network.links])
    assert network.relative_gap(best) <= 1e-12
    assert network.relative_gap(res.x) <= rtol
    assert res.fun == pytest.approx(network.user_equilibrium.value(best), rel=5e-7)
    if name == "SiouxFalls":
        assert res.fun == pytest.approx(42.31335287107440e5, rel=5e-7)  # as the collection prints it


def test_economies_of_scale_are_a_difference_of_convex_functions_that_gathers_traffic():
    network = grid()
    phi = network.system_optimum - traffic.Savings(20.0, 1.0)
    v, w = np.random.default_rng(0).exponential(size=(2, len(network.links)))
    middle = phi.g.value(0.5 * (v + w))
    assert middle <= 0.5 * (phi.g.value(v) + phi.g.value(w))
    assert functions.as_function(phi.g).grad(v) @ (w - v) <= phi.g.value(w) - phi.g.value(v)
    convex = traffic.assign(network, "system", rtol=1e-5)
    res = traffic.assign(network, phi, rtol=1e-5, x0=convex.x)
    assert res.success
    assert res.fun < phi.value(convex.x)  # the convex optimum ignores what sharing a link saves
    assert (res.x > 1e-6).sum() <= (convex.x > 1e-6).sum()


@pytest.mark.parametrize("through", [0, 3])
def test_the_compiled_loading_gives_the_flows_of_scipys_dijkstra(through):
    if kernels.native is None:
        pytest.skip("the extension is not built")
    network = grid(5, seed=1)
    edges = Edges(np.vstack([network.links, network.links[:7]]))  # some of them twice
    origins = np.flatnonzero(network.demands.sum(axis=1))
    paths = Paths(edges, origins, through)
    rng = np.random.default_rng(0)
    for _ in range(5):
        costs = rng.exponential(size=len(edges))
        np.testing.assert_allclose(
            paths.load(costs, network.demands[origins]),
            paths._load(costs, network.demands[origins]),
            atol=1e-9,
        )


def test_zones_are_not_passed():
    links = np.array([[0, 2], [2, 1], [0, 3], [3, 4], [4, 1]])  # the short way leads through zone 2
    demands = np.zeros((3, 3))
    demands[0, 1] = 1.0
    np.testing.assert_array_equal(FlowPolytope(links, demands).lmo(np.ones(5)), [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(FlowPolytope(links, demands, through=3).lmo(np.ones(5)), [0, 0, 1, 1, 1])


def test_costs_below_zero_and_demands_without_a_path_are_refused():
    ring = np.array([[0, 1], [1, 2], [2, 0]])
    with pytest.raises(ValueError, match="G has negative entries, but the graph has cycles"):
        FlowPolytope(ring, [[0.0, 1.0], [0.0, 0.0]]).lmo(np.array([1.0, -1.0, 1.0]))
    with pytest.raises(ValueError, match="demands has an entry from 1 to 0, but graph has no path"):
        FlowPolytope([[0, 1]], [[0.0, 0.0], [1.0, 0.0]])


TOWN = "<NUMBER OF ZONES> 2\n<FIRST THRU NODE> 1\n<NUMBER OF LINKS> 1\n1 2 1 1 1 1 1 ;\n"


@pytest.mark.parametrize(
    ("net", "trips", "named"),
    [
        ("<NUMBER OF ZONES> 2\n1 2 3\n", "", "_net.* is not a file of a network"),
        (TOWN.replace("ZONES> 2", "ZONES> x"), "", "_net.* is not a file of a network"),
        (TOWN, "Origin 1\n 3 : 1.0;\n", "_trips.* zones that"),
        (TOWN, " 2 : 1.0;\nOrigin 1\n", "_trips.* zones that"),
        (TOWN.replace("LINKS> 1", "LINKS> 2"), "", "_net.* it has 1 links, but its header states 2"),
        (TOWN + "1 2 1 1 1 1 ;\n", "", "_net.* at least 7 columns, but one is '1 2 1 1 1 1 ;'"),
        (TOWN.replace("1 2 1", "1 2.5 1"), "", "_net.*links must have .* node numbers"),
        (TOWN.replace("1 2 1", "1 2 -1"), "", "_net.*capacity must not be negative"),
        (TOWN, "<TOTAL OD FLOW> 8.0\nOrigin 1\n 2 : 7.9;\n", "_trips.* it has 7.9 trips.* states 8.0"),
        (TOWN, "<TOTAL OD FLOW> 8.0\n", "_trips.* it has 0 trips"),
        (TOWN, "Origin 1\n 2 : nan;\n", "_trips.*got '2 : nan'"),
        (TOWN, "Origin 1\n 2 : 6,0;\n", "_trips.*got '2 : 6,0'"),
        (TOWN, "Origin 1\n 2 : 1 0;\n", "_trips.*got '2 : 1 0'"),
        (TOWN, "Origin 1 2 : 1.0;\n", "_trips.*got 'Origin 1 2 : 1.0'"),
        (TOWN, "Origin 1\n 2 : 1.0.0;\n", "_trips.*could not convert"),
    ],
)
def test_files_that_are_damaged_or_not_networks_are_refused_by_name(tmp_path, net, trips, named):
    (tmp_path / "Town_net.tntp").write_text(net, encoding="utf-8")
    (tmp_path / "Town_trips.tntp").write_text(trips, encoding="utf-8")
    with pytest.raises(ValueError, match=named):
        traffic.read(tmp_path / "Town")


@pytest.mark.parametrize("name", ["SiouxFalls", "Anaheim", "ChicagoSketch"])
def test_the_files_of_the_collection_hold_what_their_headers_state(name, tmp_path):
    network = real(name)
    net, trips = (find(f"tntp/{name}_{part}.tntp").read_text(encoding="utf-8") for part in ("net", "trips"))
    stated = float(trips.partition("<TOTAL OD FLOW>")[2].split()[0])
    assert network.demands.sum() == pytest.approx(stated, rel=1e-9)
    (tmp_path / "Half_net.tntp").write_text(net, encoding="utf-8")
    half = trips[: trips.index("\n", len(trips) // 2)]
    (tmp_path / "Half_trips.tntp").write_text(half, encoding="utf-8")
    with pytest.raises(ValueError, match=r"Half_trips.* its header states"):
        traffic.read(tmp_path / "Half")


@pytest.mark.parametrize("links", [[[0.9, 1.7]], [[0, -1]], [0, 1], [[0, 1, 2]]])
def test_links_that_are_not_pairs_of_node_numbers_are_refused(links):
    with pytest.raises(ValueError, match="links must have a row"):
        traffic.Network(links, np.ones(1), np.ones(1), np.ones(1), np.ones(1), np.zeros((2, 2)))


def test_a_network_is_read_from_a_path(tmp_path):
    net = "<NUMBER OF ZONES> 2\n<FIRST THRU NODE> 1\n~ init term\n1 2 30 1 5 0.15 4 0 0 1 ;\n"
    (tmp_path / "Town_net.tntp").write_text(net, encoding="utf-8")
    (tmp_path / "Town_trips.tntp").write_text(
        "<TOTAL OD FLOW> 8\norigin 1\n 1 : 0.0; 2 : 8.0;\n", encoding="utf-8"
    )
    network = traffic.read(tmp_path / "Town")
    assert (network.name, network.through) == ("Town", 0)
    np.testing.assert_array_equal(traffic.assign(network).x, [8.0])
