"""Every reader, given a damaged or hostile file, returns or raises its documented error, in bounds.

The files are real ones (from the data folder, or the same formats written here) with mutations.  A reader
may take memory in proportion to the file, never to a number that the file claims.
"""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from dcfw import align, qap
from dcfw.images import cifar, instructions
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


def _batch() -> bytes:
    pixels = np.arange(4 * 3072, dtype=np.uint64).astype(np.uint8).reshape(4, 3072)
    return pickle.dumps({b"data": pixels, b"labels": [0, 1, 2, 3], b"batch_label": b"one"}, protocol=2)


PICKLE = _batch()
CIFAR_BINARY = b"".join(bytes([k]) + bytes((k + i) % 256 for i in range(3072)) for k in range(4))


def _read(name: str, reader: Callable[[Path], Any]) -> Callable[[Path, bytes], Callable[[], Any]]:
    def prepare(folder: Path, content: bytes) -> Callable[[], Any]:
        file = folder / name
        file.write_bytes(content)
        return lambda: reader(file)

    return prepare


def _cifar_folder(suffix: str) -> Callable[[Path, bytes], Callable[[], Any]]:
    def prepare(folder: Path, content: bytes) -> Callable[[], Any]:
        for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
            (folder / f"{name}{suffix}").write_bytes(content)
        return lambda: cifar.read_folder(folder, 10)

    return prepare


def _cifar_arrays(folder: Path, content: bytes) -> Callable[[], Any]:
    images = np.zeros((2, 3, 32, 32), dtype=np.uint8)
    for name in cifar.ARRAYS:
        good = npy(images if name.endswith("images") else np.arange(2))
        (folder / f"{name}.npy").write_bytes(content if name == "train_images" else good)
    return lambda: cifar.read_folder(folder, 10)


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
    "pickle": (PICKLE, _read("data_batch", instructions.read)),
    "CIFAR pickles": (PICKLE, _cifar_folder("")),
    "CIFAR binary": (CIFAR_BINARY, _cifar_folder(".bin")),
    "CIFAR arrays": (npy(np.zeros((2, 3, 32, 32), dtype=np.uint8)), _cifar_arrays),
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


TUPLES = b")" + b"q\x00h\x00\x86" * 24
"""A tuple of two tuples, which are one, of two tuples ... ."""


def _text(content: bytes) -> bytes:
    return b"X" + len(content).to_bytes(4, "little") + content


