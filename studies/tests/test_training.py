"""Training: the networks are the paper's, runs are reproducible and go on from their checkpoints."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch", reason="training needs PyTorch")
pytest.importorskip("sklearn", reason="the digits come with scikit-learn")

from dcfw.checkpoints.file import locked  # noqa: E402
from dcfw.cli.page.parts import Chart, Table  # noqa: E402
from dcfw_studies import networks, networks_report, networks_tables, training  # noqa: E402
from dcfw_studies.commands import app  # noqa: E402
from dcfw_studies.report import write_report  # noqa: E402
from dcfw_studies.runner import run as run_study  # noqa: E402
from dcfw_studies.store import Store  # noqa: E402
from dcfw_studies.training import METHODS, Settings  # noqa: E402

SMALL = {"images": 300, "batch": 64, "epochs": 2}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_convolutional_network_has_the_paper_s_layers():
    model = training.network(Settings(dataset="cifar10"), (3, 32, 32), 10)
    shapes = [tuple(p.shape) for p in model.parameters() if p.ndim > 1]
    assert shapes == [
        (32, 3, 3, 3), (32, 32, 3, 3), (64, 32, 3, 3), (64, 64, 3, 3),
        (512, 64 * 8 * 8), (1024, 512), (10, 1024),
    ]  # fmt: skip
    names = [type(layer).__name__ for layer in model]
    assert names[:8] == ["Conv2d", "ReLU", "BatchNorm2d"] * 2 + ["MaxPool2d", "Dropout"]
    third = training.network(Settings(dataset="cifar100"), (3, 32, 32), 100)
    assert sum(type(layer).__name__ == "Conv2d" for layer in third) == 6
    head = training.network(Settings(model="head"), (1280,), 10)
    assert [type(layer).__name__ for layer in head] == ["Dropout", "Linear"]
    assert head[0].p == 0.2


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_constrained_weights_stay_in_the_ball(method):
    c = 0.05
    run = training.train(Settings(model="head", method=method, c=c, **SMALL))
    assert all(len(curve) == 2 for curve in run.curves.values())
    assert math.isfinite(run.curves["train_loss"][-1])
    if method in training.CONSTRAINED:
        assert run.curves["largest"][-1] <= c * (1 + 1e-6)
        assert run.curves["at_bound"][-1] > 0.0
    else:
        assert run.curves["largest"][-1] > c
        assert math.isnan(run.curves["at_bound"][-1])
    counted = method in ("dcfw", "dcfw-paper", "dcfw-authors")
    assert counted == (run.curves["inner_steps"][-1] >= 1.0)


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second, third = (training.train(Settings(seed=seed, **SMALL)) for seed in (0, 0, 1))
    assert first.curves["train_loss"] == second.curves["train_loss"]
    assert first.curves["train_loss"] != third.curves["train_loss"]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("method", ["dcfw", "dcfw-paper", "fw", "sfw", "adamw"])
def test_a_run_goes_on_from_its_checkpoint_to_the_same_weights(tmp_path, method):
    whole = training.train(Settings(method=method, images=200, batch=64, epochs=2))
    file = tmp_path / "run.pt"
    training.train(Settings(method=method, images=200, batch=64, epochs=1), checkpoint=file)
    resumed = training.train(Settings(method=method, images=200, batch=64, epochs=2), checkpoint=file)
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert resumed.curves["test_loss"] == whole.curves["test_loss"]
    assert resumed.steps == whole.steps == 2 * 4


@pytest.mark.parametrize("place", ["torch.load", "torch.nn.Module.load_state_dict"])
def test_a_lack_of_memory_is_no_reason_to_remove_a_checkpoint(tmp_path, monkeypatch, place):
    settings = Settings(model="head", **SMALL)
    training.train(settings, checkpoint=tmp_path / "run.pt")

    def fail(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(place, fail)
    with pytest.raises(MemoryError, match="no room"):
        training.train(settings, checkpoint=tmp_path / "run.pt")


def test_two_runs_cannot_write_one_checkpoint(tmp_path):
    file = tmp_path / "new" / "run.pt"
    options = {"model": "head", "images": 100, "batch": 50}
    refused = []

    def progress(*_):
        if not refused:
            with pytest.raises(BlockingIOError, match="is being written by another run") as error:
                training.train(Settings(epochs=1, **options), checkpoint=file)
            refused.append(error)

    training.train(Settings(epochs=1, **options), checkpoint=file, progress=progress)
    assert refused
    assert [p.name for p in file.parent.iterdir()] == ["run.pt"]
    with locked(file):  # what has all its epochs is only read
        assert len(training.train(Settings(epochs=1, **options), checkpoint=file).curves["seconds"]) == 1


def test_a_checkpoint_of_other_settings_or_a_damaged_one_is_refused(tmp_path):
    file = tmp_path / "run.pt"
    training.train(Settings(model="head", **SMALL), checkpoint=file)
    with pytest.raises(ValueError, match="other settings"):
        training.train(Settings(model="head", c=3.0, **SMALL), checkpoint=file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"not a checkpoint.*remove it"):
        training.train(Settings(model="head", **SMALL), checkpoint=file)


def test_with_a_large_radius_the_closed_form_is_sgd():
    free, held = (
        training.train(Settings(model="head", method=method, c=100.0, **SMALL))
        for method in ("sgd", "dcfw-exact")
    )
    assert free.curves["train_loss"] == held.curves["train_loss"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("dataset", "mnist"), ("model", "mlp"), ("method", "lion"), ("c", 0.0), ("L", -1.0), ("epochs", 0),
     ("batch", 1), ("seed", -1), ("images", 1), ("precision", "int8")],
)  # fmt: skip
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        Settings(**{name: value})


def test_the_study_s_rows_are_stored_and_its_report_states_the_claims_from_them(tmp_path):
    study = networks.study(["digits"], seeds=2, epochs=2)
    # A head on 200 images in the place of the network, so that the test is quick.
    kept = [
        replace(t, settings={**t.settings, "model": "head", "images": 200})
        for t in study.tasks
        if t.method in ("dcfw", "fw", "sgd")
    ]
    assert len(study.tasks) == (6 * 3 + 2) * 2
    assert len(kept) == (2 * 3 + 1) * 2
    from dcfw_studies.study import Study

    with Store(tmp_path / "s.db") as store:
        summary = run_study(Study("networks", networks.row, tasks=kept), store)
        assert (summary.done, summary.failed) == (len(kept), 0)
        rows = store.rows("networks")
    assert all(r["n_inner"] for r in rows if r["method"] == "dcfw")
    assert all(r["n_inner"] is None for r in rows if r["method"] == "fw")
    claims = {e["method"]: e for e in networks_tables.growth(rows)}
    by = {(r["method"], r["c"], r["seed"]): r for r in rows}
    for method in ("dcfw", "fw"):
        means = [np.mean([by[method, c, s]["train_loss"] for s in range(2)]) for c in (1.0, 100.0)]
        assert claims[method]["loss_ratio"] == pytest.approx(means[1] / means[0])
    files = write_report("networks", tmp_path / "s.db", tmp_path / "out")
    with Store(tmp_path / "s.db", readonly=True) as store:
        (section,) = networks_report.sections(store)
    assert section.count(Table) == 4
    assert section.count(Chart) == 3 * 2 + 1
    text = (tmp_path / "out" / "README.md").read_text()
    assert "features, CIFAR-10: not run" in text
    assert f"multiplied by {networks_tables.times(claims['fw']['loss_ratio'])}" in text
    assert {"README.md", "rows.csv", "curves.csv", "epochs-digits.png", "inner_steps.svg"} <= {
        f.name for f in files
    }

    # The files of a report are enough to go on from: the same rows, the same tasks done, the same report.
    with Store(tmp_path / "t.db") as store:
        assert networks.import_rows(store, str(tmp_path / "out")) == len(kept)
    with Store(tmp_path / "t.db") as store:
        assert run_study(Study("networks", networks.row, tasks=kept), store).skipped == len(kept)
    write_report("networks", tmp_path / "t.db", tmp_path / "again", figures=False)
    for name in ("rows.csv", "curves.csv", "summary.json"):
        assert (tmp_path / "again" / name).read_text() == (tmp_path / "out" / name).read_text()
    again = (tmp_path / "again" / "README.md").read_text()
    assert set(again.splitlines()) <= set(text.splitlines())


def test_a_last_batch_of_one_image_is_neither_a_step_nor_an_image_seen(tmp_path):
    options = {"model": "head", "images": 129, "batch": 64, "c": 1.0}
    told = []
    whole = training.train(
        Settings(epochs=4, **options), progress=lambda done, total, latest: told.append((done, total))
    )
    assert whole.steps == 8
    assert told[-1] == (8, 8)
    training.train(Settings(epochs=2, **options), checkpoint=tmp_path / "run.pt")
    resumed = training.train(Settings(epochs=4, **options), checkpoint=tmp_path / "run.pt")
    assert resumed.steps == 8
    assert resumed.curves["train_loss"] == whole.curves["train_loss"]
    # Two of three images are seen: a share of them is a half or a whole, never a third.
    few = training.train(Settings(model="head", images=3, batch=2, epochs=6, c=1.0))
    assert set(few.curves["train_accuracy"]) <= {0.0, 0.5, 1.0}
    assert few.steps == 6


def test_a_row_of_few_epochs_does_not_take_the_result_of_a_killed_run_of_more(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "cifar10"
    folder.mkdir(parents=True)
    for part, count in (("train", 64), ("test", 32)):
        np.save(folder / f"{part}_images.npy", rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8))
        np.save(folder / f"{part}_labels.npy", rng.integers(0, 10, count))
    monkeypatch.setenv("DCFW_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("dcfw.data.cache_folder", lambda: tmp_path / "cache")
    save, written = training._save, []

    def killed_after_three(*arguments):
        save(*arguments)
        written.append(arguments[0])
        if len(written) == 3:
            raise KeyboardInterrupt

    def row(epochs):
        return networks.row("cifar10", "sgd", 0, part="cnn", model="cnn", epochs=epochs)

    monkeypatch.setattr(training, "_save", killed_after_three)
    with pytest.raises(KeyboardInterrupt):
        row(4)
    monkeypatch.setattr(training, "_save", save)
    short = row(2)
    assert len(short["curves"]["train_loss"]) == short["n_steps"] == 2
    assert written[-1].exists()  # the killed run goes on from its third epoch
    long = row(4)
    assert len(long["curves"]["train_loss"]) == 4
    assert long["curves"]["train_loss"][:2] == short["curves"]["train_loss"]
    assert list((tmp_path / "cache" / "networks").iterdir()) == []


def test_the_command_prints_a_line_per_epoch_or_json(tmp_path):
    arguments = ["train", "digits", "--model", "head", "--images", "300", "--batch", "64", "--epochs", "2"]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    assert len(answer.stdout.splitlines()) == 4
    answer = CliRunner().invoke(app, [*arguments, "--json", "--checkpoint", str(tmp_path / "run.pt")])
    found = json.loads(answer.stdout)
    assert len(found["curves"]["test_accuracy"]) == 2
    assert found["settings"]["method"] == "dcfw"


def test_the_default_radius_on_digits_binds_and_the_last_line_says_what_to_see():
    for more, said in (
        ([], "of them at the bound; a larger"),
        (["-c", "10"], "none is at the bound; a smaller"),
    ):
        answer = CliRunner().invoke(app, ["train", "digits", *more])
        assert said in answer.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "lion"], "method must be"),
        (["--epochs", "0"], "epochs must be"),
        (["-c", "0"], "c must be"),
    ],
)
def test_a_wrong_value_is_a_wrong_command_line_and_exit_code_2(arguments, said):
    answer = CliRunner().invoke(app, ["train", "digits", *arguments])
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert said in answer.stderr


def test_the_command_says_that_a_checkpoint_already_has_the_epochs(tmp_path):
    file = str(tmp_path / "run.pt")
    arguments = ["train", "digits", "--model", "head", "--images", "100", "--checkpoint", file, "--epochs"]
    first = CliRunner().invoke(app, [*arguments, "2"])
    assert (first.exit_code, first.stderr) == (0, "")
    for asked in ("1", "2"):
        answer = CliRunner().invoke(app, [*arguments, asked])
        assert answer.stdout == first.stdout  # both epochs, as they are in the file
        assert f"{file} already has 2 epochs, --epochs is {asked}: nothing was trained" in answer.stderr
    assert CliRunner().invoke(app, [*arguments, "3"]).stderr == ""


def test_the_json_of_a_run_that_diverges_is_json(monkeypatch):
    curves = {name: [1.0, math.inf, -math.inf, math.nan] for name in training.CURVES}
    monkeypatch.setattr(
        training, "train", lambda settings, **_: training.Trained(settings, curves, None, 1, 2)
    )
    answer = CliRunner().invoke(app, ["train", "digits", "--json"])

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    found = json.loads(answer.stdout, parse_constant=refuse)
    assert found["curves"]["train_loss"] == [1.0, None, None, None]


def test_a_checkpoint_that_cannot_be_written_is_known_before_the_first_epoch(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(training, "_test", lambda *_: pytest.fail("an epoch was trained"))
    arguments = ["train", "digits", "--model", "head", "--images", "100", "--checkpoint"]
    answer = CliRunner().invoke(app, [*arguments, str(tmp_path / "file" / "run.pt")])
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert "run.pt could not be written" in answer.stderr
    assert "give a file in a folder that is writable, with --checkpoint" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_checkpoint_in_a_folder_that_is_no_longer_writable_is_known_after_one_step(tmp_path, monkeypatch):
    file = tmp_path / "run.pt"
    arguments = [
        "train",
        "digits",
        "--model",
        "head",
        "--images",
        "100",
        "--checkpoint",
        str(file),
        "--epochs",
    ]
    first = CliRunner().invoke(app, [*arguments, "1"])

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    monkeypatch.setattr(training, "_test", lambda *_: pytest.fail("an epoch was trained"))
    assert CliRunner().invoke(app, [*arguments, "1"]).stdout == first.stdout  # which needs no writing
    answer = CliRunner().invoke(app, [*arguments, "2"])
    assert answer.exit_code == 1
    assert f"{file} could not be written (Permission denied)" in answer.stderr


def test_a_folder_given_as_a_checkpoint_is_named_without_advice_to_remove_it(tmp_path):
    answer = CliRunner().invoke(app, ["train", "digits", "--checkpoint", str(tmp_path)])
    assert answer.exit_code == 1
    assert f"--checkpoint must be a file, but {tmp_path} is a folder" in answer.stderr
    assert "remove" not in answer.stderr


def test_a_checkpoint_s_folder_is_made_and_nothing_but_the_file_is_in_it(tmp_path):
    file = tmp_path / "new" / "folder" / "run.pt"
    arguments = ["train", "digits", "--model", "head", "--images", "100", "--epochs", "1"]
    assert CliRunner().invoke(app, [*arguments, "--checkpoint", str(file)]).exit_code == 0
    assert list(file.parent.iterdir()) == [file]
