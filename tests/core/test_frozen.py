"""Frozen trajectories: the value of phi after 1, 2, 5 and 10 outer steps of small explicit problems.

A change of numerics shows here first.  If it is intended, replace the numbers; if not, find the reason.
"""

from __future__ import annotations

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets, splits
from dcfw.tolerances import Adaptive

STEPS = (1, 2, 5, 10)


def data(n):
    """Numbers by formulas, not by a generator whose stream may change."""
    i = np.arange(n, dtype=float)
    M = np.cos(np.outer(i, i + 1.0)) + np.diag(1.0 + 0.1 * i)
    return M @ M.T / n, 0.2 * np.sin(1.0 + i), np.diag(0.2 + 0.1 * np.cos(i))


def quadratics(n=9):
    A, b, B = data(n)
    return functions.Quadratic(A, b, convex=True) - functions.Quadratic(B, convex=True)


def logistic():
    A, b, B = data(9)
    loss = functions.LogisticLoss(A, np.where(b > 0, 1.0, -1.0))
    return loss - functions.Quadratic(0.1 * B)


def vertex(domain):
    size = int(np.prod(domain.shape))
    return domain.lmo(np.cos(np.arange(float(size))).reshape(domain.shape))


RUNS = {
    "dcfw, simplex": (quadratics, sets.Simplex(9), {}),
    "dcfw, open loop, l1 ball": (quadratics, sets.L1Ball(9, radius=2.0), {"step": "open-loop"}),
    "dcfw, short, l2 ball": (quadratics, sets.L2Ball(9), {"step": "short", "tolerance": "progress"}),
    "dcfw, backtracking, birkhoff": (quadratics, sets.Birkhoff(3), {"step": "backtracking"}),
    "dcfw, published tolerance, cube": (
        quadratics,
        sets.LInfBall(9, radius=0.5),
        {"tolerance": Adaptive(0.5, update="published")},
    ),
    "dcfw, smooth f, l2 ball": (logistic, sets.L2Ball(9, radius=3.0), {}),
    "dcfw, nuclear ball": (quadratics, sets.NuclearBall((3, 3), radius=2.0), {"tolerance": "progress"}),
    "sliding, simplex": (lambda: splits.sliding(quadratics()), sets.Simplex(9), {}),
    "proximal, simplex": (lambda: splits.proximal(quadratics()), sets.Simplex(9), {}),
    "fw, simplex": (quadratics, sets.Simplex(9), {"method": "fw"}),
    "fw, smooth phi, l2 ball": (logistic, sets.L2Ball(9, radius=3.0), {"method": "fw"}),
    "fw-k, simplex": (quadratics, sets.Simplex(9), {"method": "fw-k"}),
    "fw-m, simplex": (quadratics, sets.Simplex(9), {"method": "fw-m"}),
    "cgs, simplex": (quadratics, sets.Simplex(9), {"method": "cgs"}),
}


def values(name):
    make, domain, options = RUNS[name]
    res = dcfw.minimize(
        make(), domain, vertex(domain), inner="fw", tol=0.0, maxiter=10, max_inner=200, **options
    )
    return {k: float(res.history["fun"][k]) for k in STEPS if k < len(res.history)}


FROZEN = {
    "dcfw, simplex": {
        1: -0.04908274942144899,
        2: -0.05756743145598396,
        5: -0.062046603108152576,
        10: -0.06296010273626443,
    },
    "dcfw, open loop, l1 ball": {
        1: 0.11743349832191,
        2: 0.015348987882034933,
        5: -0.12802890449376877,
        10: -0.2915552898623651,
    },
    "dcfw, short, l2 ball": {
        1: -0.10507243681652673,
        2: -0.15627896950958334,
        5: -0.24299676685170551,
        10: -0.24646487290622154,
    },
    "dcfw, backtracking, birkhoff": {
        1: 0.2932167818191191,
        2: 0.20579622862636324,
        5: 0.17009638872283106,
        10: 0.14157140801029738,
    },
    "dcfw, published tolerance, cube": {
        1: -0.04597611810252483,
        2: -0.11455763298826019,
        5: -0.25926476855998926,
        10: -0.27520008987404854,
    },
    "dcfw, smooth f, l2 ball": {
        1: 0.19852770949112192,
        2: 0.16849720110559605,
        5: 0.1659805702521952,
        10: 0.16593391648206318,
    },
    "dcfw, nuclear ball": {
        1: -0.05783999293779655,
        2: -0.19149028251971684,
        5: -0.3973967637877897,
        10: -0.438076217750138,
    },
    "sliding, simplex": {
        1: -0.003608705804652279,
        2: -0.05415310280179658,
        5: -0.06110778794672056,
        10: -0.061988652428798474,
    },
    "proximal, simplex": {
        1: -0.03556859205772775,
        2: -0.05870941787000996,
        5: -0.06222776127018492,
        10: -0.06282013853504247,
    },
    "fw, simplex": {
        1: -0.05258956376896762,
        2: -0.05937131439487686,
        5: -0.061546352374774016,
        10: -0.06182622628611434,
    },
    "fw, smooth phi, l2 ball": {
        1: 0.18507977262370523,
        2: 0.16851253291886814,
        5: 0.16597729945686002,
        10: 0.16593390005834263,
    },
    "fw-k, simplex": {
        1: -0.0036087058046522166,
        2: -0.0255841276397234,
        5: -0.04838436403265864,
        10: -0.056608853799534606,
    },
    "fw-m, simplex": {
        1: -0.052589218913399446,
        2: -0.058862784910506505,
        5: -0.06249948050176023,
        10: -0.06253501459338742,
    },
    "cgs, simplex": {
        1: 0.11109034079570881,
        2: 0.024943216467352945,
        5: -0.051503858966307825,
        10: -0.060660905953732205,
    },
}


@pytest.mark.parametrize("name", RUNS)
def test_the_trajectory_is_the_frozen_one(name):
    now = values(name)
    assert set(now) == set(FROZEN[name])
    for k, value in FROZEN[name].items():
        # The nuclear ball's oracle is a truncated SVD, whose rounding differs between processors.
        accuracy = 1e-6 if "nuclear" in name else 1e-9
        assert now[k] == pytest.approx(value, rel=accuracy, abs=1e-12), f"after {k} outer steps"


def test_every_frozen_run_makes_progress():
    for name, frozen in FROZEN.items():
        if "open loop" not in name:
            assert frozen[10] < frozen[1], name
