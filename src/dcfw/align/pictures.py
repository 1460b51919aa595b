"""A picture of a trial: word pairs before and after the map, and the gap on the way to it.

Matplotlib is imported when the picture is drawn, and its global state is neither used nor changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dcfw._arrays import Array
from dcfw.align.retrieval import unit_rows
from dcfw.align.translation import Trial

_SOURCE, _TARGET, _GAP = "#0072B2", "#D55E00", "#009E73"  # of Okabe and Ito's palette
_LABELLED = 12


def draw(trial: Trial, source_words: Sequence[str], target_words: Sequence[str], *, count: int = 60) -> Any:
    """Return a Matplotlib figure with three panels: before, after, and the Frank-Wolfe gap.

    The first two show ``count`` pairs that were held out, the most frequent ones, in the plane of the
    two main directions of their target vectors; a line joins the words of a pair, and the source words of
    some are written out.  Short lines after the map mean good translations.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError('pictures need Matplotlib: pip install "dcfw[plots]"') from None

    order = np.argsort(trial.held[0])[:count]
    rows, columns = trial.held[0][order], trial.held[1][order]
    S, T = trial.source[rows], unit_rows(trial.target[columns])
    centre = T.mean(axis=0)
    plane = _plane(T - centre)
    figure = Figure(figsize=(13.0, 4.6), dpi=130, layout="constrained")
    before, after, gap = figure.subplots(1, 3)
    same = S.shape[1] == T.shape[1]
    # Spaces of different dimension have no common plane: the source then is shown in its own.
    own = plane if same else _plane(S - S.mean(axis=0))
    start = unit_rows(S)
    target = (T - centre) @ plane.T
    names = [source_words[i] for i in rows], [target_words[j] for j in columns]
    _pairs(before, (start - (centre if same else start.mean(axis=0))) @ own.T, target, names)
    mapped = unit_rows(S @ trial.rotation.T)
    _pairs(after, (mapped - centre) @ plane.T, target, names)
    scores = [trial.scores["before"], trial.scores["masked"], trial.scores["full"]]
    for axes, title, score in ((before, "before", scores[0]), (after, "after", scores[1])):
        said = "" if score is None else f": mean cosine {score['cosine']:.3f}, P@1 {100 * score['p@1']:.1f} %"
        axes.set_title(title + said, fontsize=10)
    after.set_xlabel(f"{100 * trial.observed:.3g} % of the entries known", fontsize=9)
    before.set_xlabel(f"{len(rows)} held-out pairs, plane of the target's main directions", fontsize=9)
    handles = before.get_legend_handles_labels()
    before.legend(*handles, loc="best", fontsize=8, frameon=False)
    _gap(gap, trial.result)
    return figure


def _plane(points: Array) -> Array:
    """Return two main directions of the points as rows; zeros for those that a line or a point lacks."""
    main = np.linalg.svd(points, full_matrices=False)[2][:2]
    return np.vstack([main, np.zeros((2 - len(main), points.shape[1]), dtype=main.dtype)])


def _pairs(axes: Any, source: Array, target: Array, names: tuple[list[str], list[str]]) -> None:
    for a, b in zip(source, target, strict=True):
        axes.plot([a[0], b[0]], [a[1], b[1]], color="0.8", linewidth=0.7, zorder=1)
    axes.scatter(*source.T, s=16, color=_SOURCE, marker="o", label="source", zorder=2)
    axes.scatter(*target.T, s=18, color=_TARGET, marker="^", label="target", zorder=2)
    for i in _spread(target, _LABELLED):
        for point, name, colour in ((source[i], names[0][i], _SOURCE), (target[i], names[1][i], _TARGET)):
            axes.annotate(
                name, point, xytext=(3, 3), textcoords="offset points", fontsize=7, color=colour, zorder=3
            )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    for side in axes.spines.values():
        side.set_color("0.85")


def _spread(points: Array, count: int) -> list[int]:
    """Return indices of points that lie far from each other, so that their labels can be read."""
    chosen = [int(np.argmax(np.linalg.norm(points - points.mean(axis=0), axis=1)))]
    nearest = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < min(count, len(points)):
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return chosen


def _gap(axes: Any, result: Any) -> None:
    steps, gaps = result.history["n_lmo"], result.history["gap"]
    shown = (gaps > 0.0) & (steps > 0.0)
    axes.loglog(steps[shown], gaps[shown], color=_GAP, marker="o", markersize=3, linewidth=1.2)
    axes.set_title(f"Frank-Wolfe gap of {result.method}", fontsize=10)
    axes.set_xlabel("polar factors (steps)", fontsize=9)
    axes.grid(True, which="both", color="0.92", linewidth=0.6)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
