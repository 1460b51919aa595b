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
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit

from dcfw._arrays import Array
from dcfw.qap.compiled import (
    _BOUND,
    _GAINED,
    _GAP,
    BAD,
    GAP_MET,
    STEPS_DONE,
    TINY,

    Loop,
    _vertex_gradient,
)
from dcfw.qap.quadratics import MatrixQuadratic
from dcfw.sets import lap
from dcfw.sets.atoms import Permutation
from dcfw.solvers.gram import pairwise_steps
from dcfw.solvers.loop import State
from dcfw.solvers.run import Run
from dcfw.tolerances import Progress

MEMORY = 512 * 2**20
"""Bytes that the atoms' gradients may take."""

LOCAL = 0.5
"""Weights are optimised until the gain left among the atoms is this fraction of the last FW gap."""


@njit(cache=True, nogil=True)
def _hash(p):  # type: ignore[no-untyped-def]
    h = np.uint64(14695981039346656037)
    for i in range(p.shape[0]):
        h = (h ^ np.uint64(p[i])) * np.uint64(1099511628211)
    return h


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _product(image, perms, dense, j):  # type: ignore[no-untyped-def]
    """Return <image, a_j>; an atom whose first entry is negative is the dense one."""
    n = image.shape[0]
    total = 0.0
    if perms[j, 0] < 0:
        return np.dot(image.reshape(n * n), dense.reshape(n * n))
    for i in range(n):
        total += image[i, perms[j, i]]
    return total


@njit(cache=True, nogil=True)
def _slopes(G, perms, dense, scores, m):  # type: ignore[no-untyped-def]
    """Write <G, a_j> to scores."""
    for j in range(m):
        scores[j] = _product(G, perms, dense, j)


@njit(cache=True, nogil=True)
def _gram(images, perms, dense, M, j, m):  # type: ignore[no-untyped-def]
    """Fill row and column j of the Gram matrix."""
    for i in range(m):
        M[i, j] = _product(images[i], perms, dense, j)
        M[j, i] = _product(images[j], perms, dense, i)


@njit(cache=True, nogil=True)
def _rebuild(perms, table, m):  # type: ignore[no-untyped-def]
    table[:] = 0
    for j in range(m):
        if perms[j, 0] >= 0:
            _, at = _find(perms, table, perms[j])
            table[at] = j + 1


@njit(cache=True, nogil=True)
def _make_room(perms, images, dense, M, scores, w, table, m):  # type: ignore[no-untyped-def]
    """Drop the atoms without weight, or merge the lightest half; return how many are left.

    Atom 0 is the dense one: the start, and whatever has been merged since.
    """
    n = dense.shape[0]
    kept = 1
    for j in range(1, m):
        if w[j] > 0.0:
            if kept != j:
                perms[kept] = perms[j]
                images[kept] = images[j]
                w[kept] = w[j]
                scores[kept] = scores[j]
            kept += 1
    if kept > (3 * m) // 4:
        order = np.argsort(w[1:kept]) + 1
        heavy = w[0]
        count = kept // 2
        for k in range(count):
            heavy += w[order[k]]
        scores[0] *= w[0] / heavy
        dense *= w[0] / heavy
        images[0] *= w[0] / heavy
        for k in range(count):
            j = order[k]
            share = w[j] / heavy
            images[0] += share * images[j]
            scores[0] += share * scores[j]
            for i in range(n):
                dense[i, perms[j, i]] += share
        w[0] = heavy
        stay = np.ones(kept, dtype=np.bool_)
        for k in range(count):
            stay[order[k]] = False
        after = 1
        for j in range(1, kept):
            if stay[j]:
                if after != j:
                    perms[after] = perms[j]
                    images[after] = images[j]
                    w[after] = w[j]
                    scores[after] = scores[j]
                after += 1
        kept = after
    for j in range(kept, m):
        w[j] = 0.0
    for j in range(kept):
        for i in range(kept):
            M[i, j] = _product(images[i], perms, dense, j)
    _rebuild(perms, table, kept)
    return kept


