"""Rows on the workers of a Dask cluster.

This process holds the store, hands out tasks and stores the outcomes.  The scheduler and the workers need
dcfw, the workers the data as well; none of them sees the store.  joblib's Dask backend would end the whole
run when one task is lost, so each row is a future of its own:

- a worker that dies loses its row to another worker, and the rest is not affected;
- a row that kills several workers (four by Dask's default ``allowed-failures``) is stored as a failure;
- workers may join at any time.

A worker computes one row at a time on one BLAS thread, however many threads it has: two rows in one process
would share its interpreter and distort their times.  So start one worker process per core:

    dask scheduler
    dask worker tcp://HOST:8786 --nworkers 4 --nthreads 1
"""

from __future__ import annotations

import contextlib
import importlib
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from dcfw_studies.records import software_versions, utc_now
from dcfw_studies.study import Row, Task
from dcfw_studies.workers import Outcome, Outcomes, compute, failed

CONNECT = 10.0  # seconds to wait for an answer of the scheduler, and for a first worker
PATIENCE = 300.0  # seconds without any worker after which a run gives up
_LOOK = 1.0  # seconds between two looks for workers that joined or left
_one_row = threading.Lock()  # in the worker's process


class ClusterError(RuntimeError):
    """A Dask cluster cannot be used, or went away; the message says what to do and what is kept.

    Examples
    --------
    >>> from dcfw_studies import ClusterError
    >>> issubclass(ClusterError, RuntimeError)
    True
    """


@contextlib.contextmanager
def connected(dask: Any) -> Iterator[Any]:
    """Yield a client of the cluster that ``dask`` (an address, or a client, which stays open) names.

    None takes the client of ``joblib.parallel_config("dask")`` where that is in force, or yields None.
    """
    if dask is None:
        yield _of_joblib()
        return
    if not isinstance(dask, str):
        _check_workers(dask)
        yield dask
        return
    Client = _distributed().Client
    try:
        client = Client(dask, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"dask: no scheduler answers at {dask!r}; start one with `dask scheduler`, or check the address "
            f"[{' '.join(str(error).split())}]"
        ) from error
    try:
        _check_workers(client)
        yield client
    finally:
        with contextlib.suppress(Exception):  # closing fails where the scheduler is gone
            client.close(timeout=CONNECT)


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        message = 'a cluster needs Dask: pip install "dcfw-studies[dask]"'
        raise ModuleNotFoundError(message, name="distributed") from None


def _of_joblib() -> Any:
    """Return the client of joblib's Dask backend if that is active."""
    if "joblib" not in sys.modules:  # then it cannot have been configured
        return None
    import joblib

    backend = joblib.parallel.get_active_backend()[0]
    return backend.client if type(backend).__name__ == "DaskDistributedBackend" else None


def _check_workers(client: Any) -> None:
    """Wait for a first worker, and check that the scheduler and all workers have this version of dcfw."""
    try:
        client.wait_for_workers(1, timeout=CONNECT)
    except TimeoutError:
        address = client.scheduler.address
        raise ClusterError(
            f"dask: the scheduler at {address} has no worker; start some with `dask worker {address}`"
        ) from None
    ours = software_versions()["dcfw"]
    try:
        answers = {"scheduler": client.run_on_scheduler(software_versions)}
    except Exception as error:  # any error of its interpreter with dcfw
        answers = {"scheduler": error}
    for place, answer in (answers | client.run(software_versions, on_error="return")).items():
        if isinstance(answer, Exception):
            raise ClusterError(f"dask: {place} cannot load dcfw, install it there [{answer}]")
        if answer["dcfw"] != ours:
            raise ClusterError(
                f"dask: {place} has dcfw {answer['dcfw']} and this process {ours}: "
                "install the same version on both"
            )


def _compute_alone(run: Row, task: Task) -> Outcome:
    """Compute a row on a worker that computes no other one meanwhile."""
    with _one_row:
        return compute(run, task)


def on_cluster(run: Row, tasks: Iterable[Task], client: Any, patience: float = PATIENCE) -> Outcomes:
    """Compute tasks on the workers of ``client``, one on each, and yield the outcomes as they end."""
    waiting = iter(tasks)
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    flying: dict[Any, tuple[Task, str, float]] = {}
    seen = time.monotonic()
    try:
        while True:
            workers = len(client.nthreads())
            if workers:
                seen = time.monotonic()
            elif time.monotonic() - seen > patience:
                raise ClusterError(
                    f"dask: the cluster has had no worker for {patience:.0f} s; every row reported as "
                    "finished is kept, start workers and run the study again"
                )
            # Without a worker one row is sent all the same: it waits at the scheduler.
            while len(flying) < max(workers, 1) and (task := next(waiting, None)) is not None:
                # Not pure, so that Dask recomputes a row that failed before.
                future = client.submit(_compute_alone, run, task, pure=False)
                flying[future] = (task, utc_now(), time.perf_counter())
                future.add_done_callback(ended.put)
            if not flying:
                return
            with contextlib.suppress(queue.Empty):
                future = ended.get(timeout=_LOOK)
                task, started, clock = flying.pop(future)
                yield _outcome(future, task, started, time.perf_counter() - clock)
                future.release()
    except OSError as error:  # distributed's CommClosedError is one
        raise _gone(client) from error
    finally:
        if flying:
            with contextlib.suppress(Exception):
                client.cancel(list(flying))


def _outcome(future: Any, task: Task, started: str, seconds: float) -> Outcome:
    if future.status in ("cancelled", "lost"):  # the scheduler has forgotten it, or is gone
        raise _gone(future.client)
    try:
        outcome: Outcome = future.result()
        return outcome
    except _distributed().KilledWorker as error:
        return failed(task, error, started, seconds, "the worker process died")
    except _distributed().comm.CommClosedError:
        raise
    except Exception as error:  # the row could not be sent there, or back
        return failed(task, error, started, seconds)


def _gone(client: Any) -> ClusterError:
    address = getattr(client.scheduler, "address", "") or "the address given"
    return ClusterError(
        f"dask: the scheduler at {address} went away; every row reported as finished is kept, "
        "run the study again to go on from there"
    )
