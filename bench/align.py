"""Alignment of embeddings at the paper's size, d = 300, n = 10,000, 10 % observed, and polar factors.

(a) DC-FW as in the authors' runs, against :mod:`bench.alignment_transcription`: the points x_1, x_2, ... must
    agree to 1e-8 in double precision.  One long inner loop is timed, where nearly all
    of the paper's 10,000 steps are taken: a polar factor and a gradient each.  Once without and once
    with the time to compute the Gram matrices.
(b) Polar factors of Gaussian matrices against ``numpy.linalg.svd`` and a product.  The name of a row has the
    largest distance of the exact one from that of the SVD, or the certified bound of the inexact one relative
    to the nuclear norm.
(c) A gradient by each of the three products, against two full products, at three rates of observation.

Times are processor time on one thread, so that other processes disturb them less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import numpy as np

from bench import alignment_transcription as literal
from dcfw.align import MaskedLeastSquares
from dcfw.sets import polar, polar_inexact
from dcfw_studies.protocols import align_published

Row = tuple[str, float, float, str]

D, N, RATE = 300, 10_000, 0.1


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    yield from step_rows(100 if full else 32)
    yield from polar_rows(full)
    yield from gradient_rows(3)


def planted(rate: float, dtype: Any = np.float64, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return E1, Y (0 where missing) and P: a rotation, noise half as long as the vectors, some entries."""
    rng = np.random.default_rng(seed)
    E1 = rng.standard_normal((D, N)) / np.sqrt(D)
    Q = np.linalg.qr(rng.standard_normal((D, D)))[0]
    P = rng.random((D, N)) < rate
    Y = np.where(P, Q @ E1 + 0.5 * rng.standard_normal((D, N)) / np.sqrt(D), 0.0)
    return E1.astype(dtype), Y.astype(dtype), P


# -- (a) steps --------------------------------------------------------------------------------------------


LONG = 1e-9
"""A factor of the tolerance that no inner loop of a few steps gets down to."""


def step_rows(calls: int) -> Iterator[Row]:
    theirs = {dtype: _transcribed(dtype, calls, LONG)[0] for dtype in (np.float64, np.float32)}
    several = _transcribed(np.float64, calls // 2, 0.8)[1]
    for dtype, peers in ((np.float64, (np.float64,)), (np.float32, (np.float64, np.float32))):
        E1, Y, P = planted(RATE, dtype)
        set_up, f = _timed(lambda E1=E1, Y=Y, P=P: MaskedLeastSquares(E1, Y, P, product="gram"))
        points = _solve(f, calls // 2, 0.8)
        distance = max(float(np.abs(x - y).max()) for x, y in zip(points, several, strict=True))
        assert distance <= (1e-8 if dtype == np.float64 else 1e-2), f"iterates differ by {distance:.1e}"
        seconds = min(_timed(lambda f=f: _solve(f, calls, LONG))[0] for _ in range(2))
        for peer in peers:
            name = f"DC-FW step, {dtype.__name__}, against NumPy in {peer.__name__}"
            yield name, seconds / calls, theirs[peer] / calls, "s/iteration"
            yield f"... with the set-up, {calls} steps", (seconds + set_up) / calls, theirs[peer] / calls, "s"


def _solve(f: MaskedLeastSquares, calls: int, beta: float) -> list[np.ndarray]:
    points: list[np.ndarray] = []
    align_published(
        f,
        beta=beta,
        maxiter=10**9,
        max_lmo=calls,
        callback=lambda intermediate_result: points.append(intermediate_result.x),
    )
    return points


def _transcribed(dtype: Any, calls: int, beta: float) -> tuple[float, list[np.ndarray]]:
    E1, Y, P = planted(RATE, dtype)
    P = P.astype(dtype)
    # The last call of our budget measures the gap at the last point, which the transcription omits.
    return _timed(lambda: literal.dc_frank_wolfe(E1, Y, P, beta=beta, steps=calls - 1))


# -- (b) polar factors ------------------------------------------------------------------------------------


def polar_rows(full: bool) -> Iterator[Row]:
    for d, passes, dtypes in (
        (300, 20, (np.float64, np.float32)),
        (1000, 8 if full else 5, (np.float64, np.float32) if full else (np.float64,)),
    ):
        for dtype in dtypes:
            G = np.random.default_rng(d).standard_normal((d, d)).astype(dtype)
            ways = (literal.polar, lambda G: polar.polar(G, "mixed"), polar_inexact.certified)
            # Alternate, so that other processes affect all of them.
            runs = [[_timed(lambda way=way, G=G: way(G)) for way in ways] for _ in range(passes)]
            svd, gram, few = (min(run[k][0] for run in runs) for k in range(3))
            reference, exact, (S, bound) = (answer for _, answer in runs[-1])
            error = float(np.abs(exact - reference).max())
            yield f"polar factor, exact, d={d}, {dtype.__name__}, error {error:.0e}", gram, svd, "s"
            nuclear, found = (
                float(np.vdot(G.astype(np.float64), Z.astype(np.float64))) for Z in (reference, S)
            )
            assert nuclear - found <= bound
            name = f"polar factor, inexact, d={d}, {dtype.__name__}, bound {bound / nuclear:.0e}"
            yield name, few, svd, "s"


# -- (c) gradients ----------------------------------------------------------------------------------------


def gradient_rows(passes: int) -> Iterator[Row]:
    X = np.linalg.qr(np.random.default_rng(1).standard_normal((D, D)))[0]
    for rate in (0.01, 0.1, 0.5):
        E1, Y, P = planted(rate)
        mask = P.astype(np.float64)
        peer, expected = _best(lambda E1=E1, Y=Y, mask=mask: (mask * (X @ E1) - Y) @ E1.T / N, passes)
        chosen = MaskedLeastSquares(E1, Y, P).product
        for product in ("gram", "observed", "dense"):
            f = MaskedLeastSquares(E1, Y, P, product=product)
            ours, grad = _best(lambda f=f: f.grad(X), passes)
            assert float(np.abs(grad - expected).max()) <= 1e-12
            mark = " (chosen)" if product == chosen else ""
            yield f"gradient, {rate:.0%} observed, {product}{mark}", ours, peer, "s"


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = process_time()
    answer = call()
    return process_time() - start, answer


def _best(call: Callable[[], Any], passes: int) -> tuple[float, Any]:
    call()
    runs = [_timed(call) for _ in range(passes)]
    return min(seconds for seconds, _ in runs), runs[-1][1]
