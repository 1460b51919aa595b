"""The schema of saved states: names, kinds, shapes and ranges, checked before anything is restored.

A checkpoint is untrusted input.  Its state is a tree of numbers, arrays and a few kinds of objects; every
entry has a name, and :data:`RULES` defines the values of each name.  Unknown names are refused, and so are
values that no run can write: a negative counter, a weight below zero, an index outside the array, an entry
that is not finite.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw._arrays import Array, namespace
from dcfw.checkpoints.tree import ATOMS
from dcfw.functions.base import Linearisation
from dcfw.functions.quadratic import SquaredNorm
from dcfw.result import History, Result
from dcfw.sets import atoms

MOST = 2**53  # counters are integers that a float can represent
FIELDS = frozenset(Result._defaults)  # the fields that a solver may add to the result
TEXTS = frozenset(name for name, kind in inspect.get_annotations(Result).items() if "str" in kind)
LISTS = frozenset(name for name, kind in inspect.get_annotations(Result).items() if "list" in kind)
COUNTS = "n_lmo_blocks"
LONGEST = 10_000  # characters of a string in a state
Rule = Callable[["Schema", Any], None]


class Schema:
    """The rules for the state of one run over ``domain``, whose points look like ``x0``."""

    def __init__(self, x0: Array, domain: Any) -> None:
        self.size = math.prod(x0.shape)
        self.shape = tuple(x0.shape)
        blocks = [tuple(block.shape) for block in getattr(domain, "sets", ())]
        # The shapes of points and gradients, of the whole or of a block.
        self.shapes, self.blocks = {self.shape, *blocks}, len(blocks)
        self.dtype = x0.dtype

    def check(self, state: Any, rows: Any) -> None:
        """Raise ValueError unless a run could have written ``state`` and the ``rows`` of its history."""
        self._walk("state", state)
        _check_rows(rows)

    def _walk(self, name: str, value: Any) -> None:
        rule = RULES.get(name.partition(" of block ")[0])
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
        _need(tuple(value.shape) in self.shapes, f"has shape {tuple(value.shape)}")

    def array(self, value: Any, largest: int, *, kinds: str = "f") -> None:
        """Check an array of finite numbers and its number of entries."""
        sound = hasattr(value, "shape") and hasattr(value, "dtype")
        _need(sound, f"is a {type(value).__name__}, not an array")
        _need(math.prod(value.shape) <= largest, f"has shape {tuple(value.shape)}, too large for this run")
        if isinstance(value, np.ndarray):
            _need(value.dtype.kind in kinds, f"is an array of {value.dtype}")
        xp = namespace(value)
        _need(bool(xp.all(xp.isfinite(value))), "has entries that are not finite")


class _Wrong(Exception):
    """Completes a sentence about an entry."""


def _need(sound: Any, complaint: str) -> None:
    if not sound:
        raise _Wrong(complaint)


def _counter(_: Schema, value: Any) -> None:
    _need(type(value) is int and 0 <= value <= MOST, f"is {value!r:.40}, not a count")


def _number(low: float = -math.inf, high: float = math.inf, *, nan: bool = False, none: bool = False) -> Rule:
    """Return the rule of a float between bounds; ``nan`` and ``none`` allow NaN and None."""

    def rule(_: Schema, value: Any) -> None:
        if value is None and none:
            return
        sound = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
        _need(sound, f"is {value!r:.40}, not a number")
        if not (low <= value <= high or (nan and math.isnan(value))):
            raise _Wrong(f"is {value!r:.40}, outside of [{low:g}, {high:g}]")

    return rule


_REAL, _SIZE = _number(-1e300, 1e300), _number(0.0, 1e300)


def _flag(_: Schema, value: Any) -> None:
    _need(type(value) is bool, f"is {value!r:.40}, not true or false")


def _text(_: Schema, value: Any) -> None:
    _need(isinstance(value, str) and len(value) <= LONGEST, "is not a string, or a very long one")


def _dictionary(schema: Schema, value: Any) -> None:
    _need(type(value) is dict, f"is a {type(value).__name__}, not a dictionary")
    schema.entries(value)


def _parts(schema: Schema, value: Any) -> None:
    """The parts of a run, or a list of the states of blocks."""
    (_any if isinstance(value, list) else _dictionary)(schema, value)


def _point(schema: Schema, value: Any) -> None:
    if value is not None:
        schema.point(value)


def _any(schema: Schema, value: Any) -> None:
    """A value of a solver's own state: numbers, points, and objects made of them."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for item in value:
            _any(schema, item)
    elif isinstance(value, Linearisation):
        _number()(schema, value.value)
        if not isinstance(value.slope, float):  # of an estimate before its first sample
            _point(schema, value.slope)
        _flag(schema, value.unique)
    elif hasattr(value, "_fields"):
        schema.entries(value._asdict())
    elif isinstance(value, SquaredNorm):
        _SIZE(schema, value.scale)
    elif isinstance(value, ATOMS):
        _atom(schema, value, schema.size)
    elif type(value) is int:
        _need(-1 <= value <= MOST, f"has a {value!r:.40}")
    elif type(value) is str:
        _text(schema, value)
    elif value is not None and not isinstance(value, float | bool | np.floating):
        schema.point(value)


