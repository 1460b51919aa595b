"""Compilation by Numba, with a cache on the disk where there is room for one.

``numba.njit(cache=True)`` ends in an error where neither the package's folder nor the user's cache folder can
be written (a container with a read-only disk), and a compiled function whose file cannot be saved (a full
disk) fails in its first call.  Neither is a reason not to compute: without a cache the functions of a process
are compiled once more, which takes some seconds.

Nor is a damaged file, with which Numba would end in an error from then on, or run damaged machine code.  Here
each file ends in a checksum of what is before it, and where that does not fit, the file counts as not there
and is replaced.  The checksum is no signature: Numba's files are pickles with machine code in them, so the
folder of the cache must be as trustworthy as the code itself.

Numba notices a change in the file of a function, but not in the files of what it calls, and would go on with
the old code of those.  Here a change in any of :data:`MODULES` makes all be compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from dcfw.progress import announce

MODULES = (
    "qap/kicks", "qap/swaps", "qap/tabu",
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


class _Files(IndexDataCacheFile):  # type: ignore[misc]
    """The files of Numba's cache, each with a checksum behind what Numba reads of it."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        buffer = io.BytesIO()
        yield buffer
        content = buffer.getvalue()
        with super()._open_for_write(filepath) as file:
            file.write(content + hashlib.sha256(content).digest())

    def _load_index(self) -> Any:
        with suppress(FileNotFoundError):
            if not _is_whole(self._index_path):
                return {}  # and the next function that is saved begins a new one
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        if not _is_whole(path):
            raise OSError(f"{path} is damaged")  # for Numba as if it were not there
        return super()._load_data(name)


def _is_whole(path: str) -> bool:
    content = Path(path).read_bytes()
    return hashlib.sha256(content[:-32]).digest() == content[-32:]


_said = False


def _say_so() -> None:
    """Tell who looks at the progress of a command, once, that something is compiled, which takes a while."""
    global _said
    _said = _said or announce("compiling, which may take a minute the first time ...")


class _NoCache(NullCache):  # type: ignore[misc]
    """Nothing is kept: everything is compiled."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        _say_so()


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, without which one can live."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _Files(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), sources())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        kept = None
        with suppress(Exception):  # whatever is wrong with what was kept, it can be compiled
            kept = super().load_overload(sig, target_context)
        if kept is None:
            _say_so()
        return kept

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
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
        dispatcher._cache = _NoCache()
        with suppress(RuntimeError, OSError):  # "no locator available": nowhere to keep it
            dispatcher._cache = _Cache(function)
        return dispatcher

    return compiled
