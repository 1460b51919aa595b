"""The command lines of the studies, what they are run with, and runners in trouble."""

import json
import os
import re
import runpy
import sqlite3
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from page_cases import fill_qap
from typer.testing import CliRunner

from dcfw_studies import alignment, cluster, inner, networks, qap, run, sqlite_file, workers
from dcfw_studies.claims import Owner
from dcfw_studies.cluster import ClusterError
from dcfw_studies.commands import app
from dcfw_studies.commands.settings import settings_for
from dcfw_studies.store import Store, software_versions
from dcfw_studies.study import Study, Task

# -- the settings of a study on the command line ---------------------------------------------------------


def test_importing_the_program_does_not_run_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dcfw-studies", "--help"])
    program = Path(alignment.__file__).with_name("__main__.py")
    found = runpy.run_path(str(program), run_name="dcfw_studies.__main__")
    assert found["app"] is app
    assert capsys.readouterr().out == ""


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_report_of_a_study_is_written_to_a_folder_and_its_files_are_printed(monkeypatch):
    asked = []

    def write_report(study, store, output):
        asked.append((study, store, output))
        return [Path(output, "README.md"), Path(output, "rows.csv")]

    monkeypatch.setattr("dcfw_studies.report.write_report", write_report)
    done = call("report", "s.db", "--study", "alignment", "-o", "out")
    assert asked == [("alignment", "s.db", Path("out"))]
    assert done.stdout.split() == [str(Path("out", name)) for name in ("README.md", "rows.csv")]


def test_the_rows_of_an_export_can_be_imported_again(tmp_path):
    with Store(tmp_path / "s.db") as store:
        fill_qap(store, np.random.default_rng(0), 1)
        store.finish(Task("a", "m", 0, study="other"), {"value": 1}, seconds=1.0)
        count = len(store.rows("qap"))
    assert call("study", "export", tmp_path / "s.db", "qap", "-o", tmp_path / "rows.csv").exit_code == 0
    done = call("study", "import", tmp_path / "t.db", "qap", tmp_path / "rows.csv")
    assert done.stderr == f"{count} rows are new\n"


def test_settings_choose_the_part_of_a_study():
    words = ["methods=fw", "seeds=2", "max-n=12", "protocol=text", "datasets=nug12,nug30"]
    chosen = qap.study(**settings_for(qap.study, words))
    assert {(t.method, t.settings["protocol"]) for t in chosen.tasks} == {("fw", "text")}
    assert {t.seed for t in chosen.tasks} == {0, 1}
    assert {t.dataset for t in chosen.tasks} == {"nug12"}


