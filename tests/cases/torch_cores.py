"""The set of :mod:`dcfw.sets` that a region of :mod:`dcfw.torch` stands for."""

from dcfw import sets
from dcfw.torch import matrices, regions


def core(region, shape):
    if isinstance(region, regions.Interval):
        return sets.Box(region.lower, region.upper, shape=shape)
    if isinstance(region, matrices.MatrixBall):
        ball = sets.SpectralBall if isinstance(region, matrices.Spectral) else sets.NuclearBall
        return ball(region.shape, region.radius)
    balls = {regions.L2: sets.L2Ball, regions.L1: sets.L1Ball, regions.Simplex: sets.Simplex}
    return balls[type(region)](shape, region.radius)
