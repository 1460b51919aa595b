"""Membership in a polytope by its linear oracle alone: Wolfe's minimum norm point.

Wolfe's algorithm (Math. Programming 11, 1976) finds the nearest point to x as a combination of vertices: each
major step adds a vertex, minor steps drop vertices until the nearest point of the affine hull of the rest has
positive weights.  It is finite, and returns a separating hyperplane if x is outside.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LARGEST = 600  # entries for which membership is decided exactly, at cubic cost at worst


def separation(vertex: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> float:
    """Return a lower bound, tight up to rounding, of the distance from x to the hull of all ``vertex(G)``."""
    first = vertex(np.zeros(x.size)) - x
    scale = max(float(np.abs(first).max()), float(np.abs(x).max()), 1e-300)
    points, weights = [first / scale], np.ones(1)
    y = points[0]
    for _ in range(4 * x.size + 20):
        length = float(np.linalg.norm(y))
        if length <= 1e-13:
            return 0.0
        s = (vertex(y) - x) / scale
        if float(y @ (y - s)) <= 1e-12 * max(length * length, 1e-13):
            break
        points.append(s)
        weights, points = _corral(points, np.append(weights, 0.0))
        y = np.asarray(weights @ np.array(points))
    length = float(np.linalg.norm(y))
    return scale * max(float(y @ (vertex(y) - x)) / (scale * length), 0.0) if length > 0.0 else 0.0


def _corral(points: list[np.ndarray], weights: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the weights of the nearest point of the hull's relative interior, and its points."""
    while True:
        # The weights, of sum 1, of the point of the affine hull that is nearest to the origin.
        P, last = np.array(points[:-1]), points[-1]
        found = np.linalg.lstsq((P - last).T, -last, rcond=None)[0] if len(P) else np.zeros(0)
        affine = np.append(found, 1.0 - found.sum())
        if bool((affine > 1e-14).all()):
            return affine, points
        # Move towards that point until the first weight is zero, and drop the zeros.
        falling = affine < weights
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(falling & (affine <= 1e-14), weights / (weights - affine), np.inf)
        step = min(1.0, float(steps.min()))
        weights = np.maximum(weights + step * (affine - weights), 0.0)
        keep = weights > 1e-14
        keep[int(steps.argmin())] = False
        if not keep.any():
            keep[int(weights.argmax())] = True
        weights = weights[keep] / weights[keep].sum()
        points = [point for point, kept in zip(points, keep, strict=True) if kept]
