"""Compilation by Numba, with a cache on the disk where there is room for one.

``numba.njit(cache=True)`` ends in an error where neither the package's folder nor the user's cache folder can
be written (a container with a read-only disk), and a compiled function whose file cannot be saved (a full
disk) fails in its first call.  Neither is a reason not to compute: without a cache the functions of a process
are compiled once more, which takes some seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, without which one can live."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(OSError, EOFError):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)


def njit(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator: ``numba.njit`` without the global interpreter lock, and with a cache if it can be.

    Examples
    --------
    >>> @njit()
    ... def double(x):
    ...     return x + x
    >>> double(21)
    42
    """

    def compiled(function: Any) -> Any:
        dispatcher = numba.njit(nogil=True, **options)(function)
        with suppress(RuntimeError, OSError):  # "no locator available": nowhere to keep it
            dispatcher._cache = _Cache(function)
        return dispatcher

    return compiled
