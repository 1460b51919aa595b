"""The sets of dcfw.torch are those of dcfw.sets, and no iterate of any method leaves them."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")

from dcfw.torch import DCFW, SFW, matrices, regions, sliding_step  # noqa: E402
from dcfw.torch.base import RADIUS_MODES, region_of  # noqa: E402
from torch_cores import core as core_of  # noqa: E402

REGIONS = {
    "linf": regions.Interval(-0.4, 0.4),
    "box": regions.Interval(-0.1, 0.7),
    "l2": regions.L2(0.9),
    "l1": regions.L1(1.3),
    "simplex": regions.Simplex(1.1),
    "spectral": matrices.Spectral(0.6, (8, 5)),
    "nuclear": matrices.Nuclear(1.2, (8, 5)),
}
GROUPS = {
    "linf": {"radius": 0.4},
    "box": {"radius": (-0.1, 0.7)},
    "l2": {"radius": 0.9},
    "l1": {"radius": 1.3},
    "simplex": {"radius": 1.1},
    "spectral": {"radius": 0.6},
    "nuclear": {"radius": 1.2},
}
SHAPE = (8, 5)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def answers(name, verb, blocks, scale=1.0):
    """Return what the torch set and its counterpart of the core say to the same random blocks."""
    region, core = REGIONS[name], core_of(REGIONS[name], SHAPE)
    X = scale * torch.randn(blocks, math.prod(SHAPE), dtype=torch.float64)
    ours = getattr(region, verb)(X).numpy()
    theirs = [getattr(core, "lmo" if verb == "vertex" else verb)(x.reshape(SHAPE)) for x in X.numpy()]
    return ours.reshape(blocks, *SHAPE), np.array(theirs)


def blocks_of(name):
    return 1 if name in ("spectral", "nuclear") else 3


@pytest.mark.parametrize("name", [name for name in REGIONS if name not in ("spectral", "nuclear")])
def test_vertices_are_those_of_the_core(name):
    ours, theirs = answers(name, "vertex", blocks_of(name))
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("name", ["spectral", "nuclear"])
def test_vertices_of_matrix_balls_are_nearly_optimal_points_of_them(name):
    region, core = REGIONS[name], core_of(REGIONS[name], SHAPE)
    for _ in range(10):
        G = torch.randn(1, math.prod(SHAPE), dtype=torch.float64)
        s = region.vertex(G)
        best = float((G.numpy().reshape(SHAPE) * core.lmo(G.numpy().reshape(SHAPE))).sum())
        assert core.contains(s.numpy().reshape(SHAPE))
        assert best <= float((G * s).sum()) + 1e-12
        assert float((G * s).sum()) <= 0.95 * best  # both are negative


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("name", REGIONS)
def test_projections_are_those_of_the_core(name, scale):
    ours, theirs = answers(name, "project", blocks_of(name), scale)
    np.testing.assert_allclose(ours, theirs, atol=1e-10)


@pytest.mark.parametrize("name", ["l1", "simplex"])
def test_projections_of_large_blocks_with_ties_stay_exact(name):
    region = {"l1": regions.L1(20.0), "simplex": regions.Simplex(20.0)}[name]
    X = torch.randn(1, 5000, dtype=torch.float64).mul(4).round().div(4)
    np.testing.assert_allclose(
        region.project(X)[0], core_of(region, (5000,)).project(X[0].numpy()), atol=1e-10
    )


LONG_TAILS = {
    "lognormal": -torch.exp(4.0 * torch.randn(20_000, generator=torch.Generator().manual_seed(0))),
    "one far entry": torch.tensor([0.2, 0.3, -1e20]),
    "one large entry": torch.tensor([1e16, 0.0]),
    "the range of floats": torch.tensor([3e38, -3e38]),
    "equal large entries": torch.full((5000,), 1e8),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tail", LONG_TAILS)
@pytest.mark.parametrize("name", ["l1", "simplex"])
def test_projections_of_long_tails_are_feasible_and_exact(name, tail, dtype):
    region, Z = {"l1": regions.L1(1.0), "simplex": regions.Simplex(1.0)}[name], LONG_TAILS[tail].to(dtype)
    X = region.project(Z[None])[0]
    assert float(X.double().abs().sum()) == pytest.approx(1.0, abs=1e-6)
    shifted = (Z - Z.max() if name == "simplex" else Z.abs() - Z.abs().max()).double().clamp(min=-2.0)
    expected = core_of(regions.Simplex(1.0), tuple(Z.shape)).project(shifted.numpy())
    np.testing.assert_allclose(X.abs(), expected, atol=1e-6)


class Faulty:
    """A box with one faulty method."""

    def __init__(self, verb, fault):
        self.verb, self.fault = verb, fault

    def _answer(self, verb, G, found):
        if verb == self.verb:
            return self.fault(G, found)
        return found

    def lmo(self, G):
        return self._answer("lmo", G, -G.sign())

    def project(self, x):
        return self._answer("project", x, x.clamp(-1.0, 1.0))


@pytest.mark.parametrize(("verb", "kind"), [("lmo", SFW), ("project", DCFW)])
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (lambda G, found: found * float("nan"), "of Faulty returned NaN or Inf"),
        (lambda G, found: found[:1], r"of Faulty must return a tensor of shape \(2,\), got"),
        (lambda G, found: None, r"of Faulty must return a tensor of shape \(2,\), got NoneType"),
    ],
)
def test_a_wrong_answer_of_a_set_is_reported_with_the_method_and_moves_no_weight(verb, kind, fault, text):
    p = torch.nn.Parameter(torch.tensor([0.5, -0.25]))
    optimizer = kind(
        [p], lr=0.1, constraint=Faulty(verb, fault), **({"solver": "fw"} if kind is DCFW else {})
    )
    p.grad = torch.ones(2)
    with pytest.raises(ValueError, match=f"{verb} {text}"):
        optimizer.step()
    assert p.tolist() == [0.5, -0.25]


@pytest.mark.parametrize("verb", ["lmo", "project"])
@pytest.mark.parametrize("kind", [SFW, DCFW])
def test_a_set_may_overwrite_its_arguments(kind, verb):
    def overwrite(G, found):
        G.fill_(float("nan"))
        return found

    found = []
    for fault in (overwrite, lambda G, answer: answer):
        p = torch.nn.Parameter(torch.tensor([0.5, -0.25]))
        optimizer = kind([p], lr=0.1, momentum=0.5, constraint=Faulty(verb, fault))
        for grad in ([1.0, 2.0], [-0.1, 0.3]):
            p.grad = torch.tensor(grad)
            optimizer.step()
        assert p.grad.tolist() == pytest.approx(grad)
        found.append(p.tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", REGIONS)
def test_zero_gradients_have_a_vertex_in_the_set(name):
    X = torch.zeros(1, math.prod(SHAPE), dtype=torch.float64)
    X = REGIONS[name].project(X)
    S = X - REGIONS[name].away(torch.zeros_like(X), X)
    assert core_of(REGIONS[name], SHAPE).contains(S.numpy().reshape(SHAPE))


@pytest.mark.parametrize("method", ["exact", "fw", "sfw"])
@pytest.mark.parametrize("name", REGIONS)
def test_every_iterate_is_feasible(name, method):
    core = core_of(REGIONS[name], SHAPE)
    p = torch.nn.Parameter(2.0 * torch.randn(SHAPE))  # a start outside the set, in single precision
    options = {"constraint": name, **GROUPS[name]}
    optimizer = SFW([p], **options) if method == "sfw" else DCFW([p], solver=method, inner_steps=7, **options)
    for t in range(25):
        p.grad = 10.0 ** (t % 5 - 2) * torch.randn(SHAPE)
        optimizer.step()
        assert core.violation(p.detach().numpy()) <= 1e-6 * max(1.0, core.scale)


@pytest.mark.parametrize("name", [n for n in REGIONS if n not in ("spectral", "nuclear")])
def test_rows_are_sets_of_their_own(name):
    core = core_of(REGIONS[name], (5,))
    for solver in ("exact", "fw"):
        p = torch.nn.Parameter(torch.randn(SHAPE))
        optimizer = DCFW([p], constraint=name, scope="row", solver=solver, **GROUPS[name])
        for _ in range(5):
            p.grad = torch.randn(SHAPE)
            optimizer.step()
        assert all(core.violation(row) <= 1e-6 for row in p.detach().numpy())


def muons_five_steps(G):
    """Return what five steps of Muon's iteration make of G, in single precision."""
    X = G / G.norm()
    for _ in range(5):
        A = X @ X.T
        X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
    return X


