"""Random problems, and what must hold for the result of every one of them: never a wrong certificate.

``make_case(seed)`` draws a problem: a set, an objective, a split, a method with its options, a dtype, scales
over most of its range, and degenerate data (zeros, ties, duplicated vertices, singular Hessians, one point).
``check_case`` solves it and compares what the result claims with :mod:`extended_precision`; it returns the
list of errors.  The tests run 2,000 seeds, and the nightly job as many as its time allows:

    python tests/cases/fuzz_certificates.py --seconds 3600 --cases 100000 --seed 0

**The allowance for rounding.**  With eps the machine epsilon of the dtype, n the number of entries, k the
number of steps since gradients were last recomputed, and T the size of the terms that are added up in
phi = f - g and their slopes over the set (``size`` of the reference functions, for example
r'|H|r + |b|'r + |c| for a quadratic, r the largest size of each entry over the set), a claim about a gap or
a value of phi may be off by (a sum of n products, whose factors have been rounded, m functions that are added
up, and k changes)

    GAP * (n + 1 + m + k) * eps * T + (what the set's own oracle is documented to miss),

and one about feasibility, in units of the set's size R, by  POINT * n * eps * R  (and, where x comes from
the weights of an active set, which are in double precision, by  ATOMS * 2^-52 * R  more).  The atoms and
weights of a result make up x to  ATOMS * n * eps * R  (x is updated up to 200 times before it is
recomputed).  Products that underflow lose at most the smallest positive number of the dtype each, which is
allowed for as well.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import extended_precision as ref
from dcfw import Status, functions, minimize, sets, splits
from dcfw.sets.intersection import SHARE
from dcfw.solvers.block import Block
from dcfw.solvers.stochastic import SFW, Stochastic
from extended_precision import LD
from set_cases import CASES

GAP = 2.0
POINT = 8.0
ATOMS = 400.0
RESYNC = 1000

NEWER = 0.15
OWN = 0.1
"""The share of the cases of a given f - g in which a user's class of the same values replaces a part."""
TABLE = 0.25
"""The share of the cases whose set is one of the table that all suites of sets share."""
LARGE = 0.05
LARGE_SHAPES = ((17, 17), (17, 17), (18, 17), (17, 19), (20, 17), (18, 18), (25, 25))
"""Lanczos methods begin at a side of 17, the polar factor by eigenvalues at one of 25."""

STEPS = ("exact", "exact", "short", "open-loop", "backtracking")
INNERS = ("auto", "fw", "away", "pairwise", "blended", "descent")


@dataclass
class Case:
    """A problem for the library, and the same in extended precision."""

    seed: int
    dtype: Any
    domain: Any
    region: Any
    objective: Any
    f: Any
    g: Any
    phi: Any
    x0: Any
    options: dict[str, Any]
    oracle_error: float = 0.0
    """What the set's oracle may miss, relative to T."""
    bounded: bool = False
    """Whether the oracle may miss more and adds that to the gap, which is an upper bound then."""
    notes: list[str] = field(default_factory=list)
    by_word: bool = False
    """Whether the convexity of a part rests on a user's word, so that certificates are conditional."""

    def __str__(self) -> str:
        options = ", ".join(f"{k}={v!r}" for k, v in self.options.items() if k != "callback")
        return (
            f"seed {self.seed}: {np.dtype(self.dtype).name} {self.domain!r} {', '.join(self.notes)} "
            f"x0={'None' if self.x0 is None else np.array2string(np.ravel(self.x0), precision=3)} {options}"
        )


