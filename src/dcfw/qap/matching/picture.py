"""Two matched graphs side by side: partners have the same place and colour, lost edges are red."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from dcfw.qap.objective import symmetric
from dcfw.qap.problem import padded


def aligned(one: list[Any], two: list[Any], p: np.ndarray) -> tuple[list[Any], list[Any]]:
    """Return the padded layers of two graphs, both in the order of the first one's nodes."""
    A, B = ([csr_array(padded(M, len(p))) for M in layers] for layers in (one, two))
    return A, [csr_array(M[p][:, p]) for M in B]


def counterparts(A: list[Any], B: list[Any]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]:
    """Yield for each layer the ends of A's edges, whether B has them, and whether A has each twice."""
    for M, N in zip(A, B, strict=True):
        edges = coo_array(2 * (M != 0) + (N != 0))
        own = edges.data >= 2  # 2 in A alone, 3 in both
        yield edges.row[own], edges.col[own], edges.data[own] == 3, symmetric(M)


def draw(
    one: list[Any], two: list[Any], p: np.ndarray, axes: Any = None, names: tuple[Any, Any] = (None, None)
) -> Any:
    """Draw the layers of two graphs matched by p, with node labels up to 40 nodes; return the two axes."""
    from dcfw.plots import pyplot

    plt = pyplot()
    from matplotlib.collections import LineCollection

    n = len(p)
    A, B = aligned(one, two, p)
    if axes is None:
        axes = plt.subplots(1, 2, figsize=(10, 5))[1]
    there = np.arange(n) < one[0].shape[0], p < two[0].shape[0]
    spots = _layout(sum((abs(M) + abs(M.T) for M in A + B), csr_array((n, n))))
    colours = plt.get_cmap("hsv")(np.argsort(np.argsort(spots[:, 0])) / n)
    for ax, layers, other, seen, order, title, labels in zip(
        axes, (A, B), (B, A), there, (np.arange(n), p), ("first graph", "second graph"), names, strict=True
    ):
        lost = 0
        for i, j, same, twice in counterparts(layers, other):
            for kept, colour, width in ((True, "0.75", 0.6), (False, "tab:red", 1.0)):
                lines = spots[np.stack([i, j], axis=1)[same == kept]]
                ax.add_collection(LineCollection(lines, colors=colour, linewidths=width, zorder=1))
            lost += int((~same).sum()) // (2 if twice else 1)
        ax.scatter(*spots[seen].T, c=colours[seen], s=max(8.0, 60.0 - n / 5.0), zorder=2, edgecolors="white")
        if labels is not None and n <= 40:
            for k in np.flatnonzero(seen):
                ax.annotate(
                    str(labels[order[k]]), spots[k], fontsize=7, xytext=(3, 3), textcoords="offset points"
                )
        ax.set_title(f"{title}: {lost} edges without a counterpart")
        ax.set_axis_off()
        for limits, ends in ((ax.set_xlim, spots[:, 0]), (ax.set_ylim, spots[:, 1])):
            margin = 0.05 * float(np.ptp(ends)) or 1.0
            limits(float(ends.min()) - margin, float(ends.max()) + margin)
    return axes


def _layout(M: Any) -> np.ndarray:
    """Return positions by networkx's spring layout, or by eigenvectors if it is not installed."""
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
