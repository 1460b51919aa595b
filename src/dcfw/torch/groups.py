"""Parameter groups by role: the set and radius of each weight.

The norms are Scion's (Pethick et al. 2025).  ``hidden`` matrices and ``conv`` kernels map features to
features:  radius times sqrt(d_out/d_in).  ``embedding`` tables and learned positions have one-hot inputs, so
their radius does not depend on the vocabulary; that of a ``head``, or a table ``tied`` to it, is divided by
d_in.  Kernels of ``transposed`` convolutions have d_in rows.  A ``vector`` (biases, gains) is not
constrained.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
from typing import Any

import torch

from dcfw import _validate
from dcfw.torch.base import BALLS, CONSTRAINTS, MATRICES, OPTIONS, named, region_of

ROLES: dict[str, dict[str, Any]] = {
    "hidden": {"constraint": "spectral", "radius": 3.0, "radius_mode": "scion"},
    "conv": {"constraint": "spectral", "radius": 3.0, "radius_mode": "scion"},
    "transposed": {"constraint": "spectral", "radius": 3.0, "radius_mode": "transposed"},
    "depthwise": {"constraint": "l2", "radius": 3.0, "scope": "row"},
    "embedding": {"constraint": "linf", "radius": 1.0},
    "head": {"constraint": "linf", "radius": 100.0, "radius_mode": "scion"},
    "tied": {"constraint": "linf", "radius": 100.0, "radius_mode": "scion"},
    "vector": {"constraint": None},
}
HEADS = ("head", "heads", "lm_head", "output", "out", "fc", "classifier", "logits", "generator", "score")
PACKED = ("qkv", "wqkv", "c_attn", "in_proj", "to_qkv", "query_key_value", "attn_qkv")
PLAIN = (bool, int, float, str, tuple, list, type(None))
GATES = {"LSTM": 4, "LSTMCell": 4, "GRU": 3, "GRUCell": 3}


class Groups(list[dict[str, Any]]):
    """A list of parameter groups for the optimizers of :mod:`dcfw.torch`, printed as a table."""

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("weight", "shape", "role", "set", "radius", "matrices")]
        for group in self:
            kind, stack = group["constraint"] or "free", group.get("stack", 1)
            kind = kind if isinstance(kind, str) else type(kind).__name__
            cut = str(stack) if stack > 1 else ""
            for name, p in named(group):
                bound = region_of(group, tuple(p.shape)).bound
                shape = "x".join(map(str, p.shape)) or "scalar"
                limit = f"{bound:.3g}" if math.isfinite(bound) else ""
                limit = "{:.3g}..{:.3g}".format(*group["radius"]) if kind == "box" else limit
                rows.append((name, shape, group.get("role", ""), kind, limit, cut))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, tuple("-" * w for w in widths))
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def param_groups(
    model: Any,
    *,
    constraint: Any = "roles",
    radius: Any = None,
    roles: dict[str, dict[str, Any]] | None = None,
    overrides: dict[str, dict[str, Any]] | None = None,
    **options: Any,
) -> Groups:
    """Return groups for ``SFW``, ``Scion``, ``DCFW`` or ``constrain``, with a set for each role.

    ``print(param_groups(model))`` shows the set of each weight, including frozen ones (they may be unfrozen
    later).

    Parameters
    ----------
    model : torch.nn.Module
    constraint, radius
        One set (of radius 1 by default) for all weights of two dimensions or more instead of those by role;
        vectors stay free.
    roles : dict, optional
        Options by role that replace the defaults: ``{"hidden": {"radius": 5.0}}``.
    overrides : dict, optional
        Options by name pattern (as for file names); later matches take precedence:
        ``{"*.mlp.*.weight": {"radius": 5.0}, "proj.weight": {"role": "head"}}``.  A radius is multiplied by
        the factor of ``radius_mode``, the role's by default; ``{"constraint": None}`` (``"free"``)
        leaves a weight out.
    **options
        Any other option of the optimizers, for all groups (``gather=True`` for FSDP2).

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten())
    >>> print(param_groups(model))
    weight    shape    role    set       radius  matrices
    --------  -------  ------  --------  ------  --------
    0.weight  8x3x3x3  conv    spectral  1.63
    0.bias    8        vector  free
    1.weight  8        vector  free
    1.bias    8        vector  free
    """
    if isinstance(model, type) or not callable(getattr(model, "named_modules", None)):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    model = getattr(model, "_orig_mod", model)  # torch.compile prefixes all names with it
    constraint = _set(constraint, "roles")
    if radius is not None and constraint == "roles":
        raise ValueError(
            "radius needs a constraint, as in param_groups(model, constraint='spectral', radius=2.0); for a "
            "role write roles={'hidden': {'radius': 5.0}}, for all of them Scion(model, radius=2.0)"
        )
    radius = 1.0 if radius is None else radius
    if not isinstance(radius, tuple | list):  # the bounds of a box
        _validate.scalar(radius, "radius", low=0.0, open_low=True)
    roles, overrides = _nested(roles, "roles"), _nested(overrides, "overrides")
    for role in roles:
        _validate.choice(role, "each role", tuple(ROLES))
    for option in itertools.chain(
        options, *roles.values(), *(o.keys() - {"role"} for o in overrides.values())
    ):
        _validate.choice(option, "each option", OPTIONS)
    found: dict[Any, dict[str, Any]] = {}
    unused = set(overrides)
    for name, p, role, stack in named_roles(model):
        extra: dict[str, Any] = {}
        for pattern in (key for key in overrides if fnmatch.fnmatchcase(name, key)):
            extra |= overrides[pattern]
            unused.discard(pattern)
        role = extra.pop("role", role)
        chosen = dict(ROLES[_validate.choice(role, "role", tuple(ROLES))])
        if constraint != "roles" and role != "vector":
            chosen = {"constraint": constraint, "radius": radius}
        is_matrix, given = chosen["constraint"] in MATRICES, {**options, **roles.get(role, {}), **extra}
        kind = given.get("constraint", chosen["constraint"])
        if not isinstance(kind, str | None):  # it has its own size
            chosen = {}
        elif stack > 1 and kind not in BALLS and (is_matrix or kind in MATRICES):
            chosen["stack"] = stack
        chosen |= {**given, "constraint": _set(kind)}
        if chosen["constraint"] == "box" and not isinstance(chosen.get("radius"), tuple | list):
            raise TypeError(f"radius must be a pair (lower, upper) for constraint='box' of {name}")
        values = ((o, repr(v) if isinstance(v, PLAIN) else id(v)) for o, v in sorted(chosen.items()))
        key = (role, *values)  # objects with the same repr may differ
        group = found.setdefault(key, {"params": [], "param_names": [], "role": role, **chosen})
        group["params"].append(p)
        group["param_names"].append(name)
    if unused:
        pattern = min(unused)
        raise ValueError(f"no parameter has a name that matches {pattern!r}{_tied(model, pattern)}")
    return Groups(found.values())


def _nested(given: Any, name: str) -> dict[str, dict[str, Any]]:
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(value, dict) for value in given.values()):
        raise TypeError(f"{name} must be a dictionary of dictionaries, got {type(given).__name__}")
    return given


def _set(constraint: Any, *more: str) -> Any:
    """Return a checked constraint; ``"free"`` is None."""
    if constraint is None or callable(getattr(constraint, "lmo", None)):
        return constraint
    name = _validate.choice(constraint, "constraint", (*CONSTRAINTS, "free", *more))
    return None if name == "free" else name


def _tied(model: Any, pattern: str) -> str:
    """Return a hint for a pattern that matches only a second name of a parameter."""
    first: dict[Any, str] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        if first.setdefault(p, name) != name and fnmatch.fnmatchcase(name, pattern):
            return f": {name} is tied to {first[p]}, which is the name to give"
    return ""


def named_roles(model: Any) -> list[tuple[str, Any, str, int]]:
    """Return (name, parameter, role, number of stacked matrices) of each parameter, tied ones once."""
    seen: dict[Any, tuple[str, Any, str, int]] = {}
    last = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)][-1:]
    for path, module in model.named_modules():
        is_last = path in last and isinstance(model, torch.nn.Sequential)
        path = path.replace("._orig_mod", "")
        *above, layer = path.split(".")
        # The output layer is last in a Sequential, or has one of the names outside of numbered blocks.
        is_head = is_last or (layer in HEADS and not any(part.isdecimal() for part in above))
        for own, p in module.named_parameters(recurse=False):
            name = f"{path}.{own}" if path else own
            if torch.nn.parameter.is_lazy(p):
                raise ValueError(f"{name} of model has no shape yet: run the model once, then group it")
            role, stack = _role(module, path, own, p, is_head)
            if p in seen:
                name, _, before, _ = seen[p]
                role = "tied" if {role, before} == {"head", "embedding"} else before
            seen[p] = (name, p, role, stack)
    return list(seen.values())


def _role(module: Any, path: str, own: str, p: Any, is_head: bool) -> tuple[str, int]:
    kind, nn = type(module).__name__, torch.nn
    if p.ndim < 2 or p.numel() == max(p.shape):
        inputs = isinstance(module, nn.Embedding | nn.EmbeddingBag) or (p.ndim > 2 and _is_table(own))
        return ("embedding" if inputs else "vector"), 1
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) or (own != "weight" and _is_table(own)):
        return "embedding", 1
    if isinstance(module, nn.modules.conv._ConvNd):
        kind = "transposed" if module.transposed else "conv"
        return ("depthwise" if 1 < module.groups == module.in_channels else kind), 1
    if isinstance(module, nn.Linear) and is_head:
        return "head", 1
    if kind in GATES and own.startswith("weight_") and not own.startswith("weight_hr"):
        return "hidden", GATES[kind]
    packed = own == "in_proj_weight" or path.split(".")[-1].lower() in PACKED
    if p.ndim == 2 and packed and p.shape[0] == 3 * p.shape[1]:
        return "hidden", 3
    return "hidden", (math.prod(p.shape[:-2]) if p.ndim > 2 else 1)


def _is_table(own: str) -> bool:
    return any(word in own.lower() for word in ("pos", "embed", "token", "query"))
