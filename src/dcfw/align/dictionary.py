"""Bilingual dictionaries, and the pairs of vectors they make.

A dictionary is a text file with a pair of words on each line, the source word first, separated by a space or
a tab (as in MUSE).  Tables with more columns start with a line that names them.  A word may have several
translations, on lines of their own, the preferred one first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate


class Pairs(NamedTuple):
    """Rows of two matrices that belong together: ``source[i]`` with ``target[i]``.

    ``missing`` counts the omitted entries of the dictionary: ``"source"`` if the source word has no vector,
    ``"target"`` if only the target word has none.

    Examples
    --------
    >>> from dcfw.align import pairs
    >>> pairs(["cat", "dog"], ["chat"], [("cat", "chat"), ("dog", "chien")])
    Pairs(source=array([0]), target=array([0]), missing={'source': 0, 'target': 1})
    """

    source: np.ndarray
    target: np.ndarray
    missing: dict[str, int]


def read_dictionary(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None
) -> list[tuple[str, str]]:
    """Read pairs of words (source, target) from a text file.

    Parameters
    ----------
    path
        UTF-8 text with two words on each line, separated by a tab or by spaces; with tabs, words may contain
        spaces.  A table with more columns starts with a line of their names; one of two columns may start
        with ``source`` and ``target``.
    columns
        For a table, the names of the columns with the source and the target words.  By default ``source`` and
        ``target`` if they exist, otherwise the first two columns that do not hold numbers.

    Returns
    -------
    list of (str, str)
        In the order of the file, without repetitions.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dcfw.align import read_dictionary
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "en-fr.txt")
    ...     _ = file.write_text("cat chat\\nNew York\\tNew York\\ncat chatte\\n")
    ...     read_dictionary(file)
    [('cat', 'chat'), ('New York', 'New York'), ('cat', 'chatte')]
    """
    path = _validate.path(path)
    if columns is not None:
        columns = [_validate.text(column, "columns") for column in _validate.listed(columns, "columns")]
    lines = _lines(path)
    if not lines:
        raise ValueError(f"{path} is empty; expected two words on each line")
    names = lines[0][1].split("\t")
    if len(names) > 2 or columns is not None or _named(names):
        found = _table(path, lines, columns)
    else:
        found = []
        for number, line in lines:
            fields = line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]
            if len(fields) != 2 or not all(field.strip() for field in fields):
                hint = "; use tabs instead of commas" if "," in line else ""
                what = f"expected two words, separated by a tab or a space, got {line!r}"
                raise ValueError(f"{path}, line {number}: {what}{hint}")
            found.append((fields[0].strip(), fields[1].strip()))
    return list(dict.fromkeys(found))


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the numbered lines that are not empty."""
    lines = []
    # str.splitlines would also split at characters that occur in words.
    for number, raw in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8").strip(" \r")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {number}: the line is not UTF-8 ({error.reason})") from None
        if line:
            lines.append((number, line))
    return lines


def _table(path: Path, lines: list[tuple[int, str]], columns: Sequence[str] | None) -> list[tuple[str, str]]:
    names = lines[0][1].split("\t")
    cells = []
    for number, line in lines[1:]:
        fields = line.split("\t")
        if len(fields) != len(names):
            raise ValueError(f"{path}, line {number}: expected {len(names)} columns, got {len(fields)}")
        cells.append(fields)
    if columns is None:
        # Tables of pairs often have row numbers or ranks before the words.
        words = [name for j, name in enumerate(names) if not all(fields[j].isdigit() for fields in cells)]
        columns = _named(names) or words[:2]
    if len(columns) != 2:
        raise ValueError(f"columns must name two columns of {path}, which has {', '.join(names)}")
    source, target = (names.index(_validate.choice(name, "columns", names)) for name in columns)
    return [(fields[source], fields[target]) for fields in cells]


def _named(names: list[str]) -> list[str] | None:
    """Return the columns called source and target (in any case), None unless both exist."""
    plain = [name.strip().lower() for name in names]
    if not {"source", "target"} <= set(plain):
        return None
    return [names[plain.index(name)] for name in ("source", "target")]


def pairs(
    source: Any, target: Any, dictionary: Iterable[tuple[str, str]], one_per_source: bool = True
) -> Pairs:
    """Return the rows of the words that a dictionary pairs.

    Parameters
    ----------
    source, target
        The vectors of both languages, as :func:`read_vectors` returns them, or their lists of words.
    dictionary
        Pairs of words (source, target), the preferred translation of a word first.
    one_per_source
        Take only the first translation that has a vector, to fit a map; otherwise take all, to test
        retrieval.

    Examples
    --------
    >>> from dcfw.align import pairs
    >>> dictionary = [("cat", "matou"), ("cat", "chat"), ("cat", "chatte"), ("dog", "chien")]
    >>> found = pairs(["dog", "cat"], ["chat", "chatte", "chien"], dictionary)
    >>> found.source, found.target, found.missing
    (array([1, 0]), array([0, 2]), {'source': 0, 'target': 1})
    """
    one_per_source = _validate.flag(one_per_source, "one_per_source")
    sources = _validate.listed(getattr(source, "words", source), "source")
    targets = _validate.listed(getattr(target, "words", target), "target")
    row_of_source = {word: row for row, word in enumerate(sources)}
    row_of_target = {word: row for row, word in enumerate(targets)}
    dictionary = _validate.listed(dictionary, "dictionary")
    if not all(isinstance(entry, tuple | list) and len(entry) == 2 for entry in dictionary):
        raise ValueError("dictionary must contain pairs of words (source, target)")
    missing = {"source": 0, "target": 0}
    found: list[tuple[int, int]] = []
    taken: set[int] = set()
    for word, translation in dictionary:
        i, j = row_of_source.get(word), row_of_target.get(translation)
        if i is None:
            missing["source"] += 1
        elif j is None:
            missing["target"] += 1
        elif not (one_per_source and i in taken):
            found.append((i, j))
            taken.add(i)
    rows = np.array(found, dtype=np.intp).reshape(-1, 2)
    return Pairs(rows[:, 0].copy(), rows[:, 1].copy(), missing)