class Draw:
    """A source of random choices, with the scales of one problem."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.dtype = np.float32 if rng.random() < 0.3 else np.float64
        self.degenerate = rng.random() < 0.3
        wide = rng.random() < 0.5
        # Powers of two for the size of the set and of the objective; then H ~ T/R^2 is in range as well.
        span_R, span_T = ((40, 90) if self.dtype == np.float32 else (300, 800)) if wide else (2, 6)
        self.eR, self.eT = (int(rng.integers(-s, s + 1)) for s in (span_R, span_T))
        most = 115 if self.dtype == np.float32 else 980
        if abs(self.eT - 2 * self.eR) > most:
            self.eT = 2 * self.eR + int(math.copysign(most, self.eT - 2 * self.eR))
        self.R = 2.0**self.eR
        # From another generator, so that the other draws do not depend on it.
        side = np.random.default_rng((seed, 1))
        self.large = LARGE_SHAPES[int(side.integers(len(LARGE_SHAPES)))] if side.random() < LARGE else None
        """A shape for matrices whose oracles do not decompose them in full, which few cases can afford."""
        self.newer = ["sampled", "whole", "whole"][int(side.integers(3))] if side.random() < NEWER else ""
        """A kind of problem that was added later: the problems of other seeds have not changed."""
        self.place = int(side.integers(2**31)) if side.random() < TABLE else None
        """A set of the table, or None for one that is drawn with its parameters."""
        self.data = False
        """Whether the objective has arrays among its data: then they give the dtype."""

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def numbers(self, *shape: int) -> np.ndarray:
        """Return data of size 1: normal, or small integers (ties, zeros), or all zero."""
        rng = self.rng
        if self.degenerate:
            kind = rng.integers(4)
            if kind == 0:
                return np.zeros(shape)
            if kind == 1:
                return np.full(shape, float(rng.integers(-1, 2)))
            return rng.integers(-2, 3, shape).astype(float)
        return rng.standard_normal(shape)

    def cast(self, a: Any, exponent: int) -> np.ndarray:
        """Return a * 2^exponent in the dtype of the problem."""
        self.data = True
        return np.ldexp(np.asarray(a, dtype=self.dtype), exponent)

    def number(self, exponent: int, low: float = 0.25) -> float:
        return float(self.dtype(math.ldexp(self.rng.uniform(low, 2.0), exponent)))


# -- sets -------------------------------------------------------------------------------------------------


def subsets(n: int, k: int, at_most: bool) -> np.ndarray:
    """Return the 0/1 vectors with k ones, or with at most k."""
    every = (ref.signs(n) + 1.0) / 2.0
    counts = every.sum(axis=1)
    return np.asarray(every[counts <= k if at_most else counts == k])


def top_k(n: int, k: int, R: float) -> np.ndarray:
    """Return the points whose hull is the ball of the top-k norm."""
    return np.asarray(R * np.vstack([np.eye(n), -np.eye(n), ref.signs(n) / k]))


VERTEX_SETS = {
    "hypersimplex": lambda n, k, R: (sets.Hypersimplex(n, k, R), R * subsets(n, k, False)),
    "at most": lambda n, k, R: (sets.Hypersimplex(n, k, R, at_most=True), R * subsets(n, k, True)),
    "top-k": lambda n, k, R: (sets.KNormBall(n, k, R), top_k(n, k, R)),
    "permutahedron": lambda n, k, R: (
        sets.Permutahedron(R * np.minimum(np.arange(n), k)),
        R * np.array([p @ np.minimum(np.arange(n), k) for p in ref.permutations(n).reshape(-1, n, n)]),
    ),
    "intersection": lambda n, k, R: (
        sets.Intersection([sets.Simplex(n, k * R), sets.Box(0.0, R, shape=n)]),
        R * subsets(n, k, False),
    ),
    "scaled": lambda n, k, R: (sets.Scale(sets.Simplex(n), R * k), R * k * np.eye(n)),
}
"""Polytopes with few vertices: (n, k, R) -> the set and its vertices."""


KNOWN = [case.domain for case in CASES if math.prod(case.domain.shape) <= 60]
INEXACT = {
    sets.Polytope: 1e-9,
    sets.TransportPolytope: 1e-9,
    sets.FlowPolytope: 1e-9,
    sets.Intersection: 1e-9,
}
"""What oracles that solve linear programmes with a tolerance may miss, relative to T."""


def draw_known(draw: Draw, place: int) -> tuple[Any, Any]:
    """A set of the table, as it is or in other units."""
    domain = KNOWN[place % len(KNOWN)]
    if is_slow(domain) and place // len(KNOWN) % 8:
        domain = KNOWN[(place + 1) % len(KNOWN)]
    if draw.chance(0.5):
        draw.eR, draw.R, draw.eT = 0, 1.0, max(min(draw.eT, 90), -90)
    else:
        domain = sets.Scale(domain, draw.R)
    return domain, ref.Known(domain)


def parts(domain: Any) -> list[Any]:
    """Return a set and all those that it is made of."""
    made_of = [getattr(domain, name, ()) for name in ("blocks", "sets")] + [[getattr(domain, "domain", None)]]
    inner = [part for several in made_of for part in several if isinstance(part, sets.Set)]
    return [domain, *(deeper for part in inner for deeper in parts(part))]


def is_slow(domain: Any) -> bool:
    """Return whether an answer of the oracle may take 120 linear programmes, and be inexact after them."""
    return any(isinstance(part, sets.Intersection) and not part.polytope for part in parts(domain))


def draw_set(draw: Draw, depth: int = 0) -> tuple[Any, Any]:
    if depth == 0 and draw.place is not None:
        return draw_known(draw, draw.place)
    kinds = ["simplex", "l1", "l2", "linf", "lp", "box", "ksparse", "birkhoff", "spectral", "nuclear"]
    kinds += ["schatten", "spectraplex", "polytope", "hull", "epigraph", "product", *VERTEX_SETS]
    kind = draw.pick(kinds)
    if depth and (kind == "product" or (draw.eR and kind in ("birkhoff", "polytope"))):
        kind = "simplex"  # blocks have one scale, and those two have size 1
    R, rng, n = draw.R * float(draw.pick([1.0, 1.0, 0.75, 3.0])), draw.rng, int(draw.rng.integers(1, 5))
    shape: Any = draw.pick([(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2)])
    if kind == "simplex":
        return sets.Simplex(n, R), ref.Hull(R * np.eye(n), lambda x: ref.simplex_excess(x, R))
    if kind == "l1":
        return sets.L1Ball(n, R), ref.Hull(
            R * np.vstack([np.eye(n), -np.eye(n)]), lambda x: abs(x).sum() - LD(R)
        )
    if kind == "linf":
        return sets.LInfBall(n, R), ref.Hull(R * ref.signs(n), lambda x: abs(x).max() - LD(R))
    if kind in ("l2", "lp"):
        p = 2.0 if kind == "l2" else float(draw.pick([1.1, 1.5, 3.0, 8.0]))
        return (sets.L2Ball(n, R) if kind == "l2" else sets.LpBall(n, p, R)), ref.Ball(n, p, R)
    if kind == "box":
        low = np.sort(draw.numbers(2, n), axis=0)
        if draw.chance(0.3):
            low[1, : int(rng.integers(1, n + 1))] = low[0, : int(rng.integers(1, n + 1))].max()
            low = np.sort(low, axis=0)
        low = np.ldexp(low.astype(draw.dtype).astype(float), draw.eR)
        V = np.array([np.where(pattern > 0, low[1], low[0]) for pattern in ref.signs(n)])
        return sets.Box(low[0], low[1]), ref.Hull(V, lambda x: max((low[0] - x).max(), (x - low[1]).max()))
    if kind == "ksparse":
        k = int(rng.integers(1, n + 1))
        return sets.KSparse(n, k, R), ref.Hull(
            R * ref.k_sparse(n, k), lambda x: max(abs(x).max() - LD(R), abs(x).sum() / k - LD(R))
        )
    if kind in VERTEX_SETS:
        domain, V = VERTEX_SETS[kind](n, int(rng.integers(1, n + 1)), R)
        return domain, ref.Hull(V)
    if kind == "birkhoff":
        n = int(rng.integers(1, 4))
        draw.eT, draw.eR, draw.R = max(min(draw.eT, 900), -900), 0, 1.0
        if draw.dtype == np.float32:
            draw.eT = max(min(draw.eT, 90), -90)
        return sets.Birkhoff(n), ref.Hull(ref.permutations(n), lambda x: ref.birkhoff_excess(x, n))
    if kind in ("spectral", "nuclear", "schatten"):
        if draw.large and depth == 0 and kind != "schatten":
            shape = draw.large
        p = {"spectral": math.inf, "nuclear": 1.0}.get(kind) or float(draw.pick([1.5, 2.0, 4.0]))
        made = {"spectral": sets.SpectralBall, "nuclear": sets.NuclearBall}.get(kind)
        domain = made(shape, R) if made else sets.SchattenBall(shape, p, R)
        return domain, ref.Ball(math.prod(shape), p, R, shape)
    if kind == "spectraplex":
        n = int(rng.integers(1, 4))
        n = min(draw.large) if draw.large and depth == 0 else n
        return sets.Spectraplex(n, R), ref.Spectraplex(n, R)
    if kind == "hull":
        V = np.ldexp(draw.numbers(int(rng.integers(1, 6)), n).astype(draw.dtype).astype(float), draw.eR)
        if draw.chance(0.3):
            V = np.vstack([V, V[:1], 0.5 * (V[:1] + V[-1:])])
        return sets.ConvexHull(V), ref.Hull(V)
    if kind == "polytope":
        return draw_polytope(draw, min(n, 3))
    if kind == "epigraph":
        p, ball = draw.pick([(1.0, sets.L1Ball), (2.0, sets.L2Ball), (math.inf, sets.LInfBall)])
        return sets.Epigraph(ball(n, R)), ref.Epigraph(ref.Ball(n, p, R))
    if draw.chance(0.5):
        draw.eR, draw.R, draw.eT = 0, 1.0, max(min(draw.eT, 90), -90)
    blocks = [draw_set(draw, 1) for _ in range(2)]
    return sets.Product([b for b, _ in blocks]), ref.Product([r for _, r in blocks])


def draw_polytope(draw: Draw, n: int) -> tuple[Any, Any]:
    """A polytope of size 1: HiGHS works with absolute tolerances."""
    draw.eR, draw.R = 0, 1.0
    draw.eT = max(min(draw.eT, 90), -90)
    A, b = draw.rng.integers(-2, 3, (2, n)).astype(float), draw.rng.integers(0, 3, 2).astype(float)
    eye = np.eye(n)
    rows, sides = np.vstack([A, eye, eye * -1.0]), np.concatenate([b, np.ones(n), np.zeros(n)])
    if draw.chance(0.3):
        A_eq, b_eq = np.ones((1, n)), np.array([1.0])
        V = ref.corners(np.vstack([A_eq, rows]), np.append(b_eq, sides), equations=1)
        if len(V):
            return sets.Polytope(A, b, A_eq, b_eq, bounds=(0.0, 1.0)), ref.Hull(V)
    return sets.Polytope(A, b, bounds=(0.0, 1.0)), ref.Hull(ref.corners(rows, sides))


# -- objectives -------------------------------------------------------------------------------------------


def draw_convex_quadratic(draw: Draw, n: int) -> tuple[Any, Any]:
    eH, eb = draw.eT - 2 * draw.eR, draw.eT - draw.eR
    kind = draw.pick(["gram", "diagonal", "square", "least squares", "linear", "sum"])
    if kind == "square":
        scale = draw.number(eH)
        return functions.SquaredNorm(scale), ref.Quad.square(n, scale)
    if kind == "least squares":
        m = int(draw.rng.integers(1, 4))
        half = eH // 2
        A, b = draw.cast(draw.numbers(m, n), half), draw.cast(draw.numbers(m), half + draw.eR)
        return functions.LeastSquares(A, b), ref.Quad.least_squares(A, b)
    if kind == "sum":
        (p, rp), (q, rq) = draw_convex_quadratic(draw, n), draw_convex_quadratic(draw, n)
        c = float(draw.pick([0.5, 3.0, 1.0]))
        return p + c * q, ref.Sum((1, rp), (c, rq))
    if kind == "diagonal":
        H = np.diag(abs(draw.numbers(n)))
    elif kind == "linear":
        H = np.zeros((n, n))
    else:
        B = draw.numbers(int(draw.rng.integers(1, n + 1)), n)
        H = B.T @ B
    A, b = draw.cast(H, eH), draw.cast(draw.numbers(n), eb)
    c = draw.number(draw.eT) if draw.chance(0.3) else 0.0
    return functions.Quadratic(A, b, c), ref.Quad.of(A, b, c)


def draw_nonsmooth(draw: Draw, n: int, shape: tuple[int, ...]) -> tuple[Any, Any]:
    scale = draw.number(draw.eT - draw.eR)
    kind = draw.pick(["l1", "l2"] + (["nuclear"] if len(shape) == 2 else []))
    if kind == "l1":
        return functions.L1Norm(scale), ref.L1(scale)
    if kind == "l2":
        return functions.L2Norm(scale), ref.L2(scale)
    return functions.NuclearNorm(scale), ref.Nuclear(scale, shape)


def draw_smooth(draw: Draw, n: int) -> tuple[Any, Any]:
    """Return a convex function of vectors that is not quadratic."""
    m = int(draw.rng.integers(1, 5))
    if draw.chance(0.5):
        e = max(min(draw.eT - draw.eR, 480), -480) if draw.dtype == np.float64 else draw.eT - draw.eR
        e = e if draw.dtype == np.float64 else max(min(e, 50), -50)
        A, b = draw.cast(draw.numbers(m, n), e), draw.cast(draw.numbers(m), e + draw.eR)
        t = draw.number(e + draw.eR, 0.1)
        return functions.LogSumExp(A, b, t), ref.LogSumExp(A, b, t)
    A = draw.cast(draw.numbers(m, n), -draw.eR)
    labels = draw.pick([-1.0, 1.0]) * np.where(draw.rng.random(m) < 0.5, 1.0, -1.0).astype(draw.dtype)
    return functions.LogisticLoss(A, labels), ref.Logistic(A, labels)


def draw_objective(draw: Draw, domain: Any, region: Any) -> tuple[Any, Any, Any, Any, str]:
    """Return the objective, f and g in extended precision (None where there is no split), phi, a name."""
    n, shape = len(region.r), domain.shape
    kinds = ["f - g"] * 3 + ["f - norm"] * 2 + ["phi", "sliding", "proximal", "spectral", "auto", "convex"]
    kinds += ["p - norm, sliding", "p - norm, proximal"]
    if len(shape) == 1:
        kinds += ["smooth - g", "smooth - norm"]
    kind = "whole" if draw.newer == "whole" else draw.pick(kinds)
    if kind in ("f - g", "f - norm", "smooth - g", "smooth - norm"):
        f, rf = draw_smooth(draw, n) if "smooth" in kind else draw_convex_quadratic(draw, n)
        g, rg = draw_convex_quadratic(draw, n) if kind[-1] == "g" else draw_nonsmooth(draw, n, shape)
        if draw.chance(0.2):  # g with more than one kind of term
            h, rh = draw_nonsmooth(draw, n, shape)
            g, rg = g + h, ref.Sum((1, rg), (1, rh))
        dc = f - g
        phi = ref.Sum((1, rf), (-1, rg))
        if draw.chance(0.2):
            mu = draw.number(draw.eT - 2 * draw.eR)
            dc, square = splits.strengthen(dc, mu), ref.Quad.square(n, mu)
            rf, rg = ref.Sum((1, rf), (1, square)), ref.Sum((1, rg), (1, square))
        return dc, rf, rg, phi, kind
    if kind == "convex":
        f, rf = draw_convex_quadratic(draw, n)
        return f, rf, ref.Quad.square(n, 0.0), rf, kind
    H = draw.numbers(n, n)
    A, b = draw.cast(H + H.T, draw.eT - 2 * draw.eR), draw.cast(draw.numbers(n), draw.eT - draw.eR)
    p, rp = functions.Quadratic(A, b), ref.Quad.of(A, b)
    if kind in ("phi", "spectral", "whole"):
        dc = (
            splits.spectral(p, domain if draw.chance(0.7) else None)
            if kind == "spectral"
            else splits.best(p, domain)
        )
        rf, rg = (_of_library(part, n) for part in (dc.f, dc.g))
        if kind == "whole":  # phi itself, for methods that choose a split or need none
            return p, rf, rg, rp, kind
        return (dc if kind == "spectral" else p), rf, rg, rp, f"{kind} ({dc.name})"
    phi, rphi = p, rp
    if "norm" in kind:
        q, rq = draw_nonsmooth(draw, n, shape)
        phi, rphi = p - q, ref.Sum((1, rp), (-1, rq))
    if kind == "auto":
        split = draw.pick([splits.sliding, splits.proximal])
        return split(phi, L="auto"), None, None, rphi, kind
    # The constant is exact in the dtype, with room for the rounding of eigenvalues.
    L = float(draw.dtype((1.0 + 1e-5) * p.lipschitz)) or 1.0
    square = ref.Quad.square(n, L)
    if "sliding" in kind:
        return splits.sliding(phi, L), square, ref.Sum((1, square), (-1, rphi)), rphi, kind
    rf, rg = ref.Sum((1, rp), (1, square)), square
    if "norm" in kind:
        rg = ref.Sum((1, square), (1, rq))
    return splits.proximal(phi, L), rf, rg, rphi, kind


def _of_library(part: Any, n: int) -> Any:
    """Return a part of a spectral split: its matrix is data like any other."""
    if isinstance(part, functions.Zero):
        return ref.Quad.square(n, 0.0)
    if isinstance(part, functions.Quadratic):
        return ref.Quad.of(part.A, part.b, part.c)
    raise TypeError(f"a part of a spectral split is {part!r}")


def draw_lifted(draw: Draw) -> tuple[Any, Any, Any, Any, Any, Any, str]:
    """A loss with a penalty that flattens out, on the epigraph of the l1 norm."""
    n = int(draw.rng.integers(1, 4))
    loss, rloss = draw_convex_quadratic(draw, n)
    lam = draw.number(draw.eT - draw.eR)
    kind = draw.pick(["capped", "l1-l2"])
    if kind == "capped":
        theta = draw.R * float(draw.pick([0.25, 0.5, 1.0]))
        penalty, rg = functions.CappedL1(lam, theta), ref.Profile("capped", lam, theta)
    else:
        penalty, rg = functions.L1MinusL2(lam), ref.L2(lam)
    objective, domain = functions.lift(loss + penalty, sets.L1Ball(n, draw.R))
    rf, rg = ref.Lifted(rloss, lam), ref.Lifted(rg)
    region = ref.Epigraph(ref.Ball(n, 1.0, draw.R))
    return domain, region, objective, rf, rg, ref.Sum((1, rf), (-1, rg)), f"lifted {kind}"


def draw_sampled(draw: Draw) -> tuple[Any, Any, Any, Any, Any, Any, str]:
    """Half a mean of squares, for methods that sample it: four rows, so that the mean is exact."""
    while True:
        domain, region = draw_set(draw)
        if len(domain.shape) == 1:
            break
        draw.place = None  # the table's set is the same each time
    n, half = len(region.r), (draw.eT - 2 * draw.eR) // 2
    A, b = draw.cast(draw.numbers(4, n), half), draw.cast(draw.numbers(4), half + draw.eR)
    phi = ref.Quad.least_squares(0.5 * A, 0.5 * b)
    return domain, region, functions.FiniteSum.least_squares(A, b), None, None, phi, "sampled"


def _verbs(part: Any) -> dict[str, Any]:
    return {"value": lambda self, x: part.value(x), "grad": lambda self, x: part.grad(x)}


def own_part(rng: np.random.Generator, part: Any, keep: bool) -> Any:
    """Return a user's function with the values of ``part``, ``keep``ing its constants if asked."""
    claims = {name: getattr(part, name) for name in ("differentiable", "affine_grad", "lipschitz")}
    kind = "own" if keep else ["own", "heir", "mean"][int(rng.integers(3))]
    if kind == "own":
        return type("Own", (functions.Function,), _verbs(part) | claims | {"convex": True})()
    if kind == "heir":  # whose parent's claims are wrong
        return type("Heir", (functions.SquaredNorm,), _verbs(part))()
    return functions.FiniteSum(2, part.value, lambda x, batch: part.grad(x), convex=True)


