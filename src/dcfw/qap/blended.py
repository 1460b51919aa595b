"""DC-FW's inner loop on the QAP with an active set: blended pairwise Frank-Wolfe, compiled.

Vanilla Frank-Wolfe zig-zags between the same few permutations and pays one assignment problem for every
turn.  Here the permutations met so far are kept as *atoms*, with weights that make up X, and with their
gradients.  Because the gradient is affine, the Gram matrix M_ij = <grad f(a_i), a_j> says everything about
steps that only move weight from one atom to another: such a step costs O(number of atoms) and neither a
gradient nor an assignment problem.  So between two calls of the oracle the weights are optimised over the
atoms at hand (pairwise steps from the worst atom in use to the best one), until what is left to gain there
is a fraction of the last FW gap; then the oracle is asked for a new atom.

The early stop is decided on the FW gap of a vertex computed at the current X, never on an old one, so the
certificates of DC-FW hold as they do for vanilla steps.  The atoms stay from one outer step to the next.

Memory is bounded: when the store is full, atoms without weight are dropped; if all have weight, the
lightest half is merged into one dense atom (a doubly stochastic matrix), which leaves X as it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw._compiling import njit
from dcfw.qap.compiled import (
    _BOUND,
    _GAINED,
    _GAP,
    BAD,
    GAP_MET,
    STEPS_DONE,
    TINY,
    Loop,
)
from dcfw.qap.gradients import gradient, vertex_gradient
from dcfw.qap.quadratics import MatrixQuadratic
from dcfw.sets import lap_numba as lap
from dcfw.sets.atoms import Permutation
from dcfw.solvers.active import nearly_done
from dcfw.solvers.gram import pairwise_steps
from dcfw.solvers.loop import State
from dcfw.solvers.run import Run
from dcfw.tolerances import Progress

MEMORY = 512 * 2**20
"""Bytes that the atoms' gradients may take."""

LOCAL = 0.5
"""Weights are optimised until the slope left between two atoms is this fraction of the last FW gap."""

FETCH = 8
"""How many multiplications of a matrix product take the time of adding one entry of a stored gradient."""

IDLE = 2
"""Atoms without weight are dropped when there are this many times as many atoms as had weight last time."""


@njit()
def _hash(p):  # type: ignore[no-untyped-def]
    h = np.uint64(14695981039346656037)
    for i in range(p.shape[0]):
        h = (h ^ np.uint64(p[i])) * np.uint64(1099511628211)
    return h


@njit()
def _find(perms, table, p):  # type: ignore[no-untyped-def]
    """Return the atom that is p, or -1, and the place in the hash table where it is or belongs."""
    n = p.shape[0]
    mask = np.uint64(table.shape[0] - 1)
    at = _hash(p) & mask
    while table[at] > 0:
        j = table[at] - 1
        same = True
        for i in range(n):
            if perms[j, i] != p[i]:
                same = False
                break
        if same:
            return j, at
        at = (at + np.uint64(1)) & mask
    return -1, at


@njit()
def _slopes(G, perms, dense, w, scores, m):  # type: ignore[no-untyped-def]
    """Write <G, a_j> to scores.  The dense atom is a candidate only as long as it has weight."""
    n = G.shape[0]
    scores[0] = np.inf
    if w[0] > 0.0:
        scores[0] = np.dot(G.reshape(n * n), dense.reshape(n * n))
    for j in range(1, m):
        total = 0.0
        for i in range(n):
            total += G[i, perms[j, i]]
        scores[j] = total


@njit()
def _gram(image, perms, dense, offsets, M, w, j, m):  # type: ignore[no-untyped-def]
    """Fill row and column j of the Gram matrix from the gradient at atom j.

    The Hessian is symmetric, so M_ij is read from the one image that has just been computed, and not from
    the images of all other atoms, which are no longer in the cache.
    """
    n = image.shape[0]
    if w[0] > 0.0:
        M[j, 0] = np.dot(image.reshape(n * n), dense.reshape(n * n)) - offsets[0]
    for i in range(1, m):
        total = 0.0
        for k in range(n):
            total += image[k, perms[i, k]]
        M[j, i] = total - offsets[i]
    for i in range(m):
        M[i, j] = M[j, i]


