"""Norm reports of a model: one row for each weight, cheap enough to log each epoch, and a plot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from dcfw import _validate
from dcfw.torch.base import region_of
from dcfw.torch.groups import Groups, param_groups
from dcfw.torch.matrices import leading_pair, matrix_shape
from dcfw.torch.regions import Interval

EXACT = 512  # operator norms are exact up to this side, and a few per cent too low beyond it
AT_BOUND = 0.999  # the fraction of the radius from which a norm or an entry is at its bound


@dataclass(frozen=True)
class Row:
    """The norms of one weight; for a stack of matrices the largest ones."""

    name: str
    shape: tuple[int, ...]
    constraint: str
    operator: float  # the largest singular value (see EXACT); for a vector the largest entry
    linf: float
    l1: float
    size: float  # the norm that the set bounds
    radius: float  # the limit of size: for a box the largest absolute bound
    at_bound: float  # the share of entries on intervals, 0 or 1 on other sets


@dataclass(frozen=True)
class Norms:
    """A norm report; ``print`` shows it as a table."""

    rows: list[Row]
    notes: tuple[str, ...] = ()

    @property
    def log_product(self) -> float:
        """The logarithm of the product of the matrices' operator norms, a proxy for a Lipschitz constant."""
        return sum(math.log(max(row.operator, 1e-300)) for row in self.rows if len(row.shape) > 1)

    def __str__(self) -> str:
        lines = [f"{'weight':32} {'set':8}  operator      linf        l1    radius at bound"]
        for r in self.rows:
            numbers = f"{r.operator:9.3g} {r.linf:9.3g} {r.l1:9.3g} {r.radius:9.3g} {r.at_bound:8.1%}"
            lines.append(f"{r.name[-32:]:32} {r.constraint:8} {numbers}")
        product = f"log of the product of operator norms: {self.log_product:.3g}"
        return "\n".join([*lines, product, *self.notes])

    def plot(self, ax: Any = None) -> Any:
        """Plot each weight's norm as a share of its radius and return the axes (needs matplotlib)."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(layout="constrained")[1]
        bounded = [row for row in self.rows if math.isfinite(row.radius)]
        ax.barh([row.name for row in bounded], [row.size / row.radius for row in bounded])
        ax.axvline(1.0, color="black", linewidth=1)
        ax.invert_yaxis()
        ax.set_xlabel("norm / radius")
        return ax


def norms(model: Any, groups: Any = None) -> Norms:
    """Return the norms of all weights of a model and the radii of their sets.

    ``groups`` is an optimizer of :mod:`dcfw.torch`, the result of ``constrain``, or groups; by default the
    radii are those of :func:`~dcfw.torch.param_groups`.  The operator norm of a convolution kernel is that of
    the matrix (out x in kh kw), which its set bounds; the convolution, with stride 1, may stretch an image by
    up to sqrt(kh kw) times as much.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(4, 4, bias=False)
    >>> _ = torch.nn.init.eye_(model.weight)
    >>> report = norms(model, [{"params": [model.weight], "constraint": "linf", "radius": 1.0}])
    >>> row = report.rows[0]
    >>> row.operator, row.l1, row.at_bound, report.log_product
    (1.0, 4.0, 0.25, 0.0)
    """
    if isinstance(model, type) or not callable(getattr(model, "named_parameters", None)):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    groups = getattr(groups, "param_groups", groups)
    found = param_groups(model) if groups is None else Groups(_validate.listed(groups, "groups"))
    if not all(isinstance(group, dict) and {"params", "constraint"} <= group.keys() for group in found):
        accepted = "an optimizer of dcfw.torch, the result of constrain(...), or dictionaries"
        raise TypeError(f"groups must be {accepted} with 'params' and 'constraint'")
    given = {p: group for group in found for p in group["params"]}
    with torch.no_grad():
        every = ((name.replace("_orig_mod.", ""), p) for name, p in model.named_parameters())
        rows = [_row(name, p, given.get(p, {"constraint": None})) for name, p in every]
    default = "radii: defaults by role; norms(model, optimizer) shows an optimizer's"
    notes = [default] if groups is None else []
    if any(isinstance(module, torch.nn.modules.conv._ConvNd) for module in model.modules()):
        notes.append("convolutions: norms of the matrix out x rest, not of the operator on images")
    return Norms(rows, tuple(notes))


def _row(name: str, p: Any, group: dict[str, Any]) -> Row:
    constraint = group["constraint"]
    own = constraint is not None and (not isinstance(constraint, str) or constraint.startswith("object:"))
    region = region_of({**group, "constraint": None} if own else group, tuple(p.shape))
    w = p.detach()
    w = (w.full_tensor() if hasattr(w, "full_tensor") else w).float()
    size = w.abs().max() if p.numel() else w.sum()
    operator, bounded, at_bound = size, torch.full((), math.nan), 0.0
    if p.ndim > 1 and p.numel():
        stack = group.get("stack", 1)
        M = w.reshape(stack, *matrix_shape(tuple(p.shape), stack))
        if min(M.shape[-2:]) <= EXACT:
            operator = torch.linalg.matrix_norm(M, 2).max()
        else:
            operator = torch.linalg.vector_norm(leading_pair(M)[1] @ M.mT, dim=-1).max()
    if math.isfinite(region.bound) and p.numel():
        rows = p.shape[0] if group.get("scope") == "row" and p.ndim else 1
        bounded = operator if constraint == "spectral" else region.size(w.reshape(rows, -1)).max()
        sizes, limit = bounded, region.bound
        if isinstance(region, Interval):
            limit = 0.5 * (region.upper - region.lower)
            sizes = (w - 0.5 * (region.lower + region.upper)).abs()
        at_bound = float((sizes >= AT_BOUND * limit).float().mean())
    label = "own" if own else constraint or "free"
    found = (float(operator), float(size), float(w.abs().sum()), float(bounded))
    return Row(name, tuple(p.shape), label, *found, region.bound, at_bound)
