"""The GPT study tunes every method alike, goes on where it was stopped, and says what is missing."""

import csv

import pytest

torch = pytest.importorskip("torch", reason="the study needs PyTorch")

from bench import gpt  # noqa: E402


@pytest.fixture
def quick(monkeypatch):
    """Replace training by a loss with its best learning rate at 0.09."""
    calls = []

    def train(method, lr, seed, width=96):
        calls.append((method, width, lr, seed))
        loss = 2.0 + abs(lr - 0.09)
        return dict.fromkeys(gpt.FIELDS, 1.0) | {"loss": loss, "curve": [3.0] * 20, "text": "0" * 64}

    monkeypatch.setattr(gpt, "train", train)
    monkeypatch.setattr(gpt, "RATES", {"scion": (0.003, 0.01, 0.03), "adamw": (0.03, 0.09, 0.3)})
    monkeypatch.setattr(gpt, "MAIN", ("scion", "adamw"))
    return calls


def test_rates_are_added_until_the_best_is_inside_and_seeds_follow_it(quick, tmp_path):
    gpt.run(tmp_path / "gpt.csv")
    tried = sorted(lr for method, width, lr, seed in quick if (method, width, seed) == ("scion", 96, 0))
    assert tried == [0.003, 0.01, 0.03, 0.09, 0.3]
    assert sorted(lr for m, w, lr, s in quick if (m, w, s) == ("adamw", 96, 0)) == [0.03, 0.09, 0.3]
    assert [(lr, seed) for method, _, lr, seed in quick if method == "scion" and seed] == [
        (0.09, 1),
        (0.09, 2),
    ]
    assert len(set(quick)) == len(quick)


def test_a_stopped_study_goes_on_and_its_report_names_what_is_missing(quick, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    file = tmp_path / "gpt.csv"
    whole = gpt.train

    def stopped(*arguments):
        if len(quick) == 4:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(gpt, "train", stopped)
    with pytest.raises(KeyboardInterrupt):
        gpt.run(file)
    assert len(gpt.read(file)) == 4
    assert "Not run yet: scion at width 96" in gpt.report(file)
    monkeypatch.setattr(gpt, "train", whole)
    gpt.run(file)
    assert len(set(quick)) == len(quick) == len(gpt.read(file))
    assert "Not run yet" not in gpt.report(file)


@pytest.mark.parametrize("method", gpt.RATES)
def test_every_method_trains(method, monkeypatch):
    if method == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("torch.optim.Muon is of PyTorch 2.9")
    torch.set_num_threads(1)
    monkeypatch.setattr(gpt, "text", lambda: b"The quick brown fox jumps over the lazy dog. " * 200)
    gpt.data.cache_clear()
    try:
        found = gpt.train(method, gpt.RATES[method][1], 0, width=16, steps=20)
    finally:
        gpt.data.cache_clear()
    assert found["loss"] < 5.0
    assert found["parameters"] < 50_000


def test_the_committed_rows_are_those_of_the_fields():
    from pathlib import Path

    file = Path(__file__).parents[2] / "results" / "networks" / "gpt.csv"
    with file.open(encoding="utf-8") as table:
        assert tuple(next(csv.reader(table))) == gpt.FIELDS
