"""One call that works for every public name: what the table of bad input is generated from.

:func:`public_names` walks the package.  A name that can be called has an entry in :data:`CALLS`, with a good
value and a kind for every parameter, so a new name or parameter makes a test fail until it is added.
:data:`METHODS` has the checked methods of sets.
"""

from __future__ import annotations

import enum
import functools
import importlib
import importlib.util
import inspect
import io
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dcfw
import inventory
from bad_values import Argument
from dcfw import align, functions, sets, splits, traffic

MODULES = (*inventory.MODULES, "dcfw.traffic", "dcfw.gromov")

NOT_CALLED = {
    "dcfw.traffic.LinkCosts": "made by a network",
    "dcfw.traffic.Network": "a record",
    "dcfw.Result": "made by solves; a dictionary",
    "dcfw.align.AlignResult": "made by solves; a dictionary",
    "dcfw.align.Trial": "made by trial",
    "dcfw.qap.QAPResult": "made by solves; a dictionary",
    "dcfw.qap.ManyResult": "made by solve_many",
    "dcfw.qap.Instance": "a record",
    "dcfw.functions.Function": "a base class",
    "dcfw.sets.Set": "a base class",
    "dcfw.splits.Auto": "made by sliding and proximal",
    "dcfw.splits.Remainder": "made by the splits",
    "dcfw.steps.first_estimate": "works on a segment of a running solve",
    "dcfw.steps.search": "works on a segment of a running solve",
}
"""Public names that take no input of a caller, and why."""


def public_names() -> dict[str, Any]:
    """Return every public name that can be called, with what it stands for."""
    found = {}
    for module_name in MODULES:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError:  # an extra that is not installed
            continue
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module_name
        ]
        for name in names:
            value = getattr(module, name)
            if callable(value) and not _is_record(value) and f"{module_name}.{name}" not in NOT_CALLED:
                found[f"{module_name}.{name}"] = value
    return found


def _is_record(value: Any) -> bool:
    """Exceptions, enumerations, protocols, aliases of types and named tuples take nothing worth checking."""
    if not isinstance(value, type):
        return not (inspect.isfunction(value) or inspect.isbuiltin(value))
    kinds = (BaseException, enum.Enum)
    return issubclass(value, kinds) or getattr(value, "_is_protocol", False) or hasattr(value, "_fields")


@dataclass(frozen=True)
class Call:
    """Good arguments, and how to look at the result."""

    arguments: dict[str, Argument]
    look: Callable[[Any], Any] = lambda result: result
    omitted: dict[str, str] = field(default_factory=dict)
    """Parameters that are left out, and why."""
    ends_in: tuple[type[Exception], ...] = ()
    """How a good call ends, where it cannot end well in a test."""


def _kind(kind: str) -> Callable[..., Argument]:
    def make(
        value: Any = None, *, allow: Any = (), leave_out: Any = (), called: tuple[str, ...] = ()
    ) -> Argument:
        return Argument(value, kind, frozenset(allow), frozenset(leave_out), called)

    return make


array, permutation, number, count = map(_kind, ("array", "permutation", "number", "count"))
shape, choice, flag, seed = map(_kind, ("shape", "choice", "flag", "seed"))
function, domain, callback = map(_kind, ("function", "domain", "callable"))
path, text, other = map(_kind, ("path", "text", "other"))

ENDLESS = ("huge", "no integer")
"""Counts of a loop that would rightly run for years."""

N = 3
X = np.array([0.5, 0.2, 0.3])
G = np.array([0.5, -1.0, 2.0])
M = np.array([[2.0, 0.5, 0.0], [0.5, 3.0, 1.0], [0.0, 1.0, 1.5]])
RECT = np.array([[1.0, 2.0, 0.5], [0.0, 1.0, -1.0], [2.0, 0.5, 1.0], [1.0, 1.0, 1.0]])
FLOW = np.array([[0, 3, 1, 2], [3, 0, 4, 1], [1, 4, 0, 5], [2, 1, 5, 0]])
DIST = np.array([[0, 5, 2, 1], [5, 0, 3, 4], [2, 3, 0, 2], [1, 4, 2, 0]])
P = np.array([2, 0, 3, 1])
BISTOCHASTIC = np.array(
    [[0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.5, 0.5]]
)
E1 = np.random.default_rng(0).standard_normal((8, 3))
E2 = np.random.default_rng(1).standard_normal((8, 3))
COLUMNS, OBSERVED = E1.T.copy(), E2.T.copy()  # words are columns there
SIMPLEX = sets.Simplex(N)
SQUARE_GRAPH = np.array([[0, 1], [1, 3], [0, 2], [2, 3]])
POSITIVE = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.5]])
F = functions.SquaredNorm(1.0)
QUADRATIC = functions.Quadratic(M)
INDEFINITE = functions.Quadratic(np.diag([1.0, -1.0, 2.0]))
DIFFERENCE = F - functions.L2Norm(0.5)
FOLDER = Path(tempfile.mkdtemp(prefix="dcfw-calls-"))


