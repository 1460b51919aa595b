"""Which class defines a method, so that a user's method is always the one that is called.

Sets and functions have a few *source* verbs (``lmo``; ``value`` and ``grad``) and others that say the same
faster (``oracle``; ``grad_at``, ``linearise``, ...).  Whoever overrides a source verb in a subclass does not
know of the others, so a subclass gets their generic form back, which asks the source verbs.

Classes vouch for their own methods with a keyword, ``class Quadratic(Function, trusted=True)``: they neither
write to their arguments nor hand out an array twice, their fast verbs agree with their source verbs, and
their constants are computed.  The keyword speaks for the class itself and not for its subclasses; everybody
else's methods work on copies.  Anyone may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType, MethodType
from typing import Any, TypeVar

from dcfw._arrays import copy_of

T = TypeVar("T")
SPEAKING = frozenset(("__call__", "get_state", "stateless"))
"""The method that is called, and the two ways to declare its memory."""


def owner(kind: type, name: str) -> type | None:
    """Return the class that defines the attribute which ``kind`` has under this name."""
    return next((base for base in kind.__mro__ if name in vars(base)), None)


def trusted(kind: type | None) -> bool:
    """Return whether a class vouches for the methods that it defines itself."""
    return kind is not None and bool(vars(kind).get("_trusted", False))


def stateless(thing: T) -> T:
    """Declare that a step, an inner loop or an oracle class keeps nothing between calls, for checkpoints.

    A class speaks for the ``__call__`` that it has, and not for one that a subclass defines.
    """
    thing.stateless = True  # type: ignore[attr-defined]
    return thing


def memory_known(part: Any) -> bool:
    """Return whether a part declares what it keeps between calls: a state, or that there is none."""
    kind = type(part)
    if owner(kind, "__call__") in (None, FunctionType, MethodType):
        return getattr(part, "stateless", False) or hasattr(part, "get_state")
    newest = next(base for base in kind.__mro__ if not vars(base).keys().isdisjoint(SPEAKING))
    return not vars(newest).keys().isdisjoint(SPEAKING - {"__call__"})


def declare(kind: type, value: bool) -> None:
    """Note whether a class vouches for its methods."""
    kind._trusted = bool(value)  # type: ignore[attr-defined]


def outdated(kind: type, verb: str, sources: tuple[str, ...]) -> bool:
    """Return whether a source of ``verb`` is overridden by a class that does not know of ``verb``."""
    order = kind.__mro__
    defined = owner(kind, verb)
    if defined is None:
        return False
    newer = order[: order.index(defined)]
    return any(name in vars(base) for base in newer if not trusted(base) for name in sources)


def restore(kind: type, base: type, verbs: Mapping[str, tuple[str, ...]]) -> None:
    """Restore in ``kind`` the generic form, that of ``base``, of every verb whose sources it overrides."""
    for verb, sources in verbs.items():
        if outdated(kind, verb, sources):
            setattr(kind, verb, vars(base)[verb])


def on_copies(method: Any, own: Callable[[Any], Any] = copy_of) -> Callable[..., Any]:
    """Return a method that gives a user's ``method`` copies of its arguments, and copies what it returns."""

    @wraps(method)
    def called(self: Any, *arguments: Any, **options: Any) -> Any:
        bound = method.__get__(self, type(self)) if hasattr(method, "__get__") else method
        return own(bound(*map(own, arguments), **{name: own(value) for name, value in options.items()}))

    called.on_copies = True  # type: ignore[attr-defined]
    return called


def guard(kind: type, base: type, verbs: tuple[str, ...], guarded: Callable[[Any], Any] = on_copies) -> None:
    """Replace the verbs of classes that do not vouch for them, mixins included, by their guarded form."""
    for verb in verbs:
        found = owner(kind, verb)
        if found is None or found is base or trusted(found):
            continue
        method = vars(found)[verb]
        if not isinstance(method, property) and not getattr(method, "on_copies", False):
            setattr(kind, verb, guarded(method))


def overridden(thing: Any, kind: type, *verbs: str) -> bool:
    """Return whether ``thing``, a ``kind``, has other verbs than those of classes that vouch for them."""
    own = type(thing)

    def other(verb: str) -> bool:
        return getattr(own, verb) is not getattr(kind, verb) and not trusted(owner(own, verb))

    return any(verb in vars(thing) or other(verb) for verb in verbs)
