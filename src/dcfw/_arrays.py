"""The few array operations that the solvers need, for every backend.

A solve looks its array namespace up once (:func:`namespace`) and then works with plain operators
(`+ - *` and the functions of the array API standard).  What the standard spells differently from
NumPy, or where NumPy has something much faster, stands here and nowhere else.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any
"""An array of any backend that follows the array API standard."""

_NAMESPACES: dict[tuple[type, ...], Any] = {}
_EPS: dict[Any, float] = {}
_SAFE_SQUARE: dict[Any, float] = {}


def namespace(*arrays: Array) -> Any:
    """Return the array API namespace of ``arrays`` (plain ``numpy`` for NumPy arrays)."""
    if all(isinstance(a, np.ndarray | np.generic | float | int) for a in arrays):
        return np
    kinds = tuple(map(type, arrays))
    if kinds not in _NAMESPACES:  # remembered: looking one up costs more than a step of a small solve
        import array_api_compat

        _NAMESPACES[kinds] = array_api_compat.array_namespace(*arrays)
    return _NAMESPACES[kinds]


def is_numpy(x: Array) -> bool:
    """Return whether ``x`` is a NumPy array, for which in-place and compact fast paths exist."""
    return isinstance(x, np.ndarray)


def inner(a: Array, b: Array) -> float:
    """Return the inner product of two arrays of the same shape as a Python float."""
    if isinstance(a, np.ndarray):
        return float(a.dot(b)) if a.ndim == 1 else float(np.vdot(a, b))
    xp = namespace(a)
    return float(xp.sum(a * b))


def norm2(a: Array) -> float:
    """Return the squared Euclidean (Frobenius) norm of ``a``."""
    return inner(a, a)


def norm(a: Array) -> float:
    """Return the Euclidean (Frobenius) norm of ``a``, safe against overflow and underflow in the squares."""
    with np.errstate(over="ignore"):  # what overflows is computed again
        square = norm2(a)
    if math.isfinite(square) and square > _safe_square(a):
        return math.sqrt(square)
    xp = namespace(a)
    largest = float(xp.max(xp.abs(a))) if math.prod(a.shape) else 0.0
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(norm2(a / largest))


def _safe_square(a: Array) -> float:
    """Return the sum of squares below which digits are lost to underflow (1e-31 in single precision)."""
    key = (type(a), a.dtype)
    if key not in _SAFE_SQUARE:
        _SAFE_SQUARE[key] = float(namespace(a).finfo(a.dtype).smallest_normal) / eps_of(a)
    return _SAFE_SQUARE[key]


def to_numpy(a: Array) -> np.ndarray:
    """Return ``a`` as a NumPy array (for oracles that only exist there, such as a LAP solver)."""
    if isinstance(a, np.ndarray):
        return a
    if hasattr(a, "detach"):  # torch, on any device
        a = a.detach().cpu()
        if str(a.dtype) == "torch.bfloat16":  # which NumPy does not have
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
    result = xp.asarray(values)
    result = xp.astype(result, template.dtype)
    return array_api_compat.to_device(result, array_api_compat.device(template))


def eps_of(x: Array) -> float:
    """Return the machine epsilon of ``x``'s dtype."""
    key = (type(x), x.dtype)  # with the type: dtypes of different libraries must not be compared
    if key not in _EPS:
        _EPS[key] = float(namespace(x).finfo(x.dtype).eps)
    return _EPS[key]


def copy_of(array: Array) -> Array:
    """Return a copy of an array of any backend; other objects are returned as they are."""
    if isinstance(array, np.ndarray):
        return array.copy(order="K")
    if hasattr(array, "__array_namespace__") or hasattr(array, "detach"):
        return namespace(array).asarray(array, copy=True)
    return array