def draw_own(seed: int, objective: Any, options: dict[str, Any]) -> Any:
    """Return a given f - g with a user's class in place of f or g, or None."""
    rng = np.random.default_rng((seed, 2))  # so that the other draws do not depend on it
    given = isinstance(objective, functions.DC) and objective.whole is None and objective.name == "given"
    if rng.random() >= OWN or not given or objective.conditional:
        return None
    f, g = objective.f, objective.g
    if rng.random() < 0.5:
        return own_part(rng, f, True) - g
    return f - own_part(rng, g, options["method"] in ("fw", "cgs"))


# -- cases ------------------------------------------------------------------------------------------------


def make_case(seed: int) -> Case:
    draw = Draw(seed)
    if draw.chance(0.06):
        domain, region, objective, f, g, phi, name = draw_lifted(draw)
    elif draw.newer == "sampled":
        domain, region, objective, f, g, phi, name = draw_sampled(draw)
    else:
        domain, region = draw_set(draw)
        objective, f, g, phi, name = draw_objective(draw, domain, region)
    options = draw_options(draw, domain, objective, name)
    size = phi_size(phi, f, g, region)
    options["tol"] = float(size * LD(10.0) ** -int(draw.rng.integers(1, 18))) if draw.chance(0.9) else 0.0
    if draw.chance(0.2):
        options["tolerance"] = max(float(size) * draw.pick([1e-1, 1e-3]), 1e-300)
    elif draw.chance(0.3):
        options["tolerance"] = "progress"
    x0 = draw_start(draw, domain, region)
    dtype = np.float64 if x0 is None and not draw.data else draw.dtype
    case = Case(seed, dtype, domain, region, objective, f, g, phi, x0, options)
    case.notes.append(name)
    own = None if x0 is None else draw_own(seed, objective, options)  # a class has no dtype
    if own is not None:
        case.objective, case.by_word = own, True
        case.notes.append(f"a user's {type(own.f).__name__} - {type(own.g).__name__}")
    case.oracle_error = max(INEXACT.get(type(part), 0.0) for part in parts(domain))
    if is_slow(domain):
        case.bounded, options["max_lmo"] = True, 2
    return case


