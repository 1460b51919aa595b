"""Rows on this machine: in this process, on joblib's processes, or each in a process of its own.

:func:`compute` turns one task into an :class:`Outcome` and raises only KeyboardInterrupt: errors are outcomes
too.  Its callers are generators of outcomes in the order of their ends.  They take a task from an iterator
only when a process is free for it, because a task that is taken is claimed in the store.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import traceback
import warnings
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

from dcfw_studies.code_hash import code_hash
from dcfw_studies.records import encode_result, software_versions, utc_now
from dcfw_studies.study import Row, Task, printable

_THREADS = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "BLIS_NUM", "VECLIB_MAXIMUM", "NUMBA_NUM", "NUMEXPR_NUM")


@dataclass(frozen=True)
class Outcome:
    """The answer of a worker: only strings and numbers, so that it can always be sent."""

    key: str
    started: str
    seconds: float
    result: str = ""
    error: str = ""
    traceback: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def made(self) -> dict[str, Any]:
        """The arguments of :meth:`Store.finish` about the computation."""
        return {"seconds": self.seconds, "started": self.started, "versions": self.versions}


Outcomes = Generator[Outcome, None, None]


def _one_thread() -> contextlib.AbstractContextManager[Any]:
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_limits

        limits: contextlib.AbstractContextManager[Any] = threadpool_limits(limits=1)
        return limits
    return contextlib.nullcontext()


def compute(run: Row, task: Task) -> Outcome:
    started, clock = utc_now(), time.perf_counter()
    try:
        with _one_thread():
            clock = time.perf_counter()
            result = run(task.dataset, task.method, task.seed, **task.settings)
            seconds = time.perf_counter() - clock
        if isinstance(result, dict) and result.get("status") == "INTERRUPTED":
            raise KeyboardInterrupt  # a solver has returned its best so far, which is not a row
        text, versions = encode_result(task, result), software_versions()
        if (module := getattr(run, "__module__", "")).startswith("dcfw_studies."):
            versions["code"] = code_hash(module)
        return Outcome(task.key, started, seconds, result=text, versions=versions)
    except (Exception, SystemExit) as error:
        return failed(task, error, started, time.perf_counter() - clock)


def failed(task: Task, error: BaseException, started: str, seconds: float, what: str = "") -> Outcome:
    """Return the outcome of an error: one line and the traceback, in characters that every store accepts."""
    try:
        said = str(error)
    except Exception:  # an error whose own words raise one
        said = "(its message cannot be shown)"
    line = " ".join(printable(f"{what or type(error).__name__}: {said}").split())
    trace = printable("".join(traceback.format_exception(error)))
    return Outcome(task.key, started, seconds, error=line, traceback=trace)


def _end_with(runner: int) -> None:
    """End this worker when its parent, the process ``runner``, is gone and cannot store its rows."""
    if os.name != "posix" or os.getpid() == runner:
        return

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def inline(run: Row, tasks: Iterable[Task]) -> Outcomes:
    for task in tasks:
        yield compute(run, task)


def pool(run: Row, tasks: Iterable[Task], n_jobs: int) -> Outcomes:
    """Compute tasks on joblib's processes."""
    import joblib

    backend = type(joblib.parallel.get_active_backend()[0]).__name__
    local = backend in ("LokyBackend", "SequentialBackend", "ThreadingBackend", "MultiprocessingBackend")
    configured = contextlib.nullcontext()
    if local:
        configured = joblib.parallel_config(
            "loky", inner_max_num_threads=1, initializer=_end_with, initargs=(os.getpid(),)
        )
    with configured:
        # As few tasks as possible are claimed ahead: other runners may want them, and the death of a worker
        # repeats each task in flight.
        parallel = joblib.Parallel(
            n_jobs=n_jobs, batch_size=1, pre_dispatch="n_jobs", return_as="generator_unordered"
        )
        outcomes = parallel(joblib.delayed(compute)(run, task) for task in tasks)
    try:
        # Not `yield from`, which would close `outcomes` outside of the filter below.
        for outcome in outcomes:  # noqa: UP028
            yield outcome
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib: "tasks have been cancelled", on purpose
            outcomes.close()


def alone(run: Row, tasks: Iterable[Task], n_jobs: int) -> Outcomes:
    """Compute each task in a process of its own, so that a death identifies the guilty row."""
    from joblib.externals.loky import ProcessPoolExecutor

    env = {f"{name}_THREADS": "1" for name in _THREADS}
    processes: set[Any] = set()

    def one(task: Task) -> Outcome:
        started, clock = utc_now(), time.perf_counter()
        process = ProcessPoolExecutor(1, env=env, initializer=_end_with, initargs=(os.getpid(),))
        processes.add(process)
        try:
            outcome: Outcome = process.submit(compute, run, task).result()
            return outcome
        except BrokenProcessPool as error:
            return failed(task, error, started, time.perf_counter() - clock, "the worker process died")
        finally:
            processes.discard(process)
            process.shutdown(kill_workers=True)

    threads = ThreadPoolExecutor(n_jobs)
    try:
        for future in as_completed([threads.submit(one, task) for task in tasks]):
            yield future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for process in list(processes):  # only after an interrupt is one of them still running
            process.shutdown(kill_workers=True)
