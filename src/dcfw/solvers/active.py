"""Frank-Wolfe with an active set: away, pairwise and blended pairwise steps, optionally lazy.

Vanilla Frank-Wolfe zig-zags when the minimiser lies on a face: it can only move towards vertices.  These
loops remember the vertices (*atoms*) that make up X and their weights, and may also take weight off one:

``"away"``      the better of a step towards the oracle's vertex and one away from the worst atom
``"pairwise"``  weight moves from the worst atom to the oracle's vertex
``"blended"``   weight moves between atoms while that pays; the oracle is asked only when it does not
                (Tsuji, Tanaka and Pokutta 2022)
``"descent"``   the same, but where f is not a quadratic all weights move at once, down the gradient
                (blended conditional gradients; Braun, Pokutta, Tu and Wright 2019)

All of them converge linearly on polytopes where f is strongly convex.  With ``lazy=True`` away and pairwise
steps, too, use the best atom in place of the oracle's vertex, as long as it promises at least half of the
last FW gap.  The loop yields only where the oracle has just been called at the current X, so an early stop
and a certificate never rest on an old vertex.

Quadratics keep the gradient at each atom (its *image*).  Then a step between atoms needs no new gradient,
and with exact line search blended steps run in the space of weights alone (:mod:`dcfw.solvers.weights`, and
linear systems where these are slow, :mod:`dcfw.solvers.corrections`); such a round counts as one inner step.

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
from dcfw.solvers.corrections import corrections
from dcfw.solvers.loop import InnerLoop, State, not_convex, rounding_of_hessian, smooth_step, too_small, walk
from dcfw.solvers.run import Run, Stop
from dcfw.solvers.segment import AffineSegment
from dcfw.solvers.weights import extremes, pairwise_steps
from dcfw.steps import Exact

RULES = ("away", "pairwise", "blended", "descent")
BLENDED = ("blended", "descent")

LOCAL = 0.1
"""Weights are optimised until the slope left between two atoms is this fraction of the last FW gap."""

FEWEST = 32
"""The oracle's runners-up enter with its vertex: at most so many, or as many as there are atoms in use ..."""

PROMISING = 0.2
"""... if the slope towards them is at least this fraction of the vertex's."""

RESYNC = 200
"""Number of steps after which X is recomputed from the weights, and its gradient from X."""


