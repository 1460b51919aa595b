"""The result of the QAP solvers: a :class:`dcfw.Result` with the permutation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcfw.result import History, Result, Status


class Incumbent(NamedTuple):
    """A line of the trace; ``search`` is ``"init"`` for the user's permutation."""

    time: float
    value: float
    search: str


class QAPResult(Result):
    """The fields of :class:`dcfw.Result` and those of an assignment.

    ``status``, ``success``, ``message`` and ``time`` belong to the whole call.  ``x``, ``gap``, ``dc_gap``,
    ``history`` and the counts belong to the relaxation that the permutation comes from (with
    ``restarts="auto"`` to the first one), which is also available as ``relaxation``; the distance of ``fun``
    from the optimum is limited only by ``bound``.

    ``permutation``            the answer; ``fun`` is its value
    ``bound``                  a bound on the value of all permutations, where it was computed: by a search
    with a time limit and n <= 32 from a dual ascent in a tenth of its time, else the better of two quick
    bounds; :func:`dcfw.qap.bound` finds stronger ones in more time
    ``gap_to_bound``           ``|fun - bound| / max(|bound|, 1)``
    ``n_starts``               the number of relaxations, paths and searches
    ``trace, trace_unit``      the incumbents: (time, value, search), in seconds, or in steps if ``max_steps``
    is the budget
    ``labels``                 pairs of labels, if A or B is a DataFrame
    ``relaxed, relaxed_fun``   the doubly stochastic matrix of that relaxation, and phi there
    ``perturbed``              whether the start had to be perturbed because its gradient is constant
    ``sizes``                  the sizes of A and B before padding
    ``mapping, agreement, disagreement``  of :func:`dcfw.qap.match`: partners, and edges kept and lost
    ``kept, graphs``           of :func:`dcfw.qap.match`: the share of each node's edges that is kept, and
    for each graph its layers and its nodes' labels
    ``col_ind``                of :func:`dcfw.qap.quadratic_assignment`: the permutation, under SciPy's name

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import qap
    >>> res = qap.solve(np.diag([1.0, 2.0], 1), np.diag([3.0, 1.0], -1))
    >>> type(res).__name__, sorted(res.permutation.tolist()), res.sizes
    ('QAPResult', [0, 1, 2], (3, 3))
    """

    permutation: Any = None
    bound: float | None = None
    gap_to_bound: float | None = None
    n_starts: int = 1
    trace: Any = ()
    trace_unit: str = "seconds"
    labels: list[tuple[Any, Any]] | None = None
    relaxation: Any = None
    relaxed: Any = None
    relaxed_fun: float | None = None
    perturbed: bool = False
    sizes: tuple[int, int] | None = None
    mapping: Any = None
    agreement: float | None = None
    disagreement: float | None = None
    graphs: Any = None
    col_ind: Any = None

    def save(self, path: Any) -> None:
        """Write the permutation as a ``.sln`` file of QAPLIB: n and the value, then the permutation from 1.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from dcfw import qap
        >>> res = qap.solve([[0, 1], [1, 0]], [[0, 2], [2, 0]])
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "tiny.sln"
        >>> res.save(file)
        >>> qap.read_solution(file).value
        4
        """
        p = np.asarray(self.permutation) + 1
        Path(path).write_text(f"{len(p)} {self.fun}\n{' '.join(map(str, p.tolist()))}\n", encoding="utf-8")

    def plot(self, ax: Any = None, *, y: str = "fun", x: str | None = "time", **style: Any) -> Any:
        """Draw the incumbents' values against time, or after ``match`` the graphs with lost edges in red.

        Parameters
        ----------
        ax : matplotlib axes, optional
            A new figure's unless given; a pair of axes for two graphs.
        y, x : str
            As in :meth:`dcfw.Result.plot`, for other columns of the relaxation.
        **style
            For ``ax.step``.
        """
        if self.graphs is not None and (y, x) == ("fun", "time"):
            from dcfw.qap.matching.picture import draw

            (one, names), (two, others) = self.graphs
            return draw(one, two, self.permutation, ax, (names, others))
        if len(self.trace) == 0 or (y, x) != ("fun", "time"):
            return super().plot(ax, y=y, x=x, **style)
        from dcfw import plots

        return plots.incumbents(self, ax, **style)

    @property
    def kept(self) -> Any:
        """The share of each node's edges that have a counterpart, as ``mapping``; NaN without edges."""
        if self.graphs is None:
            return None
        from dcfw.qap.matching.picture import aligned, counterparts

        (one, names), (two, _) = self.graphs
        n = len(self.permutation)
        ends, kept = np.zeros(n), np.zeros(n)
        for i, j, there, _ in counterparts(*aligned(one, two, self.permutation)):
            for node in (i, j):
                ends += np.bincount(node, minlength=n)
                kept += np.bincount(node[there], minlength=n)
        with np.errstate(invalid="ignore"):
            shares = (kept / ends)[: one[0].shape[0]]
        return dict(zip(self.mapping, shares.tolist(), strict=True)) if names is not None else shares

    def __str__(self) -> str:
        if self.mapping is None:
            return super().__str__()
        (one, _), (two, _) = ((layers[0].shape[0], names) for layers, names in self.graphs)
        matched = int(np.sum(self.permutation[:one] < two))
        shares = self.kept.values() if isinstance(self.kept, dict) else self.kept
        few = sum(share < 0.5 for share in shares)
        return "\n".join((
            f" message: {self.message}",
            f" success: {self.success} ({self.status.name})",
            f"   nodes: {matched} of {one} have a partner among {two}; {few} keep less than half their edges",
            f"   edges: agreement: {self.agreement:.6g}  disagreement: {self.disagreement:.6g}",
            f"  method: {self.method}",
            f"   calls: n_starts: {self.n_starts}  n_lmo: {self.n_lmo}  time: {self.time:.3g} s",
            *self._details(),
        ))  # fmt: skip

    def _details(self) -> list[str]:
        lines = []
        if self.bound is not None:
            quick = "; qap.bound finds stronger ones" if self.gap_to_bound else ""
            lines.append(f"   bound: {self.bound!r}  (gap {100.0 * (self.gap_to_bound or 0.0):.3g} %{quick})")
        if len(self.trace):
            last, unit = self.trace[-1], self.trace_unit
            found = f"the best by {last.search} after {last.time:.3g} {unit}"
            lines.append(f"  search: {self.n_starts} starts; {found}")
        if isinstance(self.mapping, dict):
            pairs = [f"{node!r}: {partner!r}" for node, partner in self.mapping.items()]
            lines.append(f" mapping: {', '.join(pairs[:6])}{', ...' * (len(pairs) > 6)}")
        elif self.permutation is not None:
            lines.append("permutation: " + np.array2string(self.permutation, threshold=200, prefix=" " * 13))
        return lines


def path_result(status: Status, cut: bool, **fields: Any) -> QAPResult:
    """Return the result of a graduated path, ``cut`` if it did not reach its end."""
    repeats = "The path ended at a permutation that repeats."
    common = {
        "success": status in (Status.CONVERGED, Status.FINISHED, Status.TARGET),
        "message": repeats if status is Status.CONVERGED else status.sentence,
        "gap": math.nan if cut else 0.0,
        "dc_gap": (0.0, math.inf),
        "history": History(),
        "conditional": "gap and dc_gap are those of phi - r, the concave end of the path",
    }
    return QAPResult(status=status, **(common | fields))
