"""Array operations for every backend.

Solvers use operators and functions of the array API standard (:func:`namespace`).  This module contains the
operations that the standard names differently from NumPy, or for which NumPy is much faster.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any  # an array of any backend that follows the array API standard
_NAMESPACES: dict[tuple[type, ...], Any] = {}
_EPS: dict[Any, float] = {}
_SAFE_SQUARE: dict[Any, float] = {}


def namespace(*arrays: Array) -> Any:
    """Return the array API namespace of ``arrays`` (plain ``numpy`` for NumPy arrays)."""
    if all(isinstance(a, np.ndarray | np.generic | float | int) for a in arrays):
        return np
    kinds = tuple(map(type, arrays))
    if kinds not in _NAMESPACES:  # a lookup takes longer than a step of a small solve
        import array_api_compat

        _NAMESPACES[kinds] = array_api_compat.array_namespace(*arrays)
    return _NAMESPACES[kinds]


def is_numpy(x: Array) -> bool:
    return isinstance(x, np.ndarray)


def inner(a: Array, b: Array) -> float:
    """Return the inner product of two arrays of the same shape as a Python float."""
    if isinstance(a, np.ndarray):
        return float(a.dot(b)) if a.ndim == 1 else float(np.vdot(a, b))
    xp = namespace(a)
    return float(xp.sum(a * b))


def norm2(a: Array) -> float:
    return inner(a, a)


def norm(a: Array) -> float:
    """Return the Euclidean (Frobenius) norm of ``a``, safe against overflow and underflow in the squares."""
    with np.errstate(over="ignore"):
        square = norm2(a)
    if math.isfinite(square) and square > _safe_square(a):
        return math.sqrt(square)
    xp = namespace(a)
    largest = float(xp.max(xp.abs(a))) if math.prod(a.shape) else 0.0
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(norm2(a / largest))


def _safe_square(a: Array) -> float:
    """Return the sum of squares below which underflow loses digits (1e-31 in single precision)."""
    key = (type(a), a.dtype)
    if key not in _SAFE_SQUARE:
        _SAFE_SQUARE[key] = float(namespace(a).finfo(a.dtype).smallest_normal) / eps_of(a)
    return _SAFE_SQUARE[key]


def to_numpy(a: Array) -> np.ndarray:
    """Return ``a`` as a NumPy array."""
    if isinstance(a, np.ndarray):
        return a
    if hasattr(a, "detach"):  # torch, on any device
        a = a.detach().cpu()
        if str(a.dtype) == "torch.bfloat16":  # unknown to NumPy
            a = a.float()
    try:
        return np.asarray(a)
    except (TypeError, ValueError):
        return np.from_dlpack(a)


def like(values: np.ndarray, template: Array) -> Array:
    """Return the NumPy array ``values`` with the backend, dtype and device of ``template``."""
    if isinstance(template, np.ndarray):
        return values.astype(template.dtype, copy=False)
    import array_api_compat

    xp = namespace(template)
    result = xp.astype(xp.asarray(values), template.dtype)
    return array_api_compat.to_device(result, array_api_compat.device(template))


def eps_of(x: Array) -> float:
    """Return the machine epsilon of ``x``'s dtype."""
    key = (type(x), x.dtype)  # dtypes of different libraries must not be compared
    if key not in _EPS:
        _EPS[key] = float(namespace(x).finfo(x.dtype).eps)
    return _EPS[key]


def copy_of(array: Array) -> Array:
    """Return a copy of an array of any backend; return other objects unchanged."""
    if isinstance(array, np.ndarray):
        return array.copy(order="K")
    if hasattr(array, "__array_namespace__") or hasattr(array, "detach"):
        return namespace(array).asarray(array, copy=True)
    return array
