"""Plots show the history on the requested axes, and load Matplotlib only when they draw."""

import subprocess
import sys

import numpy as np
import pytest

import dcfw
from dcfw import functions, plots, sets, splits
from dcfw.profiles import performance_profile

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib.figure import Figure  # noqa: E402


@pytest.fixture(scope="module")
def res():
    B = np.random.default_rng(0).standard_normal((20, 20))
    phi = functions.Quadratic(B @ B.T / 5 - 0.3 * (B + B.T), B[0])
    return dcfw.minimize(splits.sliding(phi), sets.L1Ball(20, 3.0), np.zeros(20))


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.mark.parametrize("y", ["gap", "fun", "eps", "n_lmo", "dc_high"])
@pytest.mark.parametrize("x", ["n_lmo", "nit", "time"])
def test_a_line_has_the_numbers_of_the_history(res, ax, x, y):
    assert res.plot(ax, y=y, x=x) is ax
    (line,) = (line for line in ax.lines if line.get_label() != "_nolegend_")
    np.testing.assert_array_equal(line.get_xdata(), res.history[x])
    known = np.isfinite(res.history[y]) & (res.history[y] > 0.0)
    known |= np.full(len(known), y == "fun")
    np.testing.assert_array_equal(line.get_ydata()[known], res.history[y][known])


def test_gaps_are_drawn_on_a_logarithmic_axis_and_values_are_not(res):
    scales = {y: res.plot(Figure().subplots(), y=y).get_yscale() for y in ("gap", "dc_gap", "excess", "fun")}
    assert scales == {"gap": "log", "dc_gap": "log", "excess": "log", "fun": "linear"}


def test_the_dc_gap_is_a_band_between_its_certified_ends(res, ax):
    res.plot(ax, y="dc_gap", x="nit")
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    low, high = res.history["dc_low"], res.history["dc_high"]
    inside = (low > 0.1 * high) & (high > 0.0)
    for at, end in zip(res.history["nit"][inside], low[inside], strict=True):
        assert np.isclose(corners[corners[:, 0] == at, 1], end).any()


def test_the_certificate_has_a_band_the_tolerance_and_the_oracle_calls_on_a_second_axis():
    B = np.random.default_rng(0).standard_normal((20, 20))
    dc = functions.Quadratic(B @ B.T) - functions.SquaredNorm(3.0)
    res = dcfw.minimize(dc, sets.Simplex(20), tol=1e-3)
    ax = res.plot(Figure().subplots())
    high, gap, tolerance = ax.lines
    assert len(ax.collections) == 1
    np.testing.assert_array_equal(gap.get_ydata(), res.history["gap"])
    np.testing.assert_array_equal(high.get_ydata(), res.history["dc_high"])
    assert res.threshold == 1e-3
    assert set(tolerance.get_ydata()) == {1e-3}
    _, calls = ax.figure.axes
    np.testing.assert_array_equal(calls.lines[0].get_ydata(), res.history["n_lmo"])


def test_a_search_is_drawn_with_its_bound(ax):
    problem = dcfw.qap.generators.nugent((3, 3), rng=0)
    res = dcfw.qap.solve(problem.A, problem.B, restarts="auto", max_steps=300, rng=0)
    assert res.plot(ax) is ax
    assert ax.lines[0].get_ydata().tolist() == [*(line.value for line in res.trace), res.fun]
    assert f"bound {res.bound:g}" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_an_alignment_is_drawn_by_its_singular_values_and_residuals():
    E = np.random.default_rng(0).standard_normal((3, 30))
    Y = E[::-1].copy()
    Y[0, :5] = np.nan
    res = dcfw.align.align(E, Y)
    left, right = res.plot(Figure().subplots(1, 2), E1=E, Y=Y)
    np.testing.assert_allclose(left.lines[0].get_ydata(), np.linalg.svd(res.x)[1])
    assert sum(patch.get_height() for patch in right.patches) == 30
    assert res.plot(Figure().subplots(1, 2))[1].get_ylabel() == "gap (0: stationary)"
    assert res.plot(Figure().subplots(), y="fun").get_ylabel() == plots.LABELS["fun"]


def test_a_gap_of_zero_is_marked_below_the_line(ax):
    B = np.diag([1.0, 4.0, 2.0])
    res = dcfw.minimize(functions.SquaredNorm(1.0) - functions.Quadratic(B), sets.Simplex(3))
    assert res.history["gap"][-1] == 0.0
    res.plot(ax, y="gap")
    line, mark = ax.lines
    assert mark.get_marker() == "v"
    assert 0.0 < mark.get_ydata()[0] < res.history["gap"][res.history["gap"] > 0.0].min()
    assert np.isfinite(line.get_ydata()).all()


def test_given_axes_leave_pyplot_alone(res, ax):
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    res.plot(ax)
    plots.compare([res, res], Figure().subplots(), y="excess")
    plots.performance_profile({"a": [1.0, 2.0]}, Figure().subplots())
    plots.dashboard(res, Figure())
    assert pyplot.get_fignums() == before


