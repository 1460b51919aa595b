"""Figure 1 of the paper: what the gaps of two splits say near minima, saddles and maxima.

The function is phi(x) = sin(pi x1) cos(pi x2) on [-1, 1]^2, with L = pi^2, the least constant for which its
gradient is Lipschitz.  Five measures of stationarity are evaluated on a grid:

===============  ==========================================================================================
pgm              gap_PGM = L/2 ||x - clip(x - grad phi(x)/L)||^2
ppm              gap_PPM = L/2 ||x - prox(x)||^2, prox(x) the minimiser of phi + L/2 ||. - x||^2 on the box
fw               the FW gap, the same for every split
dc-sliding       gap_DC of the split L/2 ||x||^2 - (L/2 ||x||^2 - phi), which linearises phi
dc-proximal      gap_DC of the split (phi + L/2 ||x||^2) - L/2 ||x||^2, which keeps phi
===============  ==========================================================================================

**The proximal point is found to rounding.**  With p = y1 + y2 and q = y1 - y2 the function is the sum of
sin(pi p)/2 and sin(pi q)/2, and ||y - x||^2 half of that in (p, q).  So without the box the subproblem
separates into two increasing equations of one variable, cos(pi w) + pi (w - w0) = 0, solved by bisection for
all points at once.  Where that leaves the box, the minimiser of this convex subproblem is on an edge: phi = 0
on two of them, and the other two have one such equation again.  The FW gap of the subproblem verifies each
answer.

**What to expect.**  At distance d of a stationary point with Hessian +L (a minimum) or -L (a maximum) in the
direction of d, a gradient step lands on the minimum, or as far on the other side of x as the maximum is:
gap_PGM is L/2 d^2 in both cases, to first order.  The proximal point near a minimum lies half way, so that
gap_PPM is L/8 d^2; near a maximum it runs away to a distance of (6 d / pi^2)^(1/3), and gap_PPM grows like
d^(2/3), which is sharper than any quadratic.  A saddle has one direction of each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw_studies import checks
from dcfw_studies.study import Study

L = np.pi**2
STEP = 0.01
MEASURES = ("pgm", "ppm", "fw", "dc-sliding", "dc-proximal")
STATIONARY = {"minimum": (-0.5, 0.0), "saddle": (0.0, 0.5), "maximum": (0.5, 0.0)}
"""A stationary point of each kind inside the box (there is a second saddle, and more on the edges)."""

RADII = (0.01, 0.05, 0.1)
DIRECTIONS = 4096  # the number of directions sampled for the share of sharp ones
FLAT = 0.01  # a region is flat where a measure is below this fraction of its largest value on the grid


def value(x1: Any, x2: Any) -> Any:
    return np.sin(np.pi * x1) * np.cos(np.pi * x2)


def gradient(x1: Any, x2: Any) -> tuple[Any, Any]:
    return np.pi * np.cos(np.pi * x1) * np.cos(np.pi * x2), -np.pi * np.sin(np.pi * x1) * np.sin(np.pi * x2)


def proximal_point(x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimiser of phi(y) + L/2 ||y - x||^2 over the box, for all points of two arrays."""

    def free(w: Any, at: Any) -> Any:
        return np.cos(np.pi * w) + np.pi * (w - at)

    p, q = _root(free, x1 + x2), _root(free, x1 - x2)
    y1, y2 = 0.5 * (p + q), 0.5 * (p - q)
    outside = np.maximum(np.abs(y1), np.abs(y2)) > 1.0
    # phi is 0 where y1 = +-1, and -sin(pi y1) where y2 = +-1: an equation in y1, the same for both edges.
    t = np.clip(_root(lambda w, at: np.pi * (w - at) - np.cos(np.pi * w), x1), -1.0, 1.0)
    one = np.ones_like(x1)
    edges = [(one, x2), (-one, x2), (t, one), (t, -one)]
    values = np.array([_subproblem(x1, x2, *edge) for edge in edges])
    best = np.argmin(values, axis=0)
    e1, e2 = (np.choose(best, [edge[k] for edge in edges]) for k in (0, 1))
    return np.where(outside, e1, y1), np.where(outside, e2, y2)


def _root(rising: Callable[[Any, Any], Any], at: np.ndarray) -> np.ndarray:
    """Return the root of an increasing function within 1/pi of ``at``, by bisection."""
    low, high = at - 1.0 / np.pi, at + 1.0 / np.pi
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = rising(middle, at) < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))


def _subproblem(x1: Any, x2: Any, y1: Any, y2: Any) -> Any:
    return value(y1, y2) + 0.5 * L * ((y1 - x1) ** 2 + (y2 - x2) ** 2)


