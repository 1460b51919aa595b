"""The one runner of all studies: compute the rows that are not in the store yet.

What it guarantees, and how:

- *Nothing is lost.*  The parent stores each row as it arrives, before it says so to anybody.  Kill it at
  any time and run the study again: it goes on with the rows that are missing.
- *Nothing is done twice.*  A row is claimed in the store before it is computed, so several runners can
  share one store.
- *The same rows for any* ``n_jobs``.  A row function gets its task and nothing else, and each row runs on
  one BLAS thread (sums are rounded differently on two).  Inline runs need ``threadpoolctl`` for that.
- *One bad row stays one bad row.*  An exception is stored with its traceback.  When a worker process dies
  (out of memory, SIGKILL), the pool breaks and takes the other rows in flight with it; nobody can tell
  which one was guilty.  So each of them is run once more in a process of its own: the innocent ones
  finish, the guilty one is stored as a failure, and the rest goes on in a fresh pool.

joblib is the parallel interface.  A cluster set up with ``joblib.parallel_config("dask")`` is used as it
is; otherwise the rows run on loky processes of this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from dcfw import _validate
from dcfw.experiments.claims import Owner
from dcfw.experiments.store import Store, StoreError, encode_result, utc_now
from dcfw.experiments.study import Row, Study, Task

Progress = Callable[[int, int, Task, "dict[str, Any] | None"], object]
"""``progress(done, total, task, result)`` after each row; ``result`` is None if the row failed."""

_THREADS = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "BLIS_NUM", "VECLIB_MAXIMUM", "NUMBA_NUM", "NUMEXPR_NUM")


@dataclass(frozen=True)
class Summary:
    """What a run did.

    Attributes
    ----------
    done : int
        Rows computed and stored.
    skipped : int
        Tasks not run: their rows were there, or they had failed and were not to be retried.
    failed : int
        Rows that raised an error or killed their worker; see :meth:`Store.failures`.
    seconds : float
        Wall time of the run.
    elsewhere : int
        Tasks left to another runner that was computing them when this one ended.
    left : int
        Tasks not started because of ``limit`` or ``stop_after``.
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


@dataclass(frozen=True)
class _Outcome:
    """What comes back from a worker.  Only text and numbers, so that it can always be sent."""

    key: str
    started: str
    seconds: float
    result: str = ""
    error: str = ""
    traceback: str = ""


_Outcomes = Generator[_Outcome, None, None]


def _one_thread() -> contextlib.AbstractContextManager[Any]:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    limits: contextlib.AbstractContextManager[Any] = threadpool_limits(limits=1)
    return limits


def _compute(run: Row, task: Task) -> _Outcome:
    """Compute one row, wherever this is called."""
    started, clock = utc_now(), time.perf_counter()
    try:
        with _one_thread():
            clock = time.perf_counter()
            result = run(task.dataset, task.method, task.seed, **task.settings)
            seconds = time.perf_counter() - clock
        return _Outcome(task.key, started, seconds, result=encode_result(task, result))
    except (Exception, SystemExit) as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        return _Outcome(
            task.key, started, time.perf_counter() - clock, error=line, traceback=traceback.format_exc()
        )


def _end_with(runner: int) -> None:
    """End this worker when the process ``runner``, its parent, is gone: nobody would store its rows."""
    if os.name != "posix" or os.getpid() == runner:
        return

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Queue:
    """The tasks of a run, claimed one at a time; ``in_flight`` are those claimed and not yet recorded.

    joblib takes the tasks from several threads, and a pool that breaks may leave one of them at it.
    """

    def __init__(
        self, tasks: Iterable[Task], store: Store, owner: Owner, limit: int | None, deadline: float
    ) -> None:
        self._store, self._owner, self._deadline = store, owner, deadline
        self._lock = threading.Lock()
        self._waiting, self._held = deque(tasks), deque[Task]()
        self._again = True
        self._limit = len(self._waiting) if limit is None else min(limit, len(self._waiting))
        self._claimed = 0
        self.finished_elsewhere = 0
        self.in_flight: dict[str, Task] = {}

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        with self._lock:
            while self._limit > 0 and time.monotonic() < self._deadline:
                if not self._waiting and self._held and self._again:
                    # Ask once more at the end for what another runner held: it may have been killed.
                    self._waiting, self._held, self._again = self._held, self._waiting, False
                if not self._waiting:
                    break
                task = self._waiting.popleft()
                state = self._store.claim(task, self._owner)
                if state == "claimed":
                    self._limit -= 1
                    self._claimed += 1
                    self.in_flight[task.key] = task
                    return task
                if state == "held":
                    self._held.append(task)
                else:
                    self.finished_elsewhere += 1
            raise StopIteration

    def forget(self, task: Task) -> None:
        """Take a task whose outcome is recorded out of those in flight."""
        with self._lock:
            del self.in_flight[task.key]

    def suspects(self) -> list[Task]:
        """Return the tasks that a pool left without an outcome."""
        with self._lock:
            return list(self.in_flight.values())

    @property
    def total(self) -> int:
        """Rows that this run has computed, is computing and may still compute."""
        return self._claimed + min(self._limit, len(self._waiting) + len(self._held) * self._again)

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def left(self) -> int:
        return len(self._waiting)


def _inline(run: Row, tasks: Iterable[Task]) -> _Outcomes:
    for task in tasks:
        yield _compute(run, task)


