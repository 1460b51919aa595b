"""The schema of saved states: names, kinds, shapes and ranges, checked before anything is restored.

A checkpoint is input like any other.  Its state is a tree of numbers, arrays and a few kinds of objects;
every entry has a name, and :data:`RULES` says what may stand under each name.  A name that is not listed is
refused, and so is a value that no run could have written: a negative counter, a weight below zero, an index
outside of the array, an entry that is not finite where the solver's are.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw._arrays import Array, namespace
from dcfw.functions.base import Linearisation
from dcfw.functions.quadratic import SquaredNorm
from dcfw.result import History, Result
from dcfw.sets import atoms

MOST = 2**53
"""Counters are whole numbers that a float can hold."""
FIELDS = frozenset(Result._defaults)
"""The fields that a solver may add to the result."""
TEXTS = frozenset(name for name, kind in inspect.get_annotations(Result).items() if "str" in kind)
LISTS = frozenset(name for name, kind in inspect.get_annotations(Result).items() if "list" in kind)
COUNTS = "n_lmo_blocks"
LONGEST = 10_000
"""Characters of a text in a state."""
Rule = Callable[["Schema", Any], None]


class Schema:
    """The rules for the state of one run over ``domain``, whose points look like ``x0``."""

    def __init__(self, x0: Array, domain: Any) -> None:
        self.size = math.prod(x0.shape)
        self.shape = tuple(x0.shape)
        blocks = [tuple(block.shape) for block in getattr(domain, "sets", ())]
        self.shapes, self.blocks = {self.shape, *blocks}, len(blocks)
        """Those of points and gradients, of the whole or of a block."""
        self.kind = type(x0)
        self.dtype = x0.dtype

    def check(self, state: Any, rows: Any) -> None:
        """Raise ValueError unless a run could have written ``state`` and the ``rows`` of its history."""
        self._walk("state", state)
        _check_rows(rows)

    def _walk(self, name: str, value: Any) -> None:
        rule = RULES.get("inner loop" if name.startswith("inner loop of block") else name)
        if rule is None:
            raise ValueError(f"it has an entry {name[:40]!r}, which no state has")
        try:
            rule(self, value)
        except _Wrong as wrong:
            raise ValueError(f"its entry {name!r} {wrong}") from None

    def entries(self, value: dict[str, Any]) -> None:
        for name, item in value.items():
            self._walk(name, item)

    def point(self, value: Any) -> None:
        """Check a point or a gradient, of the whole or of a block."""
        self.array(value, self.size)
        if tuple(value.shape) not in self.shapes:
            raise _Wrong(f"has shape {tuple(value.shape)}")

    def array(self, value: Any, largest: int, *, kinds: str = "f", finite: bool = True) -> None:
        """Check an array of numbers, and that it has no more entries than allowed."""
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            raise _Wrong(f"is a {type(value).__name__}, not an array")
        if math.prod(value.shape) > largest:
            raise _Wrong(f"has shape {tuple(value.shape)}, too large for this run")
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in kinds:
                raise _Wrong(f"is an array of {value.dtype}")
            if finite and not np.isfinite(value).all():
                raise _Wrong("has entries that are not finite")
        elif finite and not bool(namespace(value).all(namespace(value).isfinite(value))):
            raise _Wrong("has entries that are not finite")


class _Wrong(Exception):
    """Completes a sentence about an entry."""


def _counter(_: Schema, value: Any) -> None:
    if type(value) is not int or not 0 <= value <= MOST:
        raise _Wrong(f"is {value!r:.40}, not a count")


def _number(low: float = -math.inf, high: float = math.inf, *, nan: bool = False, none: bool = False) -> Rule:
    """Return the rule of a float between bounds; NaN and None only where they are named."""

    def rule(_: Schema, value: Any) -> None:
        if value is None and none:
            return
        if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
            raise _Wrong(f"is {value!r:.40}, not a number")
        if not (low <= value <= high or (nan and math.isnan(value))):
            raise _Wrong(f"is {value!r:.40}, outside of [{low:g}, {high:g}]")

    return rule


def _flag(_: Schema, value: Any) -> None:
    if type(value) is not bool:
        raise _Wrong(f"is {value!r:.40}, not true or false")


def _text(_: Schema, value: Any) -> None:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise _Wrong("is not a text, or a very long one")


def _dictionary(schema: Schema, value: Any) -> None:
    if type(value) is not dict:
        raise _Wrong(f"is a {type(value).__name__}, not a dictionary")
    schema.entries(value)


def _parts(schema: Schema, value: Any) -> None:
    """The parts of a run, or a list of what those of blocks have reached."""
    (_any if isinstance(value, list) else _dictionary)(schema, value)


def _point(schema: Schema, value: Any) -> None:
    """A point, a gradient, or one of a block of x."""
    if value is not None:
        schema.point(value)


def _any(schema: Schema, value: Any) -> None:
    """A value of a solver's own state: numbers, points, and objects made of them."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for item in value:
            _any(schema, item)
    elif isinstance(value, Linearisation):
        _number()(schema, value.value)
        if not isinstance(value.slope, float):  # of an estimate that has not begun
            _point(schema, value.slope)
        _flag(schema, value.unique)
    elif hasattr(value, "_fields"):
        schema.entries(value._asdict())
    elif isinstance(value, SquaredNorm):
        _number(0.0, 1e300)(schema, value.scale)
    elif isinstance(value, ATOMS):
        _atom(schema, value, schema.size)
    elif type(value) is int:
        if not -1 <= value <= MOST:
            raise _Wrong(f"has a {value!r:.40}")
    elif type(value) is str:
        _text(schema, value)
    elif value is not None and not isinstance(value, float | bool | np.floating):
        schema.point(value)


