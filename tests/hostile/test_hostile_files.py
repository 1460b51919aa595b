"""Every reader, given a damaged or hostile file, returns or raises its documented error, in bounds.

The files are real ones (from the data folder, or the same formats written here) with mutations.  A reader
may take memory in proportion to the file, never to a number that the file claims.
"""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from dcfw import align, qap
from hostile_files import fuzz, mutations, read_bounded

MB = 2**20


def real(relative: str, embedded: bytes) -> bytes:
    """Return a file of the data folder, or a small one of the same format."""
    folder = os.environ.get("DCFW_DATA")
    file = Path(folder or ".") / relative
    return file.read_bytes() if folder and file.is_file() else embedded


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


DAT = real("qaplib/nug12.dat", b"3\n\n 0 1 2\n 1 0 3\n 2 3 0\n\n 0 5 2\n 5 0 3\n 2 3 0\n")
SLN = real("qaplib/nug12.sln", b"3 40\n 2 3 1\n")
WORDS = [f"word{i}" for i in range(12)]
MATRIX = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)
VEC = b"12 5\n" + b"".join(
    w.encode() + b" " + b" ".join(b"%.4f" % x for x in row) + b"\n"
    for w, row in zip(WORDS, MATRIX, strict=True)
)
BINARY = b"12 5\n" + b"".join(
    w.encode() + b" " + row.tobytes() + b"\n" for w, row in zip(WORDS, MATRIX, strict=True)
)
LIST = "".join(f"{w}\n" for w in WORDS).encode()
PAIRS = real("embeddings/pairs.tsv", b"source\ttarget\ncat\tchat\ndog\tchien\n")
DICTIONARY = PAIRS[:4000].rsplit(b"\n", 1)[0]


def _read(name: str, reader: Callable[[Path], Any]) -> Callable[[Path, bytes], Callable[[], Any]]:
    def prepare(folder: Path, content: bytes) -> Callable[[], Any]:
        file = folder / name
        file.write_bytes(content)
        return lambda: reader(file)

    return prepare


def _matrix_with_words(folder: Path, content: bytes) -> Callable[[], Any]:
    (folder / "m_words.txt").write_bytes(LIST)
    (folder / "m.npy").write_bytes(content)
    return lambda: align.read_vectors(folder / "m.npy")


def _words_of_matrix(folder: Path, content: bytes) -> Callable[[], Any]:
    (folder / "m_words.txt").write_bytes(content)
    (folder / "m.npy").write_bytes(npy(MATRIX))
    return lambda: align.read_vectors(folder / "m.npy", on_error="skip")


READERS: dict[str, tuple[bytes, Callable[[Path, bytes], Callable[[], Any]]]] = {
    "QAPLIB instance": (DAT, _read("x.dat", qap.read)),
    "QAPLIB solution": (SLN, _read("x.sln", qap.read)),
    "vectors as text": (VEC, _read("x.vec", align.read_vectors)),
    "vectors as text, skipping": (VEC, _read("x.vec", lambda f: align.read_vectors(f, on_error="skip"))),
    "vectors in gzip": (gzip.compress(VEC, mtime=0), _read("x.vec.gz", align.read_vectors)),
    "word2vec binary": (BINARY, _read("x.bin", align.read_vectors)),
    "word2vec binary, skipping": (BINARY, _read("x.bin", lambda f: align.read_vectors(f, on_error="skip"))),
    "NumPy matrix": (npy(MATRIX), _matrix_with_words),
    "word list": (LIST, _words_of_matrix),
    "dictionary": (DICTIONARY, _read("x.tsv", align.read_dictionary)),
}


@pytest.mark.parametrize("name", READERS)
def test_the_unharmed_file_is_read(name: str, tmp_path: Path) -> None:
    content, prepare = READERS[name]
    result = read_bounded(prepare(tmp_path, content), memory=16 * MB)
    assert not isinstance(result, Exception), result


