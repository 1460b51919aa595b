"""A layer whose output is a minimiser, differentiable in the parameters of the objective.

With P an orthonormal basis of the directions of the smallest face with the solution, and H the Hessian in x,
the optimality condition P^T grad f(x, theta) = 0 gives

    dx = -P (P^T H P)^+ P^T (d grad f / d theta) d theta

if small changes of theta preserve the face (strict complementarity).  References: Amos and Kolter 2017
(OptNet); Agrawal et al. 2019 (differentiable convex layers).  The atoms of a solution may span less than its
face: the oracle finds the other vertices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import dcfw
from dcfw import _validate, functions
from dcfw.sets.given import as_set
from dcfw.solvers.final_check import gap_at

ACCURACY = 1e-9  # the Frank-Wolfe gap of a solution, relative to that at the start
ENOUGH = 1e-6  # the relative gap at which a run stopped by rounding counts as converged
TILTS = (1e-2, 1e-4, 1e-6)  # relative changes of the gradient for which the oracle returns vertices of a face
REACH = 1e-6  # x is in a face with a vertex if it can move away from it by this share of the distance


def argmin(
    fun: Callable[..., torch.Tensor], domain: Any, *parameters: torch.Tensor, **options: Any
) -> torch.Tensor:
    """Return argmin over x in ``domain`` of ``fun(x, *parameters)``, differentiable in the parameters.

    Parameters
    ----------
    fun : callable
        Maps x, a double-precision tensor of the set's shape, and the parameters to a scalar by torch
        operations that can be differentiated twice, convex in x: the solver ends at any stationary point, and
        negative curvature there raises RuntimeError in the backward pass.
    domain : set
        A polytope (``domain.polytope``), unless no parameter needs a gradient: the derivative would lack the
        curvature of other sets.
    *parameters : tensor
        The variables of differentiation, once (no second derivatives).  Where a small change of them changes
        the face of the solution there is no derivative, and that within the face is returned.
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
    domain = as_set(domain, "domain")
    if "x0" in options:
        raise TypeError("x0 is not an option of argmin, which starts at a vertex: leave it out")
    for i, p in enumerate(parameters):
        if not isinstance(p, torch.Tensor):
            raise TypeError(
                f"parameters[{i}] must be a tensor, got {type(p).__name__}: use torch.tensor(...)"
            )
        _validate.array(p.detach(), f"parameters[{i}]", floating=False)
    if not domain.polytope and torch.is_grad_enabled() and any(p.requires_grad for p in parameters):
        remedy = (
            "use a polytope, or detach the parameters (a set of yours with few vertices: polytope = True)"
        )
        raise ValueError(f"domain must be a polytope to differentiate, got {domain.name}: {remedy}")
    return _Argmin.apply(fun, domain, options, *parameters)


class _Argmin(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, fun: Any, domain: Any, options: dict[str, Any], *parameters: Any) -> torch.Tensor:
        fixed = [p.detach() for p in parameters]

        def value(x: np.ndarray) -> float:
            with torch.no_grad():
                return float(fun(torch.from_numpy(x), *fixed))

        def grad(x: np.ndarray) -> np.ndarray:
            point = torch.from_numpy(x).requires_grad_()
            with torch.enable_grad():
                return np.asarray(torch.autograd.grad(fun(point, *fixed), point)[0])

        first = domain.lmo(np.zeros(domain.shape))
        phi = functions.Smooth(value, grad)
        # The vertex may be near the solution, where its gap alone is no scale.
        starts = (first, np.asarray(domain.start()))
        scale = max(gap_at(phi, domain.oracle(), x) for x in starts)
        stop = {} if {"tol", "rtol"} & options.keys() else {"tol": ACCURACY * scale}
        res = dcfw.minimize(phi, domain, first, **{"method": "dcfw", "inner": "blended", **stop, **options})
        if not (res.success or res.gap <= ENOUGH * scale):
            raise RuntimeError(f"argmin found no solution: {res.message}")
        x = np.array(res.x)
        size = max(float(np.linalg.norm(grad(y))) for y in (x, *starts)) or 1.0  # inside, grad(x) is rounding
        ctx.fun, ctx.face = fun, lambda: _face(domain, x, grad(x) / size)
        ctx.save_for_backward(torch.from_numpy(x.copy()), *parameters)
        return torch.from_numpy(x.copy())

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        if torch.is_grad_enabled():  # once_differentiable lets torch.autograd.grad pass
            raise RuntimeError("argmin has first derivatives only: leave out create_graph=True")
        x, *parameters = ctx.saved_tensors
        P = torch.from_numpy(ctx.face())
        wanted = [p for p, needed in zip(parameters, ctx.needs_input_grad[3:], strict=True) if needed]
        with torch.enable_grad():
            point = x.detach().requires_grad_()
            slope = torch.autograd.grad(ctx.fun(point, *parameters), point, create_graph=True)[0].reshape(-1)
            curve = {"retain_graph": True, "materialize_grads": True}
            columns = P.T if slope.requires_grad else ()  # the Hessian of a linear objective is zero
            curved = [torch.autograd.grad(slope, point, v, **curve)[0].reshape(-1) for v in columns]
            H = P.T @ (torch.stack(curved, dim=1) if curved else torch.zeros_like(P))
            if len(H) and float(torch.linalg.eigvalsh(H)[0]) < -1e-6 * float(H.abs().max()):
                raise RuntimeError("fun must be convex in x: it has negative curvature at the point found")
            z = -P @ (torch.linalg.pinv(H, hermitian=True) @ (P.T @ upstream[0].reshape(-1)))
            found = iter(torch.autograd.grad(slope, wanted, z, allow_unused=True) if wanted else ())
        return None, None, None, *(next(found) if needed else None for needed in ctx.needs_input_grad[3:])


def _face(domain: Any, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the directions of the smallest face with x, as columns.

    The minimal vertices of ``slope``, the gradient in units of its size on the set, span the face.  A random
    direction orthogonal to all found so far is constant on the face only if these are all.
    """
    rng, P = np.random.default_rng(0), np.zeros((x.size, 0))
    while P.shape[1] < x.size:
        r = rng.standard_normal(x.size)
        r = (r - P @ (P.T @ r)).reshape(x.shape)
        new = _edge(domain, x, slope, r / np.linalg.norm(r), P)
        if new is None:
            break
        P = np.column_stack([P, new])
    return P


def _edge(domain: Any, x: np.ndarray, slope: np.ndarray, r: np.ndarray, P: np.ndarray) -> np.ndarray | None:
    """Return a unit vector from x to a vertex of its face, orthogonal to P, or None."""
    for tilt in (t * sign for t in TILTS for sign in (1.0, -1.0)):
        d = np.asarray(domain.lmo(slope + tilt * r), dtype=np.float64) - x
        edge = d.reshape(-1)
        for _ in range(2):  # the second time for rounding
            edge = edge - P @ (P.T @ edge)
        length = float(np.linalg.norm(edge))
        if length > 1e-7 * np.linalg.norm(d) > 0.0 and domain.reach(x, -d) >= REACH:
            return np.asarray(edge / length)
    return None
