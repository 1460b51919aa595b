"""A run does every row once, gives the same rows on one process or several, and outlives bad rows.

Killed runs are tested in ``test_study_kills.py``.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from dcfw_studies import Store, StoreError, Study, Summary, Task, rng_for, run, workers
from dcfw_studies.progress import ProgressBar
from places import SOURCE

posix = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")

# ---------------------------------------------------------------------------------------- behaviour


def numeric(dataset, method, seed, *, size):
    rng = rng_for(dataset, seed)
    A = rng.standard_normal((size, size))
    return {"norm": np.linalg.norm(A @ A.T), "top": np.linalg.svd(A)[1][:3], "seconds": 0.0}


def without_time(rows):
    return [{name: value for name, value in row.items() if name != "started"} for row in rows]


def test_one_and_two_processes_give_identical_rows():
    study = Study("same", numeric, ["a", "b"], ["x"], range(4), settings={"size": 60})
    with Store(":memory:") as one, Store(":memory:") as two:
        run(study, one)
        run(study, two, n_jobs=2)
        assert len(one.rows()) == 8
        assert without_time(one.rows()) == without_time(two.rows())


def sometimes(dataset, method, seed):
    if seed == 2:
        raise ValueError("this one\nfails")
    if seed == 3:
        sys.exit(4)
    if seed == 4:
        return {"value": object()}
    return {"value": seed}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_row_that_raises_is_recorded_and_the_others_go_on(n_jobs):
    study = Study("errors", sometimes, ["a"], ["x"], range(6))
    with Store(":memory:") as store:
        summary = run(study, store, n_jobs=n_jobs)
        assert (summary.done, summary.failed) == (3, 3)
        assert [row["seed"] for row in store.rows()] == [0, 1, 5]
        first, second, third = store.failures(study)
        assert first["error"] == "ValueError: this one fails"
        assert "in sometimes" in first["traceback"]
        assert second["error"] == "SystemExit: 4"
        assert third["error"].startswith("TypeError: the result must hold JSON values only")


class Speechless(Exception):
    def __str__(self):
        raise ValueError("no words")


def unspeakable(dataset, method, seed):
    if seed == 0:
        raise ValueError("cannot read caf\udce9.txt")
    if seed == 1:
        raise Speechless
    return {"file": "caf\udce9.txt"}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_whose_message_no_file_takes_is_a_failure_like_any_other(n_jobs):
    with Store(":memory:") as store:
        summary = run(Study("s", unspeakable, ["a"], ["m"], range(4)), store, n_jobs=n_jobs)
        assert (summary.done, summary.failed) == (2, 2)
        first, second = store.failures("s")
        assert first["error"] == r"ValueError: cannot read caf\udce9.txt"
        assert r"caf\udce9.txt" in first["traceback"]
        assert second["error"] == "Speechless: (its message cannot be shown)"
        store.fail(Task("b", "m", 0, study="s"), "caf\udce9", "caf\udce9")
        assert store.failures("s")[-1]["error"] == r"caf\udce9"
    outcome = workers.failed(Task("a", "m", 0), RuntimeError("caf\udce9"), "now", 0.0, "it died")
    assert outcome.error == r"it died: caf\udce9"


def test_failures_are_retried_unless_told_not_to():
    mended = []

    def row(dataset, method, seed):
        if not mended:
            raise OSError("not yet")
        return {}

    study = Study("retry", row, ["a"], ["x"], [0, 1])
    with Store(":memory:") as store:
        assert run(study, store).failed == 2
        assert run(study, store).failed == 2
        assert store.failures()[0]["attempts"] == 2
        summary = run(study, store, retry_failures=False)
        assert (summary.done, summary.failed, summary.skipped) == (0, 0, 2)
        mended.append(True)
        assert run(study, store).done == 2
        assert store.failures() == []


def suicidal(dataset, method, seed):
    if seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return {"value": seed}


@posix
def test_a_row_that_kills_its_worker_costs_no_other_row():
    study = Study("deaths", suicidal, ["a"], ["x"], range(12))
    with Store(":memory:") as store:
        summary = run(study, store, n_jobs=2)
        assert (summary.done, summary.failed) == (11, 1)
        (failure,) = store.failures()
        assert failure["seed"] == 3
        assert "worker process died" in failure["error"]
        assert "SIGKILL" in failure["error"]
        assert [row["value"] for row in store.rows()] == [s for s in range(12) if s != 3]


@posix
def test_a_worker_killed_once_from_outside_costs_nothing(tmp_path):
    def row(dataset, method, seed):
        if seed == 1 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"value": seed}

    with Store(":memory:") as store:
        summary = run(Study("once", row, ["a"], ["x"], range(6)), store, n_jobs=2)
        assert (summary.done, summary.failed) == (6, 0)
        assert len(store.rows()) == 6


def test_finished_rows_are_skipped_and_a_changed_setting_is_not():
    calls = []

    def row(dataset, method, seed, *, tol):
        calls.append(tol)
        return {}

    with Store(":memory:") as store:
        run(Study("s", row, ["a"], ["x"], range(3), settings={"tol": 1}), store)
        again = run(Study("s", row, ["a"], ["x"], range(4), settings={"tol": 1}), store)
        assert (again.done, again.skipped) == (1, 3)
        run(Study("s", row, ["a"], ["x"], range(3), settings={"tol": 2}), store)
        run(Study("s", row, ["a"], ["x"], range(3), settings={"tol": 1}, version=2), store)
    assert calls == [1, 1, 1, 1, 2, 2, 2, 1, 1, 1]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_limit_is_kept_and_the_longest_rows_come_first(n_jobs):
    study = Study("s", lambda d, m, s: {}, ["a"], ["x"], range(10), cost=lambda task: task.seed)
    with Store(":memory:") as store:
        summary = run(study, store, limit=4, n_jobs=n_jobs)
        assert (summary.done, summary.left) == (4, 6)
        assert [row["seed"] for row in store.rows()] == [6, 7, 8, 9]
        assert run(study, store, limit=0).done == 0


def test_no_row_is_started_after_the_time_is_over():
    study = Study("s", lambda d, m, s: time.sleep(0.03) or {}, ["a"], ["x"], range(100))
    with Store(":memory:") as store:
        summary = run(study, store, stop_after=0.1)
        assert 0 < summary.done < 100
        assert summary.left == 100 - summary.done == 100 - len(store.rows())
        assert run(study, store, stop_after=0.0).done == 0


def test_progress_is_reported_after_a_row_is_stored():
    seen = []

    def progress(done, total, task, result):
        assert len(store.rows()) == done - (done > 2)
        seen.append((done, total, str(task), result))

    study = Study("errors", sometimes, ["a"], ["x"], range(3))
    with Store(":memory:") as store:
        run(study, store, progress=progress)
    assert seen == [
        *[(1, 3, "a/x/0", {"value": 0}), (2, 3, "a/x/1", {"value": 1})],
        (3, 3, "a/x/2", None),
    ]


def test_the_time_of_a_row_is_its_own_figure_if_it_has_one():
    def row(dataset, method, seed):
        time.sleep(0.02)
        return {"seconds": 0.5} if seed else {}

    with Store(":memory:") as store:
        run(Study("time", row, ["a"], ["x"], [0, 1]), store)
        measured, own = (row["seconds"] for row in store.rows())
    assert own == 0.5
    assert 0.02 <= measured < 0.5


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_row_runs_on_one_blas_thread(n_jobs):
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="needs threadpoolctl to count threads")

    def row(dataset, method, seed):
        from threadpoolctl import threadpool_info

        return {"threads": [pool["num_threads"] for pool in threadpool_info()]}

    with Store(":memory:") as store, threadpoolctl.threadpool_limits(limits=2):
        run(Study("threads", row, ["a"], ["x"], [0]), store, n_jobs=n_jobs)
        assert set(store.rows()[0]["threads"]) == {1}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_store_that_fails_ends_the_run_with_its_message(tmp_path, n_jobs):
    study = Study("full", lambda d, m, s: {"x": "x" * (100_000 if s == 5 else 1)}, ["a"], ["m"], range(20))
    with Store(tmp_path / "s.db") as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count={pages + 8}")
        with pytest.raises(StoreError, match="disk is full"):
            run(study, store, n_jobs=n_jobs)
        kept = len(store.rows())
        assert kept >= 1
        store._db.execute("PRAGMA max_page_count=100000")
        # The same process, with its claims still there if the full disk kept them: it goes on.
        assert run(study, store, n_jobs=n_jobs).done == 20 - kept


def test_rows_of_a_runner_at_work_are_left_to_it():
    study = Study("s", lambda d, m, s: {}, ["a"], ["x"], range(3))
    started, go = threading.Event(), threading.Event()

    def slow(dataset, method, seed):
        if seed == 0:
            started.set()
            assert go.wait(30)
        return {}

    with Store(":memory:") as store:
        first = threading.Thread(
            target=run, args=(Study("s", slow, ["a"], ["x"], range(3)), store), kwargs={"limit": 1}
        )
        first.start()
        assert started.wait(30)
        summary = run(study, store)
        go.set()
        first.join()
        assert (summary.done, summary.elsewhere) == (2, 1)
        assert len(store.rows()) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"n_jobs": 0}, "n_jobs"), ({"limit": -1}, "limit"), ({"stop_after": -1.0}, "stop_after")],
)
def test_wrong_arguments_are_named(arguments, said):
    with Store(":memory:") as store, pytest.raises(ValueError, match=said):
        run(Study("s", dict, ["a"], ["x"], [0]), store, **arguments)


def test_a_path_in_place_of_a_store_is_explained(tmp_path):
    with pytest.raises(TypeError, match=r"Store\(path\)"):
        run(Study("s", dict, ["a"], ["x"], [0]), tmp_path / "s.db")


def test_a_summary_is_a_sentence():
    assert str(Summary(3, 2, 1, 0.25, left=4)) == "3 done, 2 skipped, 1 failed, 4 left in 0.2 s"


class Terminal:
    """A stream that says it is a terminal, and remembers."""

    def __init__(self, terminal):
        self.terminal, self.text = terminal, ""

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass


def test_the_progress_bar_counts_rows_and_failures():
    stream = Terminal(True)
    with Store(":memory:") as store, ProgressBar("errors", file=stream) as progress:
        run(Study("errors", sometimes, ["a"], ["x"], range(6)), store, progress=progress)
    assert "6/6" in stream.text
    assert "3 failed" in stream.text


def test_the_progress_bar_is_silent_and_loads_nothing_without_a_terminal():
    stream = Terminal(False)
    with ProgressBar("quiet", file=stream) as progress:
        progress(1, 1, Task("a", "x", 0), {})
    assert stream.text == ""
    code = (
        "import sys; from dcfw_studies import Store, Study, run;"
        "from dcfw_studies.progress import ProgressBar;"
        "s = Study('s', lambda d, m, s: {}, ['a'], ['x'], [0]);"
        "store = Store(':memory:');"
        "p = ProgressBar('s').__enter__(); run(s, store, progress=p); store.close();"
        "print([m for m in ('rich', 'numba', 'torch', 'joblib', 'scipy.stats') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
        check=True,
    )
    assert json.loads(done.stdout.replace("'", '"')) == []


@pytest.fixture(autouse=True, scope="module")
def _end_workers():
    """Leave no pool of idle workers to the next test file."""
    yield
    from joblib.externals.loky import get_reusable_executor

    with contextlib.suppress(Exception):
        get_reusable_executor().shutdown(wait=True)
