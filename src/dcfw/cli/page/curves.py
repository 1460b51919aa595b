"""A history as the few points that a chart shows."""

from __future__ import annotations

from typing import Any

import numpy as np

POINTS = 160  # the most points of a curve


def curve(history: Any, points: int = POINTS) -> dict[str, list[float]]:
    """Return the rows of a history nearest to steps that are evenly spaced on a log scale."""
    lmo = np.asarray(history["n_lmo"], dtype=float)
    wanted = np.geomspace(1.0, max(lmo[-1], 1.0), points)
    rows = np.unique(np.minimum(np.searchsorted(lmo, wanted), len(lmo) - 1))
    columns = ("n_lmo", "n_grad_g", "time", "gap", "dc_high", "fun")
    kept = {name: np.asarray(history[name], dtype=float)[rows].tolist() for name in columns}
    kept["least"] = np.minimum.accumulate(np.asarray(history["gap"], dtype=float))[rows].tolist()
    return kept
