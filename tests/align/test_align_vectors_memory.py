"""Reading word vectors takes the memory of the matrix and of the words, and little else.

The peak is measured in a process of its own.
"""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("resource", reason="the peak of the memory is only known on POSIX systems")

MB = 1e6

READ = """
import json, resource, sys
from pathlib import Path
from dcfw.align import read_vectors

def peak():
    # Where there is /proc, because the other number begins at the size of the process that started this one.
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

read_vectors(sys.argv[2])  # loads what is needed
before = peak()
words, matrix, skipped = read_vectors(sys.argv[1])
print(json.dumps([len(words), matrix.nbytes, before, peak(), float(matrix.sum(dtype=float)), skipped]))
"""


def write(path, n, d, header, compress):
    """Write a file of n x d numbers quickly, and return their sum."""
    rng = np.random.default_rng(0)
    block = rng.integers(-9999, 9999, (500, d)) / 10_000
    rows = [" ".join(map(str, row)) for row in block.tolist()]
    with gzip.open(path, "wb", compresslevel=1) if compress else path.open("wb") as file:
        file.write(f"{header} {d}\n".encode())
        for start in range(0, n, len(rows)):
            file.write("".join(f"word{start + i} {row}\n" for i, row in enumerate(rows)).encode())
    return block.astype(np.float32).sum(dtype=float) * (n / len(rows))


def measure(folder, n, d, header=None, compress=False):
    path, tiny = folder / "large.vec", folder / "tiny.vec"
    total = write(path, n, d, header or n, compress)
    tiny.write_text("a 1 2\n")
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), str(tiny)], capture_output=True, text=True, check=True
    )
    count, size, before, after, found, skipped = json.loads(done.stdout)
    assert (count, size, skipped) == (n, 4 * n * d, {})
    assert found == pytest.approx(total, rel=1e-9, abs=1e-3)
    return size, before, after


@pytest.mark.parametrize("compress", [False, True])
def test_memory_grows_by_the_matrix_and_less_than_its_size_again(tmp_path, compress):
    size, before, after = measure(tmp_path, 20_000, 300, compress=compress)
    assert after - before <= size + 20 * MB  # a second matrix would be 24 MB, and the text is 41
    assert after <= size + 200 * MB


@pytest.mark.slow
@pytest.mark.parametrize("compress", [False, True])
def test_200000_vectors_take_their_matrix_and_at_most_200_mb(tmp_path, compress):
    size, before, after = measure(tmp_path, 200_000, 300, compress=compress)
    assert after <= size + 200 * MB
    assert after - before <= size + 80 * MB  # the words, and what is allocated ahead
