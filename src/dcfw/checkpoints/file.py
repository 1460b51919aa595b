"""The file of a checkpoint: written atomically, read as untrusted input, used by one run at a time.

A file is an ordinary ``.npz`` archive without pickles.  ``history`` (a matrix, one row per outer step, see
:class:`dcfw.result.History`) and ``x`` (the best point so far) can be inspected with ``numpy.load``;
``state`` is JSON and ``data`` the bytes of all arrays that it refers to.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dcfw._arrays import Array
from dcfw.checkpoints.tree import Foreign, as_numpy
from dcfw.files import replacing
from dcfw.npy import parsed

FORMAT = "dcfw-checkpoint-1"
ALIGN = 64
LONGEST_TEXT = 8_000_000  # bytes of the JSON text: about 50,000 atoms of an active set
MOST_DIGITS = 40  # of an integer: the state of a bit generator has 128 bits


def write(path: Path, header: dict[str, Any], arrays: list[Array], **readable: np.ndarray) -> None:
    """Write a checkpoint so that ``path`` has the old content or all of the new one."""
    table, chunks, position = [], [], 0
    for array in arrays:
        values, foreign = as_numpy(array)
        order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"
        if values.dtype.kind not in "biuf":
            raise TypeError(f"a state has an array of dtype {values.dtype}")
        raw = values.tobytes(order)  # type: ignore[arg-type]
        table.append([values.dtype.str, list(values.shape), order, position, foreign])
        padding = -len(raw) % ALIGN
        chunks += [raw, b"\0" * padding]
        position += len(raw) + padding
    if any(values.dtype.hasobject for values in readable.values()):
        raise TypeError("a checkpoint holds numbers only")
    text = json.dumps({"format": FORMAT, **header, "arrays": table}).encode()
    with replacing(path) as out:
        state, data = (np.frombuffer(raw, dtype=np.uint8) for raw in (text, b"".join(chunks)))
        # NumPy 1 would take allow_pickle for the name of an array.
        np.savez(out, state=state, data=data, **readable)  # type: ignore[arg-type]


def read(path: Path) -> tuple[dict[str, Any], list[Any], dict[str, np.ndarray]] | None:
    """Return the header, the arrays and the readable parts of a checkpoint, None if there is no file."""
    if not path.exists():
        return None
    try:
        found = _members(path)
        header = _parsed(found.pop("state"))
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}, not {FORMAT!r}")
        arrays = _arrays(header["arrays"], found.pop("data"))
    except (MemoryError, PermissionError):  # not caused by the content
        raise
    except Exception as error:  # a damaged archive fails in many ways
        raise unusable(path, error) from None
    return header, arrays, found


def _parsed(text: np.ndarray) -> Any:
    """Parse JSON, refusing longer texts and integers than a checkpoint has."""
    if text.size > LONGEST_TEXT:
        raise ValueError(f"its description takes {text.size} bytes")

    def integer(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            raise ValueError(f"it has a number of {len(digits)} digits")
        return int(digits)

    return json.loads(text.tobytes(), parse_int=integer)


def _members(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an archive; members are stored without compression, so none exceeds the file."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it has compressed members")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("its members claim to be larger than the file")
        return {
            member.filename.removesuffix(".npy"): parsed(archive.read(member), member.filename)
            for member in members
        }


def unusable(path: Path, reason: object) -> ValueError:
    return ValueError(
        f"checkpoint {str(path)!r} cannot be used ({type(reason).__name__}: {reason}): it is damaged, or no "
        "checkpoint of dcfw; remove it to start again, or give another name"
    )


def _arrays(table: list[Any], data: np.ndarray) -> list[Any]:
    """Return the arrays that the table describes, checking every size against the data."""
    arrays: list[Any] = []
    position = 0
    for name, sizes, order, at, foreign in table:
        sound = isinstance(name, str) and len(name) <= 8 and len(sizes) <= 32 and order in ("C", "F")
        dtype, shape = np.dtype(name if sound else object), tuple(sizes)
        sound = dtype.kind in "biuf" and dtype.itemsize <= 16
        if not (sound and all(type(n) is int and n >= 0 for n in shape)):
            raise ValueError("it describes an array that no state has")
        size = dtype.itemsize * int(np.prod(shape, dtype=object))
        if at != position or at + size > data.size:
            raise ValueError("it describes more data than it holds")
        position += size + (-size % ALIGN)
        values = data[at : at + size].view(dtype).reshape(shape, order=order).copy(order=order)
        arrays.append(Foreign(values) if foreign else values)
    if position != data.size:
        raise ValueError("it holds more data than it describes")
    return arrays


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a checkpoint, without which two runs could overwrite each other's state.

    The operating system locks a separate file and releases it when the process ends.
    """
    lock = path.with_name(path.name + ".lock")
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise type(error)(
                error.errno,
                f"checkpoint {str(path)!r} cannot be written, because its folder cannot ({error.strerror}); "
                "give a path in a folder that exists and is writable",
            ) from None
        try:
            _acquire(descriptor)
        except OSError:
            os.close(descriptor)
            raise BlockingIOError(
                f"checkpoint {str(path)!r} is being written by another run; wait for it, or give this one "
                "another file"
            ) from None
        # The previous owner may have removed the file between the two calls above, which voids the lock.
        if _is_at(lock, descriptor):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps open files; an old lock file is harmless
            lock.unlink()
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _acquire(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
