"""Claims: who is computing a row, and whether that process still exists.

Several runners may share a store.  Each writes a *claim* before it computes a row, and others pass by that
row.  The claims of a killed runner must be told from those of a slow one:

- An owner on this machine is looked up: if its process is gone, so is the claim.  A live process keeps its
  claims, even when compiled code holds the interpreter for an hour and no heartbeat gets through.
- An owner elsewhere (another machine, container or boot) cannot be looked up.  Its claims hold until their
  lease expires, and a live runner renews the lease long before.

Process numbers are reused, so the start time of the process is compared as well where the system has it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_active: set[str] = set()  # owners in this process whose run has not ended


@dataclass(frozen=True)
class Owner:
    """One run of one process.  Create it with :meth:`enter`, end it with :meth:`leave`."""

    id: str
    machine: str
    pid: int
    birth: str

    @classmethod
    def enter(cls) -> Owner:
        owner = cls(uuid.uuid4().hex, this_machine(), os.getpid(), birth_of(os.getpid()) or "")
        _active.add(owner.id)
        return owner

    def leave(self) -> None:
        """End the run, which voids claims that could not be deleted."""
        _active.discard(self.id)

    def is_gone(self, expires: float, now: float) -> bool:
        """Return whether a claim of this owner, with a lease until ``expires``, is void."""
        if self.machine != this_machine():
            return now > expires
        if self.pid == os.getpid() and self.birth == (birth_of(self.pid) or ""):
            return self.id not in _active
        if self.birth and (birth := birth_of(self.pid)) is not None:
            return birth != self.birth
        return not _exists(self.pid) or now > expires


@cache
def this_machine() -> str:
    """Return a short hash of this boot of this machine (and this namespace of process numbers)."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def birth_of(pid: int) -> str | None:
    """Return when process ``pid`` started, in the system's own unit; None if it is gone or unknown."""
    try:
        # The second field is the program's name in brackets, which may hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]  # Z and X: a zombie


def _exists(pid: int) -> bool:
    if Path("/proc/self/stat").exists():
        return birth_of(pid) is not None
    if os.name != "posix":
        return True  # no harmless way to ask: the lease decides
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True
