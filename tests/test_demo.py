"""``dcfw demo`` works without data or network, and its table says what really happened."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dcfw

SOURCE = str(Path(dcfw.__file__).parents[1])


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    environment = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "DCFW_DATA": str(tmp_path_factory.mktemp("no-data")),
    }
    done = subprocess.run(
        [sys.executable, "-m", "dcfw", "demo", "--json"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_the_demo_solves_three_problems_with_dcfw_and_a_rival(rows):
    problems = {row["problem"] for row in rows}
    assert len(problems) == 3
    for problem in problems:
        methods = [row["method"] for row in rows if row["problem"] == problem]
        assert any(method.startswith("DC-FW") for method in methods)
        assert any(method.startswith("FW") for method in methods)


def test_every_solve_of_the_demo_converges_with_a_certificate(rows):
    for row in rows:
        assert row["status"] == "CONVERGED", row
        low, high = row["dc_gap"]
        assert 0.0 <= low <= high < float("inf")


def test_no_permutation_of_the_demo_is_better_than_the_known_optimum_and_one_attains_it(rows):
    values = [row["value"] for row in rows if "optimum" in row["problem"]]
    optimum = int(next(row["problem"] for row in rows if "optimum" in row["problem"]).rpartition(" ")[2])
    assert min(values) == optimum


def test_both_splits_of_the_wave_reach_its_minimum(rows):
    values = [row["value"] for row in rows if row["problem"].startswith("sin") and "split" in row["method"]]
    assert values == pytest.approx([-1.0, -1.0], abs=1e-3)


def test_the_table_has_a_line_for_each_row_and_shows_intervals(rows, capsys):
    from dcfw.commands.demo import _print

    _print(rows)
    printed = capsys.readouterr().out
    for row in rows:
        assert row["method"] in printed
    assert printed.count("[") == len(rows)