class ActiveLoop(InnerLoop):
    """An inner loop with an active set, for one solve (it keeps the atoms from one outer step to the next).

    The rule is "away", "pairwise", "blended" or "descent". With ``lazy`` known atoms may stand in for the
    oracle's vertex (blended steps are lazy by nature). At most ``cap`` atoms are kept
    (:class:`~dcfw.solvers.active_set.ActiveSet`).

    A start that is not a vertex is an atom itself until its weight is gone. If it is very close to the
    minimiser, that takes many short steps (of the order of one over the distance, though few calls of the
    oracle): to go on from an earlier solution, give its active set as x0 and not its point.

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
        self._target = math.inf
        """The least slope for which a step is taken without calling the oracle."""
        self._start: tuple[list[Atom], np.ndarray] = ([], np.zeros(0))

    def room(self) -> float:
        """Return the longest feasible step of the weights along their change in the last loop."""
        change = self._change()
        if self.active is None or change is None or not change.any():
            return 0.0
        falling = change < 0.0
        return float((self.active.weights[falling] / -change[falling]).min(initial=math.inf))

    def follow(self, step: float, x: Array) -> Array:
        """Extrapolate the weights by ``step`` times their last change; return the point that they make up.

        That is x up to rounding, which a long step along a short change amplifies.
        """
        change = self._change()
        if self.active is None or change is None:
            self.active = None  # the next loop starts from x as its only atom
        else:
            weights = self.active.weights + step * change
            weights[weights < 8.0 * np.finfo(np.float64).eps] = 0.0  # the one that ends the step, above all
            self.active.weights[:] = weights
            self.active.normalise()
            x = self.active.point()
        self._last = x
        return x

    def go_back(self, x: Array) -> None:
        """Restore the weights with which the last loop began, at x."""
        self.follow(-1.0, x)
        self._last = x

    def add_square(self, f: Function, L: float) -> None:
        """Update the images for f, the last loop's function plus L/2 ||x||^2."""
        if self.active is not None:
            self.active.add_square(f, L)

    def _change(self) -> np.ndarray | None:
        return None if self.active is None else self.active.change_since(*self._start)

    def hold(self, active: ActiveSet, x: Array) -> None:
        """Start from atoms that make up x, and are given away."""
        self.active, self._last = active, x

    def resume(self, active: ActiveSet, x: Array, domain: Any = None) -> None:
        """Start from the atoms of an earlier run, which make up x.

        If x has another precision, they take it, and x is made what they then make up.  Where that could
        lead out of the set (``domain``, if it is known), x is the only atom instead.
        """
        differs = active.dtype != x.dtype
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
        """Attach the images to f, a reconstruction of the function that they belong to."""
        if self.active is not None and self.active.f is not None:
            self.active.f = f

    def active_set(self, x: Array) -> ActiveSet | None:
        """Return the atoms that make up x, None where they make up another point."""
        if self.active is None:
            return None
        active = self.active.copy()
        # x may have been updated RESYNC times since it was last computed from the weights; the bound is
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
                    more = self._runners_up(X, active, S, G, here) if in_weights else []
                    self._enter(X, active, [S, *more])
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
        """Return the active set for a loop that starts at X."""
        run, f, x, grad = X.run, X.f, X.x, X.grad
        # A run begins at a copy of x0, which may have been written to since an earlier run of this loop ended
        # there.
        known = self.active_set(x) is not None if x is run.x0 else x is self._last
        if self.active is None or not known:
            self.active = ActiveSet(x, self.cap)
            if f.affine_grad:
                self.active.attach(f, lambda atom, scores: f.scores_at(atom) if scores else grad)
        elif f.affine_grad:
            self.active.attach(f, partial(run.grad_f_at, f))
        return self.active

    def _promise(self, scores: np.ndarray, here: float, worst: int, best: int) -> float:
        """Return the slope of the best step that needs no oracle."""
        if self.rule == "away":
            return float(max(here - scores[best], scores[worst] - here))
        return float(scores[worst] - scores[best])

    @staticmethod
    def _runners_up(X: State, active: ActiveSet, S: Atom, G: Array, here: float) -> list[Atom]:
        """Return other new vertices that promise nearly as much as S, if gradients at vertices are cheap."""
        count = min(max(FEWEST, int(np.count_nonzero(active.weights))), active.spare - 1)
        bar = here - PROMISING * (here - S.inner(G))
        near = [A for A in X.run.runners_up(G, count) if A.inner(G) < bar and active.find(A) is None]
        return near if near and X.f.prefetch([S, *near]) else []

    @staticmethod
    def _enter(X: State, active: ActiveSet, atoms: list[Atom]) -> None:
        active.enter(atoms, partial(X.run.grad_f_at, X.f))
        m = len(active)
        if active.f is not None and not np.isfinite(active.M[m - len(atoms) : m, :m]).all():
            X.run.bad_gradient()

    def _optimise_weights(self, X: State, active: ActiveSet, scores: np.ndarray) -> None:
        """Take pairwise steps in the space of weights, and bring X and its gradient up to date."""
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
        X.x = active.point()  # not by the change, which would leave rounding of atoms without weight
        X.grad = active.combine_images(X.grad, change)
        # Along negative curvature the steps have gained more than they say.
        X.gained = X.gained + gained if convex and X.gained is not None else None
        X.value = None

    @staticmethod
    def _forgive(run: Run, active: ActiveSet, worst: int, best: int) -> None:
        """End the run for negative curvature between two atoms, unless rounding explains it."""
        curvature = float(active.M[best, best] - 2.0 * active.M[best, worst] + active.M[worst, worst])
        ends = [active.atoms[j].dense() for j in (worst, best)]
        assert active.f is not None
        if not curvature >= -rounding_of_hessian(active.f, *ends):
            lacking = -curvature / norm2(ends[0] - ends[1])
            not_convex(run, f"the curvature between two vertices is {curvature:.3g}", lacking)
        active.noise = -curvature

    def _step(
        self,
        X: State,
        active: ActiveSet,
        scores: np.ndarray,
        here: float,
        worst: int,
        best: int,
        pairs: bool,
    ) -> None:
        """Take one step: towards a vertex, away from an atom, or from one to the other."""
        heavy = float(active.weights[worst])
        towards, away = float(here - scores[best]), float(scores[worst] - here)
        if pairs:
            coefficients, slope = (0.0, heavy, -heavy), heavy * float(scores[worst] - scores[best])
        elif self.rule == "away" and away > towards and heavy < 0.5 + 1e-6:
            # An atom with more weight than that is never worth a step away: X is too near to it.
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
        """Take one step down the gradient with respect to the weights; return False where none is left.

        For quadratics, whose atoms have images, there are better steps.
        """
        used = active.weights > 0.0
        used[best] = True
        slope = np.where(used, scores - scores[used].mean(), 0.0)
        losing = slope > 0.0
        length = float((active.weights[losing] / slope[losing]).min(initial=math.inf))
        if active.f is not None or not 0.0 < length < math.inf:
            return False
        change = -length * slope  # a weight is gone at its end
        # Scores that nearly agree leave rounding, which would lead out of the set.
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
        """Recompute X from the weights, and its gradient where that is incremental."""
        active.normalise()
        X.x = active.point()
        if active.f is not None:
            X.grad = X.f.grad(X.x)
            X.run.ledger.count_resync()


class Way(AffineSegment):
    """The segment from X to X + d; d's image under the Hessian is alpha grad + a combination of images."""

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
    """Return whether a loop that is stuck at rounding level may end as if it had met its tolerance.

    It may if it has moved and the gap left would end the run: the next outer step will see.
    """
    return X.linear is not None and X.k > 1 and X.gap <= run.threshold


def stuck(run: Run, X: State) -> Stop:
    if run.lmo_error:
        return Stop(
            Status.NO_PROGRESS,
            f"No atom is a descent direction: the FW gap {X.gap:.3g} is within the linear oracle's own error "
            f"bound {run.lmo_error:.3g}.",
        )
    return too_small(X)