def draw_options(draw: Draw, domain: Any, objective: Any, name: str) -> dict[str, Any]:
    if name == "sampled":
        method = draw.pick([Stochastic, SFW])(epochs=float(draw.pick([1.0, 3.0, 10.0])))
        return {"method": method, "maxiter": int(draw.pick([1, 3, 10, 30])), "max_lmo": 150, "rng": 0}
    if name == "whole":
        kinds = ["auto"] * 3 + (["graduated"] if domain.spheres() is not None else [])
        return {"method": draw.pick(kinds), "maxiter": int(draw.pick([1, 3, 10, 30])), "max_lmo": 150}
    methods = ["dcfw"] * 5 + ["boosted"] * 2
    smooth = getattr(objective, "differentiable", True)
    if name != "auto":
        methods += ["fw-k", "fw-m"] + (["fw", "cgs"] if smooth else [])
        methods += ["block"] * 8 if isinstance(domain, sets.Product) else []
    method: Any = draw.pick(methods)
    options: dict[str, Any] = {"method": method, "step": draw.pick(STEPS)}
    options["inner"] = "auto" if method in ("fw-k", "fw-m") else draw.pick(INNERS)
    if method == "block":
        options["method"] = Block(order=draw.pick(["cyclic", "random", "gap"]))
        options["rng"] = 0
    options["maxiter"] = int(draw.pick([0, 1, 3, 10, 30]))
    options["max_inner"] = int(draw.pick([1, 3, 50, 50]))
    blocks = len(domain.sets) if method == "block" else 0  # each is asked once before the first step
    options["max_lmo"] = max(int(draw.pick([2, 5, 60, 150])), blocks)
    options["lazy"] = draw.chance(0.7)
    return options


