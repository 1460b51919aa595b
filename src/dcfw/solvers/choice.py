"""The solvers behind ``method=`` and ``inner=``, and the choice of ``inner="auto"``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dcfw import _validate, steps
from dcfw.functions.base import Function
from dcfw.sets.base import Set
from dcfw.solvers.active import RULES, ActiveLoop
from dcfw.solvers.active_set import MEMORY
from dcfw.solvers.adaptive import AdaptiveDCFW
from dcfw.solvers.block import Block
from dcfw.solvers.boosted import BoostedDCFW
from dcfw.solvers.cgs import CGS
from dcfw.solvers.dcfw import DCFW
from dcfw.solvers.fw import FW
from dcfw.solvers.fw_k import FWK
from dcfw.solvers.fw_m import FWM
from dcfw.solvers.graduated import Graduated
from dcfw.solvers.in_face import InFaceLoop
from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.problem import Method
from dcfw.solvers.second_order import SecondOrderLoop
from dcfw.solvers.staged import Staged
from dcfw.solvers.stochastic import SFW, Stochastic


class Auto(DCFW):
    """The placeholder for ``method="auto"``, which :func:`dcfw.minimize` resolves."""

    name = "auto"


METHODS: dict[str, type] = {
    "auto": Auto,
    "dcfw": DCFW,
    "boosted": BoostedDCFW,
    "block": Block,
    "fw": FW,
    "fw-k": FWK,
    "fw-m": FWM,
    "cgs": CGS,
    "graduated": Graduated,
    "stochastic": Stochastic,
    "sfw": SFW,
}
INNER = ("auto", "fw", *RULES, "in-face", "second-order")
VANILLA = (FWK, FWM, SFW)  # methods that take only vanilla steps
LARGE = 1_000_000  # the most entries for which an active set of matrices is the default
ATOMS = 128  # vertices kept of a set that has infinitely many


def method_named(method: Any) -> Method:
    if hasattr(method, "solve") and not isinstance(method, type):
        missing = [name for name in ("name", "needs_split") if not hasattr(method, name)]
        if missing:
            raise TypeError(f"method {type(method).__name__} lacks the attribute {' and '.join(missing)}")
        return method  # type: ignore[no-any-return]
    return METHODS[_validate.choice(method, "method", METHODS)]()  # type: ignore[no-any-return]


def check_inner(inner: Any, solver: Method) -> Any:
    """Return ``inner``, checked to be a name or a function that the method can use."""
    if not callable(inner) or isinstance(inner, type):  # a user-defined inner solver is a function
        inner = _validate.choice(inner, "inner", INNER)
    if inner == "in-face" and isinstance(solver, Block | Graduated):
        raise ValueError(f"method {solver.name!r} has no in-face steps: use inner='blended'")
    if inner == "second-order" and type(solver) is not DCFW:
        raise ValueError("second-order steps need a convex f: use inner='second-order' with method='dcfw'")
    if inner not in ("auto", "fw") and isinstance(solver, VANILLA):
        raise ValueError(f"method {solver.name!r} takes vanilla steps only: leave inner at 'fw'")
    return inner


def best_inner(solver: Method, f: Function, domain: Set, rule: Any) -> str:
    """Return the name of the inner solver for ``inner="auto"``.

    In results/inner blended steps solved nearly all problems, mostly as the fastest, and vanilla steps less
    than half.  For matrices (``python -m bench inner``) an atom's dense gradient costs memory and pays for
    quadratics. In-face steps are best for other f with vertices of many entries (``python -m bench faces``).
    """
    flat = domain.faces and (f.affine_grad or isinstance(solver, Staged)) and math.prod(domain.shape) <= LARGE
    if not ((flat or domain.polytope) and isinstance(rule, steps.Exact)):
        return "fw"
    if isinstance(solver, AdaptiveDCFW):
        return "blended" if f.affine_grad else "fw"
    if isinstance(solver, DCFW) and not f.affine_grad and domain.entry_bounds() is not None:
        return "in-face"
    return "blended" if isinstance(solver, DCFW | Staged | Block | Stochastic) else "fw"


def inner_loop(inner: Any, lazy: bool, domain: Set) -> Callable[..., Any]:
    """Return the inner loop of one run; fewer atoms are kept for sets with infinitely many vertices."""
    if callable(inner):
        return inner  # type: ignore[no-any-return]
    if inner == "fw":
        return frank_wolfe
    if inner == "in-face":
        return InFaceLoop(domain)
    if inner == "second-order":
        return SecondOrderLoop(inner_loop("blended", lazy, domain))  # type: ignore[arg-type]
    if not domain.faces:
        return ActiveLoop(inner, lazy)
    pair = 2 * 8 * math.prod(domain.shape)  # bytes of an atom and its gradient
    return ActiveLoop(inner, lazy, cap=max(min(ATOMS, MEMORY // pair), 32))
