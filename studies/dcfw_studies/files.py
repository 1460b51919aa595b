"""Files that appear under their names only when they are complete."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_file(file: Path, content: bytes) -> None:
    """Write ``content`` to ``file`` so that the file is never seen half written."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.chmod(temporary, 0o644)  # mkstemp makes files that only their owner can read
        os.replace(temporary, file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
