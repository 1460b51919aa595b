"""What a notebook shows names the object, is escaped, and computes nothing."""

import numpy as np
import pytest

import dcfw
from dcfw import functions, qap, sets, splits


def curve(x):
    return float(np.cos(x).sum())


def slope(x):
    return -np.sin(x)


class Mine(functions.Function):
    def value(self, x):
        raise AssertionError("a repr computes nothing")

    grad = value


NAMED = [
    (functions.Smooth(curve, slope), "Smooth(curve, slope)"),
    (functions.Convex(lambda x: 0.0, slope), "Convex(slope)"),
    (Mine(), "Mine()"),
    (Mine() - functions.SquaredNorm(2.0), "(Mine()) - (SquaredNorm(2))"),
    (splits.sliding(functions.Quadratic(-np.eye(3))), "SquaredNorm"),
    (sets.NuclearBall((3, 4), radius=2.0), "NuclearBall((3, 4), radius=2)"),
]


@pytest.mark.parametrize(("thing", "text"), NAMED, ids=[text for _, text in NAMED])
def test_functions_splits_and_sets_are_named_in_text_and_in_html(thing, text):
    assert text in repr(thing)
    assert text in thing._repr_html_()


def test_a_result_shows_every_line_of_its_text_and_its_gaps_as_a_line():
    phi = functions.Quadratic(np.diag([3.0, 1.0, 2.0]))
    res = dcfw.minimize(phi, sets.Simplex(3), method="fw", maxiter=5)
    page = res._repr_html_()
    names = [line.partition(":")[0].strip() for line in str(res).split("\n")]
    assert all(f">{name}</th>" in page for name in names)
    assert page.count("<img src='data:image/svg+xml,") == 1
    assert f"{res.history['gap'][-1]:.1e}" in page


def test_html_is_escaped():
    A = np.array([[0, 1], [1, 0]])
    res = qap.solve(A, A)
    res.message = "<script>alert(1)</script>"
    odd = functions.DC(functions.SquaredNorm(), functions.L1Norm(), name="<b>")
    for page in (res._repr_html_(), odd._repr_html_()):
        assert "<script" not in page
        assert "&lt;" in page