def _linearised(schema: Schema, value: Any) -> None:
    """The last linearisation of g, if there was one."""
    if value is not None and not isinstance(value, Linearisation):
        raise _Wrong(f"is a {type(value).__name__}, not a linearisation")
    _any(schema, value)


def _remembered(schema: Schema, value: Any) -> None:
    """The memory of an oracle, a rule or a loop, a user's own included; `set_state` checks the rest."""
    if isinstance(value, list | tuple):
        for item in value:
            _remembered(schema, item)
    elif type(value) is dict:
        for item in value.values():
            _remembered(schema, item)
    elif type(value) is str:
        _text(schema, value)
    elif value is not None and not isinstance(value, bool | int | float | np.generic):
        schema.array(value, max(16 * schema.size, 1024), kinds="biuf")


def _step(schema: Schema, value: Any) -> None:
    """A step rule: the constant that backtracking has found, or a user's own state."""
    if isinstance(value, float):
        _number(0.0, 1e300)(schema, value)
    else:
        _remembered(schema, value)


def _loop(schema: Schema, value: Any) -> None:
    """An inner loop: one of ours, with an active set, or a user's own."""
    if type(value) is dict and "active" in value:
        schema.entries(value)
    else:
        _remembered(schema, value)


def _generator(_: Schema, value: Any) -> None:
    """The state of a bit generator, which NumPy checks itself."""
    if type(value) is not dict or len(value) > 10:
        raise _Wrong("is not the state of a random generator")


def _known(_: Schema, value: Any) -> None:
    """An object of the resuming run, looked up by name."""


def _active(schema: Schema, value: Any) -> None:
    """The atoms of an active set, their weights, images and products, which must fit together."""
    if value is None:
        return
    if type(value) is not dict or not value.keys() >= ACTIVE:
        raise _Wrong(
            f"lacks {', '.join(sorted(ACTIVE - set(value)))}" if type(value) is dict else "is no set"
        )
    unknown = value.keys() - ACTIVE
    if unknown:
        raise _Wrong(f"has {sorted(unknown)[0][:40]!r}, which no active set has")
    zero, count = value["zero"], len(value["atoms"])
    schema.point(zero)
    for item in (value["atoms"], value["findable"], value["images"]):
        if type(item) is not list:
            raise _Wrong("has something that is not a list")
    _weights(schema, value, count)
    if len(value["findable"]) != count or not all(type(flag) is bool for flag in value["findable"]):
        raise _Wrong("has flags that do not fit its atoms")
    _products(schema, value, count)
    for atom in value["atoms"]:
        if not isinstance(atom, ATOMS):
            raise _Wrong(f"has a {type(atom).__name__} among its atoms")
        _atom(schema, atom, math.prod(zero.shape))
        if tuple(_shape(atom)) != tuple(zero.shape):
            raise _Wrong(f"has an atom of shape {tuple(_shape(atom))}")
    _counter(schema, value["cap"])
    _counter(schema, value["room"])
    # Rounding errors of the products, which are never as large as the products themselves.
    largest = 0.0 if value["M"] is None else float(np.abs(value["M"]).max())
    _number(0.0, largest if value["M"] is not None else 1e300)(schema, value["noise"])


