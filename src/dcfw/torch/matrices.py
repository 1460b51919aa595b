"""The spectral and the nuclear ball: sets that need a matrix, seen through matrix products.

A weight of more than two dimensions is the matrix of its first dimension against the rest (a convolution's
kernel: one row per output channel), a vector is a matrix of one column.

**The vertex of the spectral ball** is a polar factor, by the odd polynomials of :mod:`dcfw.sets.polar`: they
keep [0, 1] in [0, 1], so the answer is a point of the ball however few of them are applied.  (Muon's five
steps go for speed and leave singular values of up to 1.2.)

**The projection onto the spectral ball** clips singular values.  Only those above the radius matter, and
those are what the Gram matrix knows accurately: with Z^T Z = V Lambda V^T,

    proj(Z) = Z - (Z V) diag(1 - min(1, r / sigma)) V^T,

one symmetric eigenvalue problem of the smaller side instead of a singular value decomposition.  Where nothing
is above the radius the correction is exactly zero, and Z is returned bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from dcfw import sets
from dcfw.sets.polar import FEW, schedule
from dcfw.torch.regions import Region, Tensor, _length, _lowered, asking_is_free

POWER_STEPS = 16
"""Steps of the power method for the leading singular pair; whatever it finds lies in the nuclear ball."""


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the shape of the matrix that a weight is seen as.

    >>> matrix_shape((64, 3, 5, 5)), matrix_shape((10,))
    ((64, 75), (10, 1))
    """
    rows = shape[0] if shape else 1
    columns = 1
    for size in shape[1:]:
        columns *= size
    return rows, columns


@dataclass(frozen=True)
class Spectral(Region):
    radius: float
    shape: tuple[int, int]

    def vertex(self, R: Tensor) -> Tensor:
        return (polar_inside(R.reshape(self.shape)) * -self.radius).reshape(R.shape)

    def project(self, Z: Tensor) -> Tensor:
        return clip_singular_values(Z.reshape(self.shape), self.radius).reshape(Z.shape)

    def core(self, shape: tuple[int, ...]) -> Any:
        return sets.SpectralBall(self.shape, self.radius)


@dataclass(frozen=True)
class Nuclear(Region):
    radius: float
    shape: tuple[int, int]

    def vertex(self, R: Tensor) -> Tensor:
        u, v = leading_pair(R.reshape(self.shape))
        return torch.outer(u * -self.radius, v).reshape(R.shape)

    def project(self, Z: Tensor) -> Tensor:
        U, sigma, Vt = torch.linalg.svd(Z.reshape(self.shape), full_matrices=False)
        nearest = (U * _lowered(sigma[None], self.radius)) @ Vt
        return torch.where(sigma.sum() <= self.radius, Z, nearest.reshape(Z.shape))

    def core(self, shape: tuple[int, ...]) -> Any:
        return sets.NuclearBall(self.shape, self.radius)


def polar_inside(G: Tensor) -> Tensor:
    """Return nearly the polar factor of ``G``, with all singular values at most 1, by products alone."""
    if G.shape[0] < G.shape[1]:
        return polar_inside(G.mT).mT
    X = G / _length(G.reshape(1, -1))
    polynomials = schedule(FEW[0])[: FEW[1]]
    A = X.mT @ X
    # The Schatten-8 norm bounds the largest singular value, and much more tightly than Frobenius's.
    bound = torch.linalg.matrix_norm(A @ A).clamp_(min=torch.finfo(X.dtype).tiny) ** 0.25
    X = X / (bound * (1.0 + 8.0 * torch.finfo(X.dtype).eps))
    for a, b, c in polynomials:
        A = X.mT @ X
        X = torch.addmm(X, X, torch.addmm(A, A, A, beta=b, alpha=c), beta=a)
    return X * (1.0 - 2.0 * G.shape[1] ** 0.5 * torch.finfo(X.dtype).eps)


def clip_singular_values(Z: Tensor, radius: float) -> Tensor:
    """Return the matrix nearest to ``Z`` whose singular values are at most ``radius``."""
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


def leading_pair(G: Tensor) -> tuple[Tensor, Tensor]:
    """Return (nearly) the leading singular vectors of ``G``, by the power method."""
    G = G / _length(G.reshape(1, -1))
    # The longest row: of all of them the least likely to have no part in the leading direction.
    longest = torch.linalg.vector_norm(G, dim=1).argmax()
    v = G.index_select(0, longest[None])
    for _ in range(POWER_STEPS):
        v = v / _length(v)
        v = (v @ G.mT) @ G
    v = v / _length(v)
    u = v @ G.mT
    return (u / _length(u))[0], v[0]