def test_without_axes_a_new_figure_is_made(res):
    from matplotlib import pyplot

    ax = res.plot()
    assert ax.figure.number in pyplot.get_fignums()
    figure = plots.dashboard(res)
    assert figure is not ax.figure
    assert len(figure.axes) == 4
    pyplot.close("all")


def test_styles_reach_the_line(res, ax):
    res.plot(ax, color="#123456", linestyle=":", label="mine")
    (line,) = (line for line in ax.lines if line.get_label() == "mine")
    assert (line.get_color(), line.get_linestyle()) == ("#123456", ":")


def test_runs_are_told_apart_by_name_colour_and_dashes(res, ax):
    plots.compare([res, res, res], ax)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(set(labels)) == 3
    assert labels[1] == f"{labels[0]} (2)"
    lines = [line for line in ax.lines if line.get_label() in labels]
    assert len({line.get_color() for line in lines}) == 3


def test_excess_is_measured_from_the_lowest_value_of_all_runs(res, ax):
    worse = dcfw.minimize(functions.SquaredNorm(1.0), sets.L1Ball(20, 3.0), np.eye(20)[0])
    plots.compare({"res": res, "worse": worse}, ax, y="excess", x="nit")
    line = next(line for line in ax.lines if line.get_label() == "worse")
    assert line.get_ydata()[0] == worse.history["fun"][0] - np.min(res.history["fun"])


def test_a_profile_ends_where_the_method_fails_no_more(ax):
    costs = {"fw": [1.0, 4.0, np.inf, 2.0], "dcfw": [2.0, 1.0, 3.0, np.inf]}
    plots.performance_profile(costs, ax)
    for line in ax.lines:
        tau, rho = performance_profile(costs)[line.get_label()]
        np.testing.assert_array_equal(line.get_xdata()[:-1], tau)
        np.testing.assert_array_equal(line.get_ydata()[:-1], rho)
        assert line.get_ydata()[-1] == 0.75


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda res: res.plot(y="gpa"), ValueError, "gap"),
        (lambda res: res.plot(x="steps"), ValueError, "x must be"),
        (lambda res: plots.compare([]), ValueError, "must not be empty"),
        (lambda res: plots.compare([{"x": 1}]), TypeError, "a result of dcfw.minimize"),
        (lambda res: plots.performance_profile({"a": [0.0]}), ValueError, "positive"),
    ],
)
def test_plots_that_cannot_be_drawn_are_refused_with_the_reason(res, call, error, match):
    with pytest.raises(error, match=match):
        call(res)


def test_matplotlib_is_loaded_only_to_draw_and_its_absence_names_the_remedy():
    code = """
import sys
import numpy as np, dcfw
from dcfw import functions, sets
res = dcfw.minimize(functions.SquaredNorm(1.0), sets.Simplex(3))
dcfw.plots
assert "matplotlib" not in sys.modules
sys.modules["matplotlib"] = None
for drawn in (res, dcfw.qap.match(np.eye(4)[::-1], np.eye(4)[::-1])):
    try:
        drawn.plot()
    except ImportError as error:
        assert 'pip install "dcfw[plots]"' in str(error), error
    else:
        raise AssertionError("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_excess_of_a_maximised_qap_is_measured_from_the_highest_value(ax):
    A = np.random.default_rng(0).random((6, 6))
    most, more = (dcfw.qap.solve(A, A.T, maximize=True, init="random", rng=seed) for seed in (1, 2))
    fun = most.history["fun"]
    assert len(fun) > 2
    plots.plot(most, ax, y="excess", x="nit")
    np.testing.assert_allclose(ax.lines[0].get_ydata()[:-1], fun[-1] - fun[:-1])
    assert ax.get_ylabel().startswith("value below the highest")
    both = plots.compare({"most": most, "more": more}, Figure().subplots(), y="excess", x="nit")
    top = max(np.max(run.history["fun"]) for run in (most, more))
    line = next(line for line in both.lines if line.get_label() == "more")
    assert line.get_ydata()[0] == top - more.history["fun"][0]


def test_a_method_without_a_style_of_its_own_looks_as_usual(ax):
    plots.performance_profile({"a": [1, 2], "b": [1, 2]}, ax, styles={"a": ("k", ":")})
    assert [line.get_color() for line in ax.lines] == ["k", plots.COLOURS[1]]


def test_progress_is_written_to_anything_that_can_write():
    class Stream:
        text = ""

        def write(self, text):
            self.text += text

    stream = Stream()
    show = dcfw.callbacks.progress(every=0.0, file=stream)
    dcfw.minimize(functions.SquaredNorm(), sets.Simplex(3), [0.6, 0.4, 0.0], callback=show)
    assert stream.text.startswith("0.0 s  step 0  phi ")
    assert stream.text.endswith("lmo\n")
