"""A state as plain data: JSON and a list of arrays, without pickles.

:class:`Capture` walks a state (numbers, containers, arrays, and the objects listed in ``KINDS``) and notes
arrays by reference, so that a capture costs microseconds and writing can wait; a ``get_state`` therefore
copies arrays that are changed in place.  Shared arrays and objects are noted once, and :func:`rebuild` shares
them again, since the solvers compare identities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw._arrays import Array, is_numpy, namespace, to_numpy
from dcfw.functions.base import Linearisation
from dcfw.functions.quadratic import SquaredNorm
from dcfw.sets import atoms
from dcfw.solvers.dcfw import Iterate

ATOMS = (atoms.Dense, atoms.OneHot, atoms.Entries, atoms.Signs, atoms.Permutation, atoms.RankOne)
KINDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "Iterate": (Iterate, Iterate._fields),
    "Linearisation": (Linearisation, Linearisation._fields),
    "SquaredNorm": (SquaredNorm, ("scale",)),
    **{kind.__name__: (kind, tuple(name for name in kind.__slots__ if name[0] != "_")) for kind in ATOMS},
}  # the objects that may be part of a state, with the names of their fields
_NAMES = {kind: name for name, (kind, _) in KINDS.items()}


class Unsupported(TypeError):
    """A state holds something that cannot be saved exactly."""


class Capture:
    """A captured state; objects in ``known``, which the resuming run also has, are noted by name.

    >>> x = np.zeros(2)
    >>> capture = Capture({"x": x, "best": (1.0, x)}, {})
    >>> capture.text
    {'dict': {'x': {'array': 0}, 'best': {'tuple': [1.0, {'array': 0}]}}}
    >>> again = rebuild(capture.text, capture.arrays, {}, x)
    >>> again["x"] is again["best"][1]
    True
    """

    def __init__(self, state: Any, known: dict[str, Any]) -> None:
        self.arrays: list[Array] = []
        self._known = {id(value): name for name, value in known.items()}
        self._seen: dict[int, int] = {}
        self._objects: dict[int, int] = {}
        self._alive: list[Any] = []  # an id is valid only while its object lives
        self.text = self._note(state)

    def _note(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if id(value) in self._known:
            return {"known": self._known[id(value)]}
        kind = type(value)
        if kind is int or kind is float:
            return value
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value))}
        if kind is list:
            return [self._note(item) for item in value]
        if kind is tuple:
            return {"tuple": [self._note(item) for item in value]}
        if kind is dict:
            if not all(isinstance(key, str) for key in value):
                raise Unsupported(f"a dictionary with keys that are not strings: {list(value)[:3]}")
            return {"dict": {key: self._note(item) for key, item in value.items()}}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"dtype": np.dtype(value).str}
        if kind in _NAMES:
            return self._object(value, _NAMES[kind])
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return {"array": self._array(value)}
        raise Unsupported(f"an object of type {kind.__module__}.{kind.__qualname__}")

    def _object(self, value: Any, name: str) -> Any:
        if id(value) in self._objects:
            return {"same": self._objects[id(value)]}
        number = self._objects[id(value)] = len(self._objects)
        self._alive.append(value)
        fields = {field: self._note(getattr(value, field)) for field in KINDS[name][1]}
        return {"object": name, "number": number, "fields": fields}

    def _array(self, value: Array) -> int:
        if id(value) not in self._seen:
            self._seen[id(value)] = len(self.arrays)
            self.arrays.append(value)
        return self._seen[id(value)]


def rebuild(text: Any, arrays: list[Array], known: dict[str, Any], template: Array) -> Any:
    """Return the captured state; arrays of another library are made like ``template``.

    ``arrays`` are those of the capture or NumPy arrays from a file, where :class:`Foreign` marks those of
    another library.
    """
    objects: dict[int, Any] = {}
    arrays = [_transfer(a.values, template) if isinstance(a, Foreign) else a for a in arrays]

    def make(node: Any) -> Any:
        if isinstance(node, list):
            return [make(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "array" in node:
            return arrays[node["array"]]
        if "scalar" in node:
            return arrays[node["scalar"]][()]
        if "tuple" in node:
            return tuple(make(item) for item in node["tuple"])
        if "dict" in node:
            return {key: make(item) for key, item in node["dict"].items()}
        if "dtype" in node:
            return np.dtype(node["dtype"])
        if "known" in node:
            return known[node["known"]]
        if "same" in node:
            return objects[node["same"]]
        kind, names = KINDS[node["object"]]
        objects[node["number"]] = value = kind(**{name: make(node["fields"][name]) for name in names})
        return value

    return make(text)


class Foreign:
    """The NumPy values, read from a file, of an array of another library."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values


def _transfer(values: np.ndarray, template: Array) -> Array:
    """Return an array of the template's library, on its device, with the dtype and layout of values."""
    if is_numpy(template):
        raise ValueError("it has arrays of another library than NumPy")
    import array_api_compat

    xp = namespace(template)
    return array_api_compat.to_device(xp.asarray(values), array_api_compat.device(template))


def as_numpy(value: Array) -> tuple[np.ndarray, bool]:
    """Return the values of an array, and whether it belongs to another library."""
    if is_numpy(value):
        return value, False
    try:
        return to_numpy(value), True
    except Exception as error:
        raise Unsupported(f"an array of dtype {value.dtype}, which NumPy does not know ({error})") from None
