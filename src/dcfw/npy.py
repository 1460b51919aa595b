"""Read one array from an untrusted ``.npy`` file.

``numpy.load`` trusts the header: a damaged one raises various errors or warnings, and allocates the memory
that it claims.  Here every such error is a ValueError, and the array is mapped after a check of the file
size.
"""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.lib import format as npy_format

BEGINNING = 10_000  # the maximum size of a header in bytes
READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


def mapped(path: Path) -> np.ndarray:
    """Return the array of numbers in a ``.npy`` file, mapped and read-only; a ValueError names the file."""
    with path.open("rb") as file:
        dtype, shape, order, offset = _layout(str(path), file.read(BEGINNING), path.stat().st_size)
    if math.prod(shape) == 0:  # an empty array cannot be mapped
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)


def parsed(content: bytes, name: str) -> np.ndarray:
    """Return the array in the bytes of a ``.npy`` file, read-only; ``name`` is for messages."""
    dtype, shape, order, offset = _layout(name, content[:BEGINNING], len(content))
    return np.frombuffer(content, dtype=dtype, offset=offset).reshape(shape, order=order)


def _layout(name: str, start: bytes, size: int) -> tuple[np.dtype, tuple[int, ...], Literal["C", "F"], int]:
    """Return dtype, shape, order and offset of the numbers, checked against the file size."""
    refused, file = f"{name} is not a whole .npy file with numbers", io.BytesIO(start)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            shape, fortran, dtype = READERS[npy_format.read_magic(file)](file, max_header_size=BEGINNING)
    except Exception as error:  # a damaged header fails in many ways
        raise ValueError(f"{refused}: its header cannot be read ({type(error).__name__})") from None
    if dtype.kind not in "biuf" or len(shape) > 32 or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{refused}: it describes an array of type {str(dtype)[:80]}, shape {shape[:33]}")
    if math.prod(filter(None, shape)) * dtype.itemsize >= 2**63:  # even with a zero in the shape
        raise ValueError(f"{refused}: its shape is {shape}")
    offset, bytes_needed = file.tell(), math.prod(shape) * dtype.itemsize
    if offset + bytes_needed != size:
        raise ValueError(
            f"{refused}: an array of shape {shape} and type {dtype} takes {bytes_needed} bytes, and there "
            f"are {max(size - offset, 0)}"
        )
    return dtype, shape, "F" if fortran else "C", offset
