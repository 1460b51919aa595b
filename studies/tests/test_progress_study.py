"""A study shows its progress on a terminal."""

import json

import pytest

from processes import on_a_terminal


def test_a_study_draws_its_rows_on_a_terminal(tmp_path):
    pytest.importorskip("matplotlib", reason="the report draws figures")
    # Every row but one family's is there already, so that this takes seconds.
    from dcfw_studies import Store
    from dcfw_studies.catalogue import CATALOGUE

    study = CATALOGUE["inner"].study(full=False)
    filler = {"value": 0.0, "status": "CONVERGED", "gap": 0.0, "first_gap": 1.0, "dc_gap_high": 0.0, "nit": 1}
    filler |= {"n_inner": 1, "n_lmo": 1, "n_grad_f": 1, "n_grad_g": 1, "n_fun": 1, "seconds": 0.1}
    with Store(tmp_path / "s.db") as store:
        for task in study.tasks:
            if task.dataset != "alignment":
                store.finish(task, filler, seconds=0.1)
    out, drawn = on_a_terminal(
        "dcfw_studies", ["reproduce", "inner", "--n-jobs", "1", "--store", "s.db", "--json"], tmp_path
    )
    (done,) = json.loads(out)["studies"]
    assert (done["done"], done["skipped"]) == (8, len(study.tasks) - 8)
    assert "8/8" in drawn
    assert "left" in drawn
    assert "writing the report" in drawn
    assert (tmp_path / "dcfw-results" / "inner" / "inner_solvers.png").stat().st_size > 1000