def _linearised(schema: Schema, value: Any) -> None:
    """The last linearisation of g, if any."""
    sound = value is None or isinstance(value, Linearisation)
    _need(sound, f"is a {type(value).__name__}, not a linearisation")
    _any(schema, value)


def _remembered(schema: Schema, value: Any) -> None:
    """The memory of an oracle, a rule or a loop, user-defined ones included; `set_state` checks the rest."""
    if isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _remembered(schema, item)
    elif type(value) is str:
        _text(schema, value)
    elif value is not None and not isinstance(value, bool | int | float | np.generic):
        schema.array(value, max(16 * schema.size, 1024), kinds="biuf")


def _step(schema: Schema, value: Any) -> None:
    """A step rule: the constant that backtracking has found, or a user-defined state."""
    (_SIZE if isinstance(value, float) else _remembered)(schema, value)


def _loop(schema: Schema, value: Any) -> None:
    """An inner loop: one with an active set, second-order steps (which run one), or a user-defined one."""
    if type(value) is dict and ("active" in value or value.keys() >= {"loop", "first"}):
        schema.entries(value)
    else:
        _remembered(schema, value)


def _generator(_: Schema, value: Any) -> None:
    """The state of a bit generator, which NumPy checks itself."""
    _need(type(value) is dict and len(value) <= 10, "is not the state of a random generator")


def _known(_: Schema, value: Any) -> None:
    """An object of the resuming run, looked up by name."""


def _active(schema: Schema, value: Any) -> None:
    """The atoms of an active set, their weights, images and products, which must fit together."""
    if value is None:
        return
    _need(type(value) is dict, "is not a set")
    _need(value.keys() >= ACTIVE, f"lacks {', '.join(sorted(ACTIVE - set(value)))}")
    unknown = sorted(value.keys() - ACTIVE)
    _need(not unknown, f"has {unknown[:1]!r:.40}, which no active set has")
    zero, count = value["zero"], len(value["atoms"])
    schema.point(zero)
    lists = all(type(value[name]) is list for name in ("atoms", "findable", "images"))
    _need(lists, "has something that is not a list")
    _weights(schema, value, count)
    flags = len(value["findable"]) == count and all(type(flag) is bool for flag in value["findable"])
    _need(flags, "has flags that do not fit its atoms")
    _products(schema, value, count)
    for atom in value["atoms"]:
        _need(isinstance(atom, ATOMS), f"has a {type(atom).__name__} among its atoms")
        _atom(schema, atom, math.prod(zero.shape))
        _need(_shape(atom) == tuple(zero.shape), f"has an atom of shape {_shape(atom)}")
    _counter(schema, value["cap"])
    _counter(schema, value["room"])
    # The rounding errors of the products are never as large as the products themselves.
    _number(0.0, 1e300 if value["M"] is None else float(np.abs(value["M"]).max()))(schema, value["noise"])