@pytest.mark.parametrize("shape", [(40, 40), (30, 50), (64, 20)])
def test_approximate_polar_factors_stay_in_the_ball_where_muons_leave_it(shape):
    G = torch.randn(shape)
    inside = torch.linalg.matrix_norm(matrices.polar_inside(G).double(), 2)
    muon = torch.linalg.matrix_norm(muons_five_steps(G if shape[0] <= shape[1] else G.T).double(), 2)
    assert 0.99 < float(inside) <= 1.0
    assert float(muon) > 1.05


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e3, 1e30])
def test_polar_factors_and_leading_pairs_do_not_depend_on_the_scale_of_the_gradient(scale):
    G = torch.randn(20, 12)
    torch.testing.assert_close(
        matrices.polar_inside(G * scale), matrices.polar_inside(G), atol=1e-4, rtol=0.0
    )
    u, v = matrices.leading_pair(G * scale)
    assert float(u @ G @ v.mT) > 0.9 * float(torch.linalg.matrix_norm(G, 2))


def test_one_step_on_a_large_spectral_ball_is_a_nuclear_norm_scaled_muon_step():
    x, g = torch.randn(1, 48, dtype=torch.float64), torch.randn(1, 48, dtype=torch.float64)
    moved = sliding_step(x, g, 0.1, matrices.Spectral(1e4, (8, 6)), steps=1).x
    U, sigma, Vt = torch.linalg.svd(g.view(8, 6), full_matrices=False)
    expected = x - (0.1 * sigma.sum() / 6 * (U @ Vt)).view(1, 48)
    torch.testing.assert_close(moved, expected, atol=0.02, rtol=0.0)