@njit()
def _move(source, target, perms, slots, offsets, M, w, m):  # type: ignore[no-untyped-def]
    """Put the atom at ``source`` in the place ``target``; its image stays in its slot."""
    for i in range(perms.shape[1]):
        perms[target, i] = perms[source, i]
    slots[source], slots[target] = slots[target], slots[source]
    offsets[target] = offsets[source]
    w[target] = w[source]
    for i in range(m):
        M[target, i] = M[source, i]
    for i in range(m):
        M[i, target] = M[i, source]


@njit()
def _make_room(perms, slots, images, dense, offsets, M, w, table, m, most):  # type: ignore[no-untyped-def]
    """Drop the atoms without weight; if more than ``most`` are left, merge the lightest ones.

    Atom 0 is the dense one: the start, and whatever has been merged since.  Returns how many are left.
    """
    n = dense.shape[0]
    kept = 1
    for j in range(1, m):
        if w[j] > 0.0:
            if kept != j:
                _move(j, kept, perms, slots, offsets, M, w, m)
            kept += 1
    if kept > most:
        merged = np.zeros(kept, dtype=np.bool_)
        total = w[0]
        for _ in range(min(kept - most // 2, kept - 1)):
            lightest = -1
            for j in range(1, kept):
                if not merged[j] and (lightest < 0 or w[j] < w[lightest]):
                    lightest = j
            merged[lightest] = True
            total += w[lightest]
        image = images[slots[0]]
        for i in range(n):
            for j in range(n):
                dense[i, j] *= w[0] / total
                image[i, j] *= w[0] / total
        offsets[0] *= w[0] / total
        for k in range(kept):
            if merged[k]:
                share = w[k] / total
                other = images[slots[k]]
                offsets[0] += share * offsets[k]
                for i in range(n):
                    dense[i, perms[k, i]] += share
                    for j in range(n):
                        image[i, j] += share * other[i, j]
        w[0] = total
        m, kept = kept, 1
        for j in range(1, m):
            if not merged[j]:
                if kept != j:
                    _move(j, kept, perms, slots, offsets, M, w, m)
                kept += 1
        _gram(image, perms, dense, offsets, M, w, 0, kept)
    for j in range(kept, w.shape[0]):
        w[j] = 0.0
    for at in range(table.shape[0]):
        table[at] = 0
    for j in range(1, kept):
        _, at = _find(perms, table, perms[j])
        table[at] = j + 1
    return kept


@njit()
def _point(perms, dense, w, m, X):  # type: ignore[no-untyped-def]
    """Write the convex combination of the atoms to X."""
    n = X.shape[0]
    for i in range(n):
        for j in range(n):
            X[i, j] = w[0] * dense[i, j] if w[0] > 0.0 else 0.0
    for k in range(1, m):
        if w[k] > 0.0:
            for i in range(n):
                X[i, perms[k, i]] += w[k]


@njit()
def _products(f):  # type: ignore[no-untyped-def]
    """Return what the gradient at a matrix costs, in units of n^2 multiplications."""
    n = f.U.shape[0]
    return 3 * f.U.shape[1] + n * (2 * f.P.shape[0] + (f.left.shape[0] > 0) + (f.right.shape[0] > 0))


@njit()
def _follow(images, slots, before, w, m, grad):  # type: ignore[no-untyped-def]
    """Bring the gradient up to date after a change of the weights."""
    size = grad.shape[0]
    block = 1024  # a piece of the gradient stays in the first cache while the images pass by
    for start in range(0, size, block):
        end = min(start + block, size)
        for j in range(m):
            change = w[j] - before[j]
            if change != 0.0:
                image = images[slots[j]]
                for i in range(start, end):
                    grad[i] += change * image[i]


@njit()
def _steps(  # type: ignore[no-untyped-def]
    f, linear, X, grad, G, gathered, product,
    real, index, scalars, perms, slots, images, dense, offsets, M, w, before, scores, table, size,
    threshold, progress, started, steps, measured,
):  # fmt: skip
    """Alternate assignment problems and pairwise steps; the contract is that of ``compiled._steps``.

    ``size`` holds the number of atoms and the number at which the unused ones are dropped.
    """
    n = X.shape[0]
    nn = n * n
    p = index[0]
    solved = moved = 0
    Xf, Gf, gradf, linearf = X.reshape(nn), G.reshape(nn), grad.reshape(nn), linear.reshape(nn)
    flat = images.reshape(images.shape[0], nn)
    dear = _products(f)
    for k in range(steps + 1):
        if k == steps and not measured:
            scalars[_GAP] = np.inf
            break
        if not (started and k == 0):
            for i in range(nn):
                Gf[i] = gradf[i] - linearf[i]
            solved += 1
            if lap.solve(G, real, index) != 0:
                return BAD, k, solved, moved
            gap = np.dot(Gf, Xf)
            for i in range(n):
                gap -= G[i, p[i]]
            gap = max(gap, 0.0)
            scalars[_GAP] = gap
            scalars[_BOUND] = min(scalars[_BOUND], scalars[_GAINED] + gap)
            if gap <= (scalars[_GAINED] if progress else threshold):
                return GAP_MET, k, solved, moved
        if k == steps:
            break
        m = size[0]
        j, at = _find(perms, table, p[:n])
        if j < 0:
            if m >= size[1]:
                most = (3 * perms.shape[0]) // 4
                m = _make_room(perms, slots, images, dense, offsets, M, w, table, m, most)
                size[1] = min(IDLE * m + 32, perms.shape[0])
                _, at = _find(perms, table, p[:n])
            j = m
            m += 1
            size[0] = m
            table[at] = m
            for i in range(n):
                perms[j, i] = p[i]
            w[j] = 0.0
            offsets[j] = 0.0
            if f.C.shape[0] > 0:
                for i in range(n):
                    offsets[j] += f.C[i, p[i]]
            image = images[slots[j]]
            vertex_gradient(f, p[:n], gathered, product, image)
            _gram(image, perms, dense, offsets, M, w, j, m)
        _slopes(G, perms, dense, w, scores, m)
        for i in range(m):
            before[i] = w[i]
        count, gained, _ = pairwise_steps(M, w, scores, m, LOCAL * scalars[_GAP], 1000 + 50 * m, np.inf)
        moved += count
        if count == 0 or not gained > 0.0:
            return TINY, k, solved, moved
        scalars[_GAINED] += gained
        _point(perms, dense, w, m, X)
        changed = 0
        for i in range(m):
            changed += w[i] != before[i]
        if changed * FETCH > dear:
            gradient(f, X, gathered, product, grad)
        else:
            _follow(flat, slots, before, w, m, gradf)
    return STEPS_DONE, steps, solved, moved


class BlendedLoop(Loop):
    """The active-set loop in the place of :func:`dcfw.solvers.loop.frank_wolfe`, for one solve.

    Parameters
    ----------
    n : int
    trust : bool
        As in :class:`~dcfw.qap.compiled.Loop`; then f need not be convex, and all steps are vanilla ones.
    cap : int, optional
        How many atoms may be kept; default 8 n, but no more than what ``MEMORY`` allows.
    """

    def __init__(self, n: int, trust: bool = False, cap: int | None = None) -> None:
        super().__init__(n, trust)
        if cap is None:
            cap = min(max(8 * n, 64), max(MEMORY // (8 * n * n), 32))
        self.cap = cap = _validate.integer(cap, "cap", low=4)
        self.perms = np.zeros((cap, n), dtype=np.int32)
        self.slots = np.arange(cap)
        self.images = np.empty((cap, n, n))  # memory is taken when an image is written
        self.dense = np.zeros((n, n))
        self.offsets = np.zeros(cap)
        self.M = np.zeros((cap, cap))
        self.w, self.before, self.scores = np.zeros(cap), np.zeros(cap), np.zeros(cap)
        self.table = np.zeros(1 << math.ceil(math.log2(4 * cap)), dtype=np.int32)
        self.size = np.zeros(2, dtype=np.int64)
        self.pairwise = 0
        self.rows = np.arange(n)
        self._last: Array | None = None
        self._f: MatrixQuadratic | None = None

    def restart(self, f: MatrixQuadratic, X: np.ndarray, grad: np.ndarray) -> None:
        """Make X the only atom with weight; the others stay at hand, for what they know of the same f."""
        if f is not self._f:
            self._f = f
            self.size[:] = 1, min(32, self.cap)
            self.table[:] = 0
        m = int(self.size[0])
        self.dense[:] = X
        image = self.images[self.slots[0]]
        image[:] = grad
        self.offsets[0] = 0.0 if f.C is None else np.vdot(f.C, X)
        self.w[:] = 0.0
        self.w[0] = 1.0
        _gram(image, self.perms, self.dense, self.offsets, self.M, self.w, 0, m)

    def point(self) -> np.ndarray:
        """Return the point that the weights stand for."""
        X = np.empty_like(self.dense)
        _point(self.perms, self.dense, self.w, self.size[0], X)
        return X

    def __call__(
        self,
        run: Run,
        f: Any,
        x: Array,
        grad: Array,
        step: Any,
        *,
        linear: Any = None,
        value: float | None = None,
        convex: bool = True,
        merit: Any = None,
        max_steps: float = math.inf,
    ) -> Iterator[State]:
        if linear is None or not isinstance(f, MatrixQuadratic) or self.trust:
            # Only convex surrogates are for pairwise steps.
            yield from super().__call__(
                run, f, x, grad, step, linear=linear, value=value, convex=convex, merit=merit,
                max_steps=max_steps,
            )  # fmt: skip
            return
        kernel = self.kernel
        X = State(run, f, x.copy(), grad.copy(), value)
        X.linear = linear
        if x is not self._last:  # not where the last inner loop ended: the atoms mean another point
            self.restart(f, x, grad)
        kernel.scalars[:] = (math.inf, 0.0, math.inf, 0.0)
        done = 0
        known = False  # whether the vertex and the gap at X are
        while True:
            steps, last = 0, False
            if known:
                run.before_step(X)
                steps, last = self._slice(run, done, max_steps)
            resync = steps > 0 and run.since_resync + steps >= run.resync_period
            code, taken, solved, moved = self._advance(
                run, f, X, seen=known or done > 0, started=known, steps=steps, measured=not (last or resync)
            )
            done += taken
            run.n_lmo += solved
            run.n_inner += taken
            run.n_grad_f += taken
            self.pairwise += moved
            X.k += taken
            X.gap, X.gained, X.bound = kernel.scalars[:3].tolist()
            X.value = None
            self._last = X.x
            if code == TINY and nearly_done(run, X):
                return
            kernel.end(code, run)
            known = not self._resync(run, f, X, taken)
            if last:
                return
            if known and (done == 0 or code == GAP_MET or self._stepwise(run)):
                X.S = Permutation(kernel.columns, self.rows)
                yield X

    def _advance(
        self, run: Run, f: MatrixQuadratic, X: State, *, seen: bool, started: bool, steps: int, measured: bool
    ) -> tuple[int, int, int, int]:
        kernel = self.kernel
        begun = time.perf_counter()
        answer = _steps(
            kernel.pack(f), X.linear, X.x, X.grad, kernel.G, kernel.gathered, kernel.product,
            kernel.real, kernel.index, kernel.scalars,
            self.perms, self.slots, self.images, self.dense, self.offsets, self.M, self.w, self.before,
            self.scores, self.table, self.size,
            0.5 * run.eps if seen else -1.0, seen and type(run.rule) is Progress, started, steps, measured,
        )  # fmt: skip
        if answer[1] > 0:
            kernel.seconds_per_step = (time.perf_counter() - begun) / answer[1]
        return answer  # type: ignore[no-any-return]

    def _resync(self, run: Run, f: MatrixQuadratic, X: State, taken: int) -> bool:  # type: ignore[override]
        active = X.x is self._last  # else these are vanilla steps, which know nothing of atoms
        if active and run.since_resync + taken >= run.resync_period:
            m = int(self.size[0])
            self.w[:m] /= self.w[:m].sum()
            X.x[:] = self.point()
        return super()._resync(run, f, X, taken)
