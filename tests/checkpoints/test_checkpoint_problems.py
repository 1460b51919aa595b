"""A checkpoint of another problem is refused, and one of the same problem is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dcfw
from dcfw import functions, sets, splits
from dcfw.checkpoints import Checkpoint, fingerprint
from dcfw.solvers.block import Block
from dcfw.solvers.stochastic import Stochastic

N = 12
REFUSED = "belongs to another run: it differs in objective"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.npz"


def hessian(n: int, seed: int = 0) -> np.ndarray:
    B = np.random.default_rng(seed).standard_normal((n, n))
    return B @ B.T


def slope(n: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(n)


class Matrices(functions.Function):
    """<X, H X> / 2 + <B, X> for matrices X, by entries."""

    convex = True
    affine_grad = True

    def __init__(self, H: np.ndarray, b: np.ndarray, shape: tuple[int, ...]) -> None:
        self.H, self.b, self.shape = H, b, shape

    def grad(self, x: Any) -> Any:
        return (self.H @ x.reshape(-1) + self.b).reshape(self.shape)

    def value(self, x: Any) -> float:
        flat = x.reshape(-1)
        return float(0.5 * flat @ self.H @ flat + self.b @ flat)


def gap(H: np.ndarray, b: np.ndarray, x: np.ndarray, radius: float) -> float:
    G = H @ x + b
    return float(G @ x + radius * abs(G).max())


def test_a_certificate_of_another_problem_is_not_taken_over(path: Path) -> None:
    n, radius = 6, 3.0
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n, n))
    H, b = A @ A.T, 2 * rng.standard_normal(n)
    first = dcfw.minimize(
        functions.Quadratic(H, b, convex=True), sets.L1Ball(n, radius), tol=1e-10, checkpoint=path
    )
    unseen = np.argmax(abs(np.random.default_rng(0).standard_normal(n)))
    other = H + 5 * np.diag(np.arange(n) != unseen)
    assert first.success
    assert gap(other, b, first.x, radius) > 1.0
    with pytest.raises(ValueError, match=REFUSED):
        dcfw.minimize(
            functions.Quadratic(other, b, convex=True), sets.L1Ball(n, radius), tol=1e-10, checkpoint=path
        )


class Mine:
    """The l1 ball, as a user may write it."""

    def lmo(self, G: np.ndarray) -> np.ndarray:
        i = abs(G).argmax()
        return -2.0 * np.sign(G[i]) * (np.arange(len(G)) == i)

    def contains(self, x: np.ndarray) -> bool:
        return bool(abs(x).sum() <= 2.0 + 1e-9)

    def start(self) -> np.ndarray:
        return np.zeros(N)


SPARSE: dict[str, Any] = {
    "l1 ball": sets.L1Ball(N, 2.0),
    "large l1 ball": sets.L1Ball(300, 2.0),
    "simplex": sets.Simplex(N),
    "k-sparse": sets.KSparse(N, 2),
    "birkhoff": sets.Birkhoff(4),
    "matrices": sets.L1Ball((3, 4)),
    "product": sets.Product([sets.L1Ball(6), sets.Simplex(6)]),
    "polytope": sets.Polytope(np.ones((1, N)), [1.0], bounds=(0.0, None)),
    "hull": sets.ConvexHull(np.vstack([np.eye(N), -2.0 * np.eye(N)])),
    "epigraph": sets.Epigraph(sets.L1Ball(N - 1)),
    "a user's own": Mine(),
}


@pytest.mark.parametrize("name", SPARSE)
def test_an_entry_of_a_hessian_that_no_vertex_shows_is_noticed(name: str, path: Path) -> None:
    domain = SPARSE[name]
    shape = tuple(domain.start().shape)
    n = int(np.prod(shape))
    # Start at a vertex: it has many entries that are zero, and all of them are moved at random.
    x0 = domain.lmo(np.random.default_rng(0).standard_normal(shape))
    zero = np.flatnonzero(x0.reshape(-1) == 0.0)
    H, b = hessian(n), slope(n)

    def run(H: np.ndarray) -> Any:
        return dcfw.minimize(Matrices(H, b, shape) - functions.Zero(), domain, x0, maxiter=0, checkpoint=path)

    run(H)
    for i, j in [(zero[0], zero[0]), (zero[-1], zero[0]), (zero[-1], zero[-1])]:
        other = H.copy()
        other[i, j] = other[j, i] = other[i, j] + 0.1
        with pytest.raises(ValueError, match=REFUSED):
            run(other)
    run(H)


A_UB = np.random.default_rng(3).uniform(0.1, 1.0, (40, N))
POINTS = np.random.default_rng(4).standard_normal((50, N))
BOUNDS = np.linspace(1.0, 2.0, N)


def changed(values: np.ndarray, place: Any, by: float = 0.25) -> np.ndarray:
    values = values.copy()
    values[place] += by
    return values


@pytest.mark.parametrize("i", range(N))
@pytest.mark.parametrize("bound", ["lower", "upper"])
def test_every_bound_of_a_box_counts(i: int, bound: str, path: Path) -> None:
    phi, x0 = functions.Quadratic(hessian(N), slope(N), convex=True), np.zeros(N)
    bounds = {"lower": -BOUNDS, "upper": BOUNDS}
    dcfw.minimize(phi, sets.Box(**bounds), x0, maxiter=0, checkpoint=path)
    bounds[bound] = changed(bounds[bound], i)
    with pytest.raises(ValueError, match=REFUSED):
        dcfw.minimize(phi, sets.Box(**bounds), x0, maxiter=0, checkpoint=path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            sets.Polytope(A_UB, np.ones(40), bounds=(0, None)),
            sets.Polytope(changed(A_UB, (7, 3), 0.01), np.ones(40), bounds=(0, None)),
        ),
        (
            sets.Polytope(sp.csr_array(A_UB), np.ones(40), bounds=(0, None)),
            sets.Polytope(sp.csr_array(changed(A_UB, (7, 3), 0.01)), np.ones(40), bounds=(0, None)),
        ),
        (
            sets.Polytope(A_UB, np.ones(40), bounds=(0, None)),
            sets.Polytope(A_UB, changed(np.ones(40), 9), bounds=(0, None)),
        ),
        (
            sets.Polytope(A_UB, np.ones(40), bounds=(0, None)),
            sets.Polytope(A_UB, np.ones(40), bounds=(0, 100.0)),
        ),
        (sets.ConvexHull(POINTS), sets.ConvexHull(changed(POINTS, (30, 2), 1e-3))),
        (
            sets.Product([sets.Simplex(6), sets.Box(-np.ones(6), np.arange(1.0, 7.0))]),
            sets.Product([sets.Simplex(6), sets.Box(-np.ones(6), changed(np.arange(1.0, 7.0), 2))]),
        ),
        (
            sets.Product([sets.L1Ball(6, 2.0), sets.L1Ball(6)]),
            sets.Product([sets.L1Ball(6, 2.0 + 1e-6), sets.L1Ball(6)]),
        ),
    ],
    ids=["inequality", "sparse", "right side", "no bound", "point", "block", "many digits"],
)
def test_other_data_of_a_set_are_refused(first: Any, second: Any, path: Path) -> None:
    phi = functions.Quadratic(hessian(N), slope(N), convex=True)
    x0 = first.start()
    assert repr(first) == repr(second)
    dcfw.minimize(phi, first, x0, maxiter=0, checkpoint=path)
    with pytest.raises(ValueError, match=REFUSED):
        dcfw.minimize(phi, second, x0, maxiter=0, checkpoint=path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            functions.Quadratic(np.diag(BOUNDS), convex=True),
            functions.Quadratic(np.diag(changed(BOUNDS, 5)), convex=True),
        ),
        (
            functions.Convex(lambda x: (BOUNDS * abs(x)).sum(), lambda x: BOUNDS * np.sign(x)),
            functions.Convex(
                lambda x: (changed(BOUNDS, 5) * abs(x)).sum(), lambda x: changed(BOUNDS, 5) * np.sign(x)
            ),
        ),
        (functions.SCAD(0.3).g, functions.SCAD(0.3, a=4.0).g),
        (functions.MCP(0.3, gamma=2.0).g, functions.MCP(0.3, gamma=2.1).g),
    ],
    ids=["quadratic", "callables", "scad", "mcp"],
)
@pytest.mark.parametrize("vertex", [0, 3])
def test_another_g_is_refused(first: Any, second: Any, vertex: int, path: Path) -> None:
    f, domain = functions.Quadratic(hessian(N), slope(N), convex=True), sets.L1Ball(N, 3.0)
    x0 = 3.0 * np.eye(N)[vertex]
    dcfw.minimize(f - first, domain, x0, maxiter=3, checkpoint=path)
    with pytest.raises(ValueError, match=REFUSED):
        dcfw.minimize(f - second, domain, x0, maxiter=3, checkpoint=path)


class Bumped(functions.Function):
    """A function with a bump close to one point."""

    def __init__(self, function: Any, centre: np.ndarray, height: float) -> None:
        self.function, self.centre, self.height = function, centre, height
        self.convex, self.differentiable = function.convex, function.differentiable

    @property
    def lipschitz(self) -> float | None:
        return self.function.lipschitz

    def value(self, x: np.ndarray) -> float:
        room = max(1e-6 - ((x - self.centre) ** 2).sum(), 0.0)
        return float(self.function.value(x) + self.height * room**2)

    def grad(self, x: np.ndarray) -> np.ndarray:
        d = x - self.centre
        return self.function.grad(x) - 4.0 * self.height * max(1e-6 - (d**2).sum(), 0.0) * d


BLOCKS = sets.Product([sets.L1Ball(6), sets.Box(-1.0, 1.0, shape=6)])
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "dcfw": (sets.L1Ball(N, 2.0), {"inner": "fw"}),
    "dcfw blended": (sets.L1Ball(N, 2.0), {"inner": "blended"}),
    "boosted": (sets.L1Ball(N, 2.0), {"method": "boosted"}),
    "block": (BLOCKS, {"method": Block("cyclic")}),
    "fw-k": (sets.L1Ball(N, 2.0), {"method": "fw-k"}),
    "fw-m": (sets.L1Ball(N, 2.0), {"method": "fw-m"}),
    "fw": (sets.L1Ball(N, 2.0), {"method": "fw"}),
    "fw away": (sets.L1Ball(N, 2.0), {"method": "fw", "inner": "away"}),
    "cgs": (sets.L1Ball(N, 2.0), {"method": "cgs"}),
    "adaptive": (sets.L1Ball(N, 2.0), {}),
}


LAST = ["dcfw", "dcfw blended", "boosted", "block", "adaptive"]


@pytest.mark.parametrize("part", ["f", "g"])
@pytest.mark.parametrize(
    ("name", "place"), [*((name, "best") for name in METHODS), *((name, "last") for name in LAST)]
)
def test_a_state_is_measured_again_where_it_stood(
    name: str, place: str, part: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain, options = METHODS[name]
    seen: list[Any] = []
    reached = fingerprint._reached
    monkeypatch.setattr(fingerprint, "_reached", lambda state: seen.append(reached(state)) or seen[-1])
    f = functions.Quadratic(hessian(N), slope(N), convex=True)
    g = functions.Quadratic(np.diag(BOUNDS), convex=True)

    def run(centre: np.ndarray, height: float) -> Any:
        own_f = Bumped(f, centre, height if part == "f" else 0.0)
        own_g = Bumped(g, centre, height if part == "g" else 0.0)
        phi: Any = own_f - own_g
        if name == "adaptive":
            phi = splits.sliding(own_f, L="auto") if part == "f" else splits.proximal(own_f - own_g, L="auto")
        elif name in ("fw", "fw away", "cgs"):
            phi = Bumped(f, centre, height)
        return dcfw.minimize(phi, domain, maxiter=30, tol=0.0, checkpoint=Checkpoint(path, 0.0), **options)

    nowhere = np.full(N, 9.0)
    first = run(nowhere, 0.0)
    np.testing.assert_array_equal(run(nowhere, 0.0).x, first.x)
    with np.load(path) as archive:
        centre = archive["x"] if place == "best" else seen[-1][0]
    with pytest.raises(ValueError, match=rf"{REFUSED} \(other .* at the {place} point"):
        run(centre + 1e-4 * np.eye(N)[0], 1e12)


def test_a_state_that_was_refused_is_left_as_it_was(path: Path) -> None:
    domain = sets.L1Ball(N, 2.0)
    f = functions.Quadratic(hessian(N), slope(N), convex=True)

    def run(centre: np.ndarray, height: float) -> Any:
        phi = Bumped(f, centre, height) - functions.Zero()
        return dcfw.minimize(
            phi, domain, inner="fw", maxiter=30, max_inner=200, tol=0.0, checkpoint=Checkpoint(path, 0.0)
        )

    run(np.full(N, 9.0), 0.0)
    before = path.read_bytes()
    with np.load(path) as archive:
        centre = archive["x"]
    with pytest.raises(ValueError, match=REFUSED):
        run(centre + 1e-4 * np.eye(N)[0], 1e12)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("inner", ["fw", "blended", "pairwise"])
def test_data_that_differ_in_their_last_bits_are_the_same(inner: str, kind: Any, path: Path) -> None:
    # The minimiser is inside: there the gradient is a difference of large terms, and all of it is rounding.
    rng, eps = np.random.default_rng(5), np.finfo(kind).eps
    H, x = 100.0 * hessian(N) + np.eye(N), rng.standard_normal(N)
    x *= 0.5 / abs(x).sum()

    def run(noise: float, x0: np.ndarray, **more: Any) -> Any:
        around = 1.0 + noise * rng.uniform(-1.0, 1.0, (N, N))
        around = 0.5 * (around + around.T)
        f = functions.Quadratic((H * around).astype(kind), (-H @ x).astype(kind), convex=True)
        g = functions.SquaredNorm(1e-3)
        return dcfw.minimize(f - g, sets.L1Ball(N), x0.astype(kind), inner=inner, tol=0.0, **more)

    for name, x0 in (("zero", np.zeros(N)), ("end", x)):
        file = path.with_name(name)
        first = run(0.0, x0, maxiter=5, max_inner=300, checkpoint=file)
        assert run(eps, x0, maxiter=8, max_inner=300, checkpoint=file).nit >= first.nit


def test_a_start_with_a_checkpoint_costs_a_handful_of_evaluations(path: Path) -> None:
    calls = {"value": 0, "grad": 0, "lmo": 0}
    H, b = hessian(N), slope(N)

    def value(x: np.ndarray) -> float:
        calls["value"] += 1
        return float(0.5 * x @ H @ x + b @ x)

    def grad(x: np.ndarray) -> np.ndarray:
        calls["grad"] += 1
        return H @ x + b

    class Counting(Mine):
        def lmo(self, G: np.ndarray) -> np.ndarray:
            calls["lmo"] += 1
            return super().lmo(G)

    def run(maxiter: int, **more: Any) -> tuple[Any, dict[str, int]]:
        calls.update(value=0, grad=0, lmo=0)
        phi = functions.Smooth(value, grad, lipschitz=float(np.linalg.norm(H, 2)), convex=True)
        result = dcfw.minimize(phi, Counting(), method="fw", maxiter=maxiter, tol=0.0, **more)
        return result, dict(calls)

    plain, without = run(20)
    half, _ = run(10)
    kept, with_one = run(20, checkpoint=path)
    path.unlink()
    run(10, checkpoint=Checkpoint(path, 0.0))
    resumed, after = run(20, checkpoint=path)
    for name in ("n_fun", "n_grad_f", "n_grad_g", "n_lmo", "nit"):
        assert plain[name] == kept[name] == resumed[name], name
    for name, count in without.items():
        assert with_one[name] <= count + 4, name
        assert after[name] < count, name  # a resumed run does not do the first half again
    assert half.nit == 10


class Fussy(functions.Function):
    """A function that answers only at points that a run on it sees: elsewhere it raises."""

    def __init__(self, message: type[Exception]) -> None:
        self.message = message

    convex = True
    affine_grad = False

    def value(self, x: np.ndarray) -> float:
        if abs(x[-1]) > 1e-12:
            raise self.message("not here")
        return float(0.5 * x @ x + x[0])

    def grad(self, x: np.ndarray) -> np.ndarray:
        self.value(x)
        return x + np.eye(len(x))[0]


@pytest.mark.parametrize("error", [ValueError, ArithmeticError, RuntimeError])
def test_a_function_that_raises_at_some_points_can_be_checkpointed(
    error: type[Exception], path: Path
) -> None:
    def run(**more: Any) -> Any:
        return dcfw.minimize(Fussy(error) - functions.Zero(), sets.L1Ball(4), inner="fw", **more)

    plain = run()
    run(maxiter=1, checkpoint=path)
    np.testing.assert_array_equal(run(checkpoint=path).x, plain.x)


def test_estimates_of_a_stochastic_run_are_not_taken_for_values(path: Path) -> None:
    A = np.random.default_rng(7).standard_normal((60, N))

    def run(b: np.ndarray, maxiter: int) -> Any:
        loss = functions.FiniteSum.least_squares(A, b)
        method = Stochastic(batch=3, certify=False)
        return dcfw.minimize(
            loss, sets.L1Ball(N), method=method, rng=0, tol=0.0, maxiter=maxiter, checkpoint=path
        )

    run(A[:, 0], 5)
    assert run(A[:, 0], 9).nit == 9
    with pytest.raises(ValueError, match=REFUSED):
        run(changed(A[:, 0], 30), 12)


def test_a_torch_run_of_another_problem_is_refused(path: Path) -> None:
    torch = pytest.importorskip("torch")
    H, b, domain = hessian(N), torch.as_tensor(slope(N)), sets.L1Ball(N, 2.0)
    other = H + 0.1 * np.diag(np.arange(N) == N - 1)

    def run(H: np.ndarray, maxiter: int) -> Any:
        f = functions.Quadratic(torch.as_tensor(H), b, convex=True)
        return dcfw.minimize(f, domain, maxiter=maxiter, checkpoint=path)

    run(H, 2)
    with pytest.raises(ValueError, match=REFUSED):
        run(other, 4)
    assert isinstance(run(H, 4).x, torch.Tensor)