@pytest.mark.parametrize(
    ("study", "pair", "said"),
    [
        ("qap", "seeds=0", "--set seeds must be positive"),
        ("qap", "seeds=many", "--set seeds must be a number"),
        ("qap", "speed=3", "NAME among methods, seeds"),
        ("qap", "seeds", "--set takes NAME=VALUE"),
        ("qap", "methods=fast", "methods must be one of"),
        ("qap", "datasets=nosuch", "got 'nosuch'"),
        ("qap", "datasets=nug31", "did you mean nug30"),
        ("qap", "datasets=nug12,nug12", "more than once"),
        ("alignment", "parts=most", "parts must be one of"),
        ("inner", "families=none", "families must be one of"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(study, pair, said):
    module = {"qap": qap, "alignment": alignment, "inner": inner}[study]
    with pytest.raises(ValueError, match=re.escape(said)):
        module.study(**settings_for(module.study, [pair]))


def test_a_users_mistake_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = "dataset,method,seed,status,seconds\n"
    Path("bad.csv").write_text("a,b\n1,2\n")
    Path("half.csv").write_text(header + "nug12,fw,many,CONVERGED,1\n")
    Path("empty.csv").write_text(header + "nug12,fw,1,CONVERGED,\n")
    Path("wide.csv").write_text(header + "nug12,fw,1,CONVERGED,1,2,3\n")
    Path("picture.csv").write_bytes(b"\x89PNG\xff")
    for arguments, words in (
        (("report", "nosuch.db", "--study", "qap", "-o", "out"), "there is no store at nosuch.db"),
        (("study", "import", "s.db", "qap", "nosuch.csv"), "nosuch.csv"),
        (("study", "import", "s.db", "qap", "bad.csv"), "bad.csv has no column 'dataset', 'method'"),
        (("study", "import", "s.db", "qap", "half.csv"), "half.csv, row 2: invalid literal for int()"),
        (
            ("study", "import", "s.db", "qap", "empty.csv"),
            "row 2: nothing in the column 'seconds'",
        ),
        (("study", "import", "s.db", "qap", "wide.csv"), "wide.csv, row 2: more cells than the header"),
        (("study", "import", "s.db", "qap", "picture.csv"), "picture.csv is not a CSV file"),
        (("study", "import", "s.db", "networks", "nosuch"), "curves.csv"),
        (("study", "import", "s.db", "gaps", "nosuch"), "cannot be imported"),
    ):
        done = call(*arguments)
        assert done.exit_code == 1
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "nosuch.db").exists()
    assert not (tmp_path / "out").exists()


def test_an_instance_without_a_number_in_its_name_has_no_size():
    assert [qap._size(name) for name in ("nug12", "esc16a", "mine")] == [12, 16, 0]


# -- what the studies are made of ------------------------------------------------------------------------


def test_a_part_of_the_alignment_study_is_only_that_part():
    assert {t.settings["part"] for t in alignment.study(["long"]).tasks} == {"long"}
    assert {t.settings["part"] for t in alignment.study(["choices"]).tasks} == {"choices"}


def test_networks_are_trained_on_fewer_images_only_where_fewer_are_asked_for():
    few, all_of_them = (networks.study(["cnn"], images=images) for images in (1000, networks.CNN_IMAGES))
    assert {t.settings["images"] for t in few.tasks} == {1000}
    assert all("images" not in t.settings for t in all_of_them.tasks)
    with pytest.raises(ValueError, match="parts must be among digits, head, cnn, gpt, got 'mlp'"):
        networks.study(["mlp"])


def test_planted_data_are_a_shrunken_orthogonal_map_with_noise():
    data = alignment.load("shrunken", 0)
    words, shrunken, _ = alignment.PLANTED["shrunken"]
    assert data.E1.shape == data.E2.shape == (300, words)
    assert data.test is None
    fitted = np.linalg.lstsq(data.E1.T, data.E2.T, rcond=None)[0]
    np.testing.assert_allclose(np.median(np.linalg.svd(fitted, compute_uv=False)), shrunken, rtol=0.1)


def test_short_data_are_planted_data_with_vectors_of_length_one():
    data = alignment.load("short", 0)
    assert data.E1.shape == (300, 10_000)
    np.testing.assert_allclose(np.linalg.norm(data.E1, axis=0).mean(), 1.0, rtol=0.01)
    np.testing.assert_allclose(np.linalg.norm(data.E2, axis=0).mean(), 1.25**0.5, rtol=0.01)


@pytest.fixture
def embeddings(tmp_path, monkeypatch):
    """Twenty pairs of vectors in a data folder; the first ten words have a second translation."""
    folder = tmp_path / "embeddings"
    folder.mkdir()
    rng = np.random.default_rng(0)
    vectors = {language: rng.standard_normal((20, 4)).astype(np.float32) + 1.0 for language in ("en", "fr")}
    for language, rows in vectors.items():
        np.save(folder / f"{language}.npy", rows)
    lines = ["en_row\tfr_row\tfirst_for_en", *(f"{k}\t{19 - k}\t1" for k in range(20))]
    lines += [f"{k}\t{k}\t0" for k in range(10)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("DCFW_DATA", str(tmp_path))
    return vectors


@pytest.mark.parametrize("scaling", ["raw", "unit", "centred"])
def test_real_pairs_are_scaled_as_asked_and_a_fifth_is_held_out(embeddings, scaling):
    data = alignment.load("real", 0, scaling)
    source = embeddings["en"].astype(float)
    if scaling != "raw":
        source /= np.linalg.norm(source, axis=1, keepdims=True)
    if scaling == "centred":
        source -= source.mean(axis=0)
    np.testing.assert_allclose(data.test["source"], source, rtol=1e-12, atol=1e-14)
    held = {int(row) for row in data.test["held"][:, 0]}
    assert len(held) == round(alignment.HELD_OUT * 20)
    fitted = [k for k in range(20) if k not in held]
    np.testing.assert_allclose(data.E1, source[fitted].T, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(data.E2, data.test["target"][[19 - k for k in fitted]].T)
    both = {(k, 19 - k) for k in held} | {(k, k) for k in held if k < 10}
    assert {(int(a), int(b)) for a, b in data.test["correct"]} == both


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Task("a", "m", 0, [1]), TypeError, "settings must be a dict, got list"),
        (lambda: Study("", dict), ValueError, "name must be a string that is not empty"),
        (lambda: Study(3, dict), ValueError, "name must be a string that is not empty, got 3"),
        (lambda: Study("s", "row"), TypeError, "run must be callable, got str"),
        (lambda: run("s", None), TypeError, "study must be a Study, got str"),
    ],
)
def test_an_object_that_is_not_a_study_is_refused_by_name(make, error, match):
    with pytest.raises(error, match=match):
        make()


# -- runners ---------------------------------------------------------------------------------------------


def test_claims_are_renewed_while_a_row_is_computed(monkeypatch):
    renewed = threading.Event()

    def row(dataset, method, seed):
        assert renewed.wait(30.0)
        return {"value": 1}

    with Store(":memory:", lease=0.04) as store:
        monkeypatch.setattr(store, "renew", lambda owner: renewed.set())
        assert run(Study("s", row, ["a"], ["x"], [0]), store).done == 1


def test_a_row_that_another_runner_has_stored_meanwhile_is_not_stored_twice():
    with Store(":memory:") as store:

        def row(dataset, method, seed):
            store.finish(study.tasks[0], {"value": 1}, seconds=1.0)
            return {"value": 2}

        study = Study("s", row, ["a"], ["x"], [0])
        summary = run(study, store)
        assert (summary.done, summary.skipped) == (0, 1)
        assert [r["value"] for r in store.rows()] == [1]


def test_a_row_whose_runner_is_gone_is_not_counted_as_running():
    task = Task("a", "m", 0, study="s")
    with Store(":memory:") as store:
        store.finish(Task("b", "m", 0, study="s"), {"value": 1}, seconds=1.0)
        owner = Owner.enter()
        assert store.claim(task, owner)
        assert [entry["running"] for entry in store.status()] == [1]
        owner.leave()
        assert [entry["running"] for entry in store.status()] == [0]


def test_a_worker_ends_when_its_runner_is_gone_and_a_runner_does_not_watch_itself(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(workers.os, "_exit", lambda code: ended.set())
    before = threading.active_count()
    workers._end_with(os.getpid())
    assert threading.active_count() == before
    workers._end_with(-1)  # no such process
    assert ended.wait(30.0)


class Busy:
    """A database that is locked by another process for some calls."""

    def __init__(self, calls, code=sqlite3.SQLITE_BUSY):
        self.left, self.code, self.done = calls, code, []

    def execute(self, statement):
        if self.left:
            self.left -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.code
            raise error
        self.done.append(statement)


def test_a_new_store_waits_for_the_one_that_makes_it_too_and_for_nothing_else(monkeypatch):
    waits = []
    monkeypatch.setattr(sqlite_file.time, "sleep", waits.append)
    db = Busy(3)
    sqlite_file._enter_wal(db)
    assert db.done == ["PRAGMA journal_mode=WAL"]
    assert len(waits) == 3
    with pytest.raises(sqlite3.OperationalError):
        sqlite_file._enter_wal(Busy(1, sqlite3.SQLITE_READONLY))
    assert len(waits) == 3
    with pytest.raises(sqlite3.OperationalError):
        sqlite_file._enter_wal(Busy(10**6))
    assert len(waits) == 3 + 199


# -- a cluster that is not in order (stand-ins for its client) -------------------------------------------


class Client:
    """A client of a cluster whose scheduler and worker answer as they are told."""

    def __init__(self, worker, workers=1):
        self.worker, self.workers = worker, workers
        self.scheduler = SimpleNamespace(address="tcp://there:1")
        self.cancelled, self.closed = [], False

    def wait_for_workers(self, count, timeout):
        pass

    def run_on_scheduler(self, function):
        return function()

    def run(self, function, on_error):
        return {"tcp://worker:2": self.worker}

    def nthreads(self):
        return {f"tcp://worker:{k}": 1 for k in range(self.workers)}

    def submit(self, *_, pure):
        return SimpleNamespace(status="lost", client=self, add_done_callback=lambda put: None)

    def cancel(self, futures):
        self.cancelled += futures


@pytest.mark.parametrize(
    ("worker", "match"),
    [
        (ImportError("no numpy"), r"tcp://worker:2 cannot load dcfw, install it there \[no numpy\]"),
        ({"dcfw": "0.0.1"}, r"tcp://worker:2 has dcfw 0\.0\.1 and this process .*: install the same version"),
    ],
)
def test_a_worker_with_another_dcfw_or_none_is_named_before_a_row_is_sent(worker, match):
    with Store(":memory:") as store, pytest.raises(ClusterError, match=match):
        run(Study("s", dict, ["a"], ["x"], [0]), store, dask=Client(worker))


def test_a_client_that_is_given_is_used_as_it_is():
    client = Client(software_versions())
    with cluster.connected(client) as found:
        assert found is client


def test_a_cluster_without_workers_is_left_after_a_while():
    outcomes = cluster.on_cluster(dict, [Task("a", "m", 0)], Client({}, workers=0), patience=-1.0)
    with pytest.raises(ClusterError, match=r"has had no worker for .*; every row .* is kept"):
        list(outcomes)


def test_a_row_that_the_scheduler_has_forgotten_means_that_it_is_gone():
    future = Client({}).submit(dict, pure=False)
    with pytest.raises(ClusterError, match="the scheduler at tcp://there:1 went away"):
        cluster._outcome(future, Task("a", "m", 0), "now", 0.0)


# -- the commands study and fetch, and Ctrl-C ------------------------------------------------------


def test_rows_of_several_software_versions_are_noted(tmp_path):
    with Store(tmp_path / "s.db") as store:
        for seed, version in enumerate(("1.0", "2.0")):
            store.finish(Task("a", "m", seed, study="s"), {}, seconds=1.0, versions={"numpy": version})
    answer = CliRunner().invoke(app, ["study", "status", str(tmp_path / "s.db")])
    assert answer.exit_code == 0
    assert "note: the rows of s come from 2 sets of software versions (see --json)" in answer.stdout
    answer = CliRunner().invoke(app, ["study", "status", str(tmp_path / "s.db"), "--json"])
    assert [entry["numpy"] for entry in json.loads(answer.stdout)["versions"]["s"]] == ["1.0", "2.0"]


@pytest.mark.parametrize("wanted", [True, False])
def test_fetching_images_computes_features_of_all_of_them_if_asked(tmp_path, monkeypatch, wanted):
    from dcfw_studies import images

    for part, count in (("train", 5), ("test", 2)):
        np.save(tmp_path / f"{part}_images.npy", np.full((count, 3, 32, 32), count, np.uint8))
        np.save(tmp_path / f"{part}_labels.npy", np.arange(count))
    computed = []

    def features(part, progress):
        computed.append(np.asarray(part))
        progress(len(part), len(part))

    monkeypatch.setattr(images, "fetch_cifar", lambda name, folder: tmp_path)
    monkeypatch.setattr(images, "features", features)
    answer = CliRunner().invoke(app, ["fetch", "cifar10", *(["--features"] if wanted else [])])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.split() == [str(tmp_path)]
    assert [part.shape for part in computed] == ([(2, 3, 32, 32), (5, 3, 32, 32)] if wanted else [])


def test_with_debug_an_interrupt_is_shown_as_it_is(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt("in the middle")

    monkeypatch.setattr("dcfw.cli.info.collect", interrupted)
    answer = CliRunner().invoke(app, ["--debug", "info"])
    assert "dcfw-studies: interrupted" not in answer.output
    assert answer.exit_code != 0
