"""The table of what active sets save: same instances, same seeds, and means that add up."""

import numpy as np
import pytest

from dcfw_studies.qap_tables import Runs, active_sets


def row(method, dataset, seed, laps, error, value=10):
    return {
        "protocol": "published", "method": method, "dataset": dataset, "seed": seed, "n": 12,
        "n_lmo": laps, "error_published": error, "value": value,
    }  # fmt: skip


def test_ratios_are_geometric_means_over_the_common_runs_only():
    rows = [
        row("dcfw-1", "a", 0, 1000, 0.02, 12), row("blended-1", "a", 0, 10, 0.01, 11),
        row("dcfw-1", "b", 0, 100, 0.03, 10), row("blended-1", "b", 0, 100, 0.04, 13),
        row("dcfw-1", "c", 0, 10**9, 0.5),  # has no partner
    ]  # fmt: skip
    (entry,) = active_sets(Runs(rows))
    assert entry["instances"] == 2
    assert entry["ratio"] == pytest.approx(10.0)
    assert entry["laps"] == pytest.approx({"dcfw-1": np.sqrt(1e5), "blended-1": np.sqrt(1e3)})
    assert entry["errors"] == pytest.approx({"dcfw-1": 0.025, "blended-1": 0.025})
    assert entry["difference"] == {"mean": pytest.approx(0.0), "low": None, "high": None}
    assert entry["score"] == {"wins": 1, "losses": 1, "ties": 0}


def test_the_difference_of_errors_has_an_interval_over_the_seeds():
    rows = []
    for seed, worse in enumerate((0.001, -0.001, 0.003)):
        rows += [row("dcfw-1", "a", seed, 50, 0.01), row("blended-1", "a", seed, 5, 0.01 + worse)]
    single, several = active_sets(Runs(rows))
    assert single["seeds"] == [0]
    assert several["seeds"] == [0, 1, 2]
    assert several["difference"]["mean"] == pytest.approx(0.001)
    assert several["difference"]["low"] < 0.0 < several["difference"]["high"]


def test_there_is_no_table_without_both_methods():
    assert active_sets(Runs([row("dcfw-1", "a", 0, 50, 0.01)])) == []
