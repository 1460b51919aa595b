"""The report of the alignment study says in words which choices do best, from its rows."""

import pytest

from dcfw_studies.alignment_tables import FIRST_PAIRS, PAIRS, verdict


def row(scaling, factor, lam, steps, score, vertex=0.3, dataset="real"):
    return {
        "dataset": dataset,
        "scaling": scaling,
        "target": factor,
        "lam": lam,
        "steps": steps,
        "words": 400,
        "map p@1": score,
        "vertex p@1": vertex,
    }


def grid(better):
    """Return rows for two scalings, two lambdas and two stops, with scores by a rule."""
    return [
        row(scaling, 1.0, lam, steps, better(scaling, lam, steps))
        for scaling in ("raw", "unit")
        for lam in (0.0, 1e-2)
        for steps in (10, 100)
    ]


def test_the_best_run_is_named_with_its_choices_and_its_vertex():
    rows = grid(lambda scaling, lam, steps: 0.4 if (scaling, lam, steps) == ("unit", 1e-2, 10) else 0.2)
    said = verdict(rows)
    assert "scaling unit, factor 1, lambda 0.01, steps 10, with 0.400" in said
    assert "of the 8 solutions 1 are better than the first vertex" in said
    assert "With 100 held-out words the standard error of a P@1 is 0.049" in said


def test_each_choice_is_ranked_by_its_mean_over_runs_that_are_alike_otherwise():
    said = verdict(grid(lambda scaling, lam, steps: 0.1 * (scaling == "raw") + lam + 0.001 * steps))
    assert "scaling raw (0.160), unit (0.060)" in said
    assert "lambda 0.01 (0.115), 0 (0.105)" in said
    assert "steps 100 (0.155), 10 (0.065)" in said
    assert "An early stop" not in said
    assert "factor 1, lambda" in said
    assert "; factor" not in said  # only one was tried
    early = verdict(grid(lambda scaling, lam, steps: 1.0 / steps))
    assert "steps 10 (0.100), 100 (0.010)" in early
    assert "An early stop is best" in early


def test_a_value_that_was_tried_in_some_runs_only_is_compared_there():
    rows = grid(lambda scaling, lam, steps: 0.2)
    rows += [row("unit", 4.0, 1e-2, 100, 0.25)]  # a far better scaling and stop would not count for it
    said = verdict(rows)
    assert "factor 4 (0.250), 1 (0.200)" in said
    assert "scaling raw (0.200), unit (0.200)" in said


def test_rows_without_a_translation_test_give_no_verdict():
    assert verdict([]) == ""
    assert verdict([row("unit", 1.0, 0.0, 10, 0.2, dataset="shrunken")]) == ""
    assert verdict([row("unit", 1.0, 0.0, 10, "")]) == ""


def test_the_numbers_of_pairs_are_those_of_the_dictionary():
    from dcfw.data import find

    try:
        path = find("embeddings/pairs.tsv")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    with open(path, encoding="utf-8") as file:
        first = [line.rstrip("\n").split("\t")[-1] for line in file][1:]
    assert (len(first), first.count("1")) == (PAIRS, FIRST_PAIRS)
