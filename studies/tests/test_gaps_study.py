"""Figure 1: its measures are what they say, its numbers agree with theory, its report is complete."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcfw import functions, sets, splits
from dcfw import gaps as measures
from dcfw_studies import gaps
from dcfw_studies.gaps_report import sections
from dcfw_studies.report import write_report
from dcfw_studies.runner import run
from dcfw_studies.store import Store

BOX = sets.LInfBall(2)
PHI = functions.Smooth(
    lambda x: float(gaps.value(*x)), lambda x: np.array(gaps.gradient(*x)), lipschitz=gaps.L
)
entries = st.floats(-1.0, 1.0)


@given(x1=entries, x2=entries)
def test_the_proximal_point_is_verified_by_its_own_gap(x1, x2):
    x = np.array([x1]), np.array([x2])
    y = gaps.proximal_point(*x)
    assert max(abs(y[0][0]), abs(y[1][0])) <= 1.0
    assert gaps.accuracy(*x, *y)[0] <= 1e-13


@given(x1=entries, x2=entries)
def test_no_point_of_a_grid_is_better_than_the_proximal_point(x1, x2):
    x = np.array([x1]), np.array([x2])
    best = gaps._subproblem(*x, *gaps.proximal_point(*x))[0]
    assert gaps._subproblem(x1, x2, *gaps.grid(0.04)).min() >= best - 1e-13


SAMPLE = np.random.default_rng(0).uniform(-1.0, 1.0, (12, 2))


@pytest.mark.parametrize("x", SAMPLE)
def test_the_measures_agree_with_those_of_the_library(x):
    at = {name: gaps.measure(name, x[:1], x[1:])[0] for name in gaps.MEASURES}
    assert np.isclose(at["pgm"], measures.pgm_gap(PHI, BOX, x), rtol=1e-12)
    assert np.isclose(at["ppm"], measures.ppm_gap(PHI, BOX, x), rtol=1e-6, atol=1e-9)
    assert np.isclose(at["fw"], measures.fw_gap(PHI, BOX, x), rtol=1e-12)
    for name, split in (("dc-sliding", splits.sliding), ("dc-proximal", splits.proximal)):
        low, high = measures.dc_gap(split(PHI, gaps.L), BOX, x, accuracy=1e-3, max_lmo=2000)
        assert low - 1e-9 <= at[name] <= high + 1e-9


@pytest.mark.parametrize("kind", gaps.STATIONARY)
def test_the_projected_gradient_measure_is_the_same_quadratic_at_all_stationary_points(kind):
    assert np.allclose(gaps.around("pgm", kind, 1e-3), 1.0, rtol=1e-4)


def test_the_proximal_measure_at_a_minimum_is_a_quarter_of_that():
    assert np.allclose(gaps.around("ppm", "minimum", 1e-3), 0.25, rtol=1e-4)


def test_the_proximal_measure_leaves_a_maximum_like_a_power_of_two_thirds():
    # In each of the two diagonal directions the distance is (6 d / pi^2)^(1/3), to first order.
    d = 1e-6
    found = 0.5 * gaps.L * d**2 * gaps.around("ppm", "maximum", d, 4)[0]
    assert np.isclose(found, 0.5 * gaps.L * (6.0 * d / np.pi**2) ** (2.0 / 3.0), rtol=1e-3)


def test_the_proximal_measure_at_a_saddle_is_flat_along_one_line_only():
    ring = gaps.around("ppm", "saddle", 0.01, 8)
    assert np.isclose(ring.min(), 0.25, rtol=1e-3)
    assert (ring > 1.0).sum() == 6


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("gaps") / "s.db"
    with Store(path) as opened:
        assert str(run(gaps.study(step=0.04), opened)).startswith("5 done")
    return path


def test_stated_bounds_of_the_measures_hold_except_for_the_lemma(store):
    with Store(store, readonly=True) as opened:
        rows = {row["method"]: row for row in opened.rows("gaps")}
    violated = {name: row.get("violated") for name, row in rows.items()}
    assert violated == {
        "pgm": 0.0,
        "dc-sliding": 0.0,
        "dc-proximal": 0.0,
        "fw": None,
        "ppm": pytest.approx(0.37, abs=0.03),
    }
    assert rows["ppm"]["accuracy"] < 1e-13


def test_the_report_has_the_figure_and_the_numbers(store, tmp_path):
    names = {file.name for file in write_report("gaps", store, tmp_path)}
    assert names == {"README.md", "summary.json", "figure_1.png", "growth.png", "growth.svg"}
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["ppm"]["minimum_area"] > 2.0 * summary["pgm"]["minimum_area"]
    text = (tmp_path / "README.md").read_text()
    assert "figure_1.png" in text
    assert "fails at 3" in text


def test_the_page_has_a_section_of_the_study(store, tmp_path):
    with Store(store, readonly=True) as opened:
        (section,) = sections(opened)
    assert section.title.startswith("Figure 1")
    with Store(tmp_path / "empty.db") as opened:
        assert sections(opened) == []


def test_a_report_without_rows_says_what_to_do(tmp_path):
    with Store(tmp_path / "s.db"):
        pass
    with pytest.raises(ValueError, match="run it first"):
        write_report("gaps", tmp_path / "s.db", tmp_path / "out")
