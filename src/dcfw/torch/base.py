"""The base class of the optimizers: groups, constraints, blocks and checked gradients.

``param_groups`` hold numbers, strings, tuples and None only, so that a checkpoint loads with
``weights_only=True``.  The optimizer keeps user-defined sets, which groups refer to as ``"object:0"``.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from dcfw import _validate
from dcfw.torch import matrices, regions, shards, state
from dcfw.torch.regions import Region, Tensor

CONSTRAINTS = ("linf", "box", "l2", "l1", "simplex", "spectral", "nuclear")
ELEMENTWISE = (None, "linf", "box")
MATRICES = {"spectral": matrices.Spectral, "nuclear": matrices.Nuclear}
BALLS = {"l2": regions.L2, "l1": regions.L1, "simplex": regions.Simplex}
SCOPES = ("tensor", "row")
RADIUS_MODES = ("absolute", "scion", "transposed")
LARGEST = 3e38  # the largest radius and learning rate that single precision holds
HALF = (torch.bfloat16, torch.float16)  # computed with in single precision
DTYPES = (torch.float32, torch.float64, *HALF)

GROUP_DEFAULTS: dict[str, Any] = {  # ``stack`` and ``gather`` are set in groups only
    "radius": 1.0, "radius_mode": "absolute", "scope": "tensor", "stack": 1, "gather": False,
}  # fmt: skip
# The options of groups; similar keys are refused as misspelt.
OPTIONS = (
    *GROUP_DEFAULTS, "constraint", "lr", "momentum", "nesterov", "weight_decay", "rescale",
    "unconstrained", "foreach", "solver", "inner_steps", "inner_tol", "track_gap", "method",
)  # fmt: skip


def region_of(group: dict[str, Any], shape: tuple[int, ...]) -> Region:
    """Return the set that a group gives to a parameter of this (whole) shape."""
    name, size, stack = group["constraint"], group.get("radius", 1.0), group.get("stack", 1)
    if name is None:
        return regions.UNBOUNDED
    if not isinstance(name, str):
        return regions.Given(name, shape)
    scale = 1.0
    mode = group.get("radius_mode", "absolute")
    if mode != "absolute":
        d_out, d_in = matrices.matrix_shape(shape, stack)[:: -1 if mode == "transposed" else 1]
        scale = 1.0 / d_in if name in ELEMENTWISE else math.sqrt(d_out / d_in)
    if name in ELEMENTWISE:
        lower, upper = size if name == "box" else (-size, size)
        return regions.Interval(scale * lower, scale * upper)
    if name in MATRICES:
        return MATRICES[name](scale * size, matrices.matrix_shape(shape, stack), stack)
    return BALLS[name](scale * size)


def named(group: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """Return the parameters of a group with their names or places."""
    names = group.get("param_names") or [f"params[{i}]" for i in range(len(group["params"]))]
    return zip(names, group["params"], strict=True)


class Problem(NamedTuple):
    """The blocks of a parameter, each with the same set, as (blocks, n) tensors."""

    parameter: Tensor
    region: Region
    tensors: list[Tensor]
    number: int  # the position of the parameter among those that move, which decides who computes it
    gathered: bool

    def total(self, sums: Tensor, scope: str = "tensor") -> Tensor:
        """Add up sums over the ranks, unless this rank has all of each block."""
        return sums if scope == "row" or self.gathered else shards.add_up(self.parameter, sums)

    def write(self, X: Any) -> None:
        """Write new weights back (X is None on a rank that did not compute them)."""
        if self.gathered:
            return shards.scatter(self.parameter, self.number, X)
        weight = shards.local(self.parameter)
        weight.copy_(X.reshape(weight.shape))


class ConstrainedOptimizer(torch.optim.Optimizer):  # type: ignore[misc]
    """Groups, their validation, and the parts of a step that all methods share."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self._domains: list[Any] = []
        self._left: dict[Tensor, tuple[Any, ...]] = {}
        defaults["constraint"] = self._register(defaults["constraint"])
        if isinstance(params, torch.nn.Module):
            raise TypeError("params must be parameters, not a module: give module.parameters()")
        if not isinstance(params, torch.Tensor):  # torch has its own message for a tensor
            params = _validate.listed(params, "params")
        super().__init__(params, {**GROUP_DEFAULTS, **defaults})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters with its own options."""
        if "constraint" in param_group:
            param_group = {**param_group, "constraint": self._register(param_group["constraint"])}
        super().add_param_group(dict(param_group))
        try:
            self._check(self.param_groups[-1])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a ``state_dict()`` after checking its buffers, lr, momentum and weight_decay."""
        groups, checked = state.check(self, state_dict)
        super().load_state_dict({**state_dict, "param_groups": groups, "state": {}})
        self.state.update(checked)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; ``closure``, if given, evaluates the loss and its gradients first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = self.param_groups
        moving = [[p for p in group["params"] if p.grad is not None and p.numel()] for group in groups]
        with torch.no_grad():
            check_gradients([p for params in moving for p in params], groups, type(self).__name__)
            for group, params in zip(groups, moving, strict=True):
                self._begin(group)
                if params:
                    self._move(group, params)
        return loss

    def project_(self) -> None:
        """Move all weights to the nearest points of their sets (near points if there is no projection)."""
        with torch.no_grad():
            for group in self.param_groups:
                self._project(group, [p for p in group["params"] if p.numel()])

    def _project(self, group: dict[str, Any], params: list[Tensor], how: str = "enter") -> None:
        if not params or group["constraint"] is None:
            return
        if group["constraint"] not in ELEMENTWISE:
            problems = self._problems(group, params)
            return self._each(problems, lambda problem: getattr(problem.region, how)(problem.tensors[0]))
        weights = [shards.local(p) for p in params]
        sets: list[Any] = [self._region(group, p.shape) for p in params]
        if weights[0].is_cpu:  # one pass instead of two
            for weight, interval in zip(weights, sets, strict=True):
                weight.clamp_(interval.lower, interval.upper)
        else:
            torch._foreach_clamp_min_(weights, [interval.lower for interval in sets])
            torch._foreach_clamp_max_(weights, [interval.upper for interval in sets])

    def _begin(self, group: dict[str, Any]) -> None:
        """Prepare a group for a step, even if none of its parameters moves."""

    def _move(self, group: dict[str, Any], params: list[Tensor]) -> None:
        raise NotImplementedError

    def _register(self, constraint: Any) -> str | None:
        if constraint is None or isinstance(constraint, str):
            return constraint
        if not callable(getattr(constraint, "lmo", None)):
            accepted = f"None, one of {', '.join(map(repr, CONSTRAINTS))}, or an object with lmo(G)"
            raise TypeError(f"constraint must be {accepted}, got {type(constraint).__name__}")
        self._domains.append(constraint)
        return f"object:{len(self._domains) - 1}"

    def _domain(self, group: dict[str, Any]) -> Any:
        """Return the user-defined set of a group, if it has one."""
        kind, colon, number = (group["constraint"] or "").partition(":")
        if kind + colon != "object:":
            return None
        if not number.isdecimal() or int(number) >= len(self._domains):
            unknown = f"constraint {group['constraint']!r} is not an object of this optimizer"
            raise ValueError(f"{unknown}; construct it with the same constraints as the one that was saved")
        return self._domains[int(number)]

    def _check(self, group: dict[str, Any]) -> None:
        self._check_keys(group)
        lr = group["lr"]
        if not getattr(lr, "is_meta", False):
            number = lr.squeeze() if isinstance(lr, torch.Tensor) else lr
            number = _validate.scalar(number, "lr", low=0.0, high=LARGEST)
            group["lr"] = lr if isinstance(lr, torch.Tensor) else number
        _validate.scalar(group["momentum"], "momentum", low=0.0, high=1.0, open_high=True)
        _validate.scalar(group["weight_decay"], "weight_decay", low=0.0, high=LARGEST)
        _validate.flag(group["gather"], "gather")
        if _validate.flag(group["nesterov"], "nesterov") and not group["momentum"]:
            raise ValueError("nesterov=True needs momentum > 0")
        _validate.integer(group["stack"], "stack", low=1)
        _validate.choice(group["scope"], "scope", SCOPES)
        _validate.choice(group["radius_mode"], "radius_mode", RADIUS_MODES)
        self._check_constraint(group)
        for name, p in named(group):
            if p.dtype not in DTYPES:
                accepted = ", ".join(map(str, DTYPES))
                raise TypeError(f"{name} has dtype {p.dtype}; {type(self).__name__} works with {accepted}")
            shards.refuse(p, name, group, group["constraint"] in ELEMENTWISE)
            self._check_shape(group, name, tuple(p.shape))

    def _check_keys(self, group: dict[str, Any]) -> None:
        for key in group.keys() - {*OPTIONS, "role", *state.SCHEDULERS_OWN}:  # others are the user's own
            if near := difflib.get_close_matches(str(key), OPTIONS, 1, 0.8):
                raise ValueError(f"{key!r} is not an option of groups; did you mean {near[0]!r}?")
        for key in ("unconstrained", "rescale"):
            if key not in self.defaults and group.get(key, False) not in (None, False):
                raise ValueError(f"{key}={group[key]!r} is an option of SFW and Scion only: leave it out")

    def _check_constraint(self, group: dict[str, Any]) -> None:
        name, scope, radius = group["constraint"], group["scope"], group["radius"]
        own = self._domain(group) is not None
        if name is not None and not own:
            _validate.choice(name, "constraint", CONSTRAINTS)
        if name == "box":
            if not isinstance(radius, tuple | list) or len(radius) != 2:
                raise TypeError(f"radius must be a pair (lower, upper) for constraint='box', got {radius!r}")
            each = "each bound in radius"
            lower, upper = (_validate.scalar(v, each, low=-LARGEST, high=LARGEST) for v in radius)
            if not lower < upper:
                raise ValueError(f"radius=(lower, upper) must have lower < upper, got ({lower:g}, {upper:g})")
            group["radius"] = (lower, upper)
        else:
            group["radius"] = _validate.scalar(radius, "radius", low=0.0, high=LARGEST, open_low=True)
        if own and (group["radius"] != 1.0 or group["radius_mode"] != "absolute"):
            raise ValueError("radius and radius_mode are not for a constraint object, which has its own size")
        if group["stack"] > 1 and (own or name in BALLS):
            raise ValueError(
                f"stack is for matrices, not for constraint={name!r}: use 'spectral' or 'nuclear'"
            )
        if (own or name in MATRICES) and scope != "tensor":
            raise ValueError(f"constraint={name!r} is for whole tensors: use scope='tensor', got {scope!r}")

    def _check_shape(self, group: dict[str, Any], name: str, shape: tuple[int, ...]) -> None:
        constraint, stack = group["constraint"], group["stack"]
        if constraint in MATRICES and len(shape) < 2:
            remedy = (
                "dcfw.torch.param_groups(model), or put vectors in a group of their own (constraint=None)"
            )
            needs = f"constraint={constraint!r} needs matrices, but {name} has shape {shape}"
            raise ValueError(f"{needs}: give {remedy}")
        rows, columns = matrices.matrix_shape(shape)
        if stack > 1 and (len(shape) < 2 or (rows * columns) % (stack * shape[-1] or 1)):
            raise ValueError(f"{name} of shape {shape} cannot be cut into stack={stack} equal matrices")
        wanted = getattr(self._domain(group), "shape", None)
        if wanted is not None and tuple(wanted) != shape:
            raise ValueError(f"{name} has shape {shape}, but its constraint is for shape {tuple(wanted)}")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_domains": self._domains}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        self._left = {}  # loaded weights are taken as inside

    def _region(self, group: dict[str, Any], shape: tuple[int, ...]) -> Region:
        domain = self._domain(group)
        return region_of(group, shape) if domain is None else regions.Given(domain, shape)

    def _problems(self, group: dict[str, Any], params: list[Tensor], *lists: Any) -> Iterator[Problem]:
        """Yield the blocks of a group, with their weights and the given lists of (local) tensors."""
        lists = ([shards.local(p) for p in params], *lists)
        for i, p in enumerate(params):
            gathered = group["gather"] and group["constraint"] not in ELEMENTWISE and shards.ranks(p) > 1
            shape = (p if gathered else shards.local(p)).shape
            rows = shape[0] if group["scope"] == "row" and len(shape) else 1
            size = (rows, shape.numel() // rows if rows else 0)
            parts = [shards.whole(many[i], p) if gathered else many[i] for many in lists]
            tensors = [(part.float() if part.dtype in HALF else part).reshape(size) for part in parts]
            yield Problem(p, self._region(group, tuple(p.shape)), tensors, i, gathered)

    def _each(self, problems: Iterable[Problem], compute: Callable[[Problem], Tensor]) -> None:
        """Write the new weights of all blocks; the ranks take turns in computing gathered ones."""
        problems = iter(problems)
        for first in problems:
            window = [first]
            if first.gathered:
                window += itertools.islice(problems, shards.ranks(first.parameter) - 1)
            mine = [not one.gathered or shards.is_mine(one.parameter, one.number) for one in window]
            found = [compute(problem) if own else None for problem, own in zip(window, mine, strict=True)]
            for problem, X in zip(window, found, strict=True):
                problem.write(X)
                p = problem.parameter
                self.state[p]["inside"] = True
                if not torch.compiler.is_compiling():
                    self._left[p] = _mark(p, problem.region)

    def _enter(self, problem: Problem) -> Tensor:
        """Return the weights, moved into their sets unless the last step left them there."""
        p, region = problem.parameter, problem.region
        inside = self.state[p].get("inside")
        if inside and p in self._left and not torch.compiler.is_compiling():
            inside = self._left[p] == _mark(p, region)
        if not inside:
            problem.tensors[0] = region.enter(problem.tensors[0])
        return problem.tensors[0]

    def _buffers(self, params: list[Tensor], name: str) -> list[Tensor]:
        """Return the named state of each parameter, initially zero."""
        for p in params:
            if name not in self.state[p]:
                self.state[p][name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return [shards.local(self.state[p][name]) for p in params]


def _mark(p: Tensor, region: Region) -> tuple[Any, ...]:
    """Return a tuple that changes when a parameter is written to."""
    local = shards.local(p.detach())
    # Writing through ``.data`` changes no version: on the CPU the norm detects it (it bounds balls, and is as
    # fast as a sum), and the sum for sets without symmetry; elsewhere only a new address does.
    marks = [torch.linalg.vector_norm(local)] if local.is_cpu else []
    marks += [local.sum()] if marks and isinstance(region, regions.Simplex | regions.Given) else []
    return p._version, region, local.data_ptr(), *(float(mark) if mark == mark else None for mark in marks)


def check_gradients(params: list[Tensor], groups: list[dict[str, Any]], who: str) -> None:
    """Raise an error for a sparse gradient, and for NaN or Inf where these can be read."""

    def described(p: Tensor) -> str:
        name = next(name for group in groups for name, q in named(group) if q is p)
        return f"{name} of shape {tuple(p.shape)}"

    for p in params:
        if p.grad.layout is not torch.strided:
            what = f"got a sparse one of {described(p)}; make the embedding with sparse=False"
            raise TypeError(f"{who} needs dense gradients, {what}")
    if not params or torch.compiler.is_compiling() or params[0].is_meta:
        return
    if params[0].device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return
    # A sum is the fastest check of all entries; one that overflows proves nothing.
    sums = [shards.local(p.grad).sum() for p in params]
    if params[0].device.type != "cpu":  # one synchronisation for all
        sums = torch.stack([value.to(sums[0].device) for value in sums]).tolist()
    for p, value in zip(params, sums, strict=True):
        if not math.isfinite(value) and not bool(torch.isfinite(shards.local(p.grad)).all()):
            remedy = "no weight was moved; look at the loss, lower lr, or clip the gradients"
            raise ValueError(f"the gradient of {described(p)} has NaN or Inf entries; {remedy}")
