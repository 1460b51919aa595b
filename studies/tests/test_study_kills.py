"""A study that is killed at any moment loses no finished row and computes none of them again.

A real study runs in real processes and gets SIGKILL.  Side files are a record that is independent of
the store: the row function writes a line when it starts, and the runner's progress callback writes one when a
row was reported as finished; ``log`` has both in their order.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from unittest.mock import ANY

import pytest

from dcfw_studies import Store, Study, rng_for, run
from dcfw_studies.claims import birth_of
from places import SOURCE

posix = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")

SCRIPT = """
import os, signal, sys, time
from pathlib import Path

# A shell's background job, such as a test run may be, ignores Ctrl-C, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

from dcfw_studies import Store, Study, rng_for, run

folder, n_jobs, count, nap, meet = Path(sys.argv[1]), *map(float, sys.argv[2:6])

def note(name, text):
    # One write of a short line to a file opened for appending is never torn or interleaved.
    handle = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{text}\\n".encode())
    os.close(handle)

def row(dataset, method, seed):
    note("executed", f"{dataset}/{method}/{seed}")
    note("log", f"start {dataset}/{method}/{seed} {os.getpid()} {os.getppid()}")
    if meet:  # do not go on before as many processes as asked for have started a row
        (folder / f"here-{os.getpid()}").touch()
        deadline = time.time() + 60
        while len(list(folder.glob("here-*"))) < meet and time.time() < deadline:
            time.sleep(0.002)
    time.sleep(nap)
    return {"value": float(rng_for(dataset, method, seed).random())}

