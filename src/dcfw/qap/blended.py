"""DC-FW's inner loop on the QAP with an active set: compiled blended pairwise Frank-Wolfe.

Known permutations are kept as *atoms* with their weights in X and their gradients.  The gradient is affine,
so the Gram matrix M_ij = <grad f(a_i), a_j> suffices for steps that move weight from the worst atom in use to
the best one, without a gradient or an assignment problem.  The oracle computes a new atom once the possible
gain on the known ones is a fraction of the last FW gap.

The early stop uses the FW gap of a vertex computed at the current X, so certificates hold as for vanilla
steps.  Atoms persist between outer steps.  When the store is full, those without weight are dropped; if all
have weight, the lightest half is merged into one dense atom, which does not change X.
"""

from __future__ import annotations

from dcfw import _validate, kernels
from dcfw._arrays import Array
from dcfw.qap.compiled import Kernel, Loop
from dcfw.qap.quadratics import MatrixQuadratic
from dcfw.solvers.loop import State

MEMORY = 512 * 2**20  # bytes for the atoms' gradients


class BlendedLoop(Loop):
    """The active-set replacement of :func:`dcfw.solvers.loop.frank_wolfe` for one solve.

    At most ``cap`` atoms are kept, by default 8 n or as many as ``MEMORY`` allows.
    """

    def __init__(self, n: int, cap: int | None = None) -> None:
        super().__init__(n)
        if cap is None:
            cap = min(max(8 * n, 64), max(MEMORY // (8 * n * n), 32))
        self.cap = cap = _validate.integer(cap, "cap", low=4)
        assert kernels.native is not None
        self.active = Kernel(n, kernels.native.ActiveSet(n, cap))
        self._last: Array | None = None
        self._f: MatrixQuadratic | None = None

    def _kernel_of(self, x: Array, X: State) -> Kernel:
        f = X.f
        assert isinstance(f, MatrixQuadratic)
        if x is not self._last:  # not the end of the last inner loop: x becomes the only atom with weight
            self.active.solver.restart(self.active.pack(f), x, X.grad, forget=f is not self._f)
            self._f = f
        self._last = X.x
        return self.active