def _written(name: str, content: str) -> str:
    file = FOLDER / name
    file.write_text(content, encoding="utf-8")
    return str(file)


def _value(x: Any) -> float:
    return float(0.5 * (x * x).sum())


def _grad(x: Any) -> Any:
    return 1.0 * x


def at(x: np.ndarray) -> Callable[[Any], Any]:
    """Return a look at a function: its value and gradient at x."""
    return lambda f: (f.value(x), f.grad(x))


def parts(dc: Any) -> Any:
    return [at(X)(dc.f), at(X)(dc.g)]


def parts_of_matrix(penalty: Any) -> Any:
    return penalty.value(M), at(M)(penalty.g)


def oracles(x: np.ndarray) -> Callable[[Any], Any]:
    """Return a look at a set: its linear oracle and its start."""
    return lambda s: (s.lmo(x), s.start(), s.diameter)


def solved(result: Any) -> Any:
    return result.x, result.fun, result.gap


def mapped(estimator: Any) -> Any:
    """Return what an alignment makes of the source, whether a small budget was enough for it or not."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "MaskedProcrustes ended with a gap")
        return estimator.fit(E1, E2).transform(E1)


def fields(*names: str) -> Callable[[Any], Any]:
    return lambda value: [getattr(value, name) for name in names]


BUDGETS = {
    "tol": number(1e-6),
    "rtol": number(0.0),
    "maxiter": count(5),
    "max_inner": count(10),
    "max_lmo": count(100),
    "time_limit": number(5.0),
}
BALL = {"shape": shape((N,), leave_out=("huge",)), "radius": number(1.0)}
SQUARE = {"shape": shape((N, N), leave_out=("huge",)), "radius": number(1.0)}
CALLABLES = {"lipschitz": number(1.0), "convex": flag(True)}
SPECTRAL = {"spectral": flag(False)}
GAP = {"objective": function(QUADRATIC), "domain": domain(SIMPLEX), "x": array(X)}
AT_FLOW = {"A": array(FLOW), "B": array(DIST)}
LINEAR = array(np.ones((4, 4)), leave_out=("huge",))

CALLS: dict[str, Call] = {
    # the front door
    "dcfw.minimize": Call(
        {
            "objective": function(DIFFERENCE),
            "domain": domain(SIMPLEX),
            "x0": array(X, allow=("single precision", "half precision")),
            "method": choice("dcfw"),
            "step": choice("exact"),
            "inner": choice("fw"),
            "lazy": flag(True),
            "tolerance": choice("adaptive"),
            **BUDGETS,
            "restarts": count(1, leave_out=ENDLESS),
            "callback": callback(lambda intermediate_result: None),
            "rng": seed(3),
            "checkpoint": path(None),
            "jac": other(None),
            "verbose": count(0),
        },
        solved,
    ),
    "dcfw.check": Call(
        {
            "objective": function(DIFFERENCE),
            "domain": domain(SIMPLEX),
            "x0": array(X),
            "samples": count(3, leave_out=ENDLESS),
            "rng": seed(0),
        },
        lambda report: report.problems,
    ),
    # functions
    "dcfw.functions.DC": Call(
        {"f": function(F), "g": function(QUADRATIC), "name": text("given"), "conditional": text("")},
        at(X),
        omitted={"whole": "for the library's own splits"},
    ),
    "dcfw.functions.MCP": Call({"lam": number(1.0), "gamma": number(3.0), **SPECTRAL}, parts_of_matrix),
    "dcfw.functions.SCAD": Call({"lam": number(1.0), "a": number(3.7), **SPECTRAL}, parts_of_matrix),
    "dcfw.functions.CappedL1": Call({"lam": number(1.0), "theta": number(1.0), **SPECTRAL}, parts_of_matrix),
    "dcfw.functions.L1MinusL2": Call({"lam": number(1.0), **SPECTRAL}, parts_of_matrix),
    "dcfw.functions.Convex": Call(
        {"value": callback(_value), "subgrad": callback(_grad), "differentiable": flag(True)}, at(X)
    ),
    "dcfw.functions.FiniteSum": Call(
        {
            "m": count(4),
            "value": callback(_value),
            "batch_grad": callback(lambda x, batch: x),
            "grad": callback(_grad),
            "batch_value": callback(lambda x, batch: _value(x)),
            "lipschitz": number(1.0),
            "lipschitz_max": number(1.0),
            "convex": flag(True),
        },
        at(X),
    ),
    "dcfw.functions.L1Norm": Call({"scale": number(1.0)}, at(X)),
    "dcfw.functions.L2Norm": Call({"scale": number(1.0)}, at(X)),
    "dcfw.functions.NuclearNorm": Call({"scale": number(1.0), "complete": flag(False)}, at(M)),
    "dcfw.functions.Observed": Call(
        {
            "rows": other(lambda: np.array([0, 1, 1])),
            "cols": other(lambda: np.array([0, 0, 1])),
            "values": array(np.array([1.0, -1.0, 2.0])),
            "shape": shape((2, 2)),
            "loss": choice("squared"),
            "delta": number(1.0),
        },
        at(np.ones((2, 2))),
    ),
    "dcfw.functions.LeastSquares": Call({"A": array(RECT), "b": array(RECT[:, 0])}, at(X)),
    "dcfw.functions.LogSumExp": Call(
        {"A": array(RECT, leave_out=("None",)), "b": array(RECT[:, 0]), "temperature": number(1.0)}, at(X)
    ),
    "dcfw.functions.LogisticLoss": Call(
        {"A": array(RECT), "y": array(np.array([1.0, -1.0, 1.0, -1.0]))}, at(X)
    ),
    "dcfw.functions.Quadratic": Call(
        {"A": array(M), "b": array(G), "c": number(1.0), "convex": flag(True)}, at(X)
    ),
    "dcfw.functions.Smooth": Call({"value": callback(_value), "grad": callback(_grad), **CALLABLES}, at(X)),
    "dcfw.functions.SquaredNorm": Call({"scale": number(1.0)}, at(X)),
    "dcfw.functions.Stream": Call(
        {
            "draw": callback(lambda rng, size: rng.standard_normal(size)),
            "batch_grad": callback(lambda x, batch: x),
            "batch_value": callback(lambda x, batch: _value(x)),
            "lipschitz": number(1.0),
            "lipschitz_max": number(1.0),
            "convex": flag(True),
            "holdout": count(10, leave_out=ENDLESS),
        },
        at(X),
    ),
    "dcfw.functions.WeaklyConcave": Call(
        {
            "value": callback(lambda x: -_value(x)),
            "supergrad": callback(lambda x: -x),
            "modulus": number(1.0),
        },
        at(X),
    ),
    "dcfw.functions.Zero": Call({}, at(X)),
    "dcfw.functions.as_function": Call(
        {"candidate": function(F, called=("candidate", "function")), "name": text("function")}, at(X)
    ),
    "dcfw.functions.autodiff": Call({"value": callback(_value), **CALLABLES}, lambda f: f.lipschitz),
    "dcfw.functions.lift": Call(
        {"objective": function(F + functions.L1Norm(0.5)), "ball": domain(sets.L1Ball(N))},
        lambda pair: (pair[1].start(), pair[0].value(pair[1].start())),
    ),
    # sets
    "dcfw.sets.Birkhoff": Call({"n": count(N, leave_out=ENDLESS)}, oracles(M)),
    "dcfw.sets.Box": Call(
        {
            "lower": array(np.array([0.0, -1.0, 0.5])),
            "upper": array(np.array([1.0, 1.0, 2.0])),
            "shape": shape((N,)),
        },
        oracles(G),
    ),
    "dcfw.sets.CappedSimplex": Call(
        {
            "n": shape((N,), leave_out=("huge",)),
            "upper": array(np.array([0.5, 1.0, 0.5])),
            "radius": number(1.0),
            "at_most": flag(False),
        },
        oracles(G),
    ),
    "dcfw.sets.ConvexHull": Call(
        {"points": array(RECT, allow=("one more entry", "one more dimension"))},
        lambda hull: [hull.lmo(np.ones(hull.shape)), hull.start()],
    ),
    "dcfw.sets.Ellipsoid": Call(
        {"A": array(POSITIVE), "center": array(X), "radius": number(1.0)},
        oracles(G),
    ),
    "dcfw.sets.Epigraph": Call({"ball": domain(sets.L1Ball(N))}, oracles(np.append(G, 1.0))),
    "dcfw.sets.Fantope": Call({"n": count(N, leave_out=ENDLESS), "k": count(1)}, oracles(M)),
    "dcfw.sets.GroupBall": Call(
        {
            "groups": array(np.array([0, 0, 1]), allow=("one more entry", "one more dimension", "fractions")),
            "p": number(1.5),
            "radius": number(1.0),
        },
        lambda ball: (ball.lmo(np.arange(ball.groups.size).reshape(ball.shape) - 1.5), ball.diameter),
    ),
    "dcfw.sets.Hypersimplex": Call(
        {
            "n": shape((N,), leave_out=("huge",)),
            "k": count(2),
            "radius": number(1.0),
            "at_most": flag(False),
        },
        oracles(G),
    ),
    "dcfw.sets.KNormBall": Call({**BALL, "k": count(2)}, oracles(G)),
    "dcfw.sets.KSparse": Call({**BALL, "k": count(2)}, oracles(G)),
    "dcfw.sets.L1Ball": Call(BALL, oracles(G)),
    "dcfw.sets.L2Ball": Call(BALL, oracles(G)),
    "dcfw.sets.LInfBall": Call(BALL, oracles(G)),
    "dcfw.sets.LpBall": Call({**BALL, "p": number(1.5)}, oracles(G)),
    "dcfw.sets.NuclearBall": Call(SQUARE, oracles(M)),
    "dcfw.sets.Oracle": Call({"domain": domain(SIMPLEX)}, lambda oracle: oracle(G).dense()),
    "dcfw.sets.OrderedWeightedL1": Call(
        {"weights": array(np.array([1.0, 0.5, 0.25])), **BALL},
        oracles(G),
    ),
    "dcfw.sets.Permutahedron": Call(
        {"w": array(G, allow=("one more entry",))}, lambda s: (s.lmo(np.arange(len(s.w)) * 1.0), s.diameter)
    ),
    "dcfw.sets.Polytope": Call(
        {
            "A_ub": array(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])),
            "b_ub": array(np.array([2.0, 1.5])),
            "A_eq": array(np.array([[1.0, 1.0, 1.0]])),
            "b_eq": array(np.array([1.0])),
            "bounds": array(np.array([[0.0, 3.0], [0.0, 3.0], [0.0, 3.0]]), allow=("with Inf",)),
        },
        oracles(G),
    ),
    "dcfw.sets.Intersection": Call({"sets": other([SIMPLEX, sets.Box(0.0, 0.5, shape=N)])}, oracles(G)),
    "dcfw.sets.Product": Call({"sets": other([SIMPLEX, sets.L1Ball(2)])}, oracles(np.append(G, [1.0, 2.0]))),
    "dcfw.sets.SchattenBall": Call({**SQUARE, "p": number(2.0)}, oracles(M)),
    "dcfw.sets.Simplex": Call({"n": shape((N,), leave_out=("huge",)), "radius": number(1.0)}, oracles(G)),
    "dcfw.sets.SpectralBall": Call({**SQUARE, "polar": choice("auto")}, oracles(M)),
    "dcfw.sets.Spectraplex": Call(
        {"n": count(N, leave_out=ENDLESS), "radius": number(1.0), "at_most": flag(False)}, oracles(M)
    ),
    "dcfw.sets.TotalVariation1D": Call(
        {"n": count(N, leave_out=ENDLESS), "radius": number(1.0), "mean": number(0.5)}, oracles(G)
    ),
    "dcfw.sets.FlowPolytope": Call(
        {
            "graph": array(SQUARE_GRAPH, allow=("one more entry", "one more dimension")),
            "demands": array(np.array([[0.0, 1.0, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])),
            "through": count(0),
        },
        lambda s: (s.lmo(np.ones(s.shape)), s.diameter),
    ),
    "dcfw.sets.LinearImage": Call(
        {"A": array(RECT[:, :3], allow=("one more entry",)), "domain": domain(SIMPLEX)},
        lambda s: (s.start(), s.diameter),
    ),
    "dcfw.sets.Matching": Call(
        {
            "graph": array(SQUARE_GRAPH, allow=("one more entry", "one more dimension")),
            "perfect": flag(False),
        },
        lambda s: (s.lmo(-np.ones(s.shape)).sum(), s.diameter),
    ),
    "dcfw.sets.PartialBirkhoff": Call(
        {
            "m": count(N, leave_out=ENDLESS),
            "n": count(N, leave_out=ENDLESS),
            "k": count(2),
        },
        oracles(M),
    ),
    "dcfw.sets.PartialTransport": Call(
        {
            "a": array(np.array([0.5, 0.25, 0.25]), allow=("one more entry",)),
            "b": array(np.array([0.25, 0.5, 0.25]), allow=("one more entry",)),
            "mass": number(0.5),
            "solver": choice("highs"),
        },
        lambda s: (s.start().sum(), s.diameter),
    ),
    "dcfw.sets.Scale": Call({"domain": domain(SIMPLEX), "factor": number(2.0)}, oracles(G)),
    "dcfw.sets.Shift": Call({"domain": domain(SIMPLEX), "by": array(G)}, oracles(G)),
    "dcfw.sets.ShortestPath": Call(
        {
            "graph": array(SQUARE_GRAPH, allow=("one more entry", "one more dimension")),
            "source": count(0),
            "target": count(3),
        },
        lambda s: (s.lmo(np.ones(s.shape)), s.diameter),
    ),
    "dcfw.sets.SpanningTree": Call(
        {"graph": array(SQUARE_GRAPH, allow=("one more entry", "one more dimension"))},
        lambda s: (s.lmo(np.ones(s.shape)).sum(), s.diameter),
    ),
    "dcfw.sets.TransportPolytope": Call(
        {
            "a": array(np.array([0.5, 0.25, 0.25])),
            "b": array(np.array([0.25, 0.5, 0.25])),
            "solver": choice("highs"),
        },
        oracles(M),
    ),
    # Gromov-Wasserstein
    "dcfw.gromov.GromovLoss": Call(
        {
            "C1": array(M),
            "C2": array(np.diag([1.0, 2.0, 0.5])),
            "p": array(X),
            "q": array(np.array([0.25, 0.5, 0.25])),
            "M": array(POSITIVE),
            "alpha": number(0.5),
        },
        lambda f: (f.value(np.outer(f.p, f.q)), f.grad(np.outer(f.p, f.q))),
    ),
    "dcfw.gromov.gromov_wasserstein": Call(
        {
            "C1": array(M),
            "C2": array(np.diag([1.0, 2.0, 0.5])),
            "p": array(X),
            "q": array(np.array([0.25, 0.5, 0.25])),
            "M": array(POSITIVE),
            "alpha": number(0.5),
            "stages": count(2, leave_out=ENDLESS),
            "tol": number(1e-7),
        },
        lambda res: np.round(res.fun, 6),
        omitted={"options": "those of minimize"},
    ),
    # traffic
    "dcfw.traffic.Savings": Call({"price": array(X), "size": array(X + 1.0)}, at(X)),
    "dcfw.traffic.assign": Call(
        {"network": other(traffic.braess), "objective": choice("user"), "rtol": number(1e-4)},
        lambda res: np.round(res.fun, 1),
        omitted={"options": "those of minimize"},
    ),
    "dcfw.traffic.braess": Call({}, lambda network: network.links),
    "dcfw.traffic.read": Call({"name": path("no such network")}, ends_in=(FileNotFoundError,)),
    # splits, steps, tolerances, gaps, callbacks, checkpoints
    "dcfw.splits.best": Call({"phi": function(INDEFINITE), "domain": domain(SIMPLEX)}, parts),
    "dcfw.splits.choose": Call({"phi": function(INDEFINITE), "domain": domain(SIMPLEX)}, parts),
    "dcfw.splits.spectral": Call({"phi": function(INDEFINITE), "domain": domain(SIMPLEX)}, parts),
    "dcfw.splits.sliding": Call({"phi": function(INDEFINITE), "L": number(2.0)}, parts),
    "dcfw.splits.proximal": Call({"phi": function(INDEFINITE), "L": number(2.0)}, parts),
    "dcfw.splits.strengthen": Call(
        {"dc": function(splits.sliding(INDEFINITE, 2.0)), "mu": number(1.0)}, parts
    ),
    "dcfw.steps.Backtracking": Call(
        {
            "L": number(1.0),
            "grow": number(2.0),
            "shrink": number(0.5),
            "cap": count(30),
            "slopes": flag(False),
        },
        repr,
    ),
    "dcfw.steps.Exact": Call({"accuracy": number(1e-4), "evaluations": count(40)}, repr),
    "dcfw.steps.OpenLoop": Call({"log": flag(False)}, repr),
    "dcfw.steps.Scaled": Call({"C": number(1.0)}, repr),
    "dcfw.steps.Short": Call({"L": number(1.0)}, repr),
    "dcfw.steps.resolve": Call({"step": choice("exact")}, repr),
    "dcfw.tolerances.Adaptive": Call({"beta": number(0.8), "update": choice("text")}, fields("beta")),
    "dcfw.tolerances.Fixed": Call({"eps": number(0.1)}, fields("eps")),
    "dcfw.tolerances.Progress": Call({}, repr),
    "dcfw.tolerances.resolve": Call({"tolerance": choice("adaptive")}, repr),
    "dcfw.gaps.dc_gap": Call({**GAP, "accuracy": number(1e-3), "max_lmo": count(100)}),
    "dcfw.gaps.fw_gap": Call(GAP),
    "dcfw.gaps.pgm_gap": Call({**GAP, "L": number(4.0)}),
    "dcfw.gaps.ppm_gap": Call({**GAP, "L": number(8.0), "accuracy": number(1e-6)}),
    "dcfw.callbacks.progress": Call(
        {"every": number(0.2), "file": other(io.StringIO()), "title": text("")}, repr
    ),
    "dcfw.callbacks.target": Call({"value": number(0.5)}, repr),
    "dcfw.checkpoints.Checkpoint": Call(
        {"path": path(str(FOLDER / "run.npz"), called=("checkpoint",)), "every": number(30.0)}, repr
    ),
    # data
    "dcfw.data.cache_folder": Call({}, str),
    "dcfw.data.data_folder": Call({}, str),
    "dcfw.data.find": Call({"relative": path("", called=("relative", "found", "inside"))}, str),
    # quadratic assignment
    "dcfw.qap.evaluate": Call({**AT_FLOW, "permutation": permutation(P), "C": LINEAR}),
    "dcfw.qap.bound": Call(
        {
            **AT_FLOW,
            "C": LINEAR,
            "maximize": flag(False),
            "partial_match": array(np.array([[0, 1]]), leave_out=("None",)),
            "forbidden": array(np.array([[1, 2]]), leave_out=("None", "one more entry")),
            "method": choice("auto"),
            "time_limit": number(2.0),
        }
    ),
    "dcfw.qap.gradient": Call({**AT_FLOW, "X": array(BISTOCHASTIC), "C": LINEAR}),
    "dcfw.qap.round_to_permutation": Call({"X": array(BISTOCHASTIC + np.eye(4))}),
    "dcfw.qap.decompose": Call(
        {**AT_FLOW, "C": LINEAR, "split": choice("paper"), "L": number(1000.0)},
        lambda dc: (dc.f.grad(BISTOCHASTIC), dc.g.grad(BISTOCHASTIC)),
    ),
    "dcfw.qap.relaxation": Call(
        {**AT_FLOW, "C": LINEAR}, lambda f: (f.value(BISTOCHASTIC), f.grad(BISTOCHASTIC))
    ),
    "dcfw.qap.load": Call({"name": text("nug12", called=("name", "qaplib"))}, fields("A", "B", "best")),
    "dcfw.qap.names": Call({"paper": flag(False)}, len),
    "dcfw.qap.read": Call({"path": path(_written("tiny.dat", "2 0 3 3 0 0 5 5 0"))}, fields("A", "B")),
    "dcfw.qap.read_solution": Call({"path": path(_written("tiny.sln", "3 40 2 3 1"))}),
    "dcfw.qap.match": Call(
        {
            "G1": array(FLOW.astype(float)),
            "G2": array(DIST.astype(float)),
            "weight": text("weight", allow=("None",)),
            "parallel": choice("error"),
            "loops": choice("error"),
            "padding": flag(True),
            "seeds": array(np.array([[0, 1]])),
            "forbidden": array(np.array([[0, 2]]), allow=("one more entry",)),
            "similarity": LINEAR,
            "C": LINEAR,
            "method": choice("auto"),
            "restarts": count(1, leave_out=ENDLESS),
            "polish": choice("auto", allow=("None",)),
            "time_limit": number(5.0),
            "n_jobs": count(1, leave_out=ENDLESS),
            "verbose": count(0),
            "rng": seed(0),
        },
        lambda result: (result.fun, sorted(map(int, result.mapping))),
        omitted={
            "partial_match": "another name for seeds",
            "node_match": "for graphs with attributes",
            **dict.fromkeys(
                (
                    "split",
                    "inner",
                    "init",
                    "rtol",
                    "maxiter",
                    "max_lmo",
                    "max_steps",
                    "target",
                    "callback",
                    "clock",
                ),
                "those of solve",
            ),
        },
    ),
    "dcfw.qap.solve_many": Call(
        {
            "A": array(FLOW[None].astype(float)),
            "B": array(DIST[None].astype(float)),
            "C": array(np.ones((1, 4, 4))),
            "maximize": flag(False),
            "swaps": number(2.0, leave_out=ENDLESS),
            "n_jobs": count(1, leave_out=ENDLESS),
            "rng": seed(0),
        },
        fields("fun"),
    ),
    "dcfw.qap.match_many": Call(
        {
            "pairs": other([(FLOW, DIST)]),
            "weight": text("weight", allow=("None",)),
            "parallel": choice("error"),
            "loops": choice("error"),
        },
        fields("fun"),
        omitted=dict.fromkeys(("similarity", "swaps", "n_jobs", "rng"), "those of solve_many"),
    ),
    "dcfw.qap.quadratic_assignment": Call(
        {**AT_FLOW, "method": choice("dcfw"), "options": other({"rng": 0})},
        lambda result: (result.fun, result.col_ind),
    ),
    "dcfw.qap.robust_tabu": Call(
        {
            **AT_FLOW,
            "p": permutation(P),
            "C": LINEAR,
            "iterations": count(20, leave_out=ENDLESS),
            "rng": seed(0),
            "time_limit": number(5.0),
            "fixed": count(0),
            "target": number(1.0),
        }
    ),
    "dcfw.qap.solve": Call(
        {
            **AT_FLOW,
            "C": LINEAR,
            "method": choice("dcfw"),
            "split": choice("auto"),
            "inner": choice("auto"),
            "init": array(np.full((3, 3), 1.0 / 3.0)),
            "restarts": count(1, leave_out=ENDLESS),
            "polish": choice("2opt"),
            "maximize": flag(False),
            "partial_match": array(np.array([[0, 1]]), leave_out=("None",)),  # init is for the rest
            "forbidden": array(np.array([[1, 2]]), leave_out=("None", "one more entry")),
            "rtol": number(1e-3),
            "maxiter": count(10),
            "max_lmo": count(100),
            "time_limit": number(5.0),
            "n_jobs": count(1, leave_out=(*ENDLESS, "negative", "zero")),
            "rng": seed(0),
            "callback": callback(lambda intermediate_result: None),
            "clock": callback(time.perf_counter),
            "verbose": count(0),
        },
        lambda result: result.fun,
        omitted=dict.fromkeys(("max_steps", "target"), "for restarts='auto': tests/qap/test_qap_search.py"),
    ),
    "dcfw.qap.two_opt": Call(
        {
            **AT_FLOW,
            "p": permutation(P),
            "C": LINEAR,
            "rng": seed(0),
            "best_improvement": flag(True),
            "fixed": count(0),
            "time_limit": number(5.0),
        }
    ),
    "dcfw.qap.generators.nugent": Call({"n": count(4, leave_out=ENDLESS), "rng": seed(0)}, fields("A", "B")),
    "dcfw.qap.generators.taillard_uniform": Call(
        {"n": count(4, leave_out=ENDLESS), "rng": seed(0), "seed": count(1)}, fields("A", "B")
    ),
    "dcfw.qap.generators.li_pardalos": Call(
        {"n": count(4, leave_out=ENDLESS), "rng": seed(0), "w": count(9), "z": count(3)}, fields("A", "B")
    ),
    # alignment
    "dcfw.align.MaskedLeastSquares": Call(
        {
            "E1": array(COLUMNS, allow=("one more entry",)),
            "Y": array(OBSERVED, allow=("with NaN",)),
            "mask": array(OBSERVED > 0, called=("Y",)),
            "product": choice("auto"),
            "dtype": choice("float64", allow=("nothing",)),
            "passes": number(200.0),
        },
        lambda f: at(np.eye(*f.shape))(f),
    ),
    "dcfw.align.MaskedProcrustes": Call(
        {
            "lam": number(1e-4),
            "method": choice("dcfw"),
            "centre": flag(False),
            "unit_rows": flag(False),
            "target_scale": number(1.0, called=("Y",)),
            "max_iter": count(5),
            "tol": number(1e-4),
        },
        mapped,
    ),
    "dcfw.align.align": Call(
        {
            "E1": array(COLUMNS, allow=("one more entry",)),
            "Y": array(OBSERVED, allow=("with NaN",)),
            "mask": array(OBSERVED > 0, called=("Y",)),
            "lam": number(1e-4),
            "method": choice("dcfw"),
            "step": choice("exact"),
            "inner": choice("fw"),
            "tolerance": choice("adaptive"),
            **BUDGETS,
            "x0": array(np.eye(3) / 2),
            "polar": choice("auto"),
            "product": choice("auto"),
            "callback": callback(lambda intermediate_result: None),
            "dtype": choice("float64"),
            "verbose": count(0),
        },
        solved,
    ),
    "dcfw.align.mean_cosine": Call(
        {
            "source": array(E1, leave_out=("zeros", "tiny")),  # has no cosine, and says so by NaN
            "target": array(E2, allow=("with NaN", "masked"), leave_out=("zeros", "tiny")),
        }
    ),
    "dcfw.align.nearest_rotation": Call({"X": array(M, allow=("one more entry",))}),
    "dcfw.align.pairs": Call(
        {
            "source": other(["cat", "dog"]),
            "target": other(["chat", "chien"]),
            "dictionary": other([("cat", "chat"), ("dog", "chien")]),
            "one_per_source": flag(True),
        }
    ),
    "dcfw.align.precision_at": Call(
        {
            "source": array(E1, allow=("one more entry",)),
            "target": array(E2, allow=("one more entry",)),
            "pairs": array(np.array([[0, 1, 2], [0, 2, 1]])),
            "k": count(2, allow=("a list", "a vector")),
            "method": choice("nn"),
            "neighbours": count(2),
        }
    ),
    "dcfw.align.read_dictionary": Call(
        {"path": path(_written("dictionary.txt", "cat chat\ndog chien\n")), "columns": other(None)}
    ),
    "dcfw.align.read_vectors": Call(
        {
            "path": path(_written("tiny.vec", "2 3\none 1 2 3\ntwo 4 5 6\n")),
            "limit": count(2),
            "dtype": choice("float64"),
            "on_error": choice("raise"),
            "progress": callback(lambda done, total: None),
            "format": choice("text"),
            "words": path(None),
        },
        lambda vectors: vectors.matrix,
    ),
    "dcfw.align.trial": Call(
        {
            "source": other(align.Vectors([f"w{i}" for i in range(8)], E1, {})),
            "target": other(align.Vectors([f"w{i}" for i in range(8)], E2, {})),
            "dictionary": other([(f"w{i}", f"w{i}") for i in range(8)]),
            "observed": number(0.9),
            "holdout": number(0.25),
            "lam": number(1e-4),
            "method": choice("dcfw"),
            "steps": count(3),
            "tol": number(1e-4),
            "unit": flag(True),
            "centre": flag(False),
            "retrieval": choice("nn"),
            "rng": seed(0),
            "callback": callback(lambda intermediate_result: None),
        },
        lambda trial: trial.result.fun,
    ),
    "dcfw.align.write_vectors": Call(
        {
            "path": path(str(FOLDER / "written.vec"), leave_out=("not there",)),
            "words": other(["a", "b", "c", "d", "e", "f", "g", "h"]),
            "matrix": array(E1),
            "digits": count(6),
        }
    ),
}


def _drawn(thing: Any) -> Any:
    """Look at what was drawn, and put it away."""
    import matplotlib.pyplot as plt

    plt.close("all")
    return str(type(thing).__name__)


def _result() -> Any:
    return dcfw.minimize(DIFFERENCE, SIMPLEX, maxiter=3)


def _search() -> Any:
    return dcfw.qap.solve(FLOW, DIST, restarts="auto", max_steps=20, rng=0)


def _with_plots() -> dict[str, Call]:
    style = {"y": choice("gap"), "x": choice("n_lmo")}
    axes = {"ax": other(None)}
    return {
        "dcfw.plots.plot": Call(
            {"result": other(_result), **axes, **style}, _drawn, omitted={"style": "matplotlib's own"}
        ),
        "dcfw.plots.compare": Call(
            {"results": other(lambda: {"a": _result()}), **axes, **style, "legend": flag(True)},
            _drawn,
            omitted={"style": "matplotlib's own"},
        ),
        "dcfw.plots.incumbents": Call(
            {"result": other(_search), **axes}, _drawn, omitted={"style": "matplotlib's own"}
        ),
        "dcfw.plots.dashboard": Call({"result": other(_result), "figure": other(None)}, _drawn),
        "dcfw.plots.performance_profile": Call(
            {"costs": other({"a": [1.0, 2.0]}), **axes, "styles": other(None), "legend": flag(True)}, _drawn
        ),
    }


def _model() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


@functools.cache
def _trained() -> Any:
    """Return a model that an optimizer and its constraint share."""
    return _model()


def _adam() -> Any:
    import torch

    return torch.optim.AdamW(_trained().parameters())


def _row(value: float) -> Any:
    import torch

    return torch.full((1, 4), value)


def _region() -> Any:
    from dcfw.torch.regions import Interval

    return Interval(-1.0, 1.0)


def _stepped(optimizer: Any) -> Any:
    """Look at an optimizer: the weights after a step along ones."""
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    for p in weights:
        p.grad = p.detach() * 0.0 + 1.0
    optimizer.step()
    return [p.detach().numpy().copy() for p in weights]


def _with_torch() -> dict[str, Call]:
    shared = {
        "params": other(lambda: list(_model().parameters())),
        "lr": number(0.1),
        "constraint": choice("linf", allow=("None",)),
        "radius": number(1.0),
        "radius_mode": choice("absolute"),
        "scope": choice("tensor"),
        "momentum": number(0.0),
        "weight_decay": number(0.0),
        "nesterov": flag(False),
    }
    return {
        "dcfw.torch.SFW": Call(
            {
                **shared,
                "rescale": choice("gradient", allow=("None",)),
                "unconstrained": flag(False),
                "foreach": flag(False),
            },
            _stepped,
        ),
        "dcfw.torch.Scion": Call(
            {
                "params": other(_model),
                "lr": number(0.1),
                "momentum": number(0.9),
                "nesterov": flag(False),
                "weight_decay": number(0.0),
                "unconstrained": flag(False),
                "radius": number(1.0),
            },
            _stepped,
        ),
        "dcfw.torch.DCFW": Call(
            {
                **shared,
                "solver": choice("auto"),
                "inner_steps": count(5, leave_out=ENDLESS),
                "inner_tol": number(0.1),
                "track_gap": flag(False),
            },
            _stepped,
        ),
        "dcfw.torch.constrain": Call(
            {
                "optimizer": other(_adam),
                "groups": other(lambda: _trained()),
                "every": count(1),
                "method": choice("project"),
            },
            lambda constraint: constraint.every,
        ),
        "dcfw.torch.norms": Call(
            {"model": other(_model), "groups": other(None)}, lambda report: len(report.rows)
        ),
        "dcfw.torch.param_groups": Call(
            {
                "model": other(_model),
                "constraint": choice("linf", allow=("None",)),
                "radius": number(1.0, allow=("a list",)),  # the bounds of a box
                "roles": other(None),
                "overrides": other(None),
            },
            len,
            omitted={"options": "those of the optimizer"},
        ),
        "dcfw.torch.argmin": Call(
            {"fun": callback(lambda x: (x * x).sum()), "domain": domain(SIMPLEX)},
            lambda x: x.numpy(),
            omitted={"parameters": "any tensors", "options": "those of minimize"},
        ),
        "dcfw.torch.sliding_step": Call(
            {
                "x": other(lambda: _row(0.1)),
                "g": other(lambda: _row(1.0)),
                "lr": number(0.1),
                "region": other(_region),
                "steps": count(5, leave_out=ENDLESS),
                "tol": number(0.1),
                "total": callback(None),
                "sync": flag(False),
            },
            lambda step: step.x.numpy(),
        ),
    }


def all_calls() -> dict[str, Call]:
    """Return :data:`CALLS` with those of the extras that are installed."""
    calls = dict(CALLS)
    for extra, more in (("matplotlib", _with_plots), ("torch", _with_torch)):
        if importlib.util.find_spec(extra) is not None:
            calls.update(more())
    return calls
