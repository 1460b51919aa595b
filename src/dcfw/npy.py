"""Reading one array from a ``.npy`` file that may be anybody's.

``numpy.load`` is for files of one's own: a damaged header makes it raise whatever Python's parser raises, or
warn, and it allocates what the header claims.  Here the header is matched against what a header looks like,
its sizes are compared with the size of the file, and the array is mapped, so that nothing is allocated.

Examples
--------
>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     file = Path(folder, "small.npy")
...     np.save(file, np.eye(2))
...     print(np.array(mapped(file)))
[[1. 0.]
 [0. 1.]]
"""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path

import numpy as np

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000
_DESCR = r"'descr'\s*:\s*'([<>|=]?[biuf]\d{1,2})'"
_ORDER = r"'fortran_order'\s*:\s*(True|False)"
_SHAPE = r"'shape'\s*:\s*\(\s*((?:\d{1,18}\s*,\s*)*(?:\d{1,18})?)\s*\)"
_ENTRY = f"(?:{_DESCR}|{_ORDER}|{_SHAPE})"
_HEADER = re.compile(rf"\{{\s*{_ENTRY}\s*,\s*{_ENTRY}\s*,\s*{_ENTRY}\s*,?\s*\}}\s*")


def mapped(path: Path) -> np.ndarray:
    """Return the array of numbers in a ``.npy`` file, mapped and read-only.

    Raises
    ------
    ValueError
        When the file is not a whole ``.npy`` file with an array of numbers; the message names it.
    """
    with path.open("rb") as file:
        beginning = file.read(12 + _LONGEST_HEADER)
    dtype, shape, order, offset = _layout(str(path), beginning, path.stat().st_size)
    if math.prod(shape) == 0:  # there is nothing to map
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)  # type: ignore[call-overload,no-any-return]


def parsed(content: bytes, name: str) -> np.ndarray:
    """Return the array in the bytes of a ``.npy`` file, read-only; ``name`` is for messages."""
    dtype, shape, order, offset = _layout(name, content[: 12 + _LONGEST_HEADER], len(content))
    flat = np.frombuffer(content, dtype=dtype, offset=offset)
    return flat.reshape(shape, order=order)  # type: ignore[call-overload,no-any-return]


def _layout(name: str, beginning: bytes, size: int) -> tuple[np.dtype, tuple[int, ...], str, int]:
    """Return type, shape, order and place of the numbers, after comparing them with the size of it all."""
    if len(beginning) < 12 or not beginning.startswith(_MAGIC) or beginning[6] not in (1, 2, 3):
        raise ValueError(f"{name} is not a whole .npy file with numbers: it does not begin like one")
    before, form = (10, "<H") if beginning[6] == 1 else (12, "<I")
    (length,) = struct.unpack(form, beginning[8:before])
    dtype, shape, order = _described(name, beginning[before : before + length], length)
    count, offset = math.prod(shape), before + length
    if offset + count * dtype.itemsize != size:
        raise ValueError(
            f"{name} is not a whole .npy file with numbers: an array of shape {shape} and type {dtype} takes "
            f"{count * dtype.itemsize} bytes, and there are {max(size - offset, 0)}"
        )
    return dtype, shape, order, offset


def _described(name: str, header: bytes, length: int) -> tuple[np.dtype, tuple[int, ...], str]:
    """Return the type, the shape and the order that a header states."""
    text = header.decode("latin-1")
    found = [re.findall(pattern, text) for pattern in (_DESCR, _ORDER, _SHAPE)]
    whole = len(header) == length <= _LONGEST_HEADER and _HEADER.fullmatch(text)
    if not whole or any(len(matches) != 1 for matches in found):
        raise ValueError(f"{name} is not a whole .npy file with numbers: its header is {text[:80]!r}")
    (descr,), (fortran,), (sizes,) = found
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise ValueError(f"{name} is not a .npy file with numbers: its entries are {descr!r}") from None
    shape = tuple(int(entry) for entry in sizes.split(",") if entry.strip())
    if len(shape) > 32:
        raise ValueError(f"{name} is not a .npy file with numbers: it has {len(shape)} dimensions")
    if math.prod(filter(None, shape)) * dtype.itemsize >= 2**63:  # even if there is a zero among them
        raise ValueError(f"{name} is not a .npy file with numbers: its shape is {shape}")
    return dtype, shape, "F" if fortran == "True" else "C"
