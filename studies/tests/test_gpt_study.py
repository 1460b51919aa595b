"""The GPT part of the networks study tunes all methods alike, resumes, and says what is missing."""

import itertools
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the study needs PyTorch")

from dcfw_studies import Store, gpt, gpt_report, networks, networks_report, run  # noqa: E402
from dcfw_studies.report import write_report  # noqa: E402

RESULTS = Path(__file__).parents[2] / "results" / "networks"


@pytest.fixture
def quick(monkeypatch):
    """Replace training by a loss that is lowest at the chosen learning rate."""
    calls = []

    def row(method, seed, lr, width, steps):
        calls.append((method, seed, lr, width, steps))
        result = {name: kind(1) for name, kind in gpt_report.RESULTS.items() if name != "seconds"}
        best = gpt.CHOSEN[method]
        return result | {"loss": 2.0 + abs(lr - best), "curve": [3.0] * 20, "text": "0" * 64, "torch": "2"}

    few = list(gpt.tasks())[:6]
    for module in (gpt, gpt_report):
        monkeypatch.setattr(module, "tasks", lambda: iter(few))
    monkeypatch.setattr(gpt, "row", row)
    return calls


def test_every_method_has_the_same_chances():
    for method, rates in gpt.RATES.items():
        assert len(rates) >= 3
        assert all(a < b for a, b in itertools.pairwise(rates))
        assert gpt.CHOSEN[method] in rates[1:-1], method
    chosen = [
        (m, s["lr"], seed) for m, seed, s in gpt.tasks() if s["width"] == 96 and s["steps"] == gpt.STEPS
    ]
    for method, lr in gpt.CHOSEN.items():
        assert [seed for m, rate, seed in chosen if (m, rate) == (method, lr)] == list(range(gpt.SEEDS))


def test_a_stopped_study_goes_on_and_its_report_names_what_is_missing(quick, tmp_path):
    pytest.importorskip("matplotlib")
    study = networks.study(("gpt",))
    with Store(tmp_path / "store.db") as store:
        run(study, store, limit=4)
        write_report("networks", tmp_path / "store.db", tmp_path)
        assert "Not run yet: scion" in (tmp_path / "gpt.md").read_text()
        run(study, store)
        assert len(quick) == len(set(quick)) == len(study.tasks)
        (section,) = networks_report.sections(store)
    names = [file.name for file in write_report("networks", tmp_path / "store.db", tmp_path)]
    assert names == ["gpt.csv", "gpt.md", "README.md", "gpt.png"]
    assert "Not run yet" not in (tmp_path / "gpt.md").read_text()
    assert "GPT" in section.title
    with Store(tmp_path / "copy.db") as copy:
        assert networks.import_rows(copy, str(tmp_path)) == len(study.tasks)
        assert copy.finished_keys(study) == {task.key for task in study.tasks}


@pytest.mark.parametrize("method", gpt.RATES)
def test_every_method_trains(method, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(gpt, "text", lambda: b"The quick brown fox jumps over the lazy dog. " * 200)
    gpt.data.cache_clear()
    try:
        found = gpt.row(method, 0, gpt.RATES[method][1], width=16, steps=20)
    finally:
        gpt.data.cache_clear()
    assert found["loss"] < 5.0
    assert found["parameters"] < 50_000


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon is of PyTorch 2.9")
def test_muon_of_the_study_takes_the_steps_of_pytorch():
    torch.manual_seed(0)
    start, grads = torch.randn(12, 8), torch.randn(3, 12, 8)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimizers = (gpt.Muon([ours], 0.1), torch.optim.Muon([theirs], lr=0.1, momentum=0.95))
    for G in grads:
        ours.grad = theirs.grad = G
        for optimizer in optimizers:
            optimizer.step()
    assert (ours - theirs).norm() < 0.02 * (start - theirs).norm()  # it multiplies in bfloat16


def test_the_committed_rows_support_the_choices_and_the_claims():
    from dcfw_studies.table_file import read_table

    rows = []
    for line in read_table(RESULTS / "gpt.csv", gpt_report.FIELDS):
        method, seed, settings, result = gpt_report.read_line(line)
        rows.append({"method": method, "seed": seed, **settings, **result})
    assert gpt_report.missing(rows) == []
    loss = {m: gpt_report.mean(gpt_report.best_rows(rows, m), "loss") for m in gpt.CHOSEN}
    assert loss["scion"] < 1.01 * loss["scion20"]
    assert loss["scion"] < min(loss["muon"], loss["adamw"])
