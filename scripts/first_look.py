"""Draw the README's figure: a graph matched by dcfw and by SciPy, and the QAP search beside other programs.

    PYTHONPATH=src python scripts/first_look.py        writes docs/_static/first_look.png

The graph connects neighbours among 80 random points; in its copy the nodes are shuffled and one edge in
twenty is moved.  The errors are from the tables in results/field, which ``python -m bench field`` writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import quadratic_assignment

from dcfw import qap

ROOT = Path(__file__).parents[1]
PROGRAMS = {
    "ours": ("dcfw", "#0072B2", "o-"),
    "bls": ("breakout local search", "#009E73", "s--"),
    "rots06": ("robust tabu search", "#E69F00", "^--"),
    "sa": ("simulated annealing", "#CC79A7", "d--"),
}


def pair(n: int = 80, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return a graph, a shuffled copy with one edge in twenty moved, the points, and how many edges moved."""
    rng = np.random.default_rng(seed)
    graph = nx.random_geometric_graph(n, 1.6 / n**0.5, seed=seed)
    points = np.array([graph.nodes[i]["pos"] for i in range(n)])
    A = nx.to_numpy_array(graph)
    B = A.copy()
    edges = np.argwhere(np.triu(A))
    moved = rng.choice(len(edges), len(edges) // 20, replace=False)
    for i, j in edges[moved]:
        free = np.argwhere(np.triu(B + A == 0, 1))
        k, m = free[rng.integers(len(free))]
        B[i, j] = B[j, i] = 0.0
        B[k, m] = B[m, k] = 1.0
    p = rng.permutation(n)
    shuffled = np.empty_like(B)
    shuffled[np.ix_(p, p)] = B
    return A, shuffled, points, len(moved)


def draw_graph(ax: Any, A: np.ndarray, matched: np.ndarray, points: np.ndarray, title: str) -> None:
    """Draw the first graph: matched edges in grey, edges without a counterpart in red."""
    x, y = points.T
    for i, j in np.argwhere(np.triu(A)):
        kept = matched[i, j] > 0
        ax.plot(x[[i, j]], y[[i, j]], color="#A8A8A8" if kept else "#D55E00", lw=0.8 if kept else 1.3)
    ax.plot(x, y, "o", color="#303030", ms=2.5)
    found = int((np.triu(A) * (matched == 0)).sum())
    ax.set_title(f"{title}\n{found} of {int(A.sum()) // 2} edges without a counterpart", fontsize=9.5)
    ax.set_aspect("equal")
    ax.axis("off")


def draw_field(ax: Any) -> None:
    """Draw the mean error of each program against the time that it had."""
    tables = {s: ROOT / "results" / "field" / f"field-{s}s.json" for s in (1, 5, 20)}
    found = {s: json.loads(file.read_text()) for s, file in tables.items() if file.exists()}
    common = set.intersection(*({row["instance"] for row in table} for table in found.values()))
    rows = {s: [row for row in table if row["instance"] in common] for s, table in found.items()}
    for name, (title, colour, style) in PROGRAMS.items():
        errors = [float(np.mean([row[name] for row in table])) for table in rows.values()]
        ax.plot(list(rows), errors, style, color=colour, label=title, lw=2.0 if name == "ours" else 1.3)
    ax.set(xscale="log", yscale="log", xlabel="seconds", ylabel="mean error above the best known, %")
    ax.set_xticks(list(rows), [f"{s}" for s in rows])
    ax.set_yticks([0.1, 0.2, 0.5, 1.0, 2.0], ["0.1", "0.2", "0.5", "1", "2"])
    ax.set_ylim(0.07, 2.0)
    ax.minorticks_off()
    ax.set_title(f"Quadratic assignment, {len(common)} instances", fontsize=9.5)
    ax.grid(True, color="#DDDDDD")
    ax.legend(fontsize=8, frameon=False)


def main() -> None:
    figure = Figure(figsize=(10.0, 3.8), layout="constrained", dpi=110)
    figure.get_layout_engine().set(h_pad=0.12)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
    A, B, points, lost = pair()
    ours = qap.match(A, B, rng=0).permutation
    theirs = quadratic_assignment(A, B, method="faq", options={"maximize": True}).col_ind
    draw_graph(left, A, B[np.ix_(ours, ours)], points, "Matched with a shuffled copy: dcfw")
    draw_graph(middle, A, B[np.ix_(theirs, theirs)], points, "SciPy's quadratic_assignment")
    left.text(
        0.5, -0.02, f"({lost} were moved)", ha="center", va="top", fontsize=8.5, transform=left.transAxes
    )
    draw_field(right)
    figure.savefig(ROOT / "docs" / "_static" / "first_look.png")


if __name__ == "__main__":
    main()
