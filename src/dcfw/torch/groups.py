"""Parameter groups: which weights get which constraint.

Biases and the scales of normalisation layers are few, and their sizes mean something else than a weight's;
most practice leaves them alone.  The paper constrains everything alike.
"""

from __future__ import annotations

from typing import Any

from dcfw import _validate
from dcfw.torch.base import CONSTRAINTS


def param_groups(
    model: Any,
    *,
    constraint: Any = "linf",
    radius: Any = 1.0,
    vector_constraint: Any = None,
    vector_radius: Any = 1.0,
    **options: Any,
) -> list[dict[str, Any]]:
    """Return two groups: weights with a constraint, and biases and normalisation apart.

    Weights are the parameters of two dimensions or more; matrix constraints see a convolution's kernel as the
    matrix of its output channels against the rest.  Frozen parameters are listed too: without a gradient they
    are passed over, and they may be unfrozen later.

    Parameters
    ----------
    model : torch.nn.Module
    constraint, radius
        For the weights.
    vector_constraint, vector_radius
        For the parameters of one dimension, by default none.
    **options
        Anything else the optimizer takes, for both groups.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
    >>> groups = param_groups(model, constraint="spectral", radius=2.0)
    >>> [(group["constraint"], len(group["params"])) for group in groups]
    [('spectral', 1), (None, 3)]
    """
    parameters = _parameters(model)
    if constraint is not None and not callable(getattr(constraint, "lmo", None)):
        constraint = _validate.choice(constraint, "constraint", CONSTRAINTS)
    if vector_constraint is not None and not callable(getattr(vector_constraint, "lmo", None)):
        vector_constraint = _validate.choice(vector_constraint, "vector_constraint", CONSTRAINTS)
    for name, size in (("radius", radius), ("vector_radius", vector_radius)):
        if not isinstance(size, tuple | list):  # the bounds of a box
            _validate.scalar(size, name, low=0.0, open_low=True)
    weights = [p for p in parameters if p.ndim >= 2]
    vectors = [p for p in parameters if p.ndim < 2]
    groups = [
        {"params": weights, "constraint": constraint, "radius": radius, **options},
        {"params": vectors, "constraint": vector_constraint, "radius": vector_radius, **options},
    ]
    if vector_constraint is None:
        # All of space has no inner loop and no radius of its own.
        groups[1].update({key: value for key, value in _UNCONSTRAINED.items() if key in options})
    return [group for group in groups if group["params"]]


def _parameters(model: Any) -> list[Any]:
    if isinstance(model, type) or not callable(getattr(model, "parameters", None)):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    return list(model.parameters())


_UNCONSTRAINED = {"solver": "auto", "radius_mode": "absolute", "scope": "tensor"}


def paper_groups(
    model: Any, c: float, *, L: float = 10.0, inner_steps: int = 10_000, published: bool = False
) -> list[dict[str, Any]]:
    """Return the settings of the paper's study: every tensor on the l_inf ball of radius ``c``.

    Algorithm 1 with the sliding split, L = 10, one only-decreasing tolerance for each tensor, at most 10,000
    inner steps (2,000 in the transfer study); biases and normalisation are constrained like all else.

    Parameters
    ----------
    model : torch.nn.Module
    c : float
        The radius; the paper has 1, 10 and 100.
    L : float, default 10.0
        The constant of the split; ``lr`` is 1/L.
    inner_steps : int, default 10_000
        The cap of the inner loop.
    published : bool, default False
        Take ||G||_1 ||D||_inf in place of the FW gap, as the authors' code does.

    Examples
    --------
    >>> import torch
    >>> from dcfw.torch import DCFW
    >>> optimizer = DCFW(paper_groups(torch.nn.Linear(3, 2), c=10.0))
    >>> group = optimizer.param_groups[0]
    >>> group["solver"], group["lr"], group["radius"], group["inner_rule"]
    ('fw', 0.1, 10.0, 'paper')
    """
    return [
        {
            "params": _parameters(model),
            "lr": 1.0 / _validate.scalar(L, "L", low=0.0, open_low=True),
            "constraint": "linf",
            "radius": _validate.scalar(c, "c", low=0.0, open_low=True),
            "radius_mode": "absolute",
            "scope": "tensor",
            "solver": "fw",
            "inner_steps": _validate.integer(inner_steps, "inner_steps", low=1),
            "inner_rule": "paper",
            "gap": "norm-product" if _validate.flag(published, "published") else "fw",
        }
    ]
