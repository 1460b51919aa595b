"""A layer whose output is a minimiser, differentiable in the parameters of the objective.

With P an orthonormal basis of the directions of the solution's face, the hull of its atoms, and H the Hessian
in x, the optimality condition P^T grad f(x, theta) = 0 gives

    dx = -P (P^T H P)^+ P^T (d grad f / d theta) d theta

if small changes of theta preserve the face (strict complementarity).  References: Amos and Kolter 2017
(OptNet); Agrawal et al. 2019 (differentiable convex layers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import dcfw
from dcfw import functions
from dcfw.sets.given import as_set
from dcfw.solvers.final_check import gap_at

ACCURACY = 1e-9  # the Frank-Wolfe gap of a solution, relative to that at the start
ENOUGH = 1e-6  # the relative gap at which a run stopped by rounding counts as converged
WEIGHT = 1e-9  # atoms with less weight are ignored


def argmin(
    fun: Callable[..., torch.Tensor], domain: Any, *parameters: torch.Tensor, **options: Any
) -> torch.Tensor:
    """Return argmin over x in ``domain`` of ``fun(x, *parameters)``, differentiable in the parameters.

    Parameters
    ----------
    fun : callable
        Maps x, a double-precision tensor of the set's shape, and the parameters to a scalar by torch
        operations that can be differentiated twice.
    domain : set
        A polytope from :mod:`dcfw.sets`, or any set whose solution has few atoms.
    *parameters : tensor
        The variables of differentiation.
    **options
        For :func:`dcfw.minimize`; by default the gap is reduced by 1e-9.  The start is a vertex.

    Returns
    -------
    tensor
        The solution, in double precision; RuntimeError is raised if the solver does not converge.

    Examples
    --------
    The derivative of a projection onto the simplex, whose third entry stays 0:

    >>> import torch, dcfw
    >>> from dcfw import sets
    >>> target = torch.tensor([0.6, 0.5, -0.4], dtype=torch.float64, requires_grad=True)
    >>> x = dcfw.torch.argmin(lambda x, t: ((x - t) ** 2).sum(), sets.Simplex(3), target)
    >>> x[0].backward()
    >>> [round(v, 4) + 0.0 for v in target.grad.tolist()]
    [0.5, -0.5, 0.0]
    """
    if not callable(fun):
        raise TypeError(f"fun must be a callable of x and the parameters, got {type(fun).__name__}")
    return _Argmin.apply(fun, as_set(domain, "domain"), options, *parameters)


class _Argmin(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, fun: Any, domain: Any, options: dict[str, Any], *parameters: Any) -> torch.Tensor:
        fixed = [p.detach() if isinstance(p, torch.Tensor) else p for p in parameters]

        def value(x: np.ndarray) -> float:
            with torch.no_grad():
                return float(fun(torch.from_numpy(x), *fixed))

        def grad(x: np.ndarray) -> np.ndarray:
            point = torch.from_numpy(x).requires_grad_()
            with torch.enable_grad():
                return np.asarray(torch.autograd.grad(fun(point, *fixed), point)[0])

        # From a vertex, so that all atoms are vertices and their hull is the face of the solution.
        first = domain.lmo(np.zeros(domain.shape))
        phi = functions.Smooth(value, grad)
        # The vertex may be near the solution, where its gap alone is no scale.
        scale = max(gap_at(phi, domain.oracle(), x) for x in (first, domain.start()))
        stop = {} if {"tol", "rtol"} & options.keys() else {"tol": ACCURACY * scale}
        res = dcfw.minimize(phi, domain, first, **{"method": "dcfw", "inner": "blended", **stop, **options})
        if not (res.success or res.gap <= ENOUGH * scale):
            raise RuntimeError(f"argmin found no solution: {res.message}")
        ctx.fun, ctx.directions = fun, _face(res)
        x = torch.from_numpy(np.array(res.x))
        ctx.save_for_backward(x, *parameters)
        return x

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        x, *parameters = ctx.saved_tensors
        P = torch.from_numpy(ctx.directions)
        wanted = [p for p, needed in zip(parameters, ctx.needs_input_grad[3:], strict=True) if needed]
        with torch.enable_grad():
            point = x.detach().requires_grad_()
            slope = torch.autograd.grad(ctx.fun(point, *parameters), point, create_graph=True)[0].reshape(-1)
            curve = {"retain_graph": True, "materialize_grads": True}
            columns = P.T if slope.requires_grad else ()  # the Hessian of a linear objective is zero
            curved = [torch.autograd.grad(slope, point, v, **curve)[0].reshape(-1) for v in columns]
            H = torch.stack(curved, dim=1) if curved else torch.zeros_like(P)
            z = -P @ (torch.linalg.pinv(P.T @ H, hermitian=True) @ (P.T @ upstream[0].reshape(-1)))
            found = iter(torch.autograd.grad(slope, wanted, z, allow_unused=True) if wanted else ())
        return None, None, None, *(next(found) if needed else None for needed in ctx.needs_input_grad[3:])


def _face(res: Any) -> np.ndarray:
    """Return an orthonormal basis of the directions of the face of the solution, as columns."""
    active, remedy = res.active_set, "leave out inner=, or use 'blended'"
    if active is None:
        raise ValueError(f"argmin needs an inner solver with an active set: {remedy}")
    weighted = zip(active.atoms, active.weights, strict=True)
    atoms = [np.ravel(atom.dense()) for atom, weight in weighted if weight > WEIGHT]
    edges = np.array([atom - atoms[0] for atom in atoms[1:]]).reshape(len(atoms) - 1, res.x.size)
    _, sigma, Vt = np.linalg.svd(edges, full_matrices=False)
    return np.ascontiguousarray(Vt[sigma > 1e-10 * sigma.max(initial=0.0)].T)
