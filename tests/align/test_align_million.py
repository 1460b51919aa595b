"""A million words of dimension 300 stream through the public interface within 4 GiB.

The peak is measured in a process of its own.
"""

import json
import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="the peak of the memory is only known on POSIX systems")

GIB = 2**30

STREAM = """
import json, resource, sys, time
from pathlib import Path
import numpy as np
from dcfw.align import MaskedLeastSquares, align

n, width, d = map(int, sys.argv[1:])
Q = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0].astype(np.float32)

def block(k):
    rng = np.random.default_rng([1, k])
    E1 = rng.standard_normal((d, width), dtype=np.float32)
    Y = Q @ E1 + np.float32(0.5) * rng.standard_normal((d, width), dtype=np.float32)
    return E1, Y, rng.random((d, width), dtype=np.float32) < 0.1

def peak():
    # Where there is /proc, because the other number begins at the size of the process that started this one.
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

started = time.perf_counter()
f = MaskedLeastSquares.from_blocks(block(k) for k in range(n // width))
summed = time.perf_counter() - started
result = align(f, max_lmo=20)
solved = time.perf_counter() - started - summed
error = float(np.linalg.norm(result.rotation - Q) / np.linalg.norm(Q))
print(json.dumps([[f.n, f.observed, str(result.x.dtype), error, peak()], [summed, solved, result.n_lmo]]))
"""


def stream(n, width, d):
    """Return words, observed entries, type, error of the rotation and peak of a run; print what it took."""
    done = subprocess.run(
        [sys.executable, "-c", STREAM, *map(str, (n, width, d))], capture_output=True, text=True, check=True
    )
    found, (summed, solved, steps) = json.loads(done.stdout)
    print(f"{n} words: sums {summed:.0f} s, {steps} steps {solved:.1f} s, peak {found[-1] / GIB:.2f} GiB")
    return found


@pytest.mark.slow
def test_a_million_words_of_dimension_300_stream_within_4_gib():
    n, observed, dtype, error, peak = stream(1_000_000, 20_000, 300)
    assert (n, dtype) == (1_000_000, "float32")
    assert observed == pytest.approx(0.1 * 300 * n, rel=1e-3)
    assert error < 0.05
    assert peak < 4 * GIB
    assert peak < 1 * GIB  # the words alone have 2.5, so they are not kept