def draw_start(draw: Draw, domain: Any, region: Any) -> Any:
    kind = draw.pick(["none", "vertex", "random", "edge", "centre"])
    if kind == "none":
        return None
    if kind == "centre":
        return np.asarray(domain.start(), dtype=draw.dtype)
    n = len(region.r)
    vertices = [region.lmo(ref.ld(draw.rng.standard_normal(n))) for _ in range(4)]
    weights = {"vertex": [1, 0, 0, 0], "edge": [0.5, 0.5, 0, 0]}.get(kind)
    weights = draw.rng.dirichlet(np.ones(4)) if weights is None else weights
    x = sum(LD(w) * v for w, v in zip(weights, vertices, strict=True))
    return x.astype(draw.dtype).reshape(domain.shape)


def phi_size(phi: Any, f: Any, g: Any, region: Any) -> Any:
    """T: the size of the terms that are added up, in phi and in f - g (which may be another form of it)."""
    whole = phi.size(region.r)
    return whole if f is None else max(whole, f.size(region.r) + g.size(region.r))


# -- checks -----------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """The outcome of a case: the errors found, the result, its share of the allowance."""

    wrong: list[str]
    result: Any = None
    used: dict[str, float] = field(default_factory=dict)


def check_case(case: Case) -> Outcome:
    iterates: list[tuple[int, Any]] = []
    start = None if case.x0 is None else case.x0.copy()
    outcome = Outcome([])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            res = minimize(
                case.objective,
                case.domain,
                case.x0,
                callback=lambda intermediate_result: iterates.append(
                    (intermediate_result.nit, intermediate_result.x)
                ),
                **case.options,
            )
    except Exception as error:  # whatever it is, the seed has to be reported
        outcome.wrong.append(f"raised {type(error).__name__}: {error}")
        return outcome
    outcome.result = res
    Check(case, outcome, iterates).all(start)
    return outcome


