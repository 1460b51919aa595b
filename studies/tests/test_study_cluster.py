"""A study on a real Dask cluster: a worker that is killed costs no row, and no row is stored twice.

The scheduler and the workers are processes of this machine, started as a user starts them.  The row
functions write a line to a side file when they start and when they end: a record that is independent
of the store.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import cached_property

import joblib
import pytest

from dcfw_studies import Store, Study, cluster, inner, run
from dcfw_studies.cluster import ClusterError
from places import SOURCE

distributed = pytest.importorskip("distributed", reason="needs Dask (pip install 'dcfw-studies[dask]')")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


class Cluster:
    """A scheduler and its workers, ended at the end of the test whatever happens."""

    def __init__(self, folder, **settings):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.processes = folder, []
        self.file = folder / "scheduler.json"
        self.environment = {
            **os.environ,
            "PYTHONPATH": SOURCE,
            **{f"DASK_DISTRIBUTED__SCHEDULER__{name}": str(value) for name, value in settings.items()},
        }
        self.scheduler = self.start("scheduler", "--port", 0, "--host", "127.0.0.1", "--no-dashboard")

    @cached_property
    def address(self):
        def written():
            # The file is there before all of its content is.
            with contextlib.suppress(OSError, ValueError):
                return "address" in json.loads(self.file.read_text())

        wait_for(written)
        return json.loads(self.file.read_text())["address"]

    def start(self, kind, *options):
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", kind, "--scheduler-file", self.file, *map(str, options)],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that the worker of a nanny can be ended with it
        )
        self.processes.append(process)
        return process

    def worker(self, *options):
        return self.start(
            *("worker", "--host", "127.0.0.1", "--no-dashboard", "--local-directory", self.folder),
            *(options or ("--no-nanny", "--nthreads", 2)),
        )

    def close(self):
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def make(tmp_path):
    made = []

    def one(**settings):
        made.append(Cluster(tmp_path / f"cluster-{len(made)}", **settings))
        assert made[-1].address
        return made[-1]

    yield one
    for found in made:
        found.close()


def noting(folder, nap=0.1):
    """Return a row function that notes its start, its process and its end."""
    folder = str(folder)

    def row(dataset, method, seed):
        import os
        import time

        def note(text):
            handle = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, f"{text}\n".encode())
            os.close(handle)

        note(f"start {seed} {os.getpid()}")
        time.sleep(nap)
        note(f"end {seed} {os.getpid()}")
        return {"value": seed, "pid": os.getpid()}

    return row


def at_work(log):
    """Return the (row, process) pairs that have started and not ended."""
    open_rows = []
    for line in lines(log):
        what, seed, pid = line.split()
        if what == "start":
            open_rows.append((seed, int(pid)))
        else:
            open_rows.remove((seed, int(pid)))
    return open_rows


def test_a_killed_worker_costs_no_row_and_none_comes_twice(make, tmp_path):
    found = make()
    workers = [found.worker() for _ in range(2)]
    log = tmp_path / "log"
    shot = []

    def shoot():
        """Kill the first worker in the middle of a row, when some rows are done."""
        victim = workers[0].pid
        wait_for(
            lambda: (
                any(line.startswith("end") and line.endswith(f" {victim}") for line in lines(log))
                and len(lines(log)) > 12
                and victim in [pid for _, pid in at_work(log)]
            )
        )
        workers[0].kill()
        workers[0].wait()
        shot.extend(seed for seed, pid in at_work(log) if pid == victim)

    study = Study("cluster", noting(tmp_path), ["a"], ["x"], range(24), cost=lambda task: task.seed)
    hunter = threading.Thread(target=shoot)
    with Store(tmp_path / "s.db") as store:
        hunter.start()
        summary = run(study, store, dask=found.address)
        hunter.join()
        rows = store.rows(study)
        assert store.failures() == []
        assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (0,)
    assert (summary.done, summary.failed, summary.left) == (24, 0, 0)
    assert [row["value"] for row in rows] == list(range(24))
    assert {row["pid"] for row in rows} == {worker.pid for worker in workers}
    # Only the row that the victim was computing was started again; the longest came first.
    assert len(shot) <= 1, "a worker had two rows at a time"
    started = Counter(line.split()[1] for line in lines(log) if line.startswith("start"))
    assert started == Counter(map(str, range(24))) + Counter(shot)
    first = [int(line.split()[1]) for line in lines(log) if line.startswith("start")][:4]
    assert min(first) >= 18  # about the longest: either of two workers may be the quicker


def test_a_row_that_kills_its_workers_is_a_failure_and_the_others_go_on(make, tmp_path):
    found = make(ALLOWED_FAILURES=1)
    found.worker("--nthreads", 1)  # with its nanny, which starts another one when it dies

    def row(dataset, method, seed):
        import os
        import signal

        if seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"value": seed}

    with Store(":memory:") as store:
        summary = run(Study("deaths", row, ["a"], ["x"], range(4)), store, dask=found.address)
        assert (summary.done, summary.failed) == (3, 1)
        assert [row["value"] for row in store.rows()] == [0, 2, 3]
        (failure,) = store.failures()
        assert failure["seed"] == 1
        assert "worker process died" in failure["error"]


def test_the_command_gives_the_same_rows_on_a_cluster_as_a_run_here(make, tmp_path):
    found = make()
    found.worker()
    here, there = tmp_path / "here.db", tmp_path / "there.db"
    with Store(here) as store:
        assert run(inner.study(families=["alignment"], seeds=1), store).done == 8
    part = ["--set", "families=alignment", "--set", "seeds=1", "-o", tmp_path / "out"]
    command = ["reproduce", "inner", "--store", there, *part, "--dask", found.address]
    done = subprocess.run(
        [sys.executable, "-m", "dcfw_studies", *map(str, command)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("inner: 8 of 8 rows are there, 8 of them computed now")
    with Store(here, readonly=True) as one, Store(there, readonly=True) as two:
        timeless = [
            [{k: v for k, v in row.items() if k not in ("seconds", "started")} for row in s.rows("inner")]
            for s in (one, two)
        ]
        assert timeless[0] == timeless[1]
        (ours,), (theirs,) = one.versions(), two.versions()
        assert {name: ours[name] for name in ours if name not in ("torch", "instructions")} == theirs

    # The last of the cluster: with its scheduler gone, a run ends with a message, and keeps its rows.
    study = Study("gone", noting(tmp_path), ["a"], ["x"], range(40))
    with Store(tmp_path / "s.db") as store:

        def progress(done, total, task, result):
            if done == 3:
                found.scheduler.kill()

        with pytest.raises(ClusterError, match=r"went away; every row reported as finished is kept"):
            run(study, store, dask=found.address, progress=progress)
        kept = len(store.rows())
        assert kept >= 3
        assert run(study, store).done == 40 - kept


class Stubborn:
    def __reduce__(self):
        return (__import__, ("no_such_module",))


def test_a_row_that_cannot_be_sent_fails_and_a_new_worker_goes_on_for_a_dead_one(make, tmp_path):
    found = make()
    worker = found.worker()
    stubborn = Stubborn()

    def unsendable(dataset, method, seed):
        return {"value": stubborn}

    def progress(done, total, task, result):
        if done == 2:  # the only worker dies; another one comes
            worker.kill()
            worker.wait()
            found.worker()

    with Store(":memory:") as store:
        summary = run(Study("unsent", unsendable, ["a"], ["x"], range(2)), store, dask=found.address)
        assert (summary.done, summary.failed) == (0, 2)
        assert "deserialization" in store.failures()[0]["error"]
        sendable = Study("sent", noting(tmp_path), ["a"], ["x"], range(5))
        assert run(sendable, store, dask=found.address, progress=progress).done == 5
        assert len({row["pid"] for row in store.rows("sent")}) == 2


def test_joblibs_configuration_is_followed(make, tmp_path):
    found = make()
    worker = found.worker()
    study = Study("joblib", noting(tmp_path, nap=0.0), ["a"], ["x"], range(3))
    with (
        distributed.Client(found.address) as client,
        joblib.parallel_config("dask", client=client),
        Store(":memory:") as store,
    ):
        assert run(study, store).done == 3
        assert {row["pid"] for row in store.rows()} == {worker.pid}


def test_a_cluster_that_cannot_be_used_is_explained(make, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT", 0.5)
    study = Study("s", dict, ["a"], ["x"], [0])
    with Store(":memory:") as store:
        with pytest.raises(ClusterError, match=r"no scheduler answers at 'tcp://127.0.0.1:9'"):
            run(study, store, dask="tcp://127.0.0.1:9")
        with pytest.raises(ClusterError, match="no scheduler answers at 'nonsense://x'"):
            run(study, store, dask="nonsense://x")
        found = make()
        with pytest.raises(ClusterError, match=f"has no worker; .*dask worker {found.address}"):
            run(study, store, dask=found.address)
        assert store.rows() == store.failures() == []