def _products(schema: Schema, value: dict[str, Any], count: int) -> None:
    """Check the gradients at the atoms and their products, which exist together or not at all."""
    M, images = value["M"], value["images"]
    _need(M is not None or not images, "has images without their products")
    if M is not None:
        _need(value["twists"].shape == (count,), "has products without all that belongs to them")
        schema.array(M, count * count)
        fits = M.shape == (count, count) and len(images) == count
        _need(fits, "has products or images that do not fit its atoms")
    for image in images:
        schema.array(image, schema.size)
        fits = image.shape == images[0].shape and (image.ndim == 1 or image.shape == value["zero"].shape)
        _need(fits, f"has an image of shape {tuple(image.shape)}")


def _weights(schema: Schema, value: dict[str, Any], count: int) -> None:
    weights, twists = value["weights"], value["twists"]
    for vector, shapes in ((weights, {(count,)}), (twists, {(count,), (0,)})):
        schema.array(vector, count)
        _need(vector.shape in shapes, f"has {count} atoms and a vector of shape {vector.shape}")
    sound = count > 0 and float(weights.min()) >= 0.0 and abs(float(weights.sum()) - 1.0) <= 1e-3
    _need(sound, "has weights that are not those of a convex combination")


def _atom(schema: Schema, atom: Any, size: int) -> None:
    """Check that a compact vertex stays within its array in all kernels."""
    if hasattr(atom, "dtype"):
        sound = isinstance(atom.dtype, np.dtype | type) and np.dtype(atom.dtype) == schema.dtype
        _need(sound, f"has a vertex of {atom.dtype!r:.40}")
    shape = getattr(atom, "shape", ())
    sound = all(type(n) is int and n >= 0 for n in shape) and math.prod(shape) <= size
    _need(sound, f"has a vertex of shape {shape!r:.40}")
    if isinstance(atom, atoms.Dense):
        schema.array(atom.array, size)
    elif isinstance(atom, atoms.OneHot):
        sound = type(atom.index) is int and 0 <= atom.index < math.prod(atom.shape)
        _need(sound, f"has the index {atom.index!r:.40}")
        _REAL(schema, atom.value)
    elif isinstance(atom, atoms.Entries):
        schema.array(atom.values, size)
        _indices(schema, atom.indices, min(size, math.prod(atom.shape)))
        fits = atom.values.shape == atom.indices.shape and atom.values.ndim == 1
        _need(fits, "has indices that do not fit their values")
    elif isinstance(atom, atoms.Signs):
        schema.array(atom.signs, size, kinds="i")
        _need((np.abs(atom.signs) == 1).all(), "has signs other than -1 and 1")
        _SIZE(schema, atom.radius)
    elif isinstance(atom, atoms.Permutation):
        n = len(atom.columns)
        for which in (atom.columns, atom.rows):
            _indices(schema, which, n)
            sound = which.shape == (n,) and n * n <= size and len(np.unique(which)) == n
            _need(sound, "has partners that are not a permutation")
    else:
        for vector in (atom.u, atom.v):
            schema.array(vector, size)
            _need(vector.ndim == 1, "has factors that are not vectors")
        _need(len(atom.u) * len(atom.v) <= size, "has factors that are too long")
        _REAL(schema, atom.scale)


def _indices(schema: Schema, value: Any, size: int) -> None:
    schema.array(value, size, kinds="iu")
    inside = not value.size or 0 <= int(value.min()) <= int(value.max()) < size
    _need(inside, "has indices outside of its array")


def _shape(atom: Any) -> tuple[int, ...]:
    if isinstance(atom, atoms.RankOne):
        return len(atom.u), len(atom.v)
    shape = {atoms.Dense: "array", atoms.Signs: "signs"}.get(type(atom))
    return tuple(getattr(atom, shape).shape if shape else atom.shape)


