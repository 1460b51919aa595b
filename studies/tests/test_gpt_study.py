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
    """Replace training by a loss that is lowest at the chosen setting, and keep the tasks of one method."""
    calls = []

    def row(method, seed, lr, width, steps, variant):
        calls.append((method, seed, lr, width, steps, variant))
        result = {name: kind(1) for name, kind in gpt_report.RESULTS.items() if name != "seconds"}
        loss = 2.0 + abs(lr - gpt.CHOSEN[method][0])
        return result | {"loss": loss, "curve": [3.0] * 20, "text": "0" * 64, "torch": "2"}

    few = [task for task in gpt.tasks() if task[0] == "dcfw"]
    monkeypatch.setattr(gpt, "tasks", lambda: iter(few))
    monkeypatch.setattr(gpt, "row", row)
    return calls


def test_every_method_has_the_same_chances():
    for method, rates in gpt.RATES.items():
        assert len(rates) >= 4
        assert all(a < b for a, b in itertools.pairwise(rates))
        assert gpt.CHOSEN[method][0] in rates[1:-1], method
    assert {m: len(variants) for m, variants in gpt.VARIANTS.items()} == dict.fromkeys(
        ("scion20", "scion", "muon", "adamw"), 20
    )
    for method, (lr, variant) in gpt.CHOSEN.items():
        wanted = {"width": 96, "lr": lr, "steps": gpt.STEPS, "variant": variant}
        seeds = [seed for m, seed, settings in gpt.tasks() if (m, settings) == (method, wanted)]
        assert sorted(seeds) == [0, *gpt.SEEDS]


def test_choices_do_not_see_the_held_out_text(monkeypatch):
    monkeypatch.setattr(gpt, "text", lambda: bytes(range(97, 122)) * 400)
    gpt.data.cache_clear()
    seen = []
    monkeypatch.setattr(gpt, "evaluate", lambda model, pieces: seen.append(pieces) or 1.0)
    try:
        _, for_choices, held_out = gpt.data()
        for seed, unseen in ((0, for_choices), (1, held_out)):
            gpt.row("adamw", seed, 0.001, width=8, steps=1)
            assert all(pieces is unseen for pieces in seen), seed
            seen.clear()
    finally:
        gpt.data.cache_clear()


def test_a_stopped_study_goes_on_and_its_report_names_what_is_missing(quick, tmp_path):
    pytest.importorskip("matplotlib")
    study = networks.study(("gpt",))
    with Store(tmp_path / "store.db") as store:
        run(study, store, limit=4)
        write_report("networks", tmp_path / "store.db", tmp_path)
        assert "Not run yet: dcfw" in (tmp_path / "gpt.md").read_text()
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


SETTINGS = [(m, v) for m in gpt.RATES for v in ("", *list(gpt.VARIANTS.get(m, {}))[5:7])]


@pytest.mark.parametrize(("method", "variant"), SETTINGS)
def test_every_method_trains(method, variant, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(gpt, "text", lambda: b"The quick brown fox jumps over the lazy dog. " * 200)
    gpt.data.cache_clear()
    try:
        found = gpt.row(method, 0, gpt.RATES[method][1], width=16, steps=20, variant=variant)
    finally:
        gpt.data.cache_clear()
    assert found["loss"] < 5.0
    assert found["parameters"] < 50_000


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon needs PyTorch 2.9")
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


def test_the_committed_rows_support_the_choices_and_the_guide_quotes_them():
    from dcfw_studies.table_file import read_table

    rows = []
    for line in read_table(RESULTS / "gpt.csv", gpt_report.FIELDS):
        method, seed, settings, result = gpt_report.read_line(line)
        rows.append({"method": method, "seed": seed, **settings, **result})
    loss = {}
    for method in gpt.VARIANTS:
        found = gpt_report.by_variant(rows, method)
        assert min(found, key=found.__getitem__) == gpt.CHOSEN[method]
        own = gpt_report.best_rows(rows, method)
        assert len(own) == len(gpt.SEEDS)
        loss[method] = f"{gpt_report.mean(own, 'loss'):.2f}"
    page = " ".join((RESULTS.parents[1] / "docs" / "guide" / "torch.md").read_text().split())
    assert f"Muon ends at {loss['muon']}, `Scion` at {loss['scion']}; the published" in page
    assert f"Scion in twenty lines at {loss['scion20']}, AdamW at {loss['adamw']} ([the study]" in page
    tried = {method: gpt_report.by_variant(rows, method) for method in gpt.VARIANTS}
    counts = {method: len(found) for method, found in tried.items()}
    assert set(counts.values()) == {24}
    best = [f"{min(tried[method].values()):.3f}" for method in ("muon", "scion", "scion20", "adamw")]
    assert f"the best are {', '.join(best[:3])} and {best[3]} on the text for choices" in page
    mixed, muon = (gpt_report.mean(gpt_report.best_rows(rows, m), "loss") for m in ("scion+", "muon"))
    assert f"it ends at {mixed:.2f}: below Muon" in page
    assert f"by {100 * (1 - mixed / muon):.1f} % in the mean" in page
    for line in gpt_report.missing(rows):
        assert line in (RESULTS / "gpt.md").read_text()


def test_a_row_does_not_depend_on_the_number_of_threads_around_it():
    settings = {"part": "digits", "model": "cnn", "epochs": 1, "c": None}
    before, curves = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            curves.append(networks.row("digits", "sgd", 0, **settings)["curves"]["train_loss"])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert curves[0] == curves[1]
