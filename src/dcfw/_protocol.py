"""The protocol of sets and functions, which ensures that overridden methods are the ones called.

Sets and functions have *source* verbs (``lmo``; ``value`` and ``grad``) and faster equivalents (``oracle``;
``grad_at``, ``linearise``, ...).  A subclass that overrides a source verb gets the generic forms of the
others back, which call the source verbs, and loses the claims (``convex``, ``lipschitz``, ...) that a class
of the library makes about its own.

A class with the keyword ``trusted``, ``class Quadratic(Function, trusted=True)``, guarantees that its methods
neither write to their arguments nor return an array twice, that fast and source verbs agree, and that its
constants are computed.  The guarantee excludes subclasses.  Methods of other classes work on copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from types import FunctionType, MethodType
from typing import Any, TypeVar

from dcfw._arrays import copy_of

T = TypeVar("T")
SPEAKING = frozenset(("__call__", "get_state", "stateless"))  # a method, and two ways to declare its memory


def owner(kind: type, name: str) -> type | None:
    """Return the class that defines the attribute ``name`` of ``kind``."""
    return next((base for base in kind.__mro__ if name in vars(base)), None)


def trusted(kind: type | None) -> bool:
    """Return whether a class guarantees the methods that it defines."""
    return kind is not None and bool(vars(kind).get("_trusted", False))


def stateless(thing: T) -> T:
    """Declare for checkpoints that a callable, or the ``__call__`` that a class has now, keeps no state."""
    thing.stateless = True  # type: ignore[attr-defined]
    return thing


def memory_known(part: Any) -> bool:
    """Return whether a part declares its state, or that it has none."""
    kind = type(part)
    if owner(kind, "__call__") in (None, FunctionType, MethodType):
        return getattr(part, "stateless", False) or hasattr(part, "get_state")
    newest = next(base for base in kind.__mro__ if not vars(base).keys().isdisjoint(SPEAKING))
    return not vars(newest).keys().isdisjoint(SPEAKING - {"__call__"})


def declare(kind: type, value: bool) -> None:
    """Record whether a class guarantees its methods."""
    kind._trusted = bool(value)  # type: ignore[attr-defined]


def outdated(kind: type, verb: str, sources: tuple[str, ...]) -> bool:
    """Return whether an untrusted class overrides a source of ``verb`` without ``verb``."""
    order = kind.__mro__
    defined = owner(kind, verb)
    newer = () if defined is None else order[: order.index(defined)]
    return any(name in vars(base) for base in newer if not trusted(base) for name in sources)


def restore(kind: type, base: type, verbs: Mapping[str, tuple[str, ...]]) -> None:
    """Restore the generic form, that of ``base``, of every verb whose sources ``kind`` overrides."""
    for verb, sources in verbs.items():
        if outdated(kind, verb, sources):
            setattr(kind, verb, vars(base)[verb])


def forget(kind: type, base: type, claims: Mapping[str, Any], sources: tuple[str, ...]) -> None:
    """Drop the claims that ``kind`` inherits from a trusted class about ``sources`` that it overrides."""
    for name, default in claims.items():
        holder = owner(kind, name)
        promises = holder not in (None, base) and trusted(holder) and vars(holder)[name] not in (None, False)
        if promises and outdated(kind, name, sources):
            setattr(kind, name, default)


def states(thing: Any, name: str, base: type, sources: tuple[str, ...]) -> bool:
    """Return whether an object makes the claim ``name`` itself, or keeps the ``sources`` of its class."""
    holder = owner(type(thing), name)
    if holder is None or (name in vars(thing) and not isinstance(vars(holder)[name], cached_property)):
        return hasattr(thing, name)
    return holder is not base and not (trusted(holder) and vars(thing).keys() & set(sources))


def on_copies(method: Any, own: Callable[[Any], Any] = copy_of) -> Callable[..., Any]:
    """Wrap a user's ``method`` so that it receives and returns copies."""

    @wraps(method)
    def called(self: Any, *arguments: Any, **options: Any) -> Any:
        bound = method.__get__(self, type(self)) if hasattr(method, "__get__") else method
        return own(bound(*map(own, arguments), **{name: own(value) for name, value in options.items()}))

    called.on_copies = True  # type: ignore[attr-defined]
    return called


def guard(kind: type, base: type, verbs: tuple[str, ...], guarded: Callable[[Any], Any] = on_copies) -> None:
    """Replace the verbs of untrusted classes, including mixins, by their guarded form."""
    for verb in verbs:
        found = owner(kind, verb)
        if found is None or found is base or trusted(found):
            continue
        method = vars(found)[verb]
        if not isinstance(method, property) and not getattr(method, "on_copies", False):
            setattr(kind, verb, guarded(method))


def overridden(thing: Any, kind: type, *verbs: str) -> bool:
    """Return whether ``thing``, a ``kind``, has a verb from the instance or an untrusted class."""
    own = type(thing)
    return any(
        verb in vars(thing)
        or (getattr(own, verb) is not getattr(kind, verb) and not trusted(owner(own, verb)))
        for verb in verbs
    )