def _products(schema: Schema, value: dict[str, Any], count: int) -> None:
    """Check the gradients at the atoms and their products, which are there together or not at all."""
    images = value["images"]
    if value["M"] is None and images:
        raise _Wrong("has images without their products")
    if value["M"] is not None:
        if value["twists"].shape != (count,):
            raise _Wrong("has products without all that belongs to them")
        schema.array(value["M"], count * count)
        if value["M"].shape != (count, count) or len(images) != count:
            raise _Wrong("has products or images that do not fit its atoms")
    for image in images:
        schema.array(image, schema.size)
        if image.shape != images[0].shape or not (image.ndim == 1 or image.shape == value["zero"].shape):
            raise _Wrong(f"has an image of shape {tuple(image.shape)}")


def _weights(schema: Schema, value: dict[str, Any], count: int) -> None:
    for vector in (value["weights"], value["twists"]):
        schema.array(vector, count)
        if vector.shape != (count,) and not (vector is value["twists"] and vector.shape == (0,)):
            raise _Wrong(f"has {count} atoms and a vector of shape {vector.shape}")
    weights = np.asarray(value["weights"])
    if count == 0 or float(weights.min()) < 0.0 or abs(float(weights.sum()) - 1.0) > 1e-3:
        raise _Wrong("has weights that do not make up a point")


def _atom(schema: Schema, atom: Any, size: int) -> None:
    """Check that a compact vertex stays within its array, whatever a kernel does with it."""
    if hasattr(atom, "dtype") and (
        not isinstance(atom.dtype, np.dtype | type) or np.dtype(atom.dtype) != schema.dtype
    ):
        raise _Wrong(f"has a vertex of {atom.dtype!r:.40}")
    shape = getattr(atom, "shape", ())
    if not all(type(n) is int and n >= 0 for n in shape) or math.prod(shape) > size:
        raise _Wrong(f"has a vertex of shape {shape!r:.40}")
    if isinstance(atom, atoms.Dense):
        schema.array(atom.array, size)
    elif isinstance(atom, atoms.OneHot):
        if type(atom.index) is not int or not 0 <= atom.index < math.prod(atom.shape) <= size:
            raise _Wrong(f"has the index {atom.index!r:.40}")
        _number(-1e300, 1e300)(schema, atom.value)
    elif isinstance(atom, atoms.Entries):
        schema.array(atom.values, size)
        _indices(schema, atom.indices, min(size, math.prod(atom.shape)))
        if atom.values.shape != atom.indices.shape or atom.values.ndim != 1:
            raise _Wrong("has indices that do not fit their values")
    elif isinstance(atom, atoms.Signs):
        schema.array(atom.signs, size, kinds="i")
        if not (np.abs(atom.signs) == 1).all():
            raise _Wrong("has signs other than -1 and 1")
        _number(0.0, 1e300)(schema, atom.radius)
    elif isinstance(atom, atoms.Permutation):
        n = len(atom.columns)
        for which in (atom.columns, atom.rows):
            _indices(schema, which, n)
            if which.shape != (n,) or n * n > size or len(np.unique(which)) != n:
                raise _Wrong("has partners that are no permutation")
    else:
        _rank_one(schema, atom, size)


def _rank_one(schema: Schema, atom: atoms.RankOne, size: int) -> None:
    for vector in (atom.u, atom.v):
        schema.array(vector, size)
        if vector.ndim != 1:
            raise _Wrong("has factors that are no vectors")
    if len(atom.u) * len(atom.v) > size:
        raise _Wrong("has factors that are too long")
    _number(-1e300, 1e300)(schema, atom.scale)


def _indices(schema: Schema, value: Any, size: int) -> None:
    schema.array(value, size, kinds="iu")
    if value.size and not 0 <= int(value.min()) <= int(value.max()) < size:
        raise _Wrong("has indices outside of its array")


def _shape(atom: Any) -> tuple[int, ...]:
    if isinstance(atom, atoms.RankOne):
        return len(atom.u), len(atom.v)
    shape = {atoms.Dense: "array", atoms.Signs: "signs"}.get(type(atom))
    return tuple(getattr(atom, shape).shape if shape else atom.shape)


def _best(schema: Schema, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, tuple) or len(value) != 3:
        raise _Wrong("is no value, point and gap")
    _number()(schema, value[0])
    _point(schema, value[1])
    if tuple(value[1].shape) != schema.shape or value[1].dtype != schema.dtype:
        raise _Wrong(f"is a point of shape {tuple(value[1].shape)} and {value[1].dtype}")
    _number(0.0, nan=True)(schema, value[2])


def _interval(schema: Schema, value: Any) -> None:
    if not isinstance(value, tuple) or len(value) != 2:
        raise _Wrong("is no interval")
    _number(0.0)(schema, value[0])
    _number(float(value[0]))(schema, value[1])


