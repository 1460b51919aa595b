"""Commands and imports in separate processes."""

import os
import subprocess
import sys
import threading

import pytest

from places import SOURCE

HEAVY = ("numba", "torch", "matplotlib", "pandas", "rich", "scipy.optimize")


def loaded(code, names):
    """Return which of ``names`` are loaded after ``code`` in a fresh interpreter."""
    code = f"{code}\nimport sys\nprint(*[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def on_a_terminal(module, arguments, folder):
    """Run a module with a terminal as its standard error stream; return its output and what it drew."""
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    ours, theirs = pty.openpty()
    drawn = []

    def read():
        try:
            while chunk := os.read(ours, 4096):
                drawn.append(chunk.decode(errors="replace"))
        except OSError:  # the other end was closed
            pass

    process = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": SOURCE, "TERM": "xterm", "COLUMNS": "120"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    out = process.stdout.read()
    assert process.wait() == 0, "".join(drawn)
    process.stdout.close()
    reader.join()
    os.close(ours)
    return out, "".join(drawn)