class Check:
    """The checks of one result."""

    def __init__(self, case: Case, outcome: Outcome, iterates: list[tuple[int, Any]]) -> None:
        self.case, self.outcome, self.res, self.iterates = case, outcome, outcome.result, iterates
        info = np.finfo(case.dtype)
        self.eps, self.tiny = LD(float(info.eps)), LD(float(info.smallest_subnormal))
        region = case.region
        self.n, self.R = len(region.r), region.r.max()
        self.T = phi_size(case.phi, case.f, case.g, region)
        if case.f is None:  # L found on the way: its terms count as well
            L = max(self.res.get("L_history") or [0.0], default=0.0)
            self.T += 2 * LD(L) * (region.r @ region.r)

    def allowance(self, extra: Any = 0) -> Any:
        steps = min(self.res.n_inner, RESYNC)
        terms = len(getattr(self.case.phi, "terms", ()))
        rounding = GAP * (self.n + 1 + terms + steps) * self.eps
        lost = 8 * self.n * self.tiny * (1 + self.R)
        return rounding * (self.T + extra) + LD(self.case.oracle_error) * self.T + lost

    def claim(self, name: str, excess: Any, allowed: Any) -> None:
        """Record the share of the allowance that a claim uses, and an error where it exceeds it."""
        used = float(excess / allowed) if allowed > 0 else (0.0 if excess <= 0 else math.inf)
        self.outcome.used[name] = max(self.outcome.used.get(name, 0.0), used)
        if not excess <= allowed:
            self.outcome.wrong.append(f"{name}: off by {float(excess):.3g}, {float(allowed):.3g} allowed")

    def all(self, start: Any) -> None:
        case, res = self.case, self.res
        if start is not None and not np.array_equal(start, case.x0):
            self.outcome.wrong.append("x0 was written to")
        if not isinstance(res.status, Status) or res.status in (
            Status.BAD_ORACLE,
            Status.NOT_CONVEX,
            Status.INTERRUPTED,
        ):
            self.outcome.wrong.append(f"status {res.status!r}: {res.message}")
            return
        if res.status is Status.LINE_SEARCH:
            allowed = 4 * self.allowance()
            if case.f is None:  # values have to show a decrease, which is gap^2 / (2 curvature) at most
                allowed = max(allowed, np.sqrt(2 * self.T * self.allowance()))
            self.claim("line searches fail at rounding level only", LD(res.history["gap"][-1]), allowed)
        if res.x.dtype != case.dtype or not np.isfinite(res.x).all():
            self.outcome.wrong.append(f"x is {res.x!r}")
            return
        x = ref.ld(res.x)
        self.claim("x in the set", case.region.violation(x), self.point_allowance())
        self.values(x)
        self.weights(x)
        self.gap(x)
        self.certificates()

    def point_allowance(self) -> Any:
        # Blended steps in the space of weights leave a sum of weights that is off by a rounding each.
        weights = ATOMS * LD(2.0**-52) if self.res.get("active_set") is not None else LD(0)
        rounding = POINT * self.n * self.eps + weights + LD(self.case.oracle_error)
        return rounding * self.R + self.n * self.tiny

    def values(self, x: Any) -> None:
        phi = self.case.phi
        first = ref.ld(self.iterates[0][1]) if self.iterates else x
        if self.res.n_samples is None:
            self.claim("phi(x) <= phi(x0)", phi.value(x) - phi.value(first), self.allowance())
        if self.res.lower_bound is not None:
            least = min([phi.value(x), *(phi.value(vertex) for vertex in self.vertices())])
            excess = LD(self.res.lower_bound) - least
            self.claim("lower bound of phi on the vertices", excess, self.allowance())
        self.claim("fun = phi(x)", abs(LD(self.res.fun) - phi.value(x)), self.allowance())

    def vertices(self) -> Any:
        """Return the vertices of the set, if all points that span it are vertices."""
        V = getattr(self.case.region, "V", np.empty((0, 0)))
        lengths = np.array([ref.length(v - V.mean(axis=0)) for v in V])
        return V if len(V) and np.ptp(lengths) <= 1e-9 * lengths.max() else []

    def weights(self, x: Any) -> None:
        active = self.res.get("active_set")
        if active is None:
            return
        w = active.weights
        if not (w >= 0).all():
            self.outcome.wrong.append(f"weights {w}")
        self.claim("weights sum to 1", abs(LD(1) - w.astype(LD).sum()), LD(4 * len(w) * 2.0**-52))
        point = sum(LD(v) * ref.ld(a.dense()) for v, a in zip(w, active.atoms, strict=True))
        self.claim("weights make up x", ref.length(point - x), ATOMS * self.eps * self.n * self.R)

    def gap(self, x: Any) -> None:
        res, case = self.res, self.case
        if not math.isfinite(res.gap) or res.gap_of not in (None, "phi"):
            return
        if res.n_samples is not None and not res.dc_gap[1] < math.inf:  # an estimate
            return
        slope = case.phi if case.f is None or self.unsplit() else None
        G = slope.grad(x) if slope is not None else case.f.grad(x) - case.g.grad(x)
        truth = ref.fw_gap(G, case.region, x)
        over = LD(0) if case.bounded else LD(res.gap) - truth
        if any(isinstance(part, sets.Intersection) for part in parts(case.domain)):
            over -= LD(SHARE) * max(res.history["gap"])  # what an answer may miss, which the gap includes
        self.claim("gap is the FW gap", max(truth - LD(res.gap), over), self.allowance(self.blur(x)))

    def blur(self, x: Any) -> Any:
        return (self.case.phi if self.case.g is None else self.case.g).blur(x)

    def unsplit(self) -> bool:
        return self.case.options["method"] in ("fw", "cgs", "auto", "graduated")

    def certificates(self) -> None:
        """The interval of the result, and those of the first and the last row of the history."""
        res, case, history = self.res, self.case, self.res.history
        if len(self.iterates) != len(history) or not len(history):
            if res.status is not Status.BAD_ORACLE:
                self.outcome.wrong.append(f"{len(self.iterates)} callbacks, {len(history)} rows")
            return
        if case.by_word and not res.conditional:
            self.outcome.wrong.append("a certificate that rests on a user's word is unconditional")
        low, high = history["dc_low"], history["dc_high"]
        nits = [nit for nit, _ in self.iterates]
        at = nits.index(res.dc_gap_nit)
        claims = {at: res.dc_gap}
        for row in (0, len(nits) - 1):
            claims.setdefault(row, (low[row], high[row]))
        for row, (lower, upper) in claims.items():
            x = ref.ld(self.iterates[row][1])
            if math.isnan(upper):
                continue
            if not 0.0 <= lower <= upper:
                self.outcome.wrong.append(f"interval ({lower}, {upper}) in row {row}")
            if case.f is None or (self.unsplit() and case.phi is not case.f):
                # No decomposition is certified: the FW gap bounds all of them.
                continue
            truth_low, truth_high = ref.dc_gap(case.f, case.g, case.region, x)
            allowed = self.allowance(self.blur(x))
            self.claim("gap_DC <= high", truth_low - LD(upper), allowed)
            self.claim("low <= gap_DC", LD(lower) - truth_high, allowed)
            if lower > 0.0 and not case.g.unique(x):
                self.outcome.wrong.append(f"low = {lower} at a kink of g")


