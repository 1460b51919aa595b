"""Values of the command line that are checked by the library's own rules."""

from __future__ import annotations

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
