"""The one runner of all studies: compute the rows that are not in the store yet.

- *Nothing is lost.*  The parent stores each row before it reports it.  Kill it at any time and run the study
  again: it continues with the missing rows.
- *Nothing is done twice.*  A row is claimed in the store before it is computed, so runners can share a store.
- *The same rows for any* ``n_jobs``.  A row function gets only its task, and each row runs on one BLAS thread
  (two threads round sums differently).  Inline runs need ``threadpoolctl`` for that.
- *One bad row stays one bad row.*  An exception is stored with its traceback.  When a worker process dies
  (out of memory, SIGKILL), the pool breaks and loses all rows in flight.  Each of them is run once more in a
  process of its own, so that only the guilty one is stored as a failure; the rest continues in a new pool.

Rows run on joblib's processes of this machine (:mod:`dcfw_studies.workers`) or on a Dask cluster
(:mod:`dcfw_studies.cluster`); in both cases this process writes the store.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from dcfw_studies import checks
from dcfw_studies.claims import Owner
from dcfw_studies.cluster import connected, on_cluster
from dcfw_studies.store import Store, StoreError
from dcfw_studies.study import Study, Task
from dcfw_studies.workers import Outcome, Outcomes, alone, inline, pool

Progress = Callable[[int, int, Task, "dict[str, Any] | None"], object]
"""``progress(done, total, task, result)`` after each row; ``result`` is None if the row failed."""


@dataclass(frozen=True)
class Summary:
    """The summary of a run.

    Of the tasks, ``done`` were computed and stored; ``skipped`` had a row, or had failed and were not to be
    retried; ``failed`` raised an error or killed their worker (:meth:`Store.failures`); ``elsewhere`` were
    being computed by another runner at the end; ``left`` were not started because of ``limit`` or
    ``stop_after``. ``seconds`` is the wall time.

    Examples
    --------
    >>> from dcfw_studies import Summary
    >>> print(Summary(done=3, skipped=1, failed=0, seconds=2.5))
    3 done, 1 skipped, 0 failed in 2.5 s
    """

    done: int
    skipped: int
    failed: int
    seconds: float
    elsewhere: int = 0
    left: int = 0

    def __str__(self) -> str:
        parts = [f"{self.done} done", f"{self.skipped} skipped", f"{self.failed} failed"]
        parts += [f"{self.elsewhere} with another runner"] if self.elsewhere else []
        parts += [f"{self.left} left"] if self.left else []
        return f"{', '.join(parts)} in {self.seconds:.1f} s"


class _Queue:
    """The tasks of a run, claimed one at a time; ``in_flight`` are those claimed and not yet recorded.

    joblib takes the tasks from several threads, and a pool that breaks may leave one of them running.
    """

    def __init__(
        self, tasks: Iterable[Task], store: Store, owner: Owner, limit: int | None, deadline: float
    ) -> None:
        self._store, self._owner, self._deadline = store, owner, deadline
        self._lock = threading.Lock()
        self.waiting, self.held = deque(tasks), deque[Task]()
        self._again = True
        self._limit = len(self.waiting) if limit is None else min(limit, len(self.waiting))
        self._claimed = self.finished_elsewhere = 0
        self.in_flight: dict[str, Task] = {}

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        with self._lock:
            while self._limit > 0 and time.monotonic() < self._deadline:
                if not self.waiting and self.held and self._again:
                    # Ask once more at the end for tasks that another runner held: it may have been killed.
                    self.waiting, self.held, self._again = self.held, self.waiting, False
                if not self.waiting:
                    break
                task = self.waiting.popleft()
                state = self._store.claim(task, self._owner)
                if state == "claimed":
                    self._limit -= 1
                    self._claimed += 1
                    self.in_flight[task.key] = task
                    return task
                if state == "held":
                    self.held.append(task)
                else:
                    self.finished_elsewhere += 1
            raise StopIteration

    def forget(self, task: Task) -> None:
        """Remove a task with a recorded outcome from those in flight."""
        with self._lock:
            del self.in_flight[task.key]

    def suspects(self) -> list[Task]:
        """Return the tasks that a pool left without an outcome."""
        with self._lock:
            return list(self.in_flight.values())

    @property
    def total(self) -> int:
        """The number of rows that this run has computed, is computing and may still compute."""
        return self._claimed + min(self._limit, len(self.waiting) + len(self.held) * self._again)


@contextlib.contextmanager
def _signs_of_life(store: Store, owner: Owner) -> Iterator[None]:
    """Renew the leases of ``owner`` while the block runs, and release its claims at the end."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(store.lease / 4):
            with contextlib.suppress(StoreError):  # storing the next row will raise it
                store.renew(owner)

    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        over.set()
        heart.join()
        owner.leave()
        with contextlib.suppress(StoreError):
            store.release(owner)