def _pool(run: Row, tasks: Iterable[Task], n_jobs: int) -> _Outcomes:
    """Compute tasks on joblib's processes, in the order of their ends."""
    import joblib

    backend = type(joblib.parallel.get_active_backend()[0]).__name__
    local = backend in ("LokyBackend", "SequentialBackend", "ThreadingBackend", "MultiprocessingBackend")
    configured = contextlib.nullcontext()
    if local:
        configured = joblib.parallel_config(
            "loky", inner_max_num_threads=1, initializer=_end_with, initargs=(os.getpid(),)
        )
    with configured:
        # As few tasks as possible are claimed ahead: other runners may want them, and each task in flight
        # has to be run again should a worker die.
        parallel = joblib.Parallel(
            n_jobs=n_jobs, batch_size=1, pre_dispatch="n_jobs", return_as="generator_unordered"
        )
        outcomes = parallel(joblib.delayed(_compute)(run, task) for task in tasks)
    try:
        # Not `yield from`, which would close `outcomes` outside of the filter below.
        for outcome in outcomes:  # noqa: UP028
            yield outcome
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib: "tasks have been cancelled"; they are meant to be
            outcomes.close()


def _alone(run: Row, tasks: Iterable[Task], n_jobs: int) -> _Outcomes:
    """Compute each task in a process of its own, so that a death tells which row was guilty."""
    from joblib.externals.loky import ProcessPoolExecutor

    env = {f"{name}_THREADS": "1" for name in _THREADS}
    processes: set[Any] = set()

    def one(task: Task) -> _Outcome:
        started, clock = utc_now(), time.perf_counter()
        process = ProcessPoolExecutor(1, env=env, initializer=_end_with, initargs=(os.getpid(),))
        processes.add(process)
        try:
            outcome: _Outcome = process.submit(_compute, run, task).result()
            return outcome
        except BrokenProcessPool as error:
            line = " ".join(f"the worker process died: {error}".split())
            seconds = time.perf_counter() - clock
            return _Outcome(task.key, started, seconds, error=line, traceback=traceback.format_exc())
        finally:
            processes.discard(process)
            process.shutdown(kill_workers=True)

    threads = ThreadPoolExecutor(n_jobs)
    try:
        for future in as_completed([threads.submit(one, task) for task in tasks]):
            yield future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for process in list(processes):  # only after an interrupt is one of them still at work
            process.shutdown(kill_workers=True)


@contextlib.contextmanager
def _signs_of_life(store: Store, owner: Owner) -> Iterator[None]:
    """Renew the leases of ``owner`` while the block runs, and give its claims back at the end."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(store.lease / 4):
            with contextlib.suppress(StoreError):  # the next row to be stored will say it louder
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
    progress : callable, optional
        ``progress(done, total, task, result)`` after each row, when the row is safe; ``result`` is None
        for a row that failed.  See :class:`dcfw.experiments.progress.ProgressBar`.
    limit : int, optional
        Compute at most that many rows.
    stop_after : float, optional
        Start no row after that many seconds (rows in flight are finished).
    retry_failures : bool
        Try again what failed in an earlier run.

    Returns
    -------
    Summary

    Raises
    ------
    StoreError
        The store cannot be written.  Rows finished before are kept.
    KeyboardInterrupt
        Ctrl-C.  Rows finished before are kept.

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
    n_jobs = _count_jobs(n_jobs)
    if limit is not None:
        limit = _validate.integer(limit, "limit")
    clock = time.monotonic()
    deadline = float("inf")
    if stop_after is not None:
        deadline = clock + _validate.scalar(stop_after, "stop_after", low=0.0, allow_inf=True)

    known = store.finished_keys(study)
    if not retry_failures:
        known |= {failure["key"] for failure in store.failures(study)}
    waiting = [task for task in study.ordered() if task.key not in known]
    owner = Owner.enter()
    queue = _Queue(waiting, store, owner, limit, deadline)
    done = failed = repeated = 0

    def record(outcome: _Outcome) -> None:
        nonlocal done, failed, repeated
        task = queue.in_flight[outcome.key]
        result = None
        if outcome.error:
            store.fail(task, outcome.error, outcome.traceback)
            failed += 1
        else:
            result = json.loads(outcome.result)
            if store.finish(task, result, seconds=outcome.seconds, started=outcome.started):
                done += 1
            else:
                repeated += 1
        queue.forget(task)
        if progress is not None:
            progress(done + failed, queue.total, task, result)

    with _signs_of_life(store, owner):
        while True:
            computed = _inline(study.run, queue) if n_jobs == 1 else _pool(study.run, queue, n_jobs)
            broken = _drain(computed, record)
            suspects = queue.suspects()
            if not broken and not suspects:
                break
            _drain(_alone(study.run, suspects, n_jobs), record)

    return Summary(
        done=done,
        skipped=len(known) + queue.finished_elsewhere + repeated,
        failed=failed,
        seconds=time.monotonic() - clock,
        elsewhere=queue.held,
        left=queue.left,
    )


def _drain(outcomes: _Outcomes, record: Callable[[_Outcome], None]) -> bool:
    """Record all outcomes; tell whether the pool broke on the way."""
    with contextlib.closing(outcomes):
        try:
            for outcome in outcomes:
                record(outcome)
        except BrokenProcessPool:  # loky's TerminatedWorkerError is one
            return True
    return False


def _count_jobs(n_jobs: Any) -> int:
    if n_jobs == -1:
        import joblib

        return int(joblib.effective_n_jobs(-1))
    return _validate.integer(n_jobs, "n_jobs", low=1)
