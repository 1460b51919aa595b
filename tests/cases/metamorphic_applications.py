"""The other public solvers for :mod:`metamorphic`: assignment, matching, alignment, Gromov-Wasserstein.

A family is a solver, a source of random arguments, and the transformations of its problems.  Arguments are
drawn without ties where a transformation is not exact; options come from the tables of the library, so that
a new method, split or inner solver is included automatically.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dcfw import align, gromov, qap
from dcfw.align.solver import METHODS as ALIGN_METHODS
from dcfw.qap import solver
from dcfw.qap.task import SPLIT_METHODS

PRODUCT_SPLITS = ("paper", "balanced", "centered")
"""Splits of f and g made of A X + X B and A X - X B."""


class Form(NamedTuple):
    """Another form of a problem: fun' = scale * fun + offset, and x' is ``move`` of x."""

    problem: Any
    scale: float = 1.0
    offset: float = 0.0
    move: Callable[[np.ndarray], np.ndarray] = np.asarray


EPS = float(np.finfo(np.float64).eps)


class Transformation(NamedTuple):
    """How to make the other form; ``exact`` where it has the same bits but for powers of two and signs."""

    make: Callable[[Any, np.random.Generator], Form | None]
    exact: bool = False


@dataclass(frozen=True)
class Call:
    """A call of a public solver."""

    door: Callable[..., Any]
    arrays: dict[str, Any]
    options: dict[str, Any]

    def solve(self) -> Any:
        given = {name: array for name, array in self.arrays.items() if array is not None}
        return self.door(**given, **self.options)

    def nudged(self, rng: np.random.Generator, by: float = EPS) -> Call:
        """Return the call with its arrays changed relatively by a few times ``by``."""
        return self.but(**{name: nudge(array, rng, by) for name, array in self.arrays.items()})

    def but(self, **arrays: Any) -> Call:
        return replace(self, arrays={**self.arrays, **arrays})

    def __str__(self) -> str:
        shapes = {name: array.shape for name, array in self.arrays.items() if array is not None}
        return f"{self.door.__name__} of {shapes} with {self.options}"


def nudge(array: Any, rng: np.random.Generator, by: float) -> Any:
    """Return an array changed relatively by at most four times ``by`` at random; symmetric matrices stay so.

    With the machine epsilon that is as much as sums of a few terms are rounded.
    """
    if array is None or np.asarray(array).dtype.kind != "f":
        return array
    factor = 1.0 + by * rng.integers(-4, 5, array.shape)
    if array.ndim == 2 and array.shape[0] == array.shape[1] and np.array_equal(array, array.T):
        factor = np.triu(factor) + np.triu(factor, 1).T
    return array * factor


# -- quadratic assignment ---------------------------------------------------------------------------------


def assignment(exact: bool, rng: np.random.Generator) -> Call:
    n = int(rng.integers(2, 9))
    A, B = rng.integers(-9, 20, (2, n, n)) if exact and rng.random() < 0.6 else rng.standard_normal((2, n, n))
    if rng.random() < 0.4:
        A, B = A + A.T, B + B.T
    C = None if rng.random() < 0.5 else (rng.integers(0, 30, (n, n)) if A.dtype.kind == "i" else A @ B)
    method = str(rng.choice(solver.METHODS))
    options: dict[str, Any] = {"method": method, "maximize": bool(rng.random() < 0.3), "rng": 0}
    if method in SPLIT_METHODS:
        options["split"] = str(rng.choice([*solver.SPLITS, "auto"]))
        options["inner"] = str(rng.choice(solver.INNERS))
    if rng.random() < 0.3:
        options["max_lmo"] = int(rng.integers(2, 30))  # after one call X is still the barycentre: all tie
    if exact and rng.random() < 0.5:  # swaps are tried in order, which relabelling changes
        options["polish"] = str(rng.choice(solver.POLISHES))
    if rng.random() < 0.2 and n > 2:
        options["partial_match"] = [[int(rng.integers(n)), int(rng.integers(n))]]
    return Call(qap.solve, {"A": A, "B": B, "C": C}, options)


def _scaled(problem: Call, s: Any) -> Form:
    arrays = problem.arrays
    C = None if arrays["C"] is None else s * arrays["C"]
    return Form(problem.but(A=s * arrays["A"], C=C), s)


def two(problem: Call, rng: np.random.Generator) -> Form:
    whole = problem.arrays["A"].dtype.kind == "i"
    return _scaled(problem, int(2 ** rng.integers(0, 20)) if whole else 2.0 ** int(rng.integers(-40, 40)))


def ten(problem: Call, rng: np.random.Generator) -> Form:
    return _scaled(problem, 10.0 ** int(rng.integers(-9, 10)))


def relabelled(problem: Call, rng: np.random.Generator) -> Form | None:
    A, C = problem.arrays["A"], problem.arrays["C"]
    p = rng.permutation(len(A))
    options = dict(problem.options)
    if "partial_match" in options:
        place = np.argsort(p)
        options["partial_match"] = [[int(place[i]), j] for i, j in options["partial_match"]]
    if options["method"] == "graduated":
        options["init"] = problem.options["init"] = centre(len(A) - len(options.get("partial_match", ())))
    other = replace(problem, options=options).but(A=A[np.ix_(p, p)], C=None if C is None else C[p])
    return Form(other, move=lambda X: X[p])


def centre(n: int) -> np.ndarray:
    """Return the barycentre, from which a path starts without noise that is drawn entry by entry."""
    return np.full((n, n), 1.0 / n)


def one_sided(problem: Call) -> bool:
    """Return whether another form of phi has another decomposition: one that is built of A X and X B is that
    of A' X and X B' only if A and B are symmetric."""
    built = problem.options["method"] == "graduated" or problem.options.get("split") in PRODUCT_SPLITS
    return built and not all(np.array_equal(M, M.T) for M in (problem.arrays["A"], problem.arrays["B"]))


def swapped(problem: Call, rng: np.random.Generator) -> Form | None:
    """Exchange the two matrices, which inverts the permutation."""
    if problem.options.get("partial_match") or problem.options["method"] == "graduated" or one_sided(problem):
        return None
    A, B, C = (problem.arrays[name] for name in "ABC")
    return Form(problem.but(A=B, B=A, C=None if C is None else C.T), move=np.transpose)


def transposed(problem: Call, rng: np.random.Generator) -> Form | None:
    if one_sided(problem):
        return None
    return Form(problem.but(A=problem.arrays["A"].T, B=problem.arrays["B"].T))


def negated(problem: Call, rng: np.random.Generator) -> Form:
    form = _scaled(problem, -1)
    options = {**problem.options, "maximize": not problem.options["maximize"]}
    return Form(replace(form.problem, options=options), -1.0)


def padded(problem: Call, rng: np.random.Generator) -> Form | None:
    """Pad the smaller matrix with zeros, as the library does."""
    A, C = problem.arrays["A"], problem.arrays["C"]
    if len(A) < 3 or "partial_match" in problem.options:
        return None
    small = A[:-1, :-1]
    C = None if C is None else C[:-1]
    problem.arrays.update(A=small, C=C)
    full = None if C is None else np.pad(C, ((0, 1), (0, 0)))
    return Form(problem.but(A=np.pad(small, (0, 1)), C=full))


def sparse(problem: Call, rng: np.random.Generator) -> Form:
    if problem.options["method"] in SPLIT_METHODS:  # the defaults differ
        problem.options.update(inner="fw", split="balanced")
    return Form(problem.but(A=sp.csr_array(problem.arrays["A"]), B=sp.csr_array(problem.arrays["B"])))


def other_type(problem: Call, rng: np.random.Generator) -> Form:
    whole = problem.arrays["A"].dtype.kind == "i"
    kind = rng.choice(["float64", "int32", "int16", ">i8"] if whole else [">f8", "longdouble"])
    arrays = {name: None if a is None else a.astype(kind) for name, a in problem.arrays.items()}
    return Form(problem.but(**arrays))


def memory(problem: Call, rng: np.random.Generator) -> Form:
    changed = {name: None if a is None else np.asfortranarray(a) for name, a in problem.arrays.items()}
    return Form(problem.but(**changed))


QAP = {
    "qap.solve: data times a power of two": Transformation(two, exact=True),
    "qap.solve: data times a power of ten": Transformation(ten),
    "qap.solve: negated and maximised": Transformation(negated, exact=True),
    "qap.solve: padded by hand": Transformation(padded, exact=True),
    "qap.solve: other number types": Transformation(other_type, exact=True),
    "qap.solve: relabelled": Transformation(relabelled),
    "qap.solve: matrices exchanged": Transformation(swapped),
    "qap.solve: transposed": Transformation(transposed),
    "qap.solve: sparse": Transformation(sparse),
    "qap.solve: columns in memory": Transformation(memory),
}


# -- graph matching ---------------------------------------------------------------------------------------


def matching(exact: bool, rng: np.random.Generator) -> Call:
    n = int(rng.integers(3, 10))
    W = rng.random((n, n)) * (rng.random((n, n)) < 0.6)
    W = W + W.T if rng.random() < 0.6 else W
    p = rng.permutation(n)
    noise = 1.0 + 0.01 * rng.random((n, n))
    noise = np.sqrt(noise * noise.T) if np.array_equal(W, W.T) else noise
    options: dict[str, Any] = {"rng": 0, "polish": None, "loops": "keep"}
    if rng.random() < 0.3:
        options["method"] = str(rng.choice(solver.METHODS))
    return Call(qap.match, {"G1": W, "G2": (W * noise)[np.ix_(p, p)]}, options)


def heavier(problem: Call, rng: np.random.Generator) -> Form:
    s = 10.0 ** int(rng.integers(-6, 7))
    return Form(problem.but(G1=s * problem.arrays["G1"], G2=s * problem.arrays["G2"]), s * s)


def renamed(problem: Call, rng: np.random.Generator) -> Form | None:
    W = problem.arrays["G1"]
    p = rng.permutation(len(W))
    if problem.options.get("method", "auto") in ("auto", "graduated"):
        problem.options["init"] = centre(len(W))
    return Form(problem.but(G1=W[np.ix_(p, p)]))


def reversed_edges(problem: Call, rng: np.random.Generator) -> Form:
    return Form(problem.but(G1=problem.arrays["G1"].T.copy(), G2=problem.arrays["G2"].T.copy()))


def of_networkx(problem: Call, rng: np.random.Generator) -> Form:
    import networkx as nx

    graphs = [problem.arrays["G1"], problem.arrays["G2"]]
    kind = nx.Graph if all(np.array_equal(W, W.T) for W in graphs) else nx.DiGraph
    return Form(_Named(problem, [nx.from_numpy_array(W, create_using=kind) for W in graphs]))


class _Named(NamedTuple):
    """A call with graphs instead of matrices."""

    problem: Call
    graphs: list[Any]

    def solve(self) -> Any:
        return self.problem.door(*self.graphs, **self.problem.options)


MATCH = {
    "qap.match: weights times a power of ten": Transformation(heavier),
    "qap.match: nodes renamed": Transformation(renamed),
    "qap.match: edges reversed": Transformation(reversed_edges),
    "qap.match: graphs of networkx": Transformation(of_networkx),
}


# -- alignment --------------------------------------------------------------------------------------------


def alignment(exact: bool, rng: np.random.Generator) -> Call:
    d1, d2, n = int(rng.integers(2, 6)), int(rng.integers(2, 6)), int(rng.integers(6, 30))
    E1, Y = rng.standard_normal((d1, n)), rng.standard_normal((d2, n))
    mask = rng.random((d2, n)) < rng.choice([0.3, 0.7, 1.1])
    mask[:, :2] = True  # a row that is never observed leaves the polar factor of its gradient open
    options = {"method": str(rng.choice(ALIGN_METHODS)), "maxiter": int(rng.integers(1, 20))}
    if options["method"] in ("dcfw", "boosted"):
        options["inner"] = str(rng.choice(["auto", "fw", "blended"]))
    options["max_lmo"] = int(rng.integers(2, 60))
    return Call(align.align, {"E1": E1, "Y": Y, "mask": mask}, options)


def _both(problem: Call, s: float) -> Form:
    return Form(problem.but(E1=s * problem.arrays["E1"], Y=s * problem.arrays["Y"]), s * s)


def both_two(problem: Call, rng: np.random.Generator) -> Form:
    return _both(problem, 2.0 ** int(rng.integers(-20, 20)))


def both_ten(problem: Call, rng: np.random.Generator) -> Form:
    return _both(problem, 10.0 ** int(rng.integers(-6, 7)))


def words(problem: Call, rng: np.random.Generator) -> Form:
    p = rng.permutation(problem.arrays["E1"].shape[1])
    return Form(problem.but(**{name: a[:, p] for name, a in problem.arrays.items()}))


def target_axes(problem: Call, rng: np.random.Generator) -> Form:
    p = rng.permutation(len(problem.arrays["Y"]))
    other = problem.but(Y=problem.arrays["Y"][p], mask=problem.arrays["mask"][p])
    return Form(other, move=lambda X: X[p])


def turned(problem: Call, rng: np.random.Generator) -> Form:
    """Rotate the source vectors: X takes the rotation back."""
    E1 = problem.arrays["E1"]
    Q = np.linalg.qr(rng.standard_normal((len(E1), len(E1))))[0]
    return Form(problem.but(E1=Q @ E1), move=lambda X: X @ Q.T)


def opposite(problem: Call, rng: np.random.Generator) -> Form:
    return Form(problem.but(Y=-problem.arrays["Y"]), move=np.negative)


def missing(problem: Call, rng: np.random.Generator) -> Form:
    Y = np.where(problem.arrays["mask"], problem.arrays["Y"], np.nan)
    return Form(problem.but(Y=Y, mask=None))


ALIGN = {
    "align: data times a power of two": Transformation(both_two, exact=True),
    "align: data times a power of ten": Transformation(both_ten),
    "align: words in another order": Transformation(words),
    "align: target axes in another order": Transformation(target_axes),
    "align: source vectors rotated": Transformation(turned),
    "align: target vectors negated": Transformation(opposite),
    "align: NaN for a mask": Transformation(missing, exact=True),
}


# -- Gromov-Wasserstein -----------------------------------------------------------------------------------


def spaces(exact: bool, rng: np.random.Generator) -> Call:
    X, Y = (rng.standard_normal((int(rng.integers(2, 7)), 2)) for _ in range(2))
    C1, C2 = (np.linalg.norm(Z[:, None] - Z[None], axis=2) for Z in (X, Y))
    p, q = (rng.random(len(Z)) + 0.1 for Z in (X, Y))
    return Call(gromov.gromov_wasserstein, {"C1": C1, "C2": C2, "p": p / p.sum(), "q": q / q.sum()}, {})


def larger(problem: Call, rng: np.random.Generator) -> Form:
    s = 10.0 ** int(rng.integers(-6, 7))
    return Form(problem.but(C1=s * problem.arrays["C1"], C2=s * problem.arrays["C2"]), s * s)


def points(problem: Call, rng: np.random.Generator) -> Form:
    C1, p = problem.arrays["C1"], problem.arrays["p"]
    k = rng.permutation(len(p))
    return Form(problem.but(C1=C1[np.ix_(k, k)], p=p[k]), move=lambda T: T[k])


GROMOV = {
    "gromov: distances times a power of ten": Transformation(larger),
    "gromov: points in another order": Transformation(points),
}


class Family(NamedTuple):
    """A public solver's problems and their transformations."""

    door: Callable[..., Any]
    draw: Callable[[bool, np.random.Generator], Call]
    transformations: dict[str, Transformation]


FAMILIES = (
    Family(qap.solve, assignment, QAP),
    Family(qap.match, matching, MATCH),
    Family(align.align, alignment, ALIGN),
    Family(gromov.gromov_wasserstein, spaces, GROMOV),
)


def exact() -> dict[str, bool]:
    """Return whether each transformation is exact."""
    return {name: kind.exact for family in FAMILIES for name, kind in family.transformations.items()}


def draw(seed: int) -> tuple[str, Call, Form, bool]:
    """Return the name of a transformation, a call, its other form, and whether it is exact."""
    rng = np.random.default_rng((seed, 29))
    weights = np.sqrt([len(family.transformations) for family in FAMILIES])
    family = FAMILIES[int(rng.choice(len(FAMILIES), p=weights / weights.sum()))]
    name = str(rng.choice(list(family.transformations)))
    kind = family.transformations[name]
    form = None
    while form is None:
        problem = family.draw(kind.exact, rng)
        form = kind.make(problem, rng)
    assert math.isfinite(form.scale)
    return name, problem, form, kind.exact
