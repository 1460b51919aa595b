"""Two matched graphs side by side: partners at the same place in one colour, edges without a counterpart in
red."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw.qap.problem import padded


def draw(A: Any, B: Any, p: np.ndarray, axes: Any = None, names: tuple[Any, Any] = (None, None)) -> Any:
    """Draw a matching and return the two axes.

    Parameters
    ----------
    A, B : square matrices
        The adjacency matrices.
    p : array
        The partner of each node of the first graph; the smaller graph is padded.
    axes : pair of matplotlib axes, optional
        Those of a new figure unless given.
    names : pair of sequences, optional
        Labels of the nodes, written up to 40 nodes.
    """
    from matplotlib import pyplot
    from matplotlib.collections import LineCollection
    from scipy.sparse import csr_array

    n = len(p)
    sizes = A.shape[0], B.shape[0]
    A, B = (csr_array(padded(M, n)) for M in (A, B))
    B = csr_array(B[p][:, p])  # in the first graph's order
    if axes is None:
        axes = pyplot.subplots(1, 2, figsize=(10, 5))[1]
    there = np.arange(n) < sizes[0], p < sizes[1]
    spots = _layout(abs(A) + abs(A.T) + abs(B) + abs(B.T))
    colours = pyplot.get_cmap("hsv")(np.argsort(np.argsort(spots[:, 0])) / n)
    for ax, M, other, seen, order, title in zip(
        axes, (A, B), (B, A), there, (np.arange(n), p), ("first graph", "second graph"), strict=True
    ):
        i, j = M.nonzero()
        same = np.asarray(other[i, j]).ravel() != 0
        for kept, colour, width in ((True, "0.75", 0.6), (False, "tab:red", 1.0)):
            lines = spots[np.stack([i, j], axis=1)[same == kept]]
            ax.add_collection(LineCollection(lines, colors=colour, linewidths=width, zorder=1))
        ax.scatter(*spots[seen].T, c=colours[seen], s=max(8.0, 60.0 - n / 5.0), zorder=2, edgecolors="white")
        labels = names[0 if title.startswith("first") else 1]
        if labels is not None and n <= 40:
            for k in np.flatnonzero(seen):
                ax.annotate(
                    str(labels[order[k]]), spots[k], fontsize=7, xytext=(3, 3), textcoords="offset points"
                )
        missing = int((~same).sum())
        ax.set_title(
            f"{title}: {missing // 2 if (M != M.T).nnz == 0 else missing} edges without a counterpart"
        )
        ax.set_axis_off()
        for limits, ends in ((ax.set_xlim, spots[:, 0]), (ax.set_ylim, spots[:, 1])):
            margin = 0.05 * float(np.ptp(ends)) or 1.0
            limits(float(ends.min()) - margin, float(ends.max()) + margin)
    return axes


def _layout(M: Any) -> np.ndarray:
    """Return places of the nodes: networkx's spring layout, or eigenvectors where it is not installed."""
    n = M.shape[0]
    try:
        import networkx as nx
    except ImportError:
        degrees = np.asarray(M.sum(axis=1)).ravel()
        scale = 1.0 / np.sqrt(np.maximum(degrees, 1.0))
        vectors = np.linalg.eigh(scale[:, None] * M.toarray() * scale)[1]
        return np.asarray(vectors[:, -3:-1] if n > 2 else np.arange(2 * n).reshape(n, 2), dtype=np.float64)
    places = nx.spring_layout(nx.from_scipy_sparse_array(M), seed=0, weight=None, iterations=100)
    return np.array([places[k] for k in range(n)])
