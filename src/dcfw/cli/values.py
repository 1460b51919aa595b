"""Values of the command line: checked by the rules of the library, and written as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def wrong_ones_are_usage_errors() -> Iterator[None]:
    """Have a value that is refused in this block be a wrong command line, and not a failure."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None


def number(value: float) -> float | None:
    """Return the number, or None where it is not finite: JSON has no word for NaN and infinity.

    Examples
    --------
    >>> number(0.5), number(float("inf"))
    (0.5, None)
    """
    return float(value) if math.isfinite(value) else None
