"""The file of a checkpoint: written at once or not at all, read with suspicion, used by one run at a time.

A file is an ordinary ``.npz`` archive without pickles.  ``history`` (a matrix, one row per outer step, see
:class:`dcfw.result.History`) and ``x`` (the best point so far) can be looked at with ``numpy.load``;
``state`` is a JSON text and ``data`` the bytes of all arrays that it refers to.

A new state is written to a second file, brought to the disk, and then put in the first one's place, which a
file system does at once: whenever the process is killed, there is the old state or the new one.
"""

from __future__ import annotations

import json
import os
import secrets
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dcfw._arrays import Array
from dcfw.checkpoints.tree import Foreign, as_numpy
from dcfw.npy import parsed

FORMAT = "dcfw-checkpoint-1"
ALIGN = 64
LONGEST_TEXT = 8_000_000
"""Bytes of the JSON text: about 50,000 atoms of an active set."""
MOST_DIGITS = 40
"""Of an integer: the state of a bit generator has 128 bits."""


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
    # A new file with an unpredictable name: a link placed there is not followed.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(descriptor, "wb") as out:
            np.savez(  # numbers only; NumPy 1 would take allow_pickle for the name of an array
                out,
                state=np.frombuffer(text, dtype=np.uint8),
                data=np.frombuffer(b"".join(chunks), dtype=np.uint8),
                **readable,  # type: ignore[arg-type]
            )
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):  # report the first error
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Bring a renamed file's new name to the disk, where folders can be asked for that."""
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
    except (MemoryError, PermissionError):  # which say nothing about the file
        raise
    except Exception as error:  # a damaged archive fails in many ways, and all of them mean the same
        raise unusable(path, error) from None
    return header, arrays, found


def _parsed(text: np.ndarray) -> Any:
    """Return what a JSON text says; none of ours is as long, or has numbers with as many digits, as some."""
    if text.size > LONGEST_TEXT:
        raise ValueError(f"its description takes {text.size} bytes")

    def integer(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            raise ValueError(f"it has a number of {len(digits)} digits")
        return int(digits)

    return json.loads(text.tobytes(), parse_int=integer)


def _members(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an archive; its members are stored as they are, so none exceeds the file."""
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
    """Return the arrays that the table describes; every size is checked against the data."""
    arrays: list[Any] = []
    position = 0
    for name, sizes, order, at, foreign in table:
        if not isinstance(name, str) or len(name) > 8 or len(sizes) > 32:
            raise ValueError("it describes an array that no state has")
        dtype, shape = np.dtype(name), tuple(sizes)
        sound = dtype.kind in "biuf" and dtype.itemsize <= 16 and order in ("C", "F")
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
    """Hold the lock of a checkpoint: two runs on one file would overwrite each other's state.

    The lock is the operating system's on a file of its own, and goes with the process however it ends.
    """
    lock = path.with_name(path.name + ".lock")
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise type(error)(
                error.errno,
                f"checkpoint {str(path)!r} cannot be written, because its folder cannot "
                f"({error.strerror}); give a path in a folder that exists and may be written to",
            ) from None
        try:
            _acquire(descriptor)
        except OSError:
            os.close(descriptor)
            raise BlockingIOError(
                f"checkpoint {str(path)!r} is being written by another run; wait for it, or give this one "
                "another file"
            ) from None
        # The run that had it may have removed the file between the two calls above: then the lock is void.
        if _is_at(lock, descriptor):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps a file that is open; an old lock file does no harm
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
