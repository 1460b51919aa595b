"""Wrong values of arguments, by the kind of the argument.

An :class:`Argument` is a good value and its kind; :func:`variants` makes from it the values to try, each
with the outcome expected:

``refused``   a ``TypeError`` or ``ValueError`` whose message names the argument
``same``      the result of the good value: lists, read-only, strided and big-endian arrays are as good
``either``    refused, or a result that is finite

An array that is given is kept in its own memory, so that a write to it shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dcfw import functions, sets

REFUSED, SAME, EITHER = "refused", "same", "either"


@dataclass(frozen=True)
class Argument:
    """A good value, its kind, and the exceptions for this one.

    ``allow`` names variants that would be refused elsewhere and are meaningful here; ``leave_out`` those
    that cannot be tried (an endless loop that was asked for, say); ``called`` are the names that messages
    may use for it.
    """

    value: Any
    kind: str
    allow: frozenset[str] = frozenset()
    leave_out: frozenset[str] = frozenset()
    called: tuple[str, ...] = ()


class Variant(NamedTuple):
    label: str
    value: Any
    outcome: str


@dataclass
class Values:
    """The variants of one argument as they are collected."""

    argument: Argument
    found: list[Variant] = field(default_factory=list)

    def add(self, outcome: str, **values: Any) -> None:
        for label, value in values.items():
            label = label.replace("_", " ").strip()
            if label in self.argument.leave_out:
                continue
            allowed = label in self.argument.allow and outcome == REFUSED
            self.found.append(Variant(label, value, EITHER if allowed else outcome))


class Nothing:
    """An object of an unknown class."""


def variants(argument: Argument, default: Any) -> Iterator[Variant]:
    """Yield what to try for ``argument``; a parameter whose default is None takes None."""
    values = Values(argument)
    values.add(EITHER if default is None else REFUSED, None_=None)
    values.add(REFUSED, an_object=Nothing(), a_class=Nothing)
    _KINDS[argument.kind](values, argument.value)
    yield from values.found


def _array(values: Values, good: Any) -> None:
    a = np.asarray(good)
    flat_first = (0,) * a.ndim
    not_a_number, infinite = a.astype(float), a.astype(float)
    not_a_number[flat_first], infinite[flat_first] = math.nan, math.inf
    readonly = a.copy()
    readonly.setflags(write=False)
    strided = np.repeat(a, 2, axis=-1)[..., ::2]
    reverse = a[..., ::-1].copy()[..., ::-1]
    masked = np.ma.masked_array(a.copy(), mask=np.arange(a.size).reshape(a.shape) == 0)
    mixed = a.astype(object)
    mixed[flat_first] = Nothing()
    values.add(
        SAME,
        a_list=a.tolist(),
        a_tuple=tuple(a.tolist()),
        read_only=readonly,
        strided=strided,
        reversed_strides=reverse,
        column_order=np.asfortranarray(a),
        big_endian=a.astype(a.dtype.newbyteorder(">")),
        a_subclass=a.copy().view(type("Own", (np.ndarray,), {})),
        nothing_masked=np.ma.masked_array(a.copy()),
    )
    values.add(
        REFUSED,
        text="three",
        bytes_=b"three",
        a_mapping={"x": 1.0},
        a_set={1.0, 2.0},
        a_generator=(x for x in (1.0, 2.0)),
        complex_=a + 1j,
        strings=a.astype(str),
        dates=np.zeros(a.shape, dtype="datetime64[s]"),
        mixed_objects=mixed,
        with_NaN=not_a_number,
        with_Inf=infinite,
        masked=masked,
        ragged=[[1.0], [1.0, 2.0]],
        one_more_dimension=a[None],
        one_more_entry=np.concatenate([a, a[-1:]]),
        a_structure=np.zeros(a.shape, dtype=[("x", float)]),
    )
    values.add(
        EITHER,
        objects=a.astype(object),
        booleans=a.astype(bool),
        empty=np.empty((0,) * a.ndim),
        no_rows=a[:0],
        a_number=3.0,
        negative=a if a.dtype.kind == "b" else -a,
        zeros=np.zeros_like(a),
        huge=a * (1e200 if a.dtype.kind == "f" else 2**40),
        tiny=a * 1e-310 if a.dtype.kind == "f" else a,
        half_precision=a.astype(np.float16),
        single_precision=a.astype(np.float32),
        extended_precision=a.astype(np.longdouble),
        small_integers=a.astype(np.int8),
        unsigned=np.abs(a).astype(np.uint8),
    )
    if a.ndim <= 2:
        matrix = np.atleast_2d(a)
        for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
            values.add(EITHER, **{f"sparse_{form}": sp.coo_array(matrix).asformat(form)})
        values.add(EITHER, sparse_matrix=sp.csr_matrix(matrix))
        broken = sp.csr_array(matrix.astype(float))
        if broken.nnz:
            broken.data[0] = math.nan
            values.add(REFUSED, sparse_with_NaN=broken)


def _permutation(values: Values, good: Any) -> None:
    p = np.asarray(good)
    values.add(SAME, a_list=p.tolist(), big_endian=p.astype(">i8"), strided=np.repeat(p, 2)[::2])
    values.add(SAME, small_integers=p.astype(np.int8), unsigned=p.astype(np.uint16))
    readonly = p.copy()
    readonly.setflags(write=False)
    values.add(SAME, read_only=readonly)
    values.add(
        REFUSED,
        text="three",
        fractions=p + 0.5,
        with_NaN=np.where(p == 0, math.nan, p),
        complex_=p + 1j,
        strings=p.astype(str),
        repeated=np.zeros_like(p),
        out_of_range=p + 1,
        negative=p - 1,
        far_out_of_range=p + 2**40,
        shorter=p[:-1],
        a_matrix=p[None],
        masked=np.ma.masked_array(p, mask=p == 0),
        a_number=3,
    )
    values.add(EITHER, objects=p.astype(object), whole_floats=p.astype(float), booleans=p.astype(bool))


def _number(values: Values, good: Any) -> None:
    v = float(good)
    values.add(SAME, numpy_number=np.float64(v), no_dimensions=np.array(v))
    values.add(
        REFUSED,
        text=str(v),
        NaN=math.nan,
        complex_=complex(v, 1.0),
        a_list=[v],
        a_vector=np.array([v, v]),
        no_dimensions_text=np.array("1.0"),
        no_dimensions_complex=np.array(1.0 + 1.0j),
        no_dimensions_object=np.array(Nothing(), dtype=object),
        a_mapping={},
    )
    values.add(
        EITHER,
        truth=True,
        numpy_truth=np.True_,
        negative=-1.0,
        zero=0.0,
        infinite=math.inf,
        minus_infinite=-math.inf,
        huge=1e300,
        tiny=5e-324,
        no_float=10**400,
        single=np.float32(v),
    )


def _count(values: Values, good: Any) -> None:
    v = int(good)
    values.add(SAME, numpy_integer=np.int64(v), small_integer=np.uint8(v))
    values.add(
        REFUSED,
        fraction=v + 0.5,
        text=str(v),
        NaN=math.nan,
        infinite=math.inf,
        complex_=complex(v, 1.0),
        a_list=[[v]],
        a_vector=np.array([v, v]),
        a_mapping={},
    )
    values.add(EITHER, truth=True, whole_float=float(v), negative=-1, zero=0, huge=2**63, no_integer=10**30)


def _shape(values: Values, good: Any) -> None:
    values.add(SAME, a_list=list(good), numpy_integers=tuple(np.int64(n) for n in good))
    values.add(
        REFUSED,
        text="33",
        fractions=tuple(n + 0.5 for n in good),
        negative=tuple(-n for n in good),
        zeros=tuple(0 for _ in good),
        empty=(),
        NaN=math.nan,
        of_text=tuple("3" for _ in good),
        nested=((3, 3), (3, 3)),
        a_mapping={},
    )
    values.add(EITHER, an_array=np.array(good), truth=True, huge=tuple(2**40 for _ in good))
    values.add(EITHER, a_count=int(good[0]))


def _choice(values: Values, good: Any) -> None:
    values.add(
        REFUSED,
        unknown="no-such-thing",
        nothing="",
        a_list=[],
        a_mapping={},
        bytes_=b"fw",
        a_vector=np.arange(3.0),
        NaN=math.nan,
        of_names=(good, good),
    )
    values.add(EITHER, a_number=3, capitals=str(good).upper(), truth=True)


def _flag(values: Values, good: Any) -> None:
    values.add(SAME, numpy_truth=np.bool_(good))
    # "no" would count as true.
    values.add(REFUSED, text="no", a_vector=np.array([True, False]), a_list=[], NaN=math.nan, a_mapping={})
    values.add(EITHER, one=1, zero=0)


def _function(values: Values, good: Any) -> None:
    values.add(
        REFUSED,
        a_number=3.0,
        text="f",
        an_array=np.eye(3),
        a_callable=lambda x: 0.0,
        its_class=type(good),
        a_domain=sets.Simplex(3),
        a_list=[good],
    )


def _domain(values: Values, good: Any) -> None:
    values.add(
        REFUSED,
        a_number=3,
        text="simplex",
        an_array=np.eye(3),
        its_class=type(good),
        a_function=functions.SquaredNorm(),
        a_list=[good],
    )


def _callable(values: Values, good: Any) -> None:
    values.found = [v for v in values.found if v.label != "a class"]  # a class can be called
    values.add(REFUSED, a_number=3, text="f", an_array=np.eye(2), a_list=[good])


def _path(values: Values, good: Any) -> None:
    values.add(REFUSED, a_number=3, a_list=[], NaN=math.nan, a_mapping={}, truth=True)
    values.add(
        EITHER,
        nothing="",
        not_there="no/such/file",
        zero_byte="a\0b",
        long="x" * 5000,
        surrogate="\udc80",
        bytes_=b"no-such-file",
    )


def _text(values: Values, good: Any) -> None:
    values.add(REFUSED, a_number=3, a_list=[], NaN=math.nan, bytes_=b"x", a_vector=np.arange(3))
    values.add(EITHER, nothing="", long="x" * 5000, zero_byte="a\0b")


def _seed(values: Values, good: Any) -> None:
    values.found = [v for v in values.found if v.label != "None"]  # SPEC 7: None is a seed
    values.add(REFUSED, text="seed", negative=-1, fraction=1.5, NaN=math.nan, a_mapping={})
    values.add(EITHER, truth=True, huge=10**30, a_list=[1, 2], sequence=np.random.SeedSequence(3))


def _other(values: Values, good: Any) -> None:
    """Containers and objects of the library's own: anything else is refused."""
    values.add(REFUSED, a_number=3.5, text="other", NaN=math.nan)


_KINDS: dict[str, Callable[[Values, Any], None]] = {
    "array": _array,
    "permutation": _permutation,
    "number": _number,
    "count": _count,
    "shape": _shape,
    "choice": _choice,
    "flag": _flag,
    "function": _function,
    "domain": _domain,
    "callable": _callable,
    "path": _path,
    "text": _text,
    "seed": _seed,
    "other": _other,
}
