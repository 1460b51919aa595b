"""How large a set should be for a weight of a given shape.

A radius means something different for every shape.  ``radius_mode`` makes one number do for a network:

``"absolute"``  the radius itself
``"init"``      times the norm that the weight's usual initialisation is expected to have: entries uniform in
                +-1/sqrt(fan_in) for weights, as torch.nn.Linear and the convolutions do; ones for vectors, as
                in a normalisation layer.  It is computed from the shape: no weight is looked at, or changed.
``"scion"``     times 1/d_in for sign constraints (l_inf, box) and sqrt(d_out/d_in) for all others

>>> round(factor("init", "l2", (100, 300), "tensor"), 3)  # sqrt(30000 / 3) / sqrt(300)
5.774
>>> factor("scion", "spectral", (64, 16), "tensor"), factor("scion", "linf", (64, 16), "tensor")
(2.0, 0.0625)
"""

from __future__ import annotations

import math

from dcfw.torch.matrices import matrix_shape

MODES = ("absolute", "init", "scion")


def factor(
    mode: str,
    constraint: str,
    shape: tuple[int, ...],
    scope: str,
    k: int | None = None,
    stack: int = 1,
) -> float:
    """Return what ``radius`` is multiplied by for a weight of this shape."""
    if mode == "absolute":
        return 1.0
    d_out, d_in = matrix_shape(shape, stack)
    if mode == "scion":
        return 1.0 / d_in if constraint in ("linf", "box") else math.sqrt(d_out / d_in)
    rows = 1 if scope == "row" else d_out
    n = rows * d_in
    # Largest size, root mean square and mean size of an entry.
    if len(shape) < 2:
        largest = spread = mean = 1.0
    else:
        largest = 1.0 / math.sqrt(d_in)
        spread, mean = largest / math.sqrt(3.0), largest / 2.0
    if constraint in ("linf", "box"):
        return largest
    if constraint == "l2" or (len(shape) < 2 and constraint in ("spectral", "nuclear")):
        return spread * math.sqrt(n)
    if constraint in ("l1", "simplex"):
        return mean * n
    if constraint == "k-sparse":
        return max(mean * n / (k or 1), largest)
    if constraint == "spectral":
        return spread * (math.sqrt(d_out) + math.sqrt(d_in))
    return spread * _singular_values(max(d_out, d_in), min(d_out, d_in))


def _singular_values(m: int, n: int, points: int = 100) -> float:
    """Return the expected sum of the singular values of an m x n matrix (m >= n) with unit variances.

    By Marchenko and Pastur's law, with eigenvalues m (1 + y + 2 sqrt(y) cos t), y = n/m.
    """
    y = n / m
    total = 0.0
    for i in range(points):
        t = math.pi * (i + 0.5) / points
        total += math.sin(t) ** 2 / math.sqrt(1.0 + y + 2.0 * math.sqrt(y) * math.cos(t))
    return n * math.sqrt(m) * 2.0 * total / points
