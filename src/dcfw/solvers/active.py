"""Frank-Wolfe with an active set: away, pairwise and blended pairwise steps, optionally lazy.

Vanilla Frank-Wolfe zig-zags when the minimiser lies on a face: it can only move towards vertices.  These
loops remember the vertices (*atoms*) that make up X and their weights, and may also move weight off one:

``"away"``      the better of a step towards the oracle's vertex and one away from the worst atom
``"pairwise"``  weight moves from the worst atom to the oracle's vertex
``"blended"``   weight moves between atoms while that pays; the oracle is asked only when it does not
                (Tsuji, Tanaka and Pokutta 2022)

With ``lazy=True`` away and pairwise steps use the best atom in place of the oracle's vertex as long as it
promises at least half of the last FW gap (blended steps are lazy by nature).  The loop yields only where
the oracle has just been called at the current X, so an early stop never rests on an old vertex.

Quadratics keep the gradient at each atom.  Then a step between atoms needs no new gradient, and blended
steps run in the space of weights alone (:mod:`dcfw.solvers.gram`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, inner
from dcfw.functions.base import Function
from dcfw.result import Status
from dcfw.sets.atoms import Atom, Dense
from dcfw.solvers.loop import State, length_of_step, not_convex
from dcfw.solvers.run import Run, Stop
from dcfw.solvers.segment import AffineSegment, SmoothSegment

RULES = ("away", "pairwise", "blended")


class ActiveSet:
    """Atoms and weights: X = sum_j weights[j] atoms[j], weights nonnegative with sum one.

    ``images`` are the gradients at the atoms (quadratics only), ``M`` their Gram matrix with the atoms.
    An atom that is met again is found by its key in a dictionary.  Atoms whose weight has fallen to zero
    stay as candidates for cheap steps until the store is full; then they are dropped, and if all have
    weight, the lightest half is merged into one dense atom.  Neither changes X.
    """

    def __init__(self, x: Array, image: Array | None, cap: int) -> None:
        self.cap = max(cap, 4)
        self.atoms: list[Atom] = [Dense(x)]
        self.images: list[Array | None] = [image]
        self.weights = np.zeros(self.cap)
        self.weights[0] = 1.0
        self.places: dict[Any, int] = {}
        self.M = np.zeros((self.cap, self.cap)) if image is not None else None
        if self.M is not None and image is not None:
            self.M[0, 0] = inner(image, x)

    def __len__(self) -> int:
        return len(self.atoms)

    @property
    def w(self) -> np.ndarray:
        return self.weights[: len(self.atoms)]

    def find(self, atom: Atom) -> int | None:
        return self.places.get(atom.key)

    def add(self, atom: Atom, image: Array | None) -> int:
        """Add an atom with weight zero and return its place."""
        if len(self) == self.cap:
            self._make_room()
        j = len(self.atoms)
        self.atoms.append(atom)
        self.images.append(image)
        self.places[atom.key] = j
        if self.M is not None:
            self.M[j, : j + 1] = [a.inner(image) for a in self.atoms]
            self.M[: j + 1, j] = [atom.inner(i) for i in self.images]
        return j

    def scores(self, G: Array) -> np.ndarray:
        """Return <G, a_j> for all atoms."""
        return np.array([a.inner(G) for a in self.atoms])

    def point(self, template: Array) -> Array:
        """Return X afresh from the weights."""
        x = 0.0 * template
        for w, atom in zip(self.w, self.atoms, strict=True):
            if w > 0.0:
                x = atom.plus(x, float(w))
        return x

    def normalise(self) -> None:
        """Undo the rounding in the weights."""
        w = self.w
        np.maximum(w, 0.0, out=w)
        w /= w.sum()

    def _make_room(self) -> None:
        stay = [j for j in range(len(self)) if self.weights[j] > 0.0]
        if len(stay) > 0.75 * self.cap:
            order = sorted(stay, key=lambda j: float(self.weights[j]))
            light, stay = order[: len(order) // 2], sorted(order[len(order) // 2 :])
            self._keep(stay, light)
        else:
            self._keep(stay, [])

    def _keep(self, stay: list[int], merged: list[int]) -> None:
        atoms = [self.atoms[j] for j in stay]
        images = [self.images[j] for j in stay]
        weights = [float(self.weights[j]) for j in stay]
        if merged:
            total = float(self.weights[merged].sum())
            shares = [float(self.weights[j]) / total for j in merged]
            mean: Array = 0.0 * self.atoms[merged[0]].dense()
            image: Array | None = None
            for j, share in zip(merged, shares, strict=True):
                mean = self.atoms[j].plus(mean, share)
                if self.images[j] is not None:
                    image = share * self.images[j] if image is None else image + share * self.images[j]
            atoms.append(Dense(mean))
            images.append(image)
            weights.append(total)
        self.atoms, self.images = atoms, images
        self.weights[:] = 0.0
        self.weights[: len(weights)] = weights
        self.places = {a.key: j for j, a in enumerate(atoms) if not (merged and j == len(atoms) - 1)}
        if self.M is not None:
            for i, image in enumerate(images):
                self.M[i, : len(atoms)] = [a.inner(image) for a in atoms]


class ActiveLoop:
    """An inner loop with an active set, for one solve (it keeps the atoms from one outer step to the next).

    Parameters
    ----------
    rule : {"away", "pairwise", "blended"}
    lazy : bool
    cap : int
        How many atoms may be kept.
    """

    def __init__(self, rule: str = "blended", lazy: bool = True, cap: int = 1000) -> None:
        self.rule = _validate.choice(rule, "rule", RULES)
        self.lazy = bool(lazy) or rule == "blended"
        self.cap = _validate.integer(cap, "cap", low=4)
        self.active: ActiveSet | None = None
        self._last: Array | None = None

    def __call__(
        self,
        run: Run,
        f: Function,
        x: Array,
        grad: Array,
        step: Any,
        *,
        linear: Array | Callable[[Array], Array] | None = None,
        value: float | None = None,
        convex: bool = True,
        merit: Function | None = None,
        max_steps: float = math.inf,
    ) -> Iterator[State]:
        affine = f.affine_grad
        X = State(run, f, x, grad, value)
        X.linear = linear
        if self.active is None or x is not self._last:
            self.active = ActiveSet(x, grad if affine else None, self.cap)
        active = self.active
        active.normalise()
        target = math.inf  # the least promise for which a step without the oracle is taken
        surrogate = linear is not None
        fast = affine and self.rule == "blended" and convex
        while True:
            G = X.grad if linear is None else X.grad - linear
            scores = active.scores(G)
            worst, best = _extremes(scores, active.w)
            here = inner(G, X.x)
            promise = scores[worst] - scores[best] if self.rule != "away" else here - scores[best]
            new: int | None = None
            if not (self.lazy and promise >= target and best != worst):
                S, gap = run.lmo(G, X.x)
                X.S, X.gap = S, gap
                if X.gained is not None and X.gained + gap < X.bound:
                    X.bound = X.gained + gap
                self._last = X.x
                yield X
                target = 0.5 * gap
                new = active.find(S)
                if new is None:
                    if active.M is None:
                        new = active.add(S, None)
                    else:
                        new = active.add(S, run.grad_f_at(f, S))
                    scores = active.scores(G)
                    worst, best = _extremes(scores, active.w)
            run.before_step(X)
            if fast and new is not None:
                self._in_weights(run, active, X, scores, 0.5 * target)
            else:
                self._one_step(run, f, active, X, step, scores, worst, best, new, here, convex)
            X.gap = math.inf
            X.k += 1
            run.n_inner += 1
            self._last = X.x
            if X.k > max_steps or (surrogate and run.n_lmo + 1 >= run.max_lmo):
                return

    def _in_weights(self, run: Run, active: ActiveSet, X: State, scores: np.ndarray, aim: float) -> None:
        """Optimise the weights over the atoms, and bring X and its gradient up to date."""
        from dcfw.solvers.gram import pairwise_steps

        m = len(active)
        before = active.w.copy()
        assert active.M is not None and X.gained is not None
        count, gained = pairwise_steps(active.M, active.weights, scores, m, max(aim, 0.0), 1000 + 50 * m)
        if count == 0 or not gained > 0.0:
            raise Stop(
                Status.NO_PROGRESS, f"Steps have become smaller than rounding at an FW gap of {X.gap:.3g}."
            )
        for j in np.flatnonzero(active.w != before):
            change = float(active.weights[j] - before[j])
            X.x = active.atoms[j].plus(X.x, change)
            X.grad = X.grad + change * active.images[j]
        X.gained += gained
        X.value = None
        run.since_resync += 1
        if run.since_resync >= min(run.resync_period, 200):
            # The weights are the truth; X and its gradient follow them.
            active.normalise()
            X.x = active.point(X.x)
            X.grad = X.f.grad(X.x)
            run.n_resync += 1
            run.since_resync = 0

    def _one_step(
        self,
        run: Run,
        f: Function,
        active: ActiveSet,
        X: State,
        step: Any,
        scores: np.ndarray,
        worst: int,
        best: int,
        new: int | None,
        here: float,
        convex: bool,
    ) -> None:
        """Take one step: towards a vertex, away from an atom, or from one to the other."""
        to = best if new is None else new
        towards, away, pair = here - scores[to], scores[worst] - here, scores[worst] - scores[to]
        heavy = float(active.weights[worst])
        kind = "pair"
        if self.rule == "away":
            kind = "towards" if towards >= away or heavy >= 1.0 else "away"
        elif self.rule == "blended" and new is not None:
            local = scores[worst] - scores[best]
            if local >= towards and best != worst:
                to, pair = best, local
            else:
                kind = "towards"
        if kind == "towards":
            scale, slope = 1.0, towards
        elif kind == "away":
            scale, slope = heavy / (1.0 - heavy), away
        else:
            scale, slope = heavy, pair
        end = self._end(active, X.x, kind, to, worst, scale)
        segment: AffineSegment | SmoothSegment
        descent = max(scale * float(slope), 0.0)
        if active.M is not None:
            change = self._end(active, X.grad, kind, to, worst, scale, images=True)
            segment = AffineSegment(X.x, X.grad, Dense(end), change, descent, X.k, convex)
            if segment.curvature < 0.0 and convex:
                if segment.curvature < -segment.rounding_of_curvature():
                    not_convex(run, f"the curvature along the step is {segment.curvature:.3g}")
                segment.curvature = 0.0
        else:
            segment = SmoothSegment(
                run, f, X.x, X.grad, X.value, Dense(end), X.linear, descent, X.k, convex, None
            )
        eta = length_of_step(step, segment, X)
        X.x, X.grad, gained = segment.land(eta)
        if active.M is not None:
            assert X.gained is not None and gained is not None
            X.gained, X.value = X.gained + gained, None
        else:
            X.gained, X.value = None, gained
        self._move(active, kind, to, worst, eta * scale, full=eta == 1.0)

    @staticmethod
    def _end(
        active: ActiveSet, x: Array, kind: str, to: int, worst: int, scale: float, images: bool = False
    ) -> Array:
        """Return X + scale d, where d is the direction of the step (or the gradient there)."""

        def plus(y: Array, j: int, c: float) -> Array:
            return y + c * active.images[j] if images else active.atoms[j].plus(y, c)

        if kind == "towards":
            return plus(0.0 * x, to, 1.0)
        if kind == "away":
            return plus((1.0 + scale) * x, worst, -scale)
        return plus(plus(x, worst, -scale), to, scale)

    @staticmethod
    def _move(active: ActiveSet, kind: str, to: int, worst: int, amount: float, full: bool) -> None:
        w = active.weights
        if kind == "towards":
            w *= 1.0 - amount
            w[to] += amount
        elif kind == "away":
            w *= 1.0 + amount
            w[worst] = 0.0 if full else max(w[worst] - amount, 0.0)
        else:
            w[worst] = 0.0 if full else max(w[worst] - amount, 0.0)
            w[to] += amount
        if kind == "towards" and full:
            w[:] = 0.0
            w[to] = 1.0


def _extremes(scores: np.ndarray, w: np.ndarray) -> tuple[int, int]:
    """Return the worst atom in use and the best atom."""
    used = np.where(w > 0.0, scores, -np.inf)
    return int(np.argmax(used)), int(np.argmin(scores))
