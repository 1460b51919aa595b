"""When a state is saved, and how a run restores it."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dcfw import _protocol, _validate
from dcfw._arrays import to_numpy
from dcfw.checkpoints import file
from dcfw.checkpoints.fingerprint import Fingerprint, compare
from dcfw.checkpoints.schema import Schema, alike
from dcfw.checkpoints.tree import Capture, Unsupported, rebuild
from dcfw.result import History

SHARE = 50.0  # time between two captures (in memory), in units of the cost of a capture


class Checkpoint:
    """The file of a run and how often it is saved, for ``minimize(..., checkpoint=...)``.

    Parameters
    ----------
    path : str or path
        The file; its folder must exist.  While a run uses it, ``path + ".lock"`` excludes other runs.
    every : float
        Seconds between two saves (each at the start of an outer step).  0 saves at every outer step.

    Notes
    -----
    A run also saves when it ends for any reason: a state at most a few milliseconds old, from which the next
    call repeats the last steps.  The same call on the file of a finished run returns the same result almost
    at once, and one with a larger ``maxiter``, ``max_lmo`` or ``time_limit``, or a smaller ``tol``, continues
    from there.  ``time_limit`` and the times of the result count all calls without the pauses.  A callback
    sees the steps since the last save again.

    Examples
    --------
    >>> import os, tempfile, numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> phi = functions.SquaredNorm(1.0) - functions.Quadratic(np.diag([2.0, 3.0, 1.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "run.npz")
    ...     first = dcfw.minimize(phi, sets.Simplex(3), maxiter=1, checkpoint=path)
    ...     second = dcfw.minimize(phi, sets.Simplex(3), checkpoint=path)
    >>> first.nit, second.success, second.x
    (1, True, array([0., 1., 0.]))
    """

    def __init__(self, path: str | os.PathLike[str], every: float = 30.0) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint must be a path or a Checkpoint, got {type(path).__name__}")
        self.path = _validate.path(path, "checkpoint")
        if self.path.is_dir() or not self.path.name:
            raise ValueError(f"checkpoint must be the path of a file, but {str(path)!r} is a folder")
        self.every = _validate.scalar(every, "every", low=0.0, allow_inf=True)

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, every={self.every:g})"


class Keeper:
    """Save and restore one run; solvers use it through their :class:`~dcfw.solvers.run.Run`."""

    def __init__(self, checkpoint: Checkpoint, run: Any) -> None:
        # A link remains a link, and a callback may change the working directory.
        self.path = Path(os.path.realpath(checkpoint.path))
        self.every, self.run = checkpoint.every, run
        self.fingerprint: Fingerprint
        self.parts: dict[str, Any] = {}
        self.known: dict[str, Any] = {}
        self._saved: tuple[dict[str, Any], list[Any]] | None = None
        self._restored: dict[str, Any] = {}
        self._latest: _Snapshot | None = None
        self._written = self._next = -np.inf

    @contextmanager
    def open(self, fingerprint: Fingerprint) -> Iterator[None]:
        """Hold the file and its content, and save when the run ends."""
        self.fingerprint = fingerprint
        with file.locked(self.path):
            found = file.read(self.path)
            if found is not None:
                header, arrays, readable = found
                self._check(header)
                header["history"] = readable.get("history")
                self._saved = header, arrays
            try:
                yield
            finally:
                if self._latest is not None and not self._latest.written:
                    self._write(self._latest)

    def _check(self, header: dict[str, Any]) -> None:
        try:
            differing = compare(header.get("fingerprint", {}), self.fingerprint, self.run.x0)
        except Exception as error:  # a forged fingerprint fails in many ways
            raise file.unusable(self.path, error) from error
        if differing:
            raise self._of_another_run(differing)

    def _of_another_run(self, differing: list[str]) -> ValueError:
        return ValueError(
            f"checkpoint {str(self.path)!r} belongs to another run: it differs in "
            f"{'; '.join(differing)}. Remove the file to start again, or give another name"
        )

    def keep(self, **parts: Any) -> None:
        """Register objects whose state outlives an outer step; it is saved and restored."""
        for name, part in parts.items():
            part = _part(name, part)
            if part is None:
                continue
            self.parts[name] = part
            if name in self._restored:  # a part created since the run was restored
                part.set_state(self._restored.pop(name))

    def outer_step(self, state: Any, settled: bool) -> Any:
        """Save if it is time; in the first call of a resumed run, restore and return the saved state."""
        if self._saved is not None:
            return self._restore(state)
        self._restored = {}
        now = time.perf_counter()
        if not settled or (now < self._next and now < self._written + self.every):
            return state
        self._latest = snapshot = self._snapshot(state, now)
        cost = time.perf_counter() - now
        self._next = now + SHARE * cost
        if now >= self._written + self.every:
            # The first one is written before any work, so that unsupported states are reported at once.
            self._write(snapshot, first=self._written == -np.inf)
        return state

    def _snapshot(self, state: Any, now: float) -> _Snapshot:
        run, parts = self.run.get_state(now), {name: part.get_state() for name, part in self.parts.items()}
        whole = {"solver": state, "run": run, "parts": parts}
        try:
            return _Snapshot(Capture(whole, self.known), self.run)
        except Unsupported as what:
            raise TypeError(f"checkpoint: the state of this run has {what}, which cannot be saved") from None

    def _write(self, snapshot: _Snapshot, first: bool = False) -> None:
        header = {"fingerprint": self.fingerprint, "tree": snapshot.capture.text}
        history = snapshot.rows()
        snapshot.written = True
        try:
            file.write(self.path, header, snapshot.capture.arrays, history=history, x=to_numpy(snapshot.best))
        except OSError as error:
            name = f"checkpoint {str(self.path)!r}"
            if first:
                raise type(error)(error.errno, f"{name} cannot be written ({error.strerror})") from None
            # The run is worth more than its checkpoint, and the previous one still exists.
            what = f"{name} could not be written ({error}); the run continues, and the file is unchanged"
            warnings.warn(what, RuntimeWarning, stacklevel=2)
        self._written = time.perf_counter()

    def _restore(self, fresh: Any) -> Any:
        assert self._saved is not None
        header, arrays = self._saved
        self._saved = None
        try:
            whole = rebuild(header["tree"], arrays, self.known, self.run.x0)
            parts = whole["parts"]
            if parts.keys() != self.parts.keys():
                raise ValueError(f"it has the parts {sorted(parts)}, not {sorted(self.parts)}")
            Schema(self.run.x0, self.run.domain).check(whole, header["history"])
            if not alike(fresh, whole["solver"]):
                raise ValueError("the state of its solver is not one of this method")
            differing = self.fingerprint.unlike(whole, self.run.x0)
            if not differing:
                self.run.set_state(whole["run"], header["history"])
                for name, part in self.parts.items():
                    part.set_state(parts[name])
                self._restored = dict(parts)
                return whole["solver"]
        except MemoryError:  # not caused by the content
            raise
        except Exception as error:  # a forged state fails in many ways
            raise file.unusable(self.path, error) from None
        finally:
            self._written = time.perf_counter()
        raise self._of_another_run([f"objective (other {', '.join(differing)})"])


class _Snapshot:
    """A captured state; the history, which only grows, is recorded by its length."""

    def __init__(self, capture: Capture, run: Any) -> None:
        self.capture = capture
        self.written = False
        self.best = run.x0 if run.ledger.best is None else run.ledger.best.x
        self._rows = run.ledger.history.table()
        self._last = self._rows[-1:].copy()

    def rows(self) -> np.ndarray:
        """Return the history as a matrix of floats."""
        # The last row may have changed since; earlier ones never do.
        rows = np.concatenate([self._rows[:-1], self._last])
        return np.column_stack([rows[name].astype(np.float64) for name in History.columns])


class _Draws:  # a random generator as a part of the state
    def __init__(self, generator: np.random.Generator) -> None:
        self.bits = generator.bit_generator

    def get_state(self) -> Any:
        return self.bits.state

    def set_state(self, state: Any) -> None:
        self.bits.state = state


def _part(name: str, part: Any) -> Any:
    """Return the object that has the state of ``part``, None if it has none; refuse unknown cases."""
    if isinstance(part, np.random.Generator):
        return _Draws(part)
    for oracle in getattr(part, "oracles", ()):  # those of a product's blocks
        _part(name, oracle)
    if _protocol.memory_known(part):
        return part if hasattr(part, "get_state") and hasattr(part, "set_state") else None
    raise TypeError(
        f"checkpoint: {name} {part!r} may have a state between steps, which would be lost: give it "
        "get_state(), which returns numbers and arrays, and set_state(state), or stateless = True if it has "
        "none, or run without a checkpoint"
    )
