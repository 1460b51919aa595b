"""Files that appear under their names only when they are complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that replaces ``path`` on success, after it has been synchronised to the disk.

    Renaming is atomic: after an error or a kill, ``path`` has its old content or all of the new one.
    """
    # An unpredictable name: a link placed there is not followed.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    file = temporary.open("xb")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):  # report the first error
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Synchronise a renamed file's new name to the disk, where folders support that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems
        pass
    finally:
        os.close(descriptor)
