"""The study of inner solvers: its problems are what they say, and its report adds up."""

import json

import numpy as np
import pytest

from dcfw_studies import inner
from dcfw_studies.inner_report import by_inner, by_split, value_table
from dcfw_studies.report import write_report
from dcfw_studies.runner import run
from dcfw_studies.store import Store
from dcfw_studies.study import rng_for


@pytest.mark.parametrize("family", inner.FAMILIES)
def test_all_splits_of_a_family_are_the_same_function_on_its_set(family):
    make, names = inner.FAMILIES[family]
    problem = make(rng_for("test", family))
    assert set(names) == set(problem.objectives)
    assert problem.domain.contains(problem.x0)
    rng = np.random.default_rng(0)
    points = [problem.x0, *(np.asarray(problem.domain.random(rng)) for _ in range(2))]
    for x in points:
        values = [objective.value(x) for objective in problem.objectives.values()]
        assert np.ptp(values) <= 1e-9 * max(1.0, np.abs(values).max())


@pytest.mark.parametrize("family", inner.FAMILIES)
def test_instances_depend_on_the_seed_alone(family):
    make, names = inner.FAMILIES[family]
    x = make(rng_for("test", 0)).x0
    objectives = [make(rng_for("test", seed)).objectives[names[0]] for seed in (0, 0, 1)]
    first, again, other = (objective.value(x) for objective in objectives)
    gradients = [np.asarray(objective.f.grad(x)) for objective in objectives]
    assert first == again
    assert np.array_equal(gradients[0], gradients[1])
    assert first != other or not np.array_equal(gradients[0], gradients[2])


def test_a_row_says_what_a_run_did():
    row = inner.row("box", "blended/spectral", 0, rtol=1e-4, max_lmo=500)
    assert row["status"] == "CONVERGED"
    assert row["gap"] <= 1e-4 * row["first_gap"]
    assert row["n_lmo"] <= row["n_inner"] + row["nit"] + 1
    assert row["n_grad_g"] == row["nit"] + 1


def test_an_unsolved_run_counts_as_a_failure_in_the_profiles():
    row = {"status": "CONVERGED", "n_lmo": 3, "value": 1.0}
    table = {("box", f"{name}/spectral", 0): dict(row) for name in inner.INNERS}
    table["box", "fw/spectral", 0]["status"] = "MAX_LMO"
    costs = by_inner(table, "n_lmo")
    assert costs == {"fw": [np.inf], "away": [3.0], "pairwise": [3.0], "blended": [3.0]}
    assert by_split(table, "n_lmo")["sliding"] == [np.inf]  # not run at all


def test_the_lowest_value_is_counted_with_ties():
    table = {
        ("box", "fw/spectral", 0): {"value": -1.0},
        ("box", "away/spectral", 0): {"value": -1.0},
        ("box", "blended/spectral", 0): {"value": -0.5},
    }
    assert [entry["lowest"] for entry in value_table(table)] == [1, 1, 0]


def test_the_report_has_every_run_and_the_profiles(tmp_path):
    study = inner.study(seeds=1, families=["l1", "alignment"])
    with Store(tmp_path / "s.db") as store:
        assert str(run(study, store)).startswith(f"{len(study.tasks)} done")
    files = {file.name for file in write_report("inner", tmp_path / "s.db", tmp_path / "out")}
    assert {"README.md", "rows.csv", "summary.json", "inner_solvers.png", "splits.svg"} <= files
    lines = (tmp_path / "out" / "rows.csv").read_text().splitlines()
    assert len(lines) == 1 + len(study.tasks)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {entry["family"] for entry in summary["families"]} == {"l1", "alignment"}
    assert "inner_solvers.png" in (tmp_path / "out" / "README.md").read_text()


def test_a_report_without_rows_says_what_to_do(tmp_path):
    with Store(tmp_path / "s.db"):
        pass
    with pytest.raises(ValueError, match="run it first"):
        write_report("inner", tmp_path / "s.db", tmp_path / "out")
