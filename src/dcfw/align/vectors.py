"""Files of word vectors: the text form of fastText and word2vec, word2vec's binary form, and NumPy's.

Files are read from front to back in small blocks, straight into the matrix that is returned, so that reading
needs memory for the matrix and the words only.  The sizes that a file claims are checked.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw.align import binary_vectors, text_vectors
from dcfw.align.rows import WIDEST, Rows, Vectors
from dcfw.align.stream import Progress, Stream
from dcfw.files import replacing
from dcfw.npy import mapped

__all__ = ["Vectors", "read_vectors", "write_vectors"]

FORMATS = ("text", "binary", "npy")
_WORD_LISTS = ("_words.tsv", "_words.txt", ".words", ".tsv", ".txt")
NAMING = "specify one with words="  # the argument as errors name it; the command line replaces it
_MARK = b"\xef\xbb\xbf"  # the byte order mark that some editors write
_ROWS_AT_A_TIME = 1000
_LIMITS = {  # words that a form cannot store
    "text": "a word must have no blanks around it, no line breaks, and no numbers after a blank",
    "binary": "a space ends a word; text files (.vec) allow spaces",
    "npy": "each line of the word list is a word, and the first one must have no tab",
}


def read_vectors(
    path: str | os.PathLike[str],
    *,
    limit: int | None = None,
    dtype: Any = np.float32,
    on_error: str = "raise",
    progress: Progress | None = None,
    format: str | None = None,
    words: str | os.PathLike[str] | Sequence[str] | None = None,
) -> Vectors:
    """Read word vectors from a file.

    Parameters
    ----------
    path
        The file, possibly a gzip archive (whatever its name) that unpacks to at most 200 times its size.
    limit
        Read only the first ``limit`` words (files have the most frequent words first).
    dtype
        float32 or float64.
    on_error
        ``"raise"`` raises an error that names the first unusable line and why; ``"skip"`` omits and counts
        such lines.  A damaged archive, a malformed header and a missing word list are always errors.
    progress
        Called as ``progress(done, total)`` with the bytes of the file read so far and its size.
    format
        ``"text"``, ``"binary"`` (word2vec) or ``"npy"``; by default determined by the suffix: ``.bin``,
        ``.npy``, and text for all others.
    words
        For ``"npy"``, the words in the order of the rows, or a file that lists them: one word per line, or
        tab-separated columns whose first line names one of them ``word``.  By default a file beside the
        matrix, for ``en.npy`` the first that exists of ``en_words.tsv``, ``en_words.txt``, ``en.words``,
        ``en.tsv`` and ``en.txt``.

    Returns
    -------
    Vectors
        A named tuple ``(words, matrix, skipped)``: the list of words, the matrix with a row for each, and the
        number of lines skipped by reason.  The reasons are ``"broken"`` (an entry that is not a finite
        number), ``"dimension"`` (another number of entries than the others have), ``"duplicate"`` (the first
        one is kept), ``"encoding"`` (a word that is not UTF-8) and ``"missing"`` (promised by the header but
        absent).

    Notes
    -----
    A text file may start with a header "n d" (a first line of two whole numbers always is one); without it
    the first vector sets the dimension.  A word may contain spaces: the last d fields of a line are its
    vector.  But if all fields after the first one of such a word are numbers in any notation (``route 66``),
    or the word ends in a signed number, a decimal fraction or an exponent, the line counts as one of wrong
    dimension.  Empty lines are ignored.  Only ``.npy`` files may have vectors of more than 65,536 numbers.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dcfw.align import read_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "small.vec")
    ...     _ = file.write_text("3 2\\ncat 0.5 1\\nNew York 0.25 -1\\ncat 0 0\\n")
    ...     vectors = read_vectors(file, on_error="skip")
    >>> vectors.words
    ['cat', 'New York']
    >>> vectors.matrix
    array([[ 0.5 ,  1.  ],
           [ 0.25, -1.  ]], dtype=float32)
    >>> vectors.skipped
    {'duplicate': 1}
    """
    path = _validate.path(path)
    if progress is not None:
        _validate.function(progress, "progress")
    limit = None if limit is None else _validate.integer(limit, "limit", low=1)
    skip = _validate.choice(on_error, "on_error", ("raise", "skip")) == "skip"
    kind = _format(path) if format is None else _validate.choice(format, "format", FORMATS)
    dtype = _validate.float_type(dtype)
    if kind == "npy":
        return _read_npy(path, dtype, limit, skip, progress, words)
    if words is not None:
        raise ValueError(f"words must be None for {path}, which contains its words; it is for .npy files")
    with Stream(path, progress) as stream:
        if kind == "binary":
            return binary_vectors.read_binary(stream, dtype, limit, skip)
        return text_vectors.read_text(stream, dtype, limit, skip)


def _format(path: Path) -> str:
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    return {".bin": "binary", ".npy": "npy"}.get(suffix.lower(), "text")


def _read_npy(
    path: Path, dtype: np.dtype, limit: int | None, skip: bool, progress: Progress | None, words: Any
) -> Vectors:
    stored = mapped(path)
    if stored.ndim != 2 or stored.dtype.kind not in "iuf":
        raise ValueError(f"{path} must contain a matrix of real numbers with one row per word")
    if words is None or isinstance(words, str | os.PathLike):
        listed = Path(words) if words is not None else _word_list(path)
        names = _read_words(listed)
    else:
        listed, names = Path("words"), list(words)
    if len(names) != len(stored):
        raise ValueError(
            f"{listed} must have a word for each row of {path}, got {len(names)} for {len(stored)} rows"
        )
    rows = Rows(path, stored.shape[1], dtype, limit=limit, skip=skip, unit="row", expected=len(stored))
    for start in range(0, len(stored), _ROWS_AT_A_TIME):
        with np.errstate(over="ignore"):  # an overflow becomes Inf, which is refused
            values = np.asarray(stored[start : start + _ROWS_AT_A_TIME], dtype=dtype)
        kept = []
        for i, finite in enumerate(np.isfinite(values).all(axis=1).tolist()):
            if not finite:
                rows.refuse(
                    "broken", start + i, f"the vector contains NaN, Inf or a number too large for {dtype}"
                )
            elif rows.accept(names[start + i], start + i):
                kept.append(i)
            if rows.full:
                break
        rows.extend(values[kept])
        if progress is not None:
            progress((start + len(values)) * stored.itemsize * stored.shape[1], stored.nbytes)
        if rows.full:
            break
    return rows.done()


def _word_list(path: Path) -> Path:
    tried = [path.with_name(path.stem + ending) for ending in _WORD_LISTS]
    for candidate in filter(Path.is_file, tried):
        return candidate
    names = ", ".join(candidate.name for candidate in tried)
    raise FileNotFoundError(f"no word list found beside {path} (tried {names}); {NAMING}")


def _read_words(path: Path) -> list[bytes]:
    """Return the words of a list, undecoded: :class:`Rows` handles words that are not UTF-8."""
    lines = [line.removesuffix(b"\r") for line in path.read_bytes().removeprefix(_MARK).split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    columns = lines[0].split(b"\t") if lines else []
    if len(columns) < 2:
        return lines
    if b"word" not in columns:
        raise ValueError(f"{path}, line 1: one of the {len(columns)} columns must have the name 'word'")
    where, words = columns.index(b"word"), []
    row = columns.index(b"row") if b"row" in columns else None
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split(b"\t")
        here = f"{path}, line {number}"
        if len(fields) != len(columns):
            raise ValueError(f"{here}: expected {len(columns)} columns, got {len(fields)}")
        if row is not None and fields[row] != b"%d" % (number - 2):
            got = fields[row].decode("utf-8", "replace")
            raise ValueError(f"{here}: the words must be in the order of the rows, got row {got!r}")
        words.append(fields[where])
    return words


def write_vectors(
    path: str | os.PathLike[str], words: Iterable[str], matrix: Any, *, digits: int = 6
) -> None:
    """Write word vectors as text or, if the name ends in ``.bin`` or ``.npy``, in that form.

    Parameters
    ----------
    path
        The file, replaced only when everything is written; a gzip archive if its name ends in ``.gz``.  With
        ``.npy`` the words go into a file beside it (``en_words.txt`` for ``en.npy``).
    words, matrix
        The words, and the matrix with a row for each.  Words that the file would not give back are refused:
        repeated ones, in text form those with blanks at their ends, in binary form those with spaces.
    digits
        Significant digits of the numbers in a text file (9 reproduce float32 exactly).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dcfw.align import read_vectors, write_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "small.vec.gz")
    ...     write_vectors(file, ["un", "deux"], [[0.5, 1.0], [0.25, -1.0]])
    ...     read_vectors(file).words
    ['un', 'deux']
    """
    path, words = _validate.path(path), _validate.listed(words, "words")
    matrix = _validate.array(matrix, "matrix", ndim=2)
    digits = _validate.integer(digits, "digits", low=1, high=17)
    if len(words) != len(matrix):
        raise ValueError(
            f"matrix must have a row for each of words, got {len(words)} words and {len(matrix)} rows"
        )
    check_writable(path, words)
    kind = _format(path)
    if kind != "npy" and matrix.shape[1] > WIDEST:
        raise ValueError(
            f"matrix must have at most {WIDEST} columns in this format, got {matrix.shape[1]}; "
            "a .npy file may have more"
        )
    if kind == "npy":
        with replacing(path.with_name(path.stem + "_words.txt")) as file:
            file.writelines(word.encode() + b"\n" for word in words)
    with _opened(path) as file:
        if kind == "npy":
            np.save(file, matrix)
            return
        file.write(f"{len(words)} {matrix.shape[1]}\n".encode())
        form = " ".join([f"%.{digits}g"] * matrix.shape[1])
        for word, row in zip(words, matrix.astype("<f4") if kind == "binary" else matrix, strict=True):
            numbers = row.tobytes() if kind == "binary" else (form % tuple(row.tolist())).encode()
            file.write(word.encode() + b" " + numbers + b"\n")


def check_writable(path: Path, words: Sequence[str]) -> None:
    """Raise the error for a file that cannot be written, or for words that it would not give back."""
    if not path.name:
        raise ValueError(f"path must name a file, got {str(path)!r}")
    kind = _format(path)
    if kind == "npy" and path.suffix.lower() == ".gz":
        raise ValueError(f"path must not end in .npy.gz, got {str(path)!r}; leave out .gz")
    places: dict[str, int] = {}
    for i, word in enumerate(words):
        _validate.text(word, "each of words")
        if places.setdefault(word, i) != i:
            raise ValueError(f"words must be distinct: {word!r:.60} is at {places[word]} and at {i}")
        if not _gives_back(kind, word, first=i == 0):
            raise ValueError(f"words contains {word!r:.60}, which {path.name} cannot store: {_LIMITS[kind]}")


def _gives_back(kind: str, word: str, first: bool) -> bool:
    """Return whether the reader of this form reads the word back unchanged."""
    try:
        raw = word.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    if kind == "text":
        return text_vectors.gives_back(raw)
    if kind == "binary":
        return binary_vectors.gives_back(raw)
    taken_for_a_table = first and (b"\t" in raw or raw.startswith(_MARK))
    return bool(raw) and b"\n" not in raw and not raw.endswith(b"\r") and not taken_for_a_table


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file that replaces ``path`` on success, and compresses if its name ends in ``.gz``."""
    with replacing(path) as raw:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                yield packed
        else:
            yield raw
