"""The spectral and the nuclear ball.

A weight is seen as the matrix of its first dimension against the rest.  With ``stack=s`` it is s matrices,
each in its own ball: all dimensions but the last are rows, split into s parts (packed attention, LSTM gates,
experts).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from dcfw.sets.polar import schedule
from dcfw.torch.regions import Ball, Tensor, _length, _lowered, asking_is_free

LIFTED, STEPS = 0.003, 5  # the design singular value (relative) of the polynomials, and their number
POWER_STEPS = 20  # for the leading singular pair; any result lies in the nuclear ball
FAR = 12.0  # the largest singular value, in radii, for which cap_singular_values is inside
CAP_MARGIN = 1e-3  # relative margin below the radius for the inexactness of cap_singular_values


def matrix_shape(shape: tuple[int, ...], stack: int = 1) -> tuple[int, int]:
    """Return the shape of the matrices that a weight is seen as."""
    if stack == 1:
        return (shape[0] if shape else 1), math.prod(shape[1:])
    return math.prod(shape[:-1]) // stack, shape[-1]


@dataclass(frozen=True)
class MatrixBall(Ball):
    shape: tuple[int, int]
    stack: int = 1

    def matrices(self, R: Tensor) -> Tensor:  # of shape (stack, rows, columns)
        return R.reshape(self.stack, *self.shape)

    def gap(self, R: Tensor, X: Tensor) -> Tensor:  # by the dual norm: vertices are inexact
        dual: Any = "nuc" if isinstance(self, Spectral) else 2
        return (R * X).sum() + self.radius * torch.linalg.matrix_norm(self.matrices(R), dual).sum()


class Spectral(MatrixBall):
    def vertex(self, R: Tensor) -> Tensor:
        return (polar_inside(self.matrices(R)) * -self.radius).reshape(R.shape)

    def project(self, Z: Tensor) -> Tensor:
        clipped = [clip_singular_values(M, self.radius) for M in self.matrices(Z)]
        return (clipped[0] if self.stack == 1 else torch.stack(clipped)).reshape(Z.shape)

    def cap(self, Z: Tensor) -> Tensor:
        return cap_singular_values(self.matrices(Z), self.radius).reshape(Z.shape)

    def size(self, X: Tensor) -> Tensor:
        return torch.linalg.matrix_norm(self.matrices(X), 2)


class Nuclear(MatrixBall):
    def vertex(self, R: Tensor) -> Tensor:
        u, v = leading_pair(self.matrices(R))
        return (u.mT * -self.radius @ v).reshape(R.shape)

    def project(self, Z: Tensor) -> Tensor:
        U, sigma, Vt = torch.linalg.svd(self.matrices(Z), full_matrices=False)
        nearest = (U * _lowered(sigma, self.radius).unsqueeze(-2)) @ Vt
        inside = (sigma.sum(dim=-1) <= self.radius)[:, None, None]
        return torch.where(inside, self.matrices(Z), nearest).reshape(Z.shape)

    def size(self, X: Tensor) -> Tensor:
        return torch.linalg.matrix_norm(self.matrices(X), "nuc")


def polar_inside(G: Tensor, half: bool | None = None) -> Tensor:
    """Return approximate polar factors of the matrices in ``G`` with all singular values at most 1.

    Apply odd polynomials that map [0, 1] into [0, 1] (:mod:`dcfw.sets.polar`).  ``half`` (the default on
    CUDA) computes in bfloat16 and ends in single precision: a certified bound scales the singular values
    below sqrt(3), where rounding exceeds it, and a Newton-Schulz step x (3 - x^2) / 2 maps [0, sqrt(3)] to
    [0, 1].
    """
    if G.shape[-2] < G.shape[-1]:
        return polar_inside(G.mT, half).mT
    X = G.reshape(-1, *G.shape[-2:])
    tiny, eps = torch.finfo(G.dtype).tiny, torch.finfo(G.dtype).eps
    X = X / X.abs().amax(dim=(-2, -1), keepdim=True).clamp_(min=tiny)  # squares of small gradients underflow
    A = X.mT @ X
    A2 = A @ A
    # The Schatten-8 norm bounds the largest singular value far more tightly than Frobenius's.  With a largest
    # entry of 1 it is at least 1, unless the matrix is zero.
    scale = torch.linalg.matrix_norm(A2, keepdim=True).clamp_(min=0.5) ** -0.25 / (1.0 + 8.0 * eps)
    polynomials = schedule(LIFTED)[:STEPS]
    a, b, c = polynomials[0]
    X = X * scale
    X = torch.baddbmm(X, X, A * (b * scale**2) + A2 * (c * scale**4), beta=a)
    wide = X.dtype
    if G.device.type == "cuda" if half is None else half:
        X = X.bfloat16()
    for a, b, c in polynomials[1:]:
        A = X.mT @ X
        X = torch.baddbmm(X, X, torch.baddbmm(A, A, A, beta=b, alpha=c), beta=a)
    if X.dtype != wide:
        X = _guarded(X.to(wide))
    return (X * (1.0 - 2.0 * G.shape[-1] ** 0.5 * eps)).reshape(G.shape)


def _guarded(X: Tensor) -> Tensor:
    A = X.mT @ X
    bound = torch.linalg.matrix_norm(torch.linalg.matrix_power(A, 4), keepdim=True) ** 0.25  # of A's norm
    scale = (3.0 / bound.clamp(min=1e-30)).clamp_(max=1.0)
    X = X * (1.5 * scale.sqrt())
    return torch.baddbmm(X, X, A * (-scale / 3.0))


def clip_singular_values(Z: Tensor, radius: float) -> Tensor:
    """Return the matrix nearest to ``Z`` whose singular values are at most ``radius``.

    With Z^T Z = V Lambda V^T it is Z - (Z V) diag(1 - min(1, radius / sigma)) V^T: the Gram matrix determines
    large singular values accurately, and if none exceeds the radius, Z is returned bit for bit.
    """
    if Z.shape[0] < Z.shape[1]:
        return clip_singular_values(Z.mT, radius).mT
    wide = Z.double() if Z.device.type == "cpu" else Z  # squares cost half of the digits
    A = wide.mT @ wide
    if asking_is_free(Z) and bool(torch.linalg.matrix_norm(A) <= radius**2):
        return Z
    V = torch.linalg.eigh(A).eigenvectors
    W = wide @ V
    sigma = torch.linalg.vector_norm(W, dim=0).clamp_(min=torch.finfo(W.dtype).tiny)
    return (wide - (W * (1.0 - (radius / sigma).clamp_(max=1.0))) @ V.mT).to(Z.dtype)


def cap_singular_values(Z: Tensor, radius: float) -> Tensor:
    """Return ``Z`` with singular values above ``radius`` lowered to it, approximately, by matrix products
    alone.

    With X = Z / radius, P its polar factor and S = sign(I - X^T X), min(sigma, 1) is (X + P + (X - P) S) / 2;
    singular values within 0.1 % of the radius may remain.  Z is unchanged if its Frobenius norm is below the
    radius.  The steps for S resolve singular values up to ``FAR`` radii: others are scaled down first.
    """
    if Z.shape[-2] < Z.shape[-1]:
        return cap_singular_values(Z.mT, radius).mT
    inside = torch.linalg.matrix_norm(Z, keepdim=True) <= radius
    top = Z.abs().amax(dim=(-2, -1), keepdim=True).clamp_(min=torch.finfo(Z.dtype).tiny)
    near = Z * (FAR**2 * radius / top).clamp_(max=1.0)  # fourth powers of large entries would overflow
    X = near * (1.0 / (radius * (1.0 - CAP_MARGIN)))
    A, unit = X.mT @ X, torch.diag_embed(torch.ones_like(X[..., 0, :]))
    W = unit - A
    size = torch.linalg.matrix_norm(W @ W, keepdim=True).clamp(min=torch.finfo(Z.dtype).tiny) ** 0.5
    shrink = (FAR / (1.0 + size).sqrt()).clamp_(max=1.0)  # sigma^2 <= 1 + |W|
    X, W = X * shrink, unit - A * shrink**2
    S = W / torch.where(shrink < 1.0, FAR**2, size)
    for a, b, c in schedule(CAP_MARGIN):
        S2 = S @ S
        S = torch.baddbmm(S, S, torch.baddbmm(S2, S2, S2, beta=b, alpha=c), beta=a)
    P = polar_inside(X)
    capped = 0.5 * (X + P + (X - P) @ S) * (radius * (1.0 - CAP_MARGIN))
    return torch.where(inside, Z, capped)


def leading_pair(G: Tensor) -> tuple[Tensor, Tensor]:
    """Return approximate leading singular vectors of a batch of matrices, as rows, by the power method."""
    G = G / _length(G.flatten(-2)).unsqueeze(-1)
    # Start with the longest row, the least likely to be orthogonal to the leading direction.
    longest = torch.linalg.vector_norm(G, dim=-1).argmax(dim=-1)
    v = torch.take_along_dim(G, longest[..., None, None], dim=-2)
    for _ in range(POWER_STEPS):
        v = v / _length(v)
        v = (v @ G.mT) @ G
    v = v / _length(v)
    u = v @ G.mT
    return u / _length(u), v