def _strides(schema: Schema, value: Any) -> None:
    if not isinstance(value, list) or len(value) != 2:
        raise _Wrong("is not a stride and a count")
    for item in value:
        _counter(schema, item)
    if value[0] < 1:
        raise _Wrong(f"has the stride {value[0]}")


def _extra(schema: Schema, value: Any) -> None:
    """The fields that a solver adds to the result: numbers, texts and lists of numbers."""
    if type(value) is not dict or not value.keys() <= FIELDS:
        raise _Wrong("has something that is no field of a result")
    for field, item in value.items():
        if field in TEXTS:
            _text(schema, item)
        elif field in LISTS:
            if type(item) is not list or (field == COUNTS and len(item) != schema.blocks):
                raise _Wrong(f"has a {field!r} that is no list, or too short a one")
            for number in item:
                (_counter if field == COUNTS else _number())(schema, number)
        else:
            _number(nan=True, none=True)(schema, item)


def alike(fresh: Any, saved: Any) -> bool:
    """Return whether a solver's ``saved`` state is made like the one that it begins with.

    What is None at the beginning may be a number or an array later, and a number None; lists grow.
    """
    if fresh is None:
        return not isinstance(saved, tuple | list | dict | str)
    if saved is None:
        return isinstance(fresh, int | float) and not isinstance(fresh, bool)
    if isinstance(fresh, tuple):
        if type(saved) is not type(fresh) or len(saved) != len(fresh):
            return False
        # The entries of a record have rules of their own.
        pairs = [(a, b) for a, b in zip(fresh, saved, strict=True) if a is not None or type(fresh) is tuple]
        return all(alike(*pair) for pair in pairs)
    if hasattr(fresh, "shape"):
        return hasattr(saved, "shape") and saved.shape == fresh.shape and saved.dtype == fresh.dtype
    if isinstance(fresh, bool | list | dict | str):
        return type(saved) is type(fresh)
    if isinstance(fresh, int | float):
        return isinstance(saved, int | float) and not isinstance(saved, bool)
    return type(saved) is type(fresh)


def _check_rows(rows: Any) -> None:
    columns = History.columns
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.shape[1] != len(columns):
        raise ValueError(f"its history is not a matrix with {len(columns)} columns")
    if rows.dtype.kind != "f":
        raise ValueError(f"its history is an array of {rows.dtype}")
    for name, column in zip(columns, rows.T, strict=True):
        if name[0] == "n" and not ((column >= 0) & (column <= MOST)).all():
            raise ValueError(f"the column {name!r} of its history has entries that are no counts")
        if name in ("gap", "dc_low", "dc_high", "eps", "time") and (column < 0.0).any():
            raise ValueError(f"the column {name!r} of its history has negative entries")


ATOMS = (atoms.Dense, atoms.OneHot, atoms.Entries, atoms.Signs, atoms.Permutation, atoms.RankOne)
ACTIVE = {
    *("atoms", "weights", "zero", "findable", "cap", "room", "f", "images", "M", "twists", "noise"),
}
COUNTERS = (
    *("nit", "n_inner", "n_lmo", "n_fun", "n_grad_f", "n_grad_g", "n_resync", "n_check", "since_resync"),
    *("dc_gap_nit", "n_samples", "n_estimates", "confirmed_at", "t", "k"),
)
RULES: dict[str, Rule] = {
    **dict.fromkeys(COUNTERS, _counter),
    **dict.fromkeys(("state", "run", "ledger", "blocks"), _dictionary),
    **dict.fromkeys(("loop", "sampled", "estimator"), _dictionary),
    **dict.fromkeys(("inner", "inner loop"), _loop),
    **dict.fromkeys(("oracle", "tolerance"), _remembered),
    **dict.fromkeys(("x", "grad", "current", "last", "v"), _point),
    **dict.fromkeys(("measured", "certified", "exact", "vertices_only"), _flag),
    **dict.fromkeys(("solver", "start", "x_t", "z", "answers", "known", "stuck", "u", "memory"), _any),
    **dict.fromkeys(("rng", "perturbations"), _generator),
    **dict.fromkeys(("eps", "target", "gap"), _number(0.0)),
    "bound": _number(),  # steps that ascend on a nonconvex phi take it below zero
    **dict.fromkeys(("value", "gained"), _number(none=True)),
    **dict.fromkeys(("scale", "rounding"), _number(0.0, none=True)),
    "_linearised": _linearised,
    "parts": _parts,
    "step": _step,
    "lmo_error": _number(0.0, 1e300),
    "seconds": _number(0.0, 1e10),
    "active": _active,
    "rule": _known,
    "best": _best,
    "dc_gap": _interval,
    "history": _strides,
    "extra": _extra,
}
"""The rule for each name."""