@pytest.mark.parametrize("solver", ["exact", "fw"])
@pytest.mark.parametrize("name", REGIONS)
def test_the_dc_gap_is_at_least_the_pgm_gap_which_is_at_least_zero(name, solver):
    p = torch.nn.Parameter(torch.randn(SHAPE, dtype=torch.float64))
    optimizer = DCFW(
        [p], lr=0.2, constraint=name, solver=solver, track_gap=True, inner_steps=30, **GROUPS[name]
    )
    optimizer.project_()
    for _ in range(10):
        p.grad = torch.randn(SHAPE, dtype=torch.float64)
        optimizer.step()
        gaps = optimizer.last_step()
        slack = 1e-10 + (
            0.05 * gaps["fw_gap"] if name in ("spectral", "nuclear") else 0.0
        )  # inexact vertices
        assert gaps["fw_gap"] + slack >= gaps["dc_gap_high"] >= gaps["dc_gap_low"] >= -1e-12
        assert gaps["dc_gap_high"] + slack >= gaps["pgm_gap"] >= 0.0
        if solver == "exact":
            assert gaps["dc_gap_low"] == gaps["dc_gap_high"]


def test_the_interval_of_frank_wolfe_contains_the_dc_gap_of_the_exact_step():
    start, g = torch.rand(SHAPE, dtype=torch.float64) - 0.5, torch.randn(SHAPE, dtype=torch.float64)
    found = {}
    for solver in ("exact", "fw"):
        p = torch.nn.Parameter(start.clone())
        optimizer = DCFW([p], solver=solver, radius=0.5, track_gap=True)
        p.grad = g.clone()
        optimizer.step()
        found[solver] = optimizer.last_step()
    true = found["exact"]["dc_gap_low"]
    assert found["fw"]["dc_gap_low"] <= true <= found["fw"]["dc_gap_high"]
    assert found["fw"]["pgm_gap"] == pytest.approx(found["exact"]["pgm_gap"])
    assert found["fw"]["fw_gap"] == pytest.approx(found["exact"]["fw_gap"])


def test_the_scion_radius_is_that_of_its_operator_norms():
    for name, shape, bound in (("spectral", (8, 2), 2.0), ("linf", (8, 2, 5), 0.1), ("l2", (9,), 3.0)):
        assert region_of({"constraint": name, "radius_mode": "scion"}, shape).bound == bound


def test_no_mode_resets_the_weights():
    p = torch.nn.Parameter(torch.randn(4, 3))
    before = p.detach().clone()
    for mode in RADIUS_MODES:
        DCFW([p], radius_mode=mode, radius=1e-3)
    assert torch.equal(p.detach(), before)


@pytest.mark.parametrize("name", [*REGIONS])
@pytest.mark.parametrize("kind", ["dcfw", "sfw"])
def test_nothing_is_read_from_the_device_in_a_step(name, kind):
    # Tensors of the meta device have no values: reading one is an error.
    p = torch.nn.Parameter(torch.empty(SHAPE, device="meta"))
    options = {"constraint": name, "momentum": 0.9, **GROUPS[name]}
    if kind == "sfw":
        optimizer = SFW([p], **options)
    else:
        optimizer = DCFW([p], solver="fw", track_gap=True, **options)
    for _ in range(2):
        p.grad = torch.empty_like(p)
        optimizer.step()
