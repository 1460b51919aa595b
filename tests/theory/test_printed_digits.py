"""FrankWolfe.jl's examples without random numbers, to the digits that its documentation prints.

The rows are those of the pages "Exact Optimization with Rational Arithmetic" and "Visualization of Frank-
Wolfe running on a 2-dimensional polytope" (January 2025) and of its README.  Its iteration t is our t - 1.
"""

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets, steps

AGNOSTIC = {
    1: ("1.000000e+00", "2.000000e+00"),
    10: ("1.407407e-01", "2.814815e-01"),
    20: ("6.842105e-02", "1.368421e-01"),
    30: ("4.521073e-02", "9.042146e-02"),
    40: ("3.376068e-02", "6.752137e-02"),
    50: ("2.693878e-02", "5.387755e-02"),
    60: ("2.241055e-02", "4.482109e-02"),
    70: ("1.918565e-02", "3.837129e-02"),
    80: ("1.677215e-02", "3.354430e-02"),
    90: ("1.489804e-02", "2.979609e-02"),
    100: ("1.340067e-02", "2.680135e-02"),
    102: ("1.314422e-02", "2.551189e-02"),  # printed as "Last", after a further step
}
SHORT = {
    1: ("1.000000e+00", "2.000000e+00"),
    10: ("1.000000e-01", "2.000000e-01"),
    20: ("5.000000e-02", "1.000000e-01"),
    30: ("3.333333e-02", "6.666667e-02"),
    40: ("2.500000e-02", "5.000000e-02"),
    50: ("2.000000e-02", "4.000000e-02"),
    60: ("1.666667e-02", "3.333333e-02"),
    70: ("1.428571e-02", "2.857143e-02"),
    80: ("1.250000e-02", "2.500000e-02"),
    90: ("1.111111e-02", "2.222222e-02"),
}


@pytest.mark.parametrize(
    ("step", "printed"), [("open-loop", AGNOSTIC), (steps.Short(2.0), SHORT)], ids=["agnostic", "short"]
)
def test_the_squared_norm_on_the_simplex_has_the_printed_rows(step, printed):
    f, domain = functions.SquaredNorm(2.0), sets.Simplex(100)
    options = {"method": "fw", "inner": "fw", "step": step, "maxiter": 102, "tol": 1e-12}
    history = dcfw.minimize(f, domain, np.eye(100)[0], **options).history
    for t, row in printed.items():
        assert (f"{history['fun'][t - 1]:.6e}", f"{history['gap'][t - 1]:.6e}") == row, t


def test_short_steps_close_the_gap_after_as_many_steps_as_there_are_entries():
    f, domain = functions.SquaredNorm(2.0), sets.Simplex(100)
    options = {"method": "fw", "inner": "fw", "step": steps.Short(2.0), "maxiter": 102, "tol": 1e-12}
    res = dcfw.minimize(f, domain, np.eye(100)[0], **options)
    assert res.nit == 99
    np.testing.assert_allclose(res.x, 0.01, atol=1e-15)


def test_the_polytope_in_the_plane_ends_at_the_printed_point():
    """Its first vertex is that of an LP solver for a zero cost, which is not printed: it is found here."""
    A = [[-1.0, 1.0], [1.0, 2.0], [-2.0, -1.0], [1.0, -2.0], [1.0, 0.0]]
    domain = sets.Polytope(A_ub=A, b_ub=[2.0, 4.0, 1.0, 2.0, 2.0], bounds=(None, None))
    f = functions.LeastSquares(np.eye(2), np.array([3.2, 0.5]))
    rule = steps.Backtracking(L=0.9, grow=2.0, shrink=0.9, slopes=True)
    options = {"method": "fw", "inner": "fw", "step": rule, "maxiter": 11, "tol": 1e-8}
    res = dcfw.minimize(f, domain, np.array([0.0, -1.0]), **options)
    np.testing.assert_allclose(res.x, [2.0, 0.5000005296253868], rtol=1e-15)
    assert res.fun == pytest.approx(0.7200000000001404, rel=1e-14)
    assert res.gap == pytest.approx(2.648129737714555e-7, rel=1e-8)


def test_the_example_of_the_readme_has_the_printed_value():
    f, domain = functions.SquaredNorm(2.0), sets.Simplex(3)
    res = dcfw.minimize(f, domain, np.eye(3)[0], method="fw", inner="fw", step="adaptive", tol=1e-7)
    assert f"{res.fun:.6e}" == "3.333333e-01"
    assert f"{res.fun - res.gap:.6e}" == "3.333333e-01"


def test_the_gradient_of_the_block_coordinate_example_is_half_of_that_of_its_objective():
    # So its printed gaps are half of the true ones, and its line search ends above the minimum, 1e-2.
    n = 100
    domain = sets.Product([sets.Box(-1.0, 0.0, shape=n), sets.Simplex(n)])
    start = np.concatenate([-np.ones(n), np.eye(n)[0]])

    def value(x):
        return float(((x[:n] - x[n:]) ** 2).sum())

    def half(x):
        return np.concatenate([x[:n] - x[n:], x[n:] - x[:n]])

    assert not dcfw.check(functions.Smooth(value, half, lipschitz=2.0), domain).ok
    f = functions.Smooth(value, lambda x: 2.0 * half(x), lipschitz=4.0, convex=True)
    assert dcfw.check(f, domain).ok
    assert dcfw.minimize(f, domain, start, method="block", maxiter=2000).fun == pytest.approx(1e-2, rel=1e-6)
