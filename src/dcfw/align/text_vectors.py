"""Word vectors as text, the ``.vec`` of fastText and word2vec: a word and its numbers on every line.

``np.loadtxt`` on a few hundred lines at a time takes 60 % of the time of one line after the other.  It gets
the numbers without the words; if it refuses a block, the bad lines are searched for.

A good line is a word, then d numbers, separated by spaces or tabs.  The word may have spaces: the *last* d
fields are the numbers.  To tell a word with a space from a surplus number, a line has the wrong dimension

- if all fields after the first one of the word are numbers in any notation, including "nan" and "inf"
  ("route 66", "dog 1e-05"), or
- if the word ends in a number that is not a row of digits ("New York -1", "New York 1e-05").

"New York", "7 up" and "World War 2" are words.  Only newlines end lines, since real words contain all other
kinds of white space.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from dcfw.align.rows import Rows, Vectors
from dcfw.align.stream import Stream

BLOCK = 1 << 20  # bytes read at a time; a longer line indicates a binary file
_BLANKS = b" \t\r"
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_ANY_NUMBER = re.compile(_NUMBER.pattern + rb"|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)


def read_text(stream: Stream, dtype: Any, limit: int | None, skip: bool) -> Vectors:
    blocks = _blocks(stream)
    block = next(blocks, b"").removeprefix(b"\xef\xbb\xbf")  # the byte order mark that some editors write
    first, _, after = block.partition(b"\n")
    fields = first.split()
    promised = None
    if len(fields) == 2 and all(field.isdigit() and len(field) <= 18 for field in fields):
        promised, d = map(int, fields)
        line, block = 2, after or next(blocks, b"")
    else:
        d = sum(1 for _ in itertools.takewhile(_NUMBER.fullmatch, reversed(fields[1:])))
        line = 1
    if d < 1:
        raise ValueError(
            f"{stream.path}, line 1: expected a header such as '200000 300', or a word and its vector, "
            f"got {first[:60].decode('utf-8', 'replace')!r}"
        )
    expected = 0
    if stream.size is not None and block:
        # The header is not trusted: allocate the number of lines that a file of this size should have.
        expected = int(1.02 * block.count(b"\n") * stream.size / len(block)) + 1
        expected = min(expected, stream.size // (2 * d) + 1)
    rows = Rows(stream.path, d, dtype, limit=limit, skip=skip, unit="line", expected=expected)
    while block and not rows.full:
        line += _add(block, line, rows, d, dtype)
        block = next(blocks, b"")
    if promised is not None and not rows.full:
        found = len(rows.words) + sum(rows.skipped.values())
        if found < promised:
            what = f"the file ends after {found} of the {promised} vectors declared in its first line"
            rows.refuse("missing", line - 1, what, promised - found)
        elif found > promised:
            what = f"the file has {found} vectors, but its first line declares {promised}"
            rows.refuse("missing", line - 1, what, 0)
    return rows.done()


def gives_back(word: bytes) -> bool:
    """Return whether :func:`read_text` reads the word back unchanged."""
    if b"\n" in word or len(word) > BLOCK // 2:
        return False
    return _cut(word + b" 0", 1) == (word, "0") and not _surplus(word)


def _blocks(stream: Stream) -> Iterator[bytes]:
    """Yield the stream in blocks of whole lines, each with its newline."""
    rest = b""
    while data := stream.read(BLOCK):
        data = rest + data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) >= BLOCK:
            raise ValueError(
                f"{stream.path} has a line of more than {BLOCK} bytes, so it is not a text file of vectors; "
                "the name of a binary file must end in .bin"
            )
        rest = data[cut:]
        if cut:
            yield data[:cut]
    if rest:
        yield rest + b"\n"


def _add(block: bytes, first: int, rows: Rows, d: int, dtype: Any) -> int:
    """Read the lines of a block, which starts with line ``first``, into ``rows``; return their number."""
    lines = block.removesuffix(b"\n").split(b"\n")
    cut = [_cut(line, d) for line in lines]
    texts = [numbers for _, numbers in cut if numbers]
    values = _parse(texts, d, dtype)
    sound = values is not None
    if values is None:
        # Zeros replace the numbers of bad lines, which are refused below.
        texts = [text if _is_sound(text, dtype) else " ".join(["0"] * d) for text in texts]
        values = _parse(texts, d, dtype)
        assert values is not None
    kept, row = [], -1
    for place, (word, numbers) in enumerate(cut, start=first):
        row += bool(numbers)
        if not numbers:
            if word:  # empty lines are ignored: many files end with one
                rows.refuse("dimension", place, f"expected {d} numbers, got {len(word.split()) - 1}")
        elif not (sound or _is_sound(numbers, dtype)):
            # Searched only when this ends the reading: it takes as long as ten good lines.
            rows.refuse("broken", place, "" if rows.skip else _complaint(numbers, dtype))
        elif surplus := _surplus(word):
            rows.refuse("dimension", place, f"expected {d} numbers, got {surplus + d}")
        elif rows.accept(word, place):
            kept.append(row)
            if rows.full:
                break
    rows.extend(values if len(kept) == len(values) else values[kept])
    return len(lines)


def _cut(line: bytes, d: int) -> tuple[bytes, str]:
    """Return the word and the text of its d numbers, separated by single spaces.

    If there are fewer numbers, the text is empty and the word is the whole line.
    """
    line = line.strip(_BLANKS)
    if line.count(b" ") == d and b"\t" not in line:
        word, _, numbers = line.partition(b" ")
        if b"  " not in numbers:
            return word, numbers.decode("latin-1")
    fields = line.rsplit(None, d)
    if len(fields) <= d:
        return line, ""
    return fields[0].rstrip(_BLANKS), b" ".join(fields[1:]).decode("latin-1")


def _surplus(word: bytes) -> int:
    """Return the number of surplus numbers at the end of a word; 0 for words, with or without spaces."""
    if b" " not in word and b"\t" not in word:
        return 0
    _, *others = (field for field in word.replace(b"\t", b" ").split(b" ") if field)
    numbers = list(itertools.takewhile(_ANY_NUMBER.fullmatch, reversed(others)))
    if len(numbers) < len(others) and all(number.isdigit() for number in numbers):
        return 0
    return len(numbers)


def _parse(texts: list[str], d: int, dtype: Any) -> np.ndarray | None:
    """Return the numbers, a row for each text, or None if one is not a finite number."""
    if not texts:
        return np.empty((0, d), dtype=dtype)
    try:
        values = np.loadtxt(texts, dtype=dtype, delimiter=" ", comments=None, ndmin=2)
    except ValueError:
        return None
    return values if values.shape == (len(texts), d) and np.isfinite(values).all() else None


def _is_sound(numbers: str, dtype: Any) -> bool:
    return _parse([numbers], numbers.count(" ") + 1, dtype) is not None


def _complaint(numbers: str, dtype: Any) -> str:
    """Return a message that names the bad number."""
    bad = next((field for field in numbers.split(" ") if not _is_sound(field, dtype)), None)
    if bad is None:  # each alone is a number; a stray "\r", for example, ends a line for loadtxt
        return f"expected numbers separated by spaces, got {numbers[:80]!r}"
    shown = bad[:40].encode("latin-1").decode("utf-8", "replace")
    if _NUMBER.fullmatch(bad.encode("latin-1")):
        return f"{shown} is too large for {np.dtype(dtype)}"
    return f"{shown!r} is not a finite number"