def run(
    study: Study,
    store: Store,
    *,
    n_jobs: int = 1,
    dask: Any = None,
    progress: Progress | None = None,
    limit: int | None = None,
    stop_after: float | None = None,
    retry_failures: bool = True,
) -> Summary:
    """Compute the rows of ``study`` that ``store`` does not have, the longest first.

    Parameters
    ----------
    study : Study
    store : Store
    n_jobs : int
        Number of processes; -1 means one per core.  With 1 the rows are computed in this process.
    dask : str or distributed.Client, optional
        A Dask cluster to compute the rows on, by the address of its scheduler or a client, in place of
        ``n_jobs``.  By default the one of ``joblib.parallel_config("dask")``, if that is in force.
    progress : callable, optional
        ``progress(done, total, task, result)`` after each stored row; ``result`` is None for a row that
        failed.  See ``dcfw_studies.progress.ProgressBar``.
    limit : int, optional
        The largest number of rows to compute.
    stop_after : float, optional
        Seconds after which no row is started (rows in flight are finished).
    retry_failures : bool
        Retry rows that failed in an earlier run.

    Returns
    -------
    Summary

    Raises
    ------
    StoreError, ClusterError
        The store cannot be written, or the Dask cluster does not answer.  Rows finished before are kept.

    Examples
    --------
    >>> def row(dataset, method, seed):
    ...     return {"value": float(len(dataset) + seed)}
    >>> study = Study("demo", row, ["a", "bc"], ["fw"], range(2))
    >>> with Store(":memory:") as store:
    ...     first = run(study, store, limit=3)
    ...     second = run(study, store)
    >>> first.done, first.left, second.done, second.skipped
    (3, 1, 1, 3)
    """
    if not isinstance(study, Study):
        raise TypeError(f"study must be a Study, got {type(study).__name__}")
    if not isinstance(store, Store):
        raise TypeError(f"store must be a Store, got {type(store).__name__}: write Store(path)")
    n_jobs = count_jobs(n_jobs)
    if limit is not None:
        limit = checks.integer(limit, "limit")
    clock = time.monotonic()
    deadline = float("inf")
    if stop_after is not None:
        deadline = clock + checks.scalar(stop_after, "stop_after", low=0.0, allow_inf=True)

    known = store.finished_keys(study)
    if not retry_failures:
        known |= {failure["key"] for failure in store.failures(study)}
    waiting = [task for task in study.ordered() if task.key not in known]
    owner = Owner.enter()
    queue = _Queue(waiting, store, owner, limit, deadline)
    done = failed = repeated = 0

    def record(outcome: Outcome) -> None:
        nonlocal done, failed, repeated
        task = queue.in_flight[outcome.key]
        result = None
        if outcome.error:
            store.fail(task, outcome.error, outcome.traceback)
            failed += 1
        else:
            result = json.loads(outcome.result)
            stored = store.finish(task, result, **outcome.made)
            done, repeated = done + stored, repeated + (not stored)
        queue.forget(task)
        if progress is not None:
            progress(done + failed, queue.total, task, result)

    with connected(dask) as client, _signs_of_life(store, owner):
        while True:
            if client is not None:
                computed = on_cluster(study.run, queue, client)
            else:
                computed = inline(study.run, queue) if n_jobs == 1 else pool(study.run, queue, n_jobs)
            broken, suspects = _drain(computed, record), queue.suspects()
            if not broken and not suspects:
                break
            _drain(alone(study.run, suspects, n_jobs), record)

    return Summary(
        done=done,
        skipped=len(known) + queue.finished_elsewhere + repeated,
        failed=failed,
        seconds=time.monotonic() - clock,
        elsewhere=len(queue.held),
        left=len(queue.waiting),
    )


def _drain(outcomes: Outcomes, record: Callable[[Outcome], None]) -> bool:
    """Record all outcomes; return whether the pool broke."""
    with contextlib.closing(outcomes):
        try:
            for outcome in outcomes:
                record(outcome)
        except BrokenProcessPool:  # loky's TerminatedWorkerError is one
            return True
    return False


def count_jobs(n_jobs: Any) -> int:
    """Return the number of processes that ``n_jobs`` stands for: -1 is one per core."""
    if n_jobs == -1:
        import joblib

        return int(joblib.effective_n_jobs(-1))
    return checks.integer(n_jobs, "n_jobs", low=1)
