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
    "broken": "a number is not finite, or the word is missing",
    "dimension": "wrong dimension",
    "duplicate": "repeated word",
    "encoding": "the word is not UTF-8",
    "missing": "declared in the first line, but absent",
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
        if unit != "row" and not 1 <= d <= WIDEST:
            raise ValueError(
                f"{path}: the dimension is {d}, but must be between 1 and {WIDEST} in this format; correct "
                "the file, or store wider vectors in a .npy file"
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
                f"{self.path}, {self.unit} {place}: {what}; correct the file, or skip "
                f"unusable vectors with {SKIPPING}"
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
            self.refuse("broken", place, "the word is missing")
            return False
        if word in self._known:
            # Searched only when this ends the reading: a search for every word takes quadratic time.
            what = "" if self.skip else f"the word {word!r} repeats word {self.words.index(word) + 1}"
            self.refuse("duplicate", place, what)
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
            counts = ", ".join(f"{count:,} ({REASONS[why]})" for why, count in self.skipped.items())
            found = f"{self.path} has no usable vectors of dimension {self._matrix.shape[1]}"
            hint = "; is the dimension in its first line correct?" if "dimension" in self.skipped else ""
            raise ValueError(f"{found}; skipped: {counts or 'none'}{hint}")
        self._known.clear()
        self._resize(self._filled)
        return Vectors(self.words, self._matrix, self.skipped)

    def _resize(self, rows: int) -> None:
        if rows != len(self._matrix):
            self._matrix.resize((rows, self._matrix.shape[1]), refcheck=False)  # there is no other reference
