"""Compilation by Numba, with a cache on the disk where there is room for one.

``numba.njit(cache=True)`` ends in an error where neither the package's folder nor the user's cache folder can
be written (a container with a read-only disk), and a compiled function whose file cannot be saved (a full
disk) fails in its first call.  Neither is a reason not to compute: without a cache the functions of a process
are compiled once more, which takes some seconds.

Numba notices a change in the file of a function, but not in the files of what it calls, and would go on with
the old code of those.  Here a change in any of :data:`MODULES` makes all be compiled again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

MODULES = (
    "align/kernels", "qap/blended", "qap/compiled", "qap/faq", "qap/gradients", "qap/kicks", "qap/swaps",
    "qap/tabu", "sets/auction", "sets/lap", "solvers/gram", "solvers/weights",
    "torch/kernel",
)  # fmt: skip
"""Where compiled functions are, and the constants of other modules that are compiled into them."""


@functools.cache
def sources() -> tuple[tuple[float, int], ...]:
    """Return what tells one version of the compiled functions' files from another."""
    found = []
    for name in MODULES:
        with suppress(OSError):  # a package in an archive has no files
            status = Path(__file__).parent.joinpath(name + ".py").stat()
            found.append((status.st_mtime, status.st_size))
    return tuple(found)


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, without which one can live."""

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), sources())

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
