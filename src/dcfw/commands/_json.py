"""Numbers for JSON, which has no word for NaN and infinity."""

from __future__ import annotations

import math


def number(value: float) -> float | None:
    """Return the number, or None where it is not finite.

    Examples
    --------
    >>> number(0.5), number(float("inf"))
    (0.5, None)
    """
    return float(value) if math.isfinite(value) else None