def accuracy(x1: np.ndarray, x2: np.ndarray, y1: np.ndarray, y2: np.ndarray) -> np.ndarray:
    """Return a bound on what the proximal subproblem of x can still gain at y: its FW gap there."""
    g1, g2 = gradient(y1, y2)
    return np.asarray(_fw(g1 + L * (y1 - x1), g2 + L * (y2 - x2), y1, y2))


def _fw(g1: Any, g2: Any, x1: Any, x2: Any) -> Any:
    """Return <g, x - s>, s the vertex of the box with the least <g, s>."""
    return g1 * x1 + np.abs(g1) + g2 * x2 + np.abs(g2)


def measure(name: str, x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    """Return one of the measures at all points of two arrays."""
    name = checks.choice(name, "name", MEASURES)
    if name in ("ppm", "dc-proximal"):
        y1, y2 = proximal_point(x1, x2)
        if name == "dc-proximal":
            return np.asarray(value(x1, x2) - _subproblem(x1, x2, y1, y2))
        return np.asarray(0.5 * L * ((x1 - y1) ** 2 + (x2 - y2) ** 2))
    g1, g2 = gradient(x1, x2)
    if name == "fw":
        return np.asarray(_fw(g1, g2, x1, x2))
    d1, d2 = x1 - np.clip(x1 - g1 / L, -1.0, 1.0), x2 - np.clip(x2 - g2 / L, -1.0, 1.0)
    length = 0.5 * L * (d1**2 + d2**2)
    return np.asarray(length if name == "pgm" else g1 * d1 + g2 * d2 - length)


def grid(step: float = STEP) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of the grid as two square arrays; x1 runs along the second axis."""
    count = round(2.0 / checks.scalar(step, "step", low=0.0, high=1.0, open_low=True)) + 1
    axis = np.linspace(-1.0, 1.0, count)
    x1, x2 = np.meshgrid(axis, axis)
    return x1, x2


def around(name: str, kind: str, radius: float, directions: int = 256) -> np.ndarray:
    """Return a measure on a circle around the stationary point of a kind, over L/2 radius^2."""
    angle = 2.0 * np.pi * np.arange(directions) / directions  # the diagonals, which matter, are among them
    c1, c2 = STATIONARY[kind]
    found = measure(name, c1 + radius * np.cos(angle), c2 + radius * np.sin(angle))
    return np.asarray(found / (0.5 * L * radius**2))


def growth(name: str, kind: str) -> float:
    """Return the exponent a with which the mean over a circle grows like radius^a, for small radii."""
    radii = np.geomspace(1e-3, 1e-2, 6)
    means = [float(np.mean(around(name, kind, r))) * r**2 for r in radii]
    return float(np.polyfit(np.log(radii), np.log(means), 1)[0])


def flat_area(name: str, kind: str, values: np.ndarray, step: float) -> float:
    """Return the area of the connected part of the grid around a stationary point where values are low."""
    from scipy import ndimage

    labels, _ = ndimage.label(values <= FLAT * values.max())
    c1, c2 = STATIONARY[kind]
    here = labels[round((c2 + 1.0) / step), round((c1 + 1.0) / step)]
    return float(np.sum(labels == here) * step**2) if here else 0.0


def row(dataset: str, method: str, seed: int, step: float) -> dict[str, Any]:
    x1, x2 = grid(step)
    values = measure(method, x1, x2)
    found: dict[str, Any] = {"points": values.size}
    found |= {"largest": float(values.max()), "mean": float(values.mean())}
    for kind in STATIONARY:
        found[f"{kind}_area"] = flat_area(method, kind, values, step)
        found[f"{kind}_growth"] = growth(method, kind)
        found[f"{kind}_sharper"] = float(np.mean(around(method, kind, 0.01, DIRECTIONS) > 1.0 + 1e-9))
        for radius in RADII:
            ring = around(method, kind, radius)
            found[f"{kind}_{radius:g}"] = [float(ring.min()), float(ring.mean()), float(ring.max())]
    if method in ("ppm", "dc-proximal"):
        found["accuracy"] = float(accuracy(x1, x2, *proximal_point(x1, x2)).max())
    below = {"pgm": "dc-sliding", "ppm": "dc-proximal", "dc-sliding": "fw", "dc-proximal": "fw"}.get(method)
    if below is not None:
        # Where and by how much the measure exceeds its claimed bound.
        excess = values - measure(below, x1, x2)
        found["bounded_by"] = below
        found["violated"] = float(np.mean(excess > 1e-9))
        found["worst_excess"] = float(excess.max())
    return found


def study(step: float = STEP) -> Study:
    return Study("gaps", row, ["sine"], MEASURES, [0], {"step": step})