# -- the job ----------------------------------------------------------------------------------------------


def check_seed(seed: int) -> tuple[Any, Outcome]:
    try:
        case = make_case(seed)
    except Exception as error:  # a generator that breaks is a failure of the seed, too
        return f"seed {seed}", Outcome([f"make_case raised {type(error).__name__}: {error}"])
    return case, check_case(case)


def run(
    first: int, count: int, seconds: float, report: Any = print
) -> tuple[int, list[int], dict[str, float]]:
    """Check the seeds from ``first`` on; return their number, those that failed, the most allowance used."""
    ends, failed, used, seed = time.monotonic() + seconds, [], {}, first
    while seed < first + count and time.monotonic() < ends:
        case, outcome = check_seed(seed)
        if outcome.wrong:
            failed.append(seed)
            report(f"FAILED {case}\n    " + "\n    ".join(outcome.wrong))
        for name, part in outcome.used.items():
            used[name] = max(used.get(name, 0.0), part)
        seed += 1
    return seed - first, failed, used


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after this time")
    parser.add_argument("--cases", type=int, default=100_000, help="stop after this many cases")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--state", type=Path, help="a file to go on from, and to keep the count in")
    args = parser.parse_args()
    state = {"next": args.seed, "cases": 0, "failed": []}
    if args.state and args.state.exists():
        state = json.loads(args.state.read_text())
    started = time.monotonic()
    used: dict[str, float] = {}
    left = args.cases - state["cases"]
    while left > 0 and (rest := args.seconds - (time.monotonic() - started)) > 0:
        count, failed, parts = run(state["next"], min(left, 1000), rest)
        state["next"] += count
        state["cases"] += count
        state["failed"] += failed
        left -= count
        used = {name: max(used.get(name, 0.0), part) for name, part in {**used, **parts}.items()}
        if args.state:
            args.state.write_text(json.dumps(state))
        rate = state["cases"] / max(time.monotonic() - started, 1e-9)
        print(f"{state['cases']} cases, {len(state['failed'])} failed, {rate:.0f}/s", flush=True)
    for name, part in sorted(used.items()):
        print(f"  {name}: at most {part:.3g} of the allowance")
    print(f"failing seeds: {state['failed']}")
    return 1 if state["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
