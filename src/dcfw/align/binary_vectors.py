"""Word vectors in word2vec's binary form: a line "n d", then each word, a space, and d float32 numbers.

Only the space ends a word and records differ in length, so the file is read from front to back.  A newline
before a word, which some writers add, is not part of it.  A damaged file is recognised by its end or by
"words" of absurd length.  Vectors beyond n are an error; if errors are skipped they are read, and an
incomplete last one counts as broken.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from dcfw.align.rows import Rows, Vectors
from dcfw.align.stream import Stream

_BLOCK = 1 << 20
_LONGEST_WORD = 4096
_FASTTEXT = 793712314  # the first four bytes of a fastText model


def read_binary(stream: Stream, dtype: Any, limit: int | None, skip: bool) -> Vectors:
    data = stream.read(_BLOCK)
    if len(data) >= 4 and struct.unpack("<i", data[:4])[0] == _FASTTEXT:
        raise ValueError(
            f"{stream.path} is a fastText model, not a file in word2vec's binary format; "
            "use the .vec file that comes with it"
        )
    first, newline, _ = data[:64].partition(b"\n")
    fields = first.split()
    if not newline or len(fields) != 2 or not all(field.isdigit() for field in fields):
        raise ValueError(
            f"{stream.path} does not start with a line such as '200000 300', so it is not in word2vec's "
            "binary format; the name of a text file must not end in .bin"
        )
    n, d = map(int, fields)
    size = 4 * d
    # The header is not trusted: no file has more records than fit into it.
    expected = 0 if stream.size is None else min(n, stream.size // (size + 2) + 1)
    rows = Rows(stream.path, d, dtype, limit=limit, skip=skip, unit="word", expected=expected)
    at = len(first) + 1
    place = 0
    while not rows.full:
        if len(data) - at < size + _LONGEST_WORD:
            data, at = data[at:] + stream.read(max(_BLOCK, size + _LONGEST_WORD)), 0
        if data[at : at + 1] == b"\n":
            at += 1
            continue
        place += 1
        if place > n:
            if at == len(data):
                break
            what = f"the file continues after the {n} vectors declared in its first line"
            rows.refuse("missing", n, what, 0)
        space = data.find(b" ", at, at + _LONGEST_WORD)
        end = space + 1 + size
        if place > n and (space < 0 or end > len(data)):
            rows.refuse("broken", place, "the vector at the end of the file is incomplete")
            return rows.done()
        if space < 0 and len(data) - at >= _LONGEST_WORD:
            raise ValueError(
                f"{stream.path}, word {place}: the word does not end within {_LONGEST_WORD} bytes; the file "
                "is damaged, or the dimension in its first line is wrong"
            )
        if space < 0 or end > len(data):
            what = f"the file is truncated: {place - 1} of {n} vectors are complete"
            rows.refuse("missing", place, what, n - place + 1)
            return rows.done()
        vector = np.frombuffer(data, dtype="<f4", count=d, offset=space + 1)
        if not np.isfinite(vector).all():
            rows.refuse("broken", place, "the vector contains NaN or Inf")
        elif rows.accept(data[at:space], place):
            rows.extend(vector[None, :])
        at = end
    return rows.done()


def gives_back(word: bytes) -> bool:
    """Return whether :func:`read_binary` reads the word back unchanged."""
    return 0 < len(word) < _LONGEST_WORD and b" " not in word and not word.startswith(b"\n")
