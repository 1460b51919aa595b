"""What the optimizers have in common: parameter groups of plain data, constraints, blocks, directions.

Everything in ``param_groups`` is a number, a string, a tuple or None, so that a checkpoint loads with
``weights_only=True``.  A user's own set is kept by the optimizer, and the group says ``"object:0"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from dcfw import _validate
from dcfw.torch import matrices, radius, regions, shards, state
from dcfw.torch.regions import Region, Tensor

CONSTRAINTS = ("linf", "box", "l2", "l1", "simplex", "k-sparse", "spectral", "nuclear")
ELEMENTWISE = (None, "linf", "box")
MATRICES = ("spectral", "nuclear")
SCOPES = ("tensor", "group", "row")
LARGEST = 3e38
"""What sizes may be at most: numbers that single precision has."""
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

CONSTRAINT_DEFAULTS: dict[str, Any] = {
    "constraint": "linf",
    "radius": 1.0,
    "radius_mode": "absolute",
    "k": None,
    "scope": "tensor",
}


class Problem(NamedTuple):
    """Blocks with a set each, all of one kind, as (blocks, n) tensors that can be computed with."""

    parameter: Tensor
    """Where state that belongs to the blocks is kept (the group's first one, if they span a group)."""
    members: list[Tensor]
    """All parameters that the blocks are made of."""
    region: Region
    tensors: list[Tensor]
    matrix: tuple[int, int] | None
    write: Callable[[Tensor], None]
    """Writes new weights back."""


class ConstrainedOptimizer(torch.optim.Optimizer):  # type: ignore[misc]
    """Base class: groups, their validation, and the parts of a step that do not depend on the method."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self._domains: list[Any] = []
        self._left: dict[Tensor, tuple[int, Region]] = {}
        defaults["constraint"] = self._register(defaults["constraint"])
        if isinstance(params, torch.nn.Module):
            raise TypeError("params must be parameters, not a module: give module.parameters()")
        if not isinstance(params, torch.Tensor):  # for which torch has a message of its own
            params = _validate.listed(params, "params")
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters with options of its own (``L`` may be given in place of ``lr``)."""
        group = dict(param_group)
        if "constraint" in group:
            group["constraint"] = self._register(group["constraint"])
        if group.get("L") is not None:
            group["lr"] = 1.0 / _validate.scalar(group["L"], "L", low=0.0, open_low=True)
        group.pop("L", None)
        super().add_param_group(group)
        try:
            self._check(self.param_groups[-1])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what ``state_dict()`` of such an optimizer has returned.

        Options stay those of this optimizer; see :mod:`dcfw.torch.state` for what is taken and checked.
        """
        groups, checked = state.check(self, state_dict)
        super().load_state_dict({**state_dict, "param_groups": groups, "state": checked})
        # PyTorch has cast everything to the precision of the weights, where a tolerance may be infinite.
        numbers = (number for group in groups for number in group["params"])
        params = [p for group in self.param_groups for p in group["params"]]
        for number, p in zip(numbers, params, strict=True):
            if number in checked:
                self.state[p] = checked[number]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; ``closure``, if given, evaluates the loss and its gradients first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._begin(group)
            params = []
            for p in group["params"]:
                g = p.grad
                if g is None or not p.numel():
                    continue
                if g.is_sparse:
                    raise TypeError(
                        f"{type(self).__name__} needs dense gradients, got a sparse one of shape "
                        f"{tuple(p.shape)}; make the embedding with sparse=False"
                    )
                params.append(p)
            if params:
                with torch.no_grad():
                    try:
                        self._move(group, params)
                    except torch.linalg.LinAlgError as error:
                        _blame_gradients(params, error)
                        raise
        return loss

    def project_(self) -> None:
        """Move all weights to the nearest points of their sets, in place.

        Where a set has no projection, weights outside it are moved to a point of it that Frank-Wolfe steps
        find near them.
        """
        with torch.no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.numel()]
                for problem in self._problems(group, params, [shards.local(p) for p in params]):
                    self._leave(problem, problem.region.enter(problem.tensors[0]))

    def _begin(self, group: dict[str, Any]) -> None:
        """Prepare a group for a step, before any of its parameters is looked at."""

    def _move(self, group: dict[str, Any], params: list[Tensor]) -> None:
        raise NotImplementedError

    # -- groups ---------------------------------------------------------------------------------------------

    def _register(self, constraint: Any) -> str | None:
        """Return the name of a constraint, keeping it if it is a user's object."""
        if constraint is None or isinstance(constraint, str):
            return constraint
        if not callable(getattr(constraint, "lmo", None)):
            raise TypeError(
                f"constraint must be None, one of {', '.join(map(repr, CONSTRAINTS))}, or an object with "
                f"lmo(G), got {type(constraint).__name__}"
            )
        self._domains.append(constraint)
        return f"object:{len(self._domains) - 1}"

    def _domain(self, group: dict[str, Any]) -> Any:
        """Return the user's object of a group, None if its constraint is one of ours."""
        name = group["constraint"]
        if name is None or not name.startswith("object:"):
            return None
        number = int(name[len("object:") :])
        if number >= len(self._domains):
            raise ValueError(
                f"constraint {name!r} is an object that this optimizer was not made with; construct it with "
                "the same constraints as the one that was saved"
            )
        return self._domains[number]

    def _check(self, group: dict[str, Any]) -> None:
        """Validate the options that every constrained optimizer has."""
        if not isinstance(group["lr"], torch.Tensor):
            group["lr"] = _validate.scalar(group["lr"], "lr", low=0.0)
        _validate.scalar(group["momentum"], "momentum", low=0.0, high=1.0, open_high=True)
        _validate.scalar(group["weight_decay"], "weight_decay", low=0.0, high=LARGEST)
        _validate.flag(group["maximize"], "maximize")
        if group["k"] is not None:
            _validate.integer(group["k"], "k", low=1)
        _validate.choice(group["scope"], "scope", SCOPES)
        _validate.choice(group["radius_mode"], "radius_mode", radius.MODES)
        self._check_constraint(group)
        names = group.get("param_names") or [f"params[{i}]" for i in range(len(group["params"]))]
        for name, p in zip(names, group["params"], strict=True):
            if p.dtype not in DTYPES:
                accepted = ", ".join(str(dtype) for dtype in DTYPES)
                raise TypeError(f"{name} has dtype {p.dtype}; {type(self).__name__} works with {accepted}")
            shards.refuse(p, name, group, group["constraint"] in ELEMENTWISE)
            self._check_shape(group, name, tuple(p.shape))

    def _check_constraint(self, group: dict[str, Any]) -> None:
        name, scope = group["constraint"], group["scope"]
        own = self._domain(group) is not None
        if name is not None and not own:
            _validate.choice(name, "constraint", CONSTRAINTS)
        if name == "box":
            bounds = group["radius"]
            if not isinstance(bounds, tuple | list) or len(bounds) != 2:
                raise TypeError(f"radius must be a pair (lower, upper) for constraint='box', got {bounds!r}")
            lower, upper = (_validate.scalar(bound, "each bound in radius") for bound in bounds)
            if not lower < upper:
                raise ValueError(f"radius=(lower, upper) must have lower < upper, got ({lower:g}, {upper:g})")
            group["radius"] = (lower, upper)
        else:
            group["radius"] = _validate.scalar(
                group["radius"], "radius", low=0.0, high=LARGEST, open_low=True
            )
        if name == "k-sparse" and group["k"] is None:
            raise TypeError("constraint='k-sparse' needs k, the number of nonzeros of a vertex")
        if own and (group["radius"] != 1.0 or group["radius_mode"] != "absolute"):
            raise ValueError(
                "radius and radius_mode are not used with a constraint object, which has its own size"
            )
        if (own or name in MATRICES) and scope != "tensor":
            raise ValueError(f"constraint={name!r} is for whole tensors: use scope='tensor', got {scope!r}")
        if scope == "group" and group["radius_mode"] != "absolute":
            raise ValueError("scope='group' has one radius for all its tensors: use radius_mode='absolute'")

    def _check_shape(self, group: dict[str, Any], name: str, shape: tuple[int, ...]) -> None:
        if group["constraint"] == "k-sparse":
            rows, columns = matrices.matrix_shape(shape)
            entries = columns if group["scope"] == "row" else rows * columns
            if group["scope"] != "group" and group["k"] > entries > 0:
                raise ValueError(
                    f"k must be at most the {entries} entries of a block of {name}, got {group['k']}"
                )
        wanted = getattr(self._domain(group), "shape", None)
        if wanted is not None and tuple(wanted) != shape:
            raise ValueError(
                f"{name} has shape {shape}, but its constraint object is for shape {tuple(wanted)}"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_domains": self._domains}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        self._left = {}  # what is loaded, weights included, is believed

    # -- the parts of a step --------------------------------------------------------------------------------

    def _region(self, group: dict[str, Any], shape: tuple[int, ...]) -> Region:
        """Return the set of a parameter of this (whole) shape."""
        name = group["constraint"]
        if name is None:
            return regions.UNBOUNDED
        domain = self._domain(group)
        if domain is not None:
            return regions.Given(domain, shape)
        scale = radius.factor(group["radius_mode"], name, shape, group["scope"], group["k"])
        if name == "box":
            return regions.Interval(scale * group["radius"][0], scale * group["radius"][1])
        size = scale * group["radius"]
        if name == "linf":
            return regions.Interval(-size, size)
        if name == "k-sparse":
            return regions.KSparse(group["k"], size)
        if name in MATRICES:
            kind = matrices.Spectral if name == "spectral" else matrices.Nuclear
            return kind(size, matrices.matrix_shape(shape))
        return {"l2": regions.L2, "l1": regions.L1, "simplex": regions.Simplex}[name](size)

    def _problems(
        self, group: dict[str, Any], params: list[Tensor], *lists: list[Tensor] | None
    ) -> Iterator[Problem]:
        """Yield the blocks of a group, with the given tensors (one list for each, aligned with ``params``).

        Half precision is computed with in single; a list that is None gives None.
        """
        if group["scope"] == "group":
            if not params:
                return
            first = group["params"][0]
            tensors = [
                None if many is None else torch.cat([_wide(t).reshape(-1) for t in many]).unsqueeze(0)
                for many in lists
            ]
            region = self._region(group, tuple(first.shape))

            def spread(X: Tensor) -> None:
                for p, part in zip(params, X[0].split([p.numel() for p in params]), strict=True):
                    p.copy_(part.view(p.shape))

            yield Problem(first, params, region, tensors, None, spread)
            return
        for i, p in enumerate(params):
            shape = shards.local(p).shape
            rows = shape[0] if group["scope"] == "row" and len(shape) else 1
            size = (rows, shape.numel() // rows if rows else 0)
            tensors = [None if many is None else _wide(many[i]).reshape(size) for many in lists]

            def put(X: Tensor, p: Tensor = p) -> None:
                weight = shards.local(p)
                weight.copy_(X.view(weight.shape))

            matrix = tuple(p.shape) if p.ndim == 2 and group["scope"] == "tensor" else None
            yield Problem(p, [p], self._region(group, tuple(p.shape)), tensors, matrix, put)

    def _enter(self, problem: Problem) -> Tensor:
        """Return the weights of the blocks, moved into their sets if they may be outside."""
        if not all(self._is_inside(p, problem.region) for p in problem.members):
            problem.tensors[0] = problem.region.enter(problem.tensors[0])
            for p in problem.members:
                self.state[p]["inside"] = True
        return problem.tensors[0]

    def _is_inside(self, p: Tensor, region: Region) -> bool:
        """Tell whether a step has left a parameter in this set, and nobody has written to it since."""
        inside = bool(self.state[p].get("inside"))
        if inside and not torch.compiler.is_compiling():
            now = (p._version, region)
            inside = self._left.get(p, now) == now
        return inside

    def _leave(self, problem: Problem, X: Tensor) -> None:
        """Write new weights, which are in their sets."""
        problem.write(X)
        for p in problem.members:
            self._mark(p, problem.region)

    def _mark(self, p: Tensor, region: Region) -> None:
        if not torch.compiler.is_compiling():
            self._left[p] = (p._version, region)

    def _gradients(self, group: dict[str, Any], weights: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
        """Return the gradients, negated to maximise and with the weight decay of SGD added."""
        if group["maximize"]:
            grads = list(torch._foreach_neg(grads))
        if group["weight_decay"]:
            grads = list(torch._foreach_add(grads, weights, alpha=group["weight_decay"]))
        return grads

    def _buffers(self, params: list[Tensor], name: str) -> list[Tensor]:
        """Return the named state of each parameter, zero at first."""
        kept = [self.state[p] for p in params]
        for p, entries in zip(params, kept, strict=True):
            if name not in entries:
                entries[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return [shards.local(entries[name]) for entries in kept]

    def _count(self, p: Tensor) -> Tensor:
        """Return the number of the step that is being taken for a parameter, as a tensor on its device."""
        entries = self.state[p]
        if "step" not in entries:
            entries["step"] = torch.zeros((), dtype=torch.float32, device=shards.local(p).device)
        entries["step"] += 1
        return entries["step"]


def _blame_gradients(params: list[Tensor], error: Exception) -> None:
    """Raise an error that says so if a gradient with NaN or Inf is why a decomposition has failed."""
    for p in params:
        if not bool(torch.isfinite(shards.local(p.grad)).all()):
            raise ValueError(
                f"the gradient of a parameter of shape {tuple(p.shape)} has NaN or Inf entries; look at the "
                "loss, lower lr, or clip the gradients"
            ) from error


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