def _best(schema: Schema, value: Any) -> None:
    if value is None:
        return
    _need(isinstance(value, tuple) and len(value) == 3, "is not a value, a point and a gap")
    fun, x, gap = value
    _number()(schema, fun)
    schema.point(x)
    fits = tuple(x.shape) == schema.shape and x.dtype == schema.dtype
    _need(fits, f"is a point of shape {tuple(x.shape)} and {x.dtype}")
    _number(0.0, nan=True)(schema, gap)


def _interval(schema: Schema, value: Any) -> None:
    _need(isinstance(value, tuple) and len(value) == 2, "is not an interval")
    _number(0.0)(schema, value[0])
    _number(float(value[0]))(schema, value[1])


def _strides(schema: Schema, value: Any) -> None:
    _need(isinstance(value, list) and len(value) == 2, "is not a stride and a count")
    _counter(schema, value[0])
    _counter(schema, value[1])
    _need(value[0] >= 1, f"has the stride {value[0]}")


def _extra(schema: Schema, value: Any) -> None:
    """The fields that a solver adds to the result: numbers, strings and lists of numbers."""
    sound = type(value) is dict and value.keys() <= FIELDS
    _need(sound, "has something that is not a field of a result")
    for field, item in value.items():
        if field in TEXTS:
            _text(schema, item)
        elif field in LISTS:
            sound = type(item) is list and (field != COUNTS or len(item) == schema.blocks)
            _need(sound, f"has a {field!r} that is not a list, or too short")
            for number in item:
                (_counter if field == COUNTS else _number())(schema, number)
        else:
            _number(nan=True, none=True)(schema, item)


def alike(fresh: Any, saved: Any) -> bool:
    """Return whether a solver's ``saved`` state has the structure of its initial state ``fresh``.

    An initial None may become a number or an array later, and a number None; lists grow.
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
    if isinstance(fresh, int | float) and not isinstance(fresh, bool):
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
            raise ValueError(f"the column {name!r} of its history has entries that are not counts")
        if name in ("gap", "dc_low", "dc_high", "eps", "time") and (column < 0.0).any():
            raise ValueError(f"the column {name!r} of its history has negative entries")


ACTIVE = set(["atoms", "weights", "zero", "findable", "cap", "room", "f", "images", "M", "twists", "noise"])
COUNTERS = (
    *("nit", "n_inner", "n_lmo", "n_fun", "n_grad_f", "n_grad_g", "n_resync", "n_check", "since_resync"),
    *("dc_gap_nit", "n_samples", "confirmed_at", "t", "k"),
)
RULES: dict[str, Rule] = {
    **dict.fromkeys(COUNTERS, _counter),
    **dict.fromkeys(("state", "run", "blocks", "loop", "sampled", "estimator"), _dictionary),
    **dict.fromkeys(("inner", "inner loop"), _loop),
    **dict.fromkeys(("oracle", "tolerance"), _remembered),
    **dict.fromkeys(("x", "grad", "current", "last", "v"), _point),
    **dict.fromkeys(("measured", "certified", "exact"), _flag),
    **dict.fromkeys(("solver", "start", "x_t", "z", "answers", "stuck", "u", "memory"), _any),
    **dict.fromkeys(("rng", "perturbations"), _generator),
    **dict.fromkeys(("eps", "target", "gap"), _number(0.0)),
    "first": _number(),
    "bound": _number(),  # steps that ascend on a nonconvex phi make it negative
    **dict.fromkeys(("value", "gained"), _number(none=True)),
    **dict.fromkeys(("scale", "rounding"), _number(0.0, none=True)),
    "_linearised": _linearised,
    "parts": _parts,
    "step": _step,
    "lmo_error": _SIZE,
    "seconds": _number(0.0, 1e10),
    "active": _active,
    "rule": _known,
    "best": _best,
    "dc_gap": _interval,
    "history": _strides,
    "extra": _extra,
}