study = Study("kill", row, ["a", "b", "c"], ["x", "y"], range(int(count) // 6))
def report(done, total, task, result):
    if result is not None:
        note("log", f"reported {task} - -")
        note("reported", task)

with Store(folder / "s.db") as store:
    note("runners", os.getpid())
    print(run(study, store, n_jobs=int(n_jobs), progress=report))
"""


def start(folder, n_jobs=1, count=60, nap=0.004, meet=0):
    script = folder / "script.py"
    script.write_text(SCRIPT)
    arguments = [str(part) for part in (folder, n_jobs, count, nap, meet)]
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def kill(process):
    process.kill()
    process.wait()
    process.stdout.close()  # not communicate(), which would wait for orphaned workers as well
    process.stderr.close()


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def stored(folder):
    with Store(folder / "s.db") as store:
        return [f"{row['dataset']}/{row['method']}/{row['seed']}" for row in store.rows("kill")]


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.001)


def started(folder, since=0):
    """Return (row, process, its parent) of the rows that were started."""
    events = [line.split() for line in lines(folder / "log")[since:]]
    return [(row, int(pid), int(parent)) for what, row, pid, parent in events if what == "start"]


def check(folder, count=None):
    """Check that the store has every reported row once and right, and that none was computed again."""
    kept = stored(folder)
    assert len(kept) == len(set(kept))
    assert set(lines(folder / "reported")) <= set(kept), "a row reported as finished was lost"
    assert Counter(lines(folder / "reported")).most_common(1)[:1] in ([], [(ANY, 1)])
    runners, reported = set(map(int, lines(folder / "runners"))), set()
    for what, row, _, parent in map(str.split, lines(folder / "log")):
        if what == "reported":
            reported.add(row)
        else:
            # Workers of a killed runner may start what it had sent them; they have another parent by then.
            assert row not in reported or int(parent) not in runners, f"{row} was computed again"
    with Store(folder / "s.db") as store:
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for row in store.rows("kill"):
            assert row["value"] == rng_for(row["dataset"], row["method"], row["seed"]).random()
        if count is not None:
            assert len(kept) == count
            assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (0,)
            assert store.failures() == []


def kill_and_resume(folder, kills, n_jobs, seed, count, nap=0.004):
    """Kill a study at random moments ``kills`` times, the runner or one of its workers; let it end; check."""
    rng = random.Random(seed)
    killed = Counter()
    process, fresh = start(folder, n_jobs, count, nap), True
    while killed.total() < kills:
        at_once = fresh and rng.random() < 0.2
        if at_once:
            time.sleep(rng.uniform(0.0, 0.6))  # while it is starting: imports, opening or making the store
        else:
            so_far, more = len(lines(folder / "log")), rng.randint(1, max(1, count // (2 * kills)))
            wait_for(lambda p=process, a=so_far, b=more: p.poll() is not None or len(started(folder, a)) >= b)
            time.sleep(rng.uniform(0.0, 0.01))
        assert process.poll() is None, "the study ended before it was killed often enough: give it more rows"
        workers = [pid for _, pid, parent in started(folder) if parent == process.pid]
        if n_jobs > 1 and workers and rng.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.kill(workers[-rng.randint(1, min(2, len(workers)))], signal.SIGKILL)
                killed["worker"] += 1
            fresh = False
            continue
        kill(process)
        killed["runner"] += 1
        if (folder / "s.db").exists():
            check(folder)
        process, fresh = start(folder, n_jobs, count, nap), True
    finish(process)
    finish(start(folder, n_jobs, count))  # a row whose worker was shot twice is a failure until it is retried
    check(folder, count)
    if n_jobs == 1:  # a kill costs the row in flight and no other
        assert len(started(folder)) <= count + kills
    return killed


@posix
def test_three_kills_lose_nothing_and_repeat_only_the_row_in_flight(tmp_path):
    assert kill_and_resume(tmp_path, kills=3, n_jobs=1, seed=1, count=108, nap=0.02).total() == 3


@posix
def test_eight_kills_of_runners_and_workers_lose_nothing_and_repeat_nothing_reported(tmp_path):
    killed = kill_and_resume(tmp_path, kills=8, n_jobs=2, seed=3, count=120, nap=0.02)
    assert killed.total() == 8
    assert min(killed.values()) >= 2


@posix
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_kills_lose_nothing(tmp_path, seed):
    assert kill_and_resume(tmp_path, kills=100, n_jobs=2, seed=seed, count=1200).total() == 100


@posix
def test_two_runners_share_a_store_and_do_every_row_exactly_once(tmp_path):
    # No row ends before both processes have started one, so both are at work from the first row on.
    runners = [start(tmp_path, meet=2, nap=0.002) for _ in range(2)]
    for runner in runners:
        finish(runner)
    executed = Counter(lines(tmp_path / "executed"))
    assert len(executed) == 60
    assert set(executed.values()) == {1}
    assert len(stored(tmp_path)) == 60
    assert Counter(lines(tmp_path / "reported")) == executed


@posix
def test_a_runner_takes_over_from_one_that_was_killed_beside_it(tmp_path):
    victim = start(tmp_path, count=6, nap=1000.0)
    wait_for(lambda: lines(tmp_path / "executed"))
    survivor = start(tmp_path, count=6, nap=0.5)
    wait_for(lambda: len(lines(tmp_path / "executed")) >= 3)  # the survivor has passed the victim's row by
    kill(victim)
    assert finish(survivor).startswith("6 done, 0 skipped, 0 failed")
    assert Counter(Counter(lines(tmp_path / "executed")).values()) == {1: 5, 2: 1}


@posix
def test_workers_end_with_a_killed_parent(tmp_path):
    if birth_of(os.getpid()) is None:
        pytest.skip("needs /proc to look for processes")
    parent = start(tmp_path, n_jobs=2, count=6, nap=30.0, meet=2)
    wait_for(lambda: len(list(tmp_path.glob("here-*"))) == 2)
    workers = [int(path.name.partition("-")[2]) for path in tmp_path.glob("here-*")]
    assert parent.pid not in workers
    kill(parent)
    wait_for(lambda: not any(birth_of(pid) for pid in workers), seconds=20)


@posix
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_keeps_finished_rows_and_gives_claims_back(tmp_path, n_jobs):
    process = start(tmp_path, n_jobs=n_jobs, nap=0.05)
    wait_for(lambda: len(lines(tmp_path / "reported")) >= 3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert 3 <= len(stored(tmp_path)) < 60
    assert set(lines(tmp_path / "reported")) <= set(stored(tmp_path))
    with Store(tmp_path / "s.db") as store:
        assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (0,)


def ended_by_ctrl_c(dataset, method, seed):
    """Return a row whose solver was interrupted and returned its best so far."""
    return {"value": seed, "status": "INTERRUPTED" if seed == 1 else "CONVERGED"}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupted_solve_stores_no_row_and_ends_the_study(tmp_path, n_jobs):
    study = Study("interrupted", ended_by_ctrl_c, ["a"], ["x"], range(3))
    with Store(tmp_path / "s.db") as store:
        with pytest.raises(KeyboardInterrupt):
            run(study, store, n_jobs=n_jobs)
        assert 1 not in [row["seed"] for row in store.rows("interrupted")]
        assert store.failures(study) == []
