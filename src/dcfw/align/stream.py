"""The bytes of a file, whether it is a gzip archive or not, with progress and clear errors.

The first bytes identify an archive.  Vectors as text shrink to a half or a quarter: an archive that unpacks
far beyond that is refused before it fills the memory.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

Progress = Callable[[int, int], Any]  # called with the bytes done, and the total
RATIO = 200  # the most bytes that an archive may unpack to per byte, beyond the first FREE
FREE = 16 << 20
_GZIP = b"\x1f\x8b"


class Stream:
    """Read a file from start to end; ``size`` is its number of bytes, None for an archive."""

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self._progress = progress
        self._total = os.path.getsize(path)
        self._raw = path.open("rb")
        self._compressed = self._raw.read(2) == _GZIP
        self._raw.seek(0)
        self._file: Any = gzip.GzipFile(fileobj=self._raw) if self._compressed else self._raw
        self.size = None if self._compressed else self._total
        self._given = 0

    def read(self, count: int) -> bytes:
        """Return the next ``count`` bytes; fewer only at the end of the file."""
        try:
            data = self._file.read(count)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{self.path} is a damaged gzip archive ({str(error).rstrip('.')}): only the first "
                f"{self._given} bytes of its content could be read; download the file again"
            ) from None
        self._given += len(data)
        if self._compressed and self._given > max(FREE, RATIO * self._raw.tell()):
            raise ValueError(
                f"{self.path} is a gzip archive that unpacks to more than {RATIO} times its size, unlike "
                "files of vectors; if you trust it, unpack it with gunzip and read the unpacked file"
            )
        if self._progress is not None:
            # The position in an archive is slightly ahead of the content returned.
            self._progress(min(self._raw.tell(), self._total), self._total)
        return bytes(data)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self._raw.close()
