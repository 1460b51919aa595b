"""Damaged files, and a reader whose time and memory are watched.

:func:`mutations` is a hypothesis strategy: it takes the bytes of a good file and cuts, flips, repeats, moves
and inserts, and writes absurd numbers where numbers are.  :func:`read_bounded` calls a reader with a limit
of time and a measure of memory, and lets through only the errors that readers document.
"""

from __future__ import annotations

import os
import re
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = os.environ.get("DCFW_HOSTILE_EXAMPLES")
"""Mutations of each file, for long runs with new ones every time; a fixed forty unless it is set."""

fuzz = settings(
    max_examples=int(EXAMPLES or 40),
    derandomize=EXAMPLES is None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)

ABSURD = (
    b"0",
    b"-1",
    b"999999999999",
    b"18446744073709551616",
    b"1e400",
    b"-1e308",
    b"nan",
    b"inf",
    b"0x10",
    b"1_000",
    b"9" * 5000,
    "\u0661\u0662".encode(),
    b"\x00",
)
"""What a file may have in place of a number: impossible sizes, and text that is not a number."""

NUMBER = re.compile(rb"\d+")


def _edit(content: bytes, data: st.DataObject) -> bytes:
    size = len(content)
    at = data.draw(st.integers(0, max(size - 1, 0)))
    kind = data.draw(st.sampled_from(("cut", "flip", "insert", "delete", "repeat", "number", "word", "head")))
    if kind == "cut":
        return content[:at]
    if kind == "flip" and size:
        return content[:at] + bytes([content[at] ^ (1 << data.draw(st.integers(0, 7)))]) + content[at + 1 :]
    if kind == "insert":
        return content[:at] + data.draw(st.binary(min_size=1, max_size=8)) + content[at:]
    if kind == "delete":
        return content[:at] + content[at + data.draw(st.integers(1, 64)) :]
    if kind == "repeat":
        return content[:at] + content[at : at + 64] * data.draw(st.integers(2, 20)) + content[at + 64 :]
    if kind == "head":  # sizes stand at the beginning
        at %= 256
        return content[:at] + data.draw(st.binary(min_size=4, max_size=4)) + content[at + 4 :]
    found = list(NUMBER.finditer(content, 0, 4096)) if kind == "number" else []
    if found:
        match = found[data.draw(st.integers(0, len(found) - 1))]
        return content[: match.start()] + data.draw(st.sampled_from(ABSURD)) + content[match.end() :]
    return content[:at] + data.draw(st.sampled_from(ABSURD)) + content[at + 8 :]


class Changed(bytes):
    """Bytes of which hypothesis prints only the beginning."""

    def __repr__(self) -> str:
        return f"{bytes(self[:2000])!r} ({len(self)} bytes)"


@st.composite
def mutations(draw: Any, content: bytes) -> Changed:
    """Return ``content`` after one to three mutations."""
    data = draw(st.data())
    for _ in range(draw(st.integers(1, 3))):
        content = _edit(content, data)
    return Changed(content)


class TooLong(Exception):
    """A call did not come back in time."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise :class:`TooLong` in the block after this many seconds."""

    def ring(*_: Any) -> None:
        raise TooLong(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def read_bounded(
    read: Callable[[], Any],
    *,
    memory: int,
    errors: tuple[type[Exception], ...] = (ValueError, OSError),
    seconds: float = 60.0,
    names: str = "",
) -> Any:
    """Return what ``read()`` returns, or the error it documents; fail on anything else.

    ``memory`` is the most that may be allocated at a time; ``names`` must be in the message of an error.
    """
    tracemalloc.start()
    try:
        with alarm(seconds):
            try:
                result = read()
            except errors as error:
                result = error
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= memory, f"took {peak / 2**20:.1f} MB, and {memory / 2**20:.1f} MB are allowed"
    if isinstance(result, Exception):
        assert names in str(result), f"does not name {names!r}: {type(result).__name__}: {result}"
    return result
