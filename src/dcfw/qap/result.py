"""What the QAP solvers return: a :class:`dcfw.Result` with the permutation."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw.result import Result


class QAPResult(Result):
    """The fields of :class:`dcfw.Result` and those of an assignment.

    ``permutation``            the answer; ``fun`` is its value
    ``relaxed, relaxed_fun``   the doubly stochastic matrix it comes from, and phi there
    ``perturbed``              whether the start had to be perturbed, because its gradient is constant
    ``sizes``                  the sizes of A and B before padding
    ``mapping, agreement, disagreement``  of :func:`dcfw.qap.match`: partners, and edges kept and lost
    ``col_ind``                of :func:`dcfw.qap.quadratic_assignment`: SciPy's name for the permutation

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import qap
    >>> res = qap.solve(np.diag([1.0, 2.0], 1), np.diag([3.0, 1.0], -1))
    >>> type(res).__name__, sorted(res.permutation.tolist()), res.sizes
    ('QAPResult', [0, 1, 2], (3, 3))
    """

    permutation: Any = None
    relaxed: Any = None
    relaxed_fun: float | None = None
    perturbed: bool = False
    sizes: tuple[int, int] | None = None
    mapping: Any = None
    agreement: float | None = None
    disagreement: float | None = None
    col_ind: Any = None

    def _details(self) -> list[str]:
        lines = []
        if self.disagreement is not None:
            lines.append(f"   edges: agreement: {self.agreement:.6g}  disagreement: {self.disagreement:.6g}")
        if self.permutation is not None:
            lines.append("permutation: " + np.array2string(self.permutation, threshold=200, prefix=" " * 13))
        return lines