@njit(cache=True, nogil=True)
def _steps(  # type: ignore[no-untyped-def]
    P, Q, left, right, weight, C, linear,
    X, grad, G, gathered, product,
    real, index, scalars, perms, images, dense, M, w, scores, table, size,
    threshold, progress, local, started, steps, measured,
):  # fmt: skip
    """Alternate assignment problems and pairwise steps; the contract is that of ``compiled._steps``."""
    n = X.shape[0]
    nn = n * n
    p = index[0]
    solved = 0
    Xf, Gf, gradf = X.reshape(nn), G.reshape(nn), grad.reshape(nn)
    flat = images.reshape(images.shape[0], nn)
    moved = 0
    for k in range(steps + 1):
        if k == steps and not measured:
            scalars[_GAP] = np.inf
            break
        if not (started and k == 0):
            for i in range(nn):
                Gf[i] = gradf[i] - linear.reshape(nn)[i]
            if lap.solve(G, real, index) != 0:
                return BAD, k, solved, moved
            solved += 1
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
        if m == perms.shape[0]:
            m = _make_room(perms, images, dense, M, scores, w, table, m)
            size[0] = m
        j, at = _find(perms, table, p[:n])
        if j < 0:
            j = m
            m += 1
            size[0] = m
            table[at] = m
            perms[j] = p[:n]
            w[j] = 0.0
            _vertex_gradient(P, Q, left, right, weight, C, p[:n], gathered, product, images[j])
            _gram(images, perms, dense, M, j, m)
        scores[j] = _product(G, perms, dense, j)
        before = w[:m].copy()
        aim = local * scalars[_GAP] if progress else max(local * scalars[_GAP], 0.25 * threshold)
        count, gained = pairwise_steps(M, w, scores, m, aim, 1000 + 50 * m)
        moved += count
        if count == 0 or not gained > 0.0:
            return TINY, k, solved, moved
        scalars[_GAINED] += gained
        for i in range(m):
            change = w[i] - before[i]
            if change != 0.0:
                image = flat[i]
                for l in range(nn):
                    gradf[l] += change * image[l]
                if perms[i, 0] < 0:
                    X += change * dense
                else:
                    for l in range(n):
                        X[l, perms[i, l]] += change
    return STEPS_DONE, steps, solved, moved


class BlendedLoop(Loop):
    """The active-set loop in the place of :func:`dcfw.solvers.loop.frank_wolfe`, for one solve."""

    def __init__(self, n: int, trust: bool = False) -> None:
        super().__init__(n, trust)
        cap = int(min(max(8 * n, 64), max(MEMORY // (8 * n * n), 32)))
        self.perms = np.zeros((cap, n), dtype=np.int32)
        self.images = np.empty((cap, n, n))
        self.dense = np.zeros((n, n))
        self.M = np.zeros((cap, cap))
        self.w, self.scores = np.zeros(cap), np.zeros(cap)
        self._last: Array | None = None
        self.table = np.zeros(1 << int(math.ceil(math.log2(4 * cap))), dtype=np.int32)
        self.size = np.zeros(1, dtype=np.int64)
        self.pairwise = 0

    def restart(self, X: np.ndarray, grad: np.ndarray) -> None:
        """Make X the only atom."""
        self.size[0] = 1
        self.perms[0] = -1
        self.dense[:] = X
        self.images[0] = grad
        self.M[0, 0] = np.vdot(grad, X)
        self.w[:] = 0.0
        self.w[0] = 1.0
        self.table[:] = 0

    def point(self) -> np.ndarray:
        """Return the point that the weights stand for."""
        X = self.w[0] * self.dense
        rows = np.arange(len(X))
        for j in range(1, int(self.size[0])):
            X[rows, self.perms[j]] += self.w[j]
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
            self.restart(x, grad)
        m = int(self.size[0])
        self.w[:m] /= self.w[:m].sum()
        _slopes(grad - linear, self.perms, self.dense, self.scores, m)
        kernel.scalars[:] = (math.inf, 0.0, math.inf, 0.0)
        done, started = 0, False
        while True:
            steps, last = 0, False
            if started:
                run.before_step(X)
                steps, last = self._slice(run, done, max_steps)
            code, taken, solved = self._kernel_call(run, f, X, linear, started, steps, last)
            started = True
            done += taken
            run.n_lmo += solved
            run.n_inner += taken
            run.n_grad_f += taken
            X.k += taken
            X.gap, X.gained, X.bound = (float(v) for v in kernel.scalars[:3])
            X.value = None
            kernel.end(code, run)
            self._resync(run, f, X, taken)
            self._last = X.x
            if not last and (done == 0 or code == GAP_MET or self._stepwise(run)):
                X.S = Permutation(kernel.columns)
                yield X
            if last:
                return

    def _kernel_call(
        self, run: Run, f: MatrixQuadratic, X: State, linear: np.ndarray, started: bool, steps: int, last: bool
    ) -> tuple[int, int, int]:
        import time

        kernel = self.kernel
        begun = time.perf_counter()
        code, taken, solved, moved = _steps(
            *kernel.pack(f), linear, X.x, X.grad, kernel.G, kernel.gathered, kernel.product,
            kernel.real, kernel.index, kernel.scalars, self.perms, self.images, self.dense, self.M,
            self.w, self.scores, self.table, self.size, 0.5 * run.eps if started else -1.0,
            started and isinstance(run.rule, Progress), LOCAL, started, steps, not last,
        )  # fmt: skip
        self.pairwise += moved
        if taken > 0:
            kernel.seconds_per_step = (time.perf_counter() - begun) / taken
        return code, taken, solved


