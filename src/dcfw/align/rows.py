"""The words and vectors of a file: the policy for lines that cannot be used, and a matrix that grows in
place.

A file's number of words is known only at its end.  Growing by an eighth, or 4 MB, moves no data on most
systems.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

REASONS = {
    "broken": "an entry that is not a finite number, or no word",
    "dimension": "more or fewer numbers than the others have",
    "duplicate": "a word that came before (the first one is kept)",
    "encoding": "a word that is not UTF-8",
    "missing": "promised by the first line of the file, but absent",
}
SKIPPING = "on_error='skip'"  # the option as errors name it; the command line replaces it
WIDEST = 1 << 16  # the most numbers of a vector outside .npy files, which bounds the memory
_GROWTH = 4 << 20  # bytes


class Vectors(NamedTuple):
    """Words and their vectors.

    ``words`` is a list; row i of ``matrix`` is the vector of ``words[i]``; ``skipped`` counts omitted words
    by reason (empty if there were none).

    Examples
    --------
    >>> vectors = Vectors(["one", "two"], np.eye(2), {})
    >>> vectors.matrix[vectors.words.index("two")]
    array([0., 1.])
    """

    words: list[str]
    matrix: np.ndarray
    skipped: dict[str, int]


class Rows:
    """Collect the words and vectors of one file; ``unit`` ("line", "word" or "row") counts places in
    messages.
    """

    def __init__(
        self, path: Path, d: int, dtype: Any, *, limit: int | None, skip: bool, unit: str, expected: int = 0
    ) -> None:
        if d > WIDEST and unit != "row":
            raise ValueError(
                f"{path}: a dimension of {d}, and vectors of at most {WIDEST} numbers are read from this "
                "form; mend the file, or keep such vectors in a .npy file"
            )
        self.path, self.unit = path, unit
        self.words: list[str] = []
        self.skipped: dict[str, int] = {}
        self.skip, self._limit = skip, limit
        self._known: set[str] = set()
        self._filled = 0
        rows = expected or max(1, _GROWTH // (d * np.dtype(dtype).itemsize))
        self._matrix = np.empty((rows if limit is None else min(rows, limit), d), dtype=dtype)

    @property
    def full(self) -> bool:
        return self._limit is not None and len(self.words) >= self._limit

    def refuse(self, reason: str, place: int, what: str, count: int = 1) -> None:
        """Raise the error for something unusable or, if skipping, add ``count`` to the reason."""
        if not self.skip:
            raise ValueError(
                f"{self.path}, {self.unit} {place}: {what}; mend the file, or leave such out with {SKIPPING}"
            )
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count

    def accept(self, raw: bytes | str, place: int) -> bool:
        """Take a word and return whether its vector is wanted."""
        try:
            word = raw if isinstance(raw, str) else raw.decode("utf-8")
        except UnicodeDecodeError as error:
            self.refuse("encoding", place, f"the word {raw!r} is not UTF-8 ({error.reason})")
            return False
        if not word:
            self.refuse("broken", place, "there is no word")
            return False
        if word in self._known:
            # Searched only when this ends the reading: a search for every word takes quadratic time.
            where = "" if self.skip else f", as word {self.words.index(word) + 1}"
            self.refuse("duplicate", place, f"the word {word!r} was there before{where}")
            return False
        self._known.add(word)
        self.words.append(word)
        return True

    def extend(self, values: np.ndarray) -> None:
        """Store the vectors of the words accepted since the last call."""
        end = self._filled + len(values)
        if end > len(self._matrix):
            rows, size = len(self._matrix), self._matrix[:1].nbytes
            self._resize(rows + max(_GROWTH // size, rows // 8, end - rows))
        self._matrix[self._filled : end] = values
        self._filled = end

    def done(self) -> Vectors:
        if not self.words:
            raise ValueError(f"{self.path} has no vectors")
        self._known.clear()
        self._resize(self._filled)
        return Vectors(self.words, self._matrix, self.skipped)

    def _resize(self, rows: int) -> None:
        if rows != len(self._matrix):
            self._matrix.resize((rows, self._matrix.shape[1]), refcheck=False)  # there is no other reference