@pytest.mark.parametrize("name", READERS)
def test_a_mutated_file_is_read_or_refused_in_bounds(name: str, tmp_path_factory: Any) -> None:
    content, prepare = READERS[name]
    folder = tmp_path_factory.mktemp("hostile")

    @fuzz
    @given(mutations(content))
    def check(changed: bytes) -> None:
        # Messages name the file, by its whole path or (those of QAPLIB) by its name alone.
        names = "x." if name.startswith("QAPLIB") else folder.name
        read_bounded(prepare(folder, changed), memory=16 * MB + 200 * len(changed), names=names)

    check()


CLAIMS: dict[str, tuple[str, bytes]] = {
    "text: 10^12 vectors": ("x.vec", b"1000000000000 5\na 1 2 3 4 5\n"),
    "text: dimension 10^12": ("x.vec", b"1 1000000000000\na 1 2 3 4 5\n"),
    "binary: 10^12 vectors": ("x.bin", b"1000000000000 5\na " + bytes(20)),
    "binary: dimension 10^6": ("x.bin", b"1000000000000 1000000\na " + bytes(20)),
    "binary: a number of 60 digits": ("x.bin", b"9" * 30 + b" " + b"9" * 28 + b"\n"),
    "QAPLIB: n = 10^9": ("x.dat", b"1000000000 1 2 3"),
    "QAPLIB: n of 10^5 digits": ("x.dat", b"9" * 100_000 + b" 1 2 3"),
    "QAPLIB: n = 10^9 in a solution": ("x.sln", b"1000000000 1 2 3"),
    "NumPy: 10^12 rows": ("x.npy", npy(MATRIX).replace(b"(12, 5), }" + b" " * 11, b"(1000000000000, 5), }")),
    "NumPy: a header of 4 GB": ("x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"),
    "NumPy: objects": ("x.npy", npy(MATRIX).replace(b"'<f4'", b"'|O'")),
}
"""Files of a few bytes that claim to be large."""


@pytest.mark.parametrize("name", CLAIMS)
def test_a_size_that_a_file_claims_is_not_allocated(name: str, tmp_path: Path) -> None:
    file = tmp_path / CLAIMS[name][0]
    file.write_bytes(CLAIMS[name][1])
    (tmp_path / "x_words.txt").write_bytes(LIST)
    read = {".dat": qap.read, ".sln": qap.read}.get(file.suffix, align.read_vectors)
    result = read_bounded(lambda: read(file), memory=32 * MB, names=file.name)
    assert isinstance(result, Exception)


@pytest.mark.parametrize("content", [b"a", b"\n", b"1 ", b"\x00", b"word 1.0\n"])
@pytest.mark.parametrize("name", ["x.vec.gz", "x.bin.gz"])
def test_a_gzip_bomb_costs_memory_in_proportion_to_what_is_kept(
    name: str, content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(content * (64 * MB // len(content)), compresslevel=1, mtime=0))
    result = read_bounded(lambda: align.read_vectors(file), memory=48 * MB, names=file.name, seconds=30.0)
    assert isinstance(result, ValueError)


FOUND: dict[str, tuple[str, bytes, str]] = {
    # Files that longer runs of the tests above have found, with what is said about them now.
    "an integer beyond the floats among floats": ("x.dat", b"1 0.5 " + b"9" * 400, "line 1"),
    "a carriage return between numbers": ("x.vec", b"a 1 2\r 3\nb 1 2 3\n", "line 1"),
    "a header that is no Python": ("x.npy", npy(MATRIX).replace(b"'<f4',", b"'<f4'("), "header"),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_file_that_was_not_refused_well_is_now(name: str, tmp_path: Path) -> None:
    file_name, content, said = FOUND[name]
    (tmp_path / "x_words.txt").write_bytes(LIST)
    (tmp_path / file_name).write_bytes(content)
    read = qap.read if file_name.endswith(".dat") else align.read_vectors
    with pytest.raises(ValueError, match=rf"{re.escape(file_name)}.*{said}"):
        read(tmp_path / file_name)
