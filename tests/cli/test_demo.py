"""``dcfw demo`` works without data, network or extras, and its table and page say what really happened."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from dcfw.cli import app, showcase
from dcfw.cli.showcase_page import EXAMPLE, demo_page
from places import SOURCE

# Runs the command with every package made unimportable that the README's line does not install.
WITHOUT_EXTRAS = """
import socket, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in "torch matplotlib sklearn pandas networkx dask cvxpy".split():
            raise ModuleNotFoundError(f"{name} must not be needed", name=name)
sys.meta_path.insert(0, Refuse())
def refuse(*arguments, **options):
    raise OSError("no network here")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from dcfw.cli import app
app(["demo", *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(folder):
    environment = {**os.environ, "PYTHONPATH": SOURCE, "DCFW_DATA": str(folder / "no-data")}
    command = [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def rows(printed):
    return printed["rows"]


def of(rows, problem):
    return {row["method"]: row for row in rows if row["problem"].startswith(problem)}


def test_the_demo_solves_three_problems_with_dcfw_and_a_rival(rows):
    assert len({row["problem"] for row in rows}) == 3
    for problem in ("Graph matching", "Alignment", "Robust regression"):
        methods = list(of(rows, problem))
        assert any(method.startswith("DC-FW") for method in methods)
        assert any(method.startswith("FW") for method in methods)


def test_every_solve_of_the_library_has_a_certificate_and_scipy_has_none(rows):
    for row in rows:
        if row["method"].startswith("SciPy"):
            assert (row["dc_gap"], row["status"]) == (None, None)
        else:
            low, high = row["dc_gap"]
            assert 0.0 <= low <= high < float("inf"), row
            assert row["status"] in ("CONVERGED", "MAX_LMO", "MAXITER"), row


def test_the_default_methods_converge_on_every_problem(rows):
    ended = [row["status"] for row in rows if row["method"] == "DC-FW, default"]
    assert ended == ["CONVERGED"] * 3


def test_no_name_in_the_demo_is_too_long_for_a_terminal_of_80_columns(rows):
    for row in rows:  # the other columns take 54, and methods stand two to the right
        assert len(row["problem"]) <= 26
        assert len(row["method"]) <= 24


def test_ours_finds_the_planted_matching_of_the_demo_and_faq_does_not(rows):
    found = of(rows, "Graph matching")
    planted = int(next(iter(found.values()))["problem"].rpartition(" ")[2])
    assert found["DC-FW, default"]["value"] <= planted
    assert found["SciPy's FAQ, best of 10"]["value"] > 2 * planted


def test_dcfw_takes_far_fewer_subgradients_on_the_alignment_and_finds_the_rotation(rows):
    found = of(rows, "Alignment")
    assert found["DC-FW, default"]["n_grad_g"] < 0.2 * found["FW-K"]["n_grad_g"]
    assert found["DC-FW, default"]["quality"] > 0.9


def test_dcfw_ends_lowest_on_the_regression_and_near_the_truth(rows):
    found = of(rows, "Robust")
    best = min(found.values(), key=lambda row: row["value"])
    assert best["method"] == "DC-FW, default"
    assert best["error"] < 0.15


def test_the_page_is_written_into_the_current_folder_with_its_charts(folder, printed):
    assert printed["page"] == "dcfw-demo.html"
    text = (folder / "dcfw-demo.html").read_text()
    assert text.count('<figure class="chart"') == 6
    assert len(text.encode()) < 500_000
    for row in printed["rows"]:
        assert row["method"].replace("'", "&#x27;") in text


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_solved(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from dcfw.cli import app

    def never():
        raise AssertionError("solved first")

    monkeypatch.setattr(showcase, "solves", never)
    done = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "no folder" / "demo.html")])
    assert done.exit_code == 1
    assert "could not be written" in done.stderr
    assert "with -o" in done.stderr


def test_the_table_has_a_line_for_each_row_and_shows_intervals(rows, capsys):
    from dcfw.cli.demo import _print

    _print(rows)
    lines = capsys.readouterr().out
    for row in rows:
        assert row["method"] in lines
    assert lines.count("[") == sum(row["dc_gap"] is not None for row in rows)


def test_the_welsch_loss_of_the_regression_has_the_stated_gradient_and_constant():
    lines = list(showcase.regression())
    phi = lines[0].run.keywords["objective"]
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, y = 0.3 * rng.standard_normal((2, showcase.FEATURES))
        d = 1e-6 * (y - x)
        slope = (phi.value(x + d) - phi.value(x - d)) / 2.0
        assert slope == pytest.approx(float(np.dot(phi.grad(x), d)), rel=1e-4)
        change = np.linalg.norm(phi.grad(x) - phi.grad(y))
        assert change <= phi.lipschitz * np.linalg.norm(x - y)


def test_the_example_of_the_page_runs():
    found = {}
    exec(EXAMPLE.replace("print(res)", "res"), found)
    assert found["res"].success


def test_a_page_says_in_words_what_we_and_the_best_rival_reached():
    problem = showcase.Problem("regression", "a problem", "words", "call")
    points = {"n_lmo": [1.0, 2.0], "time": [0.1, 0.2], "least": [1.0, 0.5]}
    outcomes = []
    for name, value in (("CGS", 3.0), ("FW", 2.0), ("DC-FW, default", 1.5)):
        row = {"method": name, "value": value, "gap": 0.1, "dc_gap": [0.0, 0.1], "lmo_calls": 2}
        row |= {"seconds": 0.2, "status": "CONVERGED", "problem": problem.title, "error": 0.02}
        outcomes.append(showcase.Outcome(showcase.Solve(problem, name, lambda callback: None), row, points))
    text = demo_page(outcomes, 1.0)
    words = "DC-FW ends 2.0% from the truth and is converged after 2 oracle calls; FW is converged after 2."
    assert text.count(words) >= 2
    assert text.index(words) < text.index("<table")


def test_the_page_leads_with_the_matchings_in_words_and_as_a_picture(folder, printed):
    text = (folder / "dcfw-demo.html").read_text()
    found = of(printed["rows"], "Graph matching")
    ours, theirs = (found[name]["value"] for name in ("DC-FW, default", "SciPy's FAQ, best of 10"))
    words = f"DC-FW leaves {ours} edges unmatched; SciPy&#x27;s FAQ (best of 10) leaves {theirs}."
    assert text.index(words) < text.index('alt="Two matchings') < text.index("<table")


def test_without_json_the_table_is_printed_and_the_page_is_named(tmp_path, monkeypatch):
    quickest = list(showcase.regression())[:1]
    monkeypatch.setattr(showcase, "solves", lambda: iter(quickest))
    done = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "demo.html")])
    assert done.exit_code == 0, done.output
    assert quickest[0].method in done.stdout
    assert f"Plots and more: open {tmp_path / 'demo.html'} in a browser." in done.stdout.replace("\n", " ")
    assert quickest[0].method in (tmp_path / "demo.html").read_text()
