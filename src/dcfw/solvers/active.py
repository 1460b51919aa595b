"""Frank-Wolfe with an active set: away, pairwise and blended pairwise steps, optionally lazy.

Vanilla Frank-Wolfe zigzags when the minimiser lies on a face.  These loops store the vertices (*atoms*) that
make up X with their weights, and may also move away from one:

``"away"``      the better of a step towards the oracle's vertex and one away from the worst atom
``"pairwise"``  weight moves from the worst atom to the oracle's vertex
``"blended"``   weight moves between atoms while that pays; only then is the oracle called
``"descent"``   as blended, but where f is not a quadratic all weights move at once, down the gradient
                (blended conditional gradients; Braun, Pokutta, Tu and Wright 2019)

All converge linearly on polytopes where f is strongly convex.  With ``lazy=True`` away and pairwise steps use
the best atom instead of the oracle's vertex while it promises at least half of the last FW gap.  The loop
yields only after an oracle call at the current X, so stopping and certificates never rest on an old vertex.

For quadratics the gradient at each atom (its *image*) is stored, so that a step between atoms needs no new
gradient; with exact line search blended steps run in the space of weights (:mod:`dcfw.solvers.weights`), and
a round of them counts as one inner step.

References: Guelat and Marcotte 1986 (away steps); Lacoste-Julien and Jaggi 2015 (linear rates, pairwise
steps); Braun, Pokutta and Zink 2017 (lazy steps); Tsuji, Tanaka and Pokutta 2022 (blended pairwise steps).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, eps_of, inner, norm, norm2
from dcfw.functions.base import Function
from dcfw.result import Status
from dcfw.sets.atoms import Atom, Dense
from dcfw.solvers.active_set import ActiveSet
from dcfw.solvers.loop import InnerLoop, State, not_convex, rounding_of_hessian, smooth_step, too_small, walk
from dcfw.solvers.run import Run, Stop
from dcfw.solvers.segment import AffineSegment
from dcfw.solvers.weights import corrections, extremes, pairwise_steps
from dcfw.steps import Exact

RULES = ("away", "pairwise", "blended", "descent")
BLENDED = ("blended", "descent")

# Weights are optimised until the slope left between two atoms is this fraction of the last FW gap.
LOCAL = 0.1
# The oracle's runners-up enter with its vertex if the slope towards them is at least PROMISING times the
# vertex's: at most FEWEST of them, or as many as there are atoms in use.
FEWEST, PROMISING = 32, 0.2
# Steps after which X is recomputed from the weights, and its gradient from X.
RESYNC = 200


class ActiveLoop(InnerLoop):
    """Inner loop with an active set, for one solve: atoms are kept from one outer step to the next.

    A start that is not a vertex is an atom until its weight is gone, which takes many short steps (though few
    oracle calls) if it is very close to the minimiser.  To continue from an earlier solution, pass its
    ``active_set`` as x0 instead of its point.

    Parameters
    ----------
    rule : {"away", "pairwise", "blended", "descent"}
        The steps to take.
    lazy : bool
        Whether known atoms may replace the oracle's vertex (always True for blended steps).
    cap : int, optional
        The largest number of atoms kept (see :class:`~dcfw.solvers.active_set.ActiveSet`).

    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> f = functions.LeastSquares(np.eye(3), np.array([0.6, 0.5, -0.4]))
    >>> res = dcfw.minimize(f, sets.Simplex(3), inner=ActiveLoop("pairwise", cap=50))
    >>> res.x.round(6), res.active_set
    (array([0.55, 0.45, 0.  ]), ActiveSet(2 atoms))
    """

    def __init__(self, rule: str = "blended", lazy: bool = True, cap: int | None = None) -> None:
        self.rule = _validate.choice(rule, "rule", RULES)
        self.lazy = bool(lazy) or rule in BLENDED
        self.cap = None if cap is None else _validate.integer(cap, "cap", low=4)
        self.active: ActiveSet | None = None
        self._last: Array | None = None
        self._target = math.inf  # the least slope for a step without an oracle call
        self._start: tuple[list[Atom], np.ndarray] = ([], np.zeros(0))

    def room(self) -> float:
        """Return the longest feasible step of the weights along their change in the last loop."""
        change = self._change()
        if self.active is None or change is None or not change.any():
            return 0.0
        falling = change < 0.0
        return float((self.active.weights[falling] / -change[falling]).min(initial=math.inf))

    def follow(self, step: float, x: Array) -> Array:
        """Extrapolate the weights by ``step`` times their last change; return their point (x, rounded)."""
        change = self._change()
        if self.active is None or change is None:
            self.active = None  # the next loop starts from x as its only atom
        else:
            weights = self.active.weights + step * change
            weights[weights < 8.0 * np.finfo(np.float64).eps] = 0.0  # above all the one that ends the step
            self.active.weights[:] = weights
            self.active.normalise()
            x = self.active.point()
        self._last = x
        return x

    def go_back(self, x: Array) -> None:
        """Restore the weights at the start of the last loop, at x."""
        self.follow(-1.0, x)
        self._last = x

    def add_square(self, f: Function, L: float) -> None:
        if self.active is not None:
            self.active.add_square(f, L)

    def _change(self) -> np.ndarray | None:
        return None if self.active is None else self.active.change_since(*self._start)

    def hold(self, active: ActiveSet, x: Array) -> None:
        """Start from atoms that make up x, taking ownership of them."""
        self.active, self._last = active, x

    def resume(self, active: ActiveSet, x: Array, domain: Any = None) -> None:
        """Start from an earlier run's atoms of x, converted to its precision if they stay in the set."""
        differs = active._zero.dtype != x.dtype
        self.active, self._last = active.recast(x, domain) if differs else active.copy(), x
        if differs and self.active is not None:
            x[...] = self.active.point()
        if self.cap is not None and self.active is not None:
            self.active.cap = self.cap

    def get_state(self) -> dict[str, Any]:
        active = None if self.active is None else self.active.get_state()
        return {"active": active, "last": self._last, "target": self._target}

    def set_state(self, state: dict[str, Any]) -> None:
        active = state["active"]
        self.active = None if active is None else ActiveSet.from_state(active)
        self._last, self._target = state["last"], state["target"]

    def reattach(self, f: Function) -> None:
        if self.active is not None and self.active.f is not None:
            self.active.f = f

    def active_set(self, x: Array) -> ActiveSet | None:
        """Return a copy of the atoms that make up x, None if they make up another point."""
        if self.active is None:
            return None
        active = self.active.copy()
        # x may have been updated RESYNC times since it was computed from the weights; the rounding is
        # relative to the size of the set, which is at least that of x.
        apart, rounding = norm(active.point() - x), 2.0 * RESYNC * eps_of(x)
        near = apart <= rounding * norm(x)
        return active if near or apart <= rounding * max(norm(a.dense()) for a in active.atoms) else None

    def steps(self, X: State) -> Iterator[State]:
        run = X.run
        active: Any = self._set_out(X)
        self._start = (list(active.atoms), active.weights.copy())
        exact = isinstance(getattr(X.step, "__self__", None), Exact)
        in_weights = self.rule in BLENDED and X.f.affine_grad and exact
        self._target = math.inf
        while True:
            if X.outer:
                run.outer_step()
                active = self.active  # another object in the first step of a resumed run
            G = X.slope()
            here = inner(G, X.x)
            asked = in_weights or not self.lazy
            if not asked:
                scores = active.scores(G)
                worst, best, _ = extremes(scores, active.weights)
                promise = self._promise(scores, here, worst, best)
                asked = not promise >= self._target or (X.outer and run.n_inner >= run.maxiter)
            if asked:
                S = X.ask(G)
                self._last = X.x
                yield X
                self._target = 0.5 * X.gap
                if active.find(S) is None:
                    self._enter(X, active, S, G, here if in_weights else None)
                scores = active.scores(G)
                if not in_weights:
                    worst, best = extremes(scores, active.weights)[0], active.find(S)
            run.before_step(X)
            try:
                if in_weights:
                    self._optimise_weights(X, active, scores)
                else:
                    pairs = self.rule == "pairwise" or (self.rule in BLENDED and not asked)
                    down = pairs and self.rule == "descent"
                    if not (down and self._descend(X, active, scores, best)):
                        self._step(X, active, scores, here, worst, best, pairs)
            except Stop as stop:
                if stop.status is Status.NO_PROGRESS and nearly_done(run, X):
                    return
                raise
            if run.ledger.resync_due(min(run.resync_period, RESYNC)):
                self._resync(X, active)
            self._last = X.x
            if not X.advance():
                return

    def _set_out(self, X: State) -> ActiveSet:
        run, f, x, grad = X.run, X.f, X.x, X.grad
        # An earlier run of this loop may have ended at x0, which may have been overwritten since.
        known = self.active_set(x) is not None if x is run.x0 else x is self._last
        if self.active is None or not known:
            self.active = ActiveSet(x, self.cap)
            if f.affine_grad:
                self.active.attach(f, lambda atom, scores: f.scores_at(atom) if scores else grad)
        elif f.affine_grad:
            self.active.attach(f, partial(run.grad_f_at, f))
        return self.active

    def _promise(self, scores: np.ndarray, here: float, worst: int, best: int) -> float:
        """Return the slope of the best step without an oracle call."""
        if self.rule == "away":
            return float(max(here - scores[best], scores[worst] - here))
        return float(scores[worst] - scores[best])

    @staticmethod
    def _enter(X: State, active: ActiveSet, S: Atom, G: Array, here: float | None) -> None:
        """Add S; given <G, X>, add promising runners-up too if gradients at vertices are cheap."""
        atoms = [S]
        if here is not None:
            count = min(
                max(FEWEST, int(np.count_nonzero(active.weights))), max(active.cap // 4, 1) - 1
            )  # there is always room for cap / 4
            bar = here - PROMISING * (here - S.inner(G))
            near = [A for A in X.run.runners_up(G, count) if A.inner(G) < bar and active.find(A) is None]
            atoms += near if near and X.f.prefetch([S, *near]) else []
        active.enter(atoms, partial(X.run.grad_f_at, X.f))
        m = len(active)
        if active.f is not None and not np.isfinite(active.M[m - len(atoms) : m, :m]).all():
            X.run.bad_gradient()

    def _optimise_weights(self, X: State, active: ActiveSet, scores: np.ndarray) -> None:
        run, convex, m = X.run, X.convex, len(active)
        before = active.weights.copy()
        count, gained, done = 0, 0.0, False
        limit, aim = 200 + 20 * m, LOCAL * X.gap
        while not done:
            slack = 2.0 * active.noise if convex else math.inf
            taken, more, done = pairwise_steps(active.M, active.weights, scores, m, aim, limit, slack)
            count, gained = count + taken, gained + more
            if taken == limit and convex:
                taken, more = corrections(active.M[:m, :m], active.weights, scores, aim)
                count, gained = count + taken, gained + more
            if not done:
                self._forgive(run, active, *extremes(scores, active.weights)[:2])
        if count == 0 or not gained > 0.0:
            raise stuck(run, X)
        change = active.weights - before
        X.x = active.point()  # adding the change would leave rounding of atoms without weight
        X.grad = active.combine_images(X.grad, change)
        # Along negative curvature the reported gain is too small.
        X.gained = X.gained + gained if convex and X.gained is not None else None
        X.value = None

    @staticmethod
    def _forgive(run: Run, active: ActiveSet, worst: int, best: int) -> None:
        """End the run for negative curvature between two atoms that rounding does not explain."""
        curvature = float(active.M[best, best] - 2.0 * active.M[best, worst] + active.M[worst, worst])
        ends = [active.atoms[j].dense() for j in (worst, best)]
        assert active.f is not None
        if not curvature >= -rounding_of_hessian(active.f, *ends):
            lacking = -curvature / norm2(ends[0] - ends[1])
            not_convex(run, f"the curvature between two vertices is {curvature:.3g}", lacking)
        active.noise = -curvature

    def _step(
        self, X: State, active: ActiveSet, scores: np.ndarray, here: float, worst: int, best: int, pairs: bool
    ) -> None:
        """Take one step: towards a vertex, away from an atom, or from one to the other."""
        heavy = float(active.weights[worst])
        towards, away = float(here - scores[best]), float(scores[worst] - here)
        if pairs:
            coefficients, slope = (0.0, heavy, -heavy), heavy * float(scores[worst] - scores[best])
        elif self.rule == "away" and away > towards and heavy < 0.5 + 1e-6:
            # X is too close to a heavier atom for a step away from it to pay.
            scale = heavy / (1.0 - heavy)
            coefficients, slope = (scale, 0.0, -scale), scale * away
        else:
            coefficients, slope = (-1.0, 1.0, 0.0), towards
        if slope <= 0.0:
            raise stuck(X.run, X)
        alpha, beta, gamma = coefficients
        d = _sum(alpha, X.x, (beta, active.atoms[best]), (gamma, active.atoms[worst]))
        if active.f is None:
            eta = smooth_step(X, Dense(X.x + d), slope)
        else:
            images = [(c, Dense(active.image(j))) for c, j in ((beta, best), (gamma, worst))]
            eta = walk(X, Way(X, d, alpha, images, slope))
        active.move(coefficients, best, worst, eta)

    @staticmethod
    def _descend(X: State, active: ActiveSet, scores: np.ndarray, best: int) -> bool:
        """Take one step down the gradient in the weights; return False if there is none."""
        used = active.weights > 0.0
        used[best] = True
        slope = np.where(used, scores - scores[used].mean(), 0.0)
        losing = slope > 0.0
        length = float((active.weights[losing] / slope[losing]).min(initial=math.inf))
        if active.f is not None or not 0.0 < length < math.inf:
            return False
        change = -length * slope  # a weight reaches zero at its end
        # Where scores nearly agree, rounding would lead out of the set.
        change[best] -= change.sum()
        far = Dense(active.combine(X.x, change))
        try:
            eta = smooth_step(X, far, -float(change @ scores))
        except Stop as stop:
            if stop.status is Status.NO_PROGRESS:
                return False
            raise
        weights = np.maximum(active.weights + eta * change, 0.0)
        if eta == 1.0:
            weights[weights <= 8.0 * np.finfo(np.float64).eps * active.weights] = 0.0
        active.weights[:] = weights
        return True

    @staticmethod
    def _resync(X: State, active: ActiveSet) -> None:
        active.normalise()
        X.x = active.point()
        if active.f is not None:
            X.grad = X.f.grad(X.x)
            X.run.ledger.count_resync()


class Way(AffineSegment):
    """The segment from X to X + d, where H d = alpha grad + a combination of images."""

    __slots__ = ("alpha", "d", "images")

    def __init__(
        self, X: State, d: Array, alpha: float, images: list[tuple[float, Dense]], gap: float
    ) -> None:
        self.x, self.grad, self.k, self.convex = X.x, X.grad, X.k, X.convex
        self.d, self.alpha, self.images, self.gap = d, alpha, images, gap
        self.change = _sum(alpha, X.grad, *images)
        self.curvature = inner(d, self.change)

    @property
    def norm2(self) -> float:
        return inner(self.d, self.d)

    def end(self) -> Array:
        return self.x + self.d

    def land(self, eta: float) -> tuple[Array, Array, float]:
        return self.x + eta * self.d, self.grad + eta * self.change, self.decrease(eta)

    def rounding_of_curvature(self) -> float:
        sizes = abs(self.alpha) * norm(self.grad) + sum(abs(c) * norm(a.array) for c, a in self.images)
        return 64.0 * eps_of(self.d) * norm(self.d) * sizes


def _sum(alpha: float, x: Array, *terms: tuple[float, Atom]) -> Array:
    """Return alpha x + sum c a, skipping terms with a zero coefficient."""
    y = alpha * x
    for c, atom in terms:
        if c:
            y = atom.plus(y, c)
    return y


def nearly_done(run: Run, X: State) -> bool:
    """Return whether a loop stuck at rounding level has moved and reached the run's tolerance."""
    return X.linear is not None and X.k > 1 and X.gap <= run.threshold


def stuck(run: Run, X: State) -> Stop:
    if not run.lmo_error:
        return too_small(X)
    error = f"the linear oracle's own error bound {run.lmo_error:.3g}"
    text = f"No atom is a descent direction: the FW gap {X.gap:.3g} is within {error}."
    return Stop(Status.NO_PROGRESS, text)
