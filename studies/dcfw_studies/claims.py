"""Who is computing a row right now, and whether that process is still there.

Two runners may share a store.  Each writes a *claim* before it computes a row; the other one passes by.
A runner that was killed leaves its claims behind, and a dead owner must be told from a slow one:

- An owner on this machine is asked for directly: if its process is gone, so is the claim, at once.  A
  process that lives keeps its claims however long a row takes, even when compiled code holds the
  interpreter for an hour and no heartbeat gets through.
- An owner elsewhere (another machine, container or boot) cannot be seen.  Its claims hold until
  their lease expires, and a runner that lives renews the lease long before.

A process number alone is not an identity, because numbers are used again: the time of birth of the
process is compared as well, where the system tells it.
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

_active: set[str] = set()
"""Owners in this very process whose run has not ended."""


@dataclass(frozen=True)
class Owner:
    """One run of one process.  Create it with :meth:`enter`, end it with :meth:`leave`."""

    id: str
    machine: str
    pid: int
    birth: str

    @classmethod
    def enter(cls) -> Owner:
        """Return a new owner in this process."""
        owner = cls(uuid.uuid4().hex, this_machine(), os.getpid(), birth_of(os.getpid()) or "")
        _active.add(owner.id)
        return owner

    def leave(self) -> None:
        """End the run: claims that could not be deleted are void from now on."""
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
    """Return a short hash that names this boot of this machine (and this space of process numbers)."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def birth_of(pid: int) -> str | None:
    """Return when process ``pid`` was born, in the system's own unit; None if it is gone or not told."""
    try:
        # The second field is the program's name in brackets, which may hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    zombie = fields[0] in "ZX"
    return None if zombie else fields[19]


def _exists(pid: int) -> bool:
    if Path("/proc/self/stat").exists():
        return birth_of(pid) is not None
    if os.name != "posix":
        return True  # no harmless way to ask: the lease decides
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