def _array(shape: bytes, text: bytes = b"") -> bytes:
    """Return a pickled array whose shape is made by the instructions ``shape``."""
    kind = b"cnumpy\ndtype\n" + _text(b"u1") + b"\x85R"
    state = b"(K\x01" + shape + kind + b"\x89" + _text(text) + b"t"
    return b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R" + state + b"b."


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
    "pickle: bytes of 2^31": ("batch", b"\x80\x03B\xff\xff\xff\x7fabc."),
    "pickle: bytes of 2^62": ("batch", b"\x80\x04\x8e" + (2**62).to_bytes(8, "little") + b"abc."),
    "pickle: text of 2^62": ("batch", b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"abc."),
    "pickle: a deep list": ("batch", b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."),
    "pickle: a list in itself": ("batch", b"\x80\x02]q\x00h\x00a."),
    "pickle: 2^60 tuples by repetition": ("batch", b"\x80\x02)q\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"."),
    "pickle: an integer of 10^6 digits": ("batch", b"I" + b"9" * 1_000_000 + b"\n."),
    "pickle: a key of 2^24 tuples": ("batch", b"}" + TUPLES + b"Ns."),
    "pickle: keys of 2^24 tuples": ("batch", b"}(" + TUPLES + b"Nu."),
    "pickle: a name of 2^24 tuples": ("batch", b"\x80\x04" + TUPLES + b"h\x00\x93."),
    "pickle: an encoding of 2^24 tuples": (
        "batch",
        b"c_codecs\nencode\n" + _text(b"x") + TUPLES + b"\x86R.",
    ),
    "pickle: a shape of 2^24 tuples": ("batch", _array(TUPLES + b"\x85", text=b"abc")),
    "pickle: a number that no thing has": ("batch", b"Np" + b"9" * 40 + b"\n."),
}
"""Files of a few bytes that claim to be large."""


@pytest.mark.parametrize("name", CLAIMS)
def test_a_size_that_a_file_claims_is_not_allocated(name: str, tmp_path: Path) -> None:
    file = tmp_path / CLAIMS[name][0]
    file.write_bytes(CLAIMS[name][1])
    (tmp_path / "x_words.txt").write_bytes(LIST)
    read = {".dat": qap.read, ".sln": qap.read, "": instructions.read}.get(file.suffix, align.read_vectors)
    result = read_bounded(lambda: read(file), memory=32 * MB, names=file.name)
    harmless = ("pickle: a deep list", "pickle: 2^60 tuples by repetition")  # linear, whatever they look like
    assert isinstance(result, Exception) or name in harmless


def test_a_text_that_a_pickle_encodes_many_times_is_one_in_memory(tmp_path: Path) -> None:
    """A call by its numbers in the memo has 5 bytes, and the text a million."""
    call = b"(c_codecs\nencode\nq\x00" + _text(b"x" * MB) + _text(b"latin1") + b"\x86q\x01R"
    (tmp_path / "batch").write_bytes(call + b"h\x00h\x01R" * 99 + b"l.")
    found = read_bounded(lambda: instructions.read(tmp_path / "batch"), memory=8 * MB)
    assert found[0] == b"x" * MB
    assert len(found) == 100
    assert all(entry is found[0] for entry in found)


def test_a_text_that_many_arrays_of_a_pickle_hold_is_one_in_memory(tmp_path: Path) -> None:
    kind = b"cnumpy\ndtype\n" + _text(b"u1") + b"\x85R"
    state = b"(K\x01J" + MB.to_bytes(4, "little") + b"\x85" + kind + b"\x89" + _text(b"x" * MB) + b"tq\x01b"
    begin = b"\x80\x02(cnumpy.core.multiarray\n_reconstruct\nq\x00)R"
    (tmp_path / "batch").write_bytes(begin + state + b"h\x00)Rh\x01b" * 99 + b"l.")
    found = read_bounded(lambda: instructions.read(tmp_path / "batch"), memory=8 * MB)
    assert len(found) == 100
    assert all(array.shape == (MB,) and np.shares_memory(array, found[0]) for array in found)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (b"(" + b"K\x02" * 33 + b"t", "more than 32 dimensions"),
        (b"(\x8a\x09" + b"\x7f" * 9 + b"K\x02t", "a shape that no array has"),
        (b"(J\xff\xff\xff\xfft", "a shape that no array has"),
        (b"]", "of no shape"),
    ],
)
def test_a_shape_that_no_array_has_is_refused_before_it_is_multiplied(
    shape: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instructions.math, "prod", None)
    (tmp_path / "batch").write_bytes(_array(shape, text=b"abc"))
    with pytest.raises(ValueError, match=message):
        instructions.read(tmp_path / "batch")


def test_marks_on_a_high_stack_take_time_in_proportion_to_the_pickle(tmp_path: Path) -> None:
    (tmp_path / "batch").write_bytes(b"(" + b"N" * 100_000 + b"(t" * 100_000 + b"l.")
    found = read_bounded(lambda: instructions.read(tmp_path / "batch"), memory=32 * MB, seconds=20.0)
    assert found == [None] * 100_000 + [()] * 100_000


@pytest.mark.parametrize("content", [b"N((a.", b"(K\x01](a.", b"K\x01\x86.", b"t.", b"(."])
def test_instructions_that_take_more_than_there_is_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(ValueError, match="batch is not a pickle of plain data"):
        instructions.read(tmp_path / "batch")


@pytest.mark.parametrize("label", [-1, 10, 2**70])
def test_a_label_of_a_pickle_that_no_class_has_is_refused(label: int, tmp_path: Path) -> None:
    pixels = np.zeros((1, 3072), dtype=np.uint8)
    content = pickle.dumps({b"data": pixels, b"labels": [label], b"\xff": 1}, protocol=2)
    with pytest.raises(ValueError, match=r"data_batch_1: labels must be 0 to 9"):
        _cifar_folder("")(tmp_path, content)()


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
