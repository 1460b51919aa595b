"""The quality of a map between two embeddings: cosines of pairs, and translation by nearest neighbours.

*Precision at k* is the fraction of source words for which one of the k nearest target words is a correct
translation.  Cross-domain similarity local scaling (CSLS; Conneau et al., 2018) penalises hubs, words that
are near to many others:

    csls(x, y) = 2 cos(x, y) - r_T(x) - r_S(y),

where r_S(y) is the mean cosine of y with its 10 nearest source vectors.  r_T(x), defined likewise, does not
affect the order of the candidates y.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array

METHODS = ("nn", "csls")
_BLOCK_ENTRIES = 1 << 22  # of one block of similarities: 16 MB in single precision


def unit_rows(matrix: Array) -> Array:
    """Return the matrix with rows of norm 1 (rows of zeros are unchanged).

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    with np.errstate(over="ignore", under="ignore"):
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    floats = np.finfo(norms.dtype)
    # Below this norm squares may have lost digits, or all of them.
    if not np.isfinite(norms).all() or (norms < float(np.sqrt(floats.tiny / floats.eps))).any():
        matrix = moderate_rows(matrix)
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(norms > 0.0, norms, 1.0)


def moderate_rows(matrix: Array) -> Array:
    """Return the matrix with rows scaled by powers of 2, which is exact, so that their squares are safe.

    The largest entry of each row becomes 1 to 2 in size; NaN and rows of zeros are unchanged.
    """
    largest = np.max(np.abs(matrix), axis=1, keepdims=True, initial=0.0, where=~np.isnan(matrix))
    return np.ldexp(matrix, np.where(largest > 0.0, 1 - np.frexp(largest)[1], 0))


def mean_cosine(source: Any, target: Any) -> float:
    """Return the mean cosine of the rows of ``source`` and ``target``, ignoring NaN in target.

    The cosine of two rows is taken over the entries that are observed in the target (neither NaN nor masked);
    rows without any, or where one of the two is zero there, do not count.  NaN if no row counts.

    Examples
    --------
    >>> from dcfw.align import mean_cosine
    >>> mean_cosine([[3.0, 4.0], [1.0, 1.0]], [[6.0, 8.0], [2.0, np.nan]])
    1.0
    """
    source = _validate.array(source, "source", ndim=2)
    target = _validate.observed(target, "target").astype(source.dtype)
    if source.shape != target.shape:
        raise ValueError(f"target must have the shape of source, {source.shape}, got {target.shape}")
    seen = ~np.isnan(target)
    a, b = (unit_rows(np.where(seen, values, 0.0)) for values in (source, target))
    counts = a.any(axis=1) & b.any(axis=1)
    if not counts.any():
        return float("nan")
    return float(np.mean(np.einsum("ij,ij->i", a, b)[counts]))


def precision_at(
    source: Any,
    target: Any,
    pairs: Any,
    k: int | Sequence[int] = (1, 5),
    method: str = "nn",
    *,
    neighbours: int = 10,
) -> dict[int, float]:
    """Return the precision of word translation at each k: the fraction of source words found.

    Parameters
    ----------
    source
        The source vectors, mapped into the target space; rows are words.
    target
        The target vectors, whose rows are the candidates.
    pairs
        ``(source rows, target rows)`` of the correct translations, as :func:`pairs` returns them.  If a
        source word has several, finding one of them counts.
    k
        One or more numbers of nearest words to consider.
    method
        ``"nn"`` for the largest cosine, ``"csls"`` for the largest similarity after local scaling.
    neighbours
        The size of the neighbourhoods of CSLS.

    Returns
    -------
    dict
        k -> precision in [0, 1].  Of two equally near target words, the first in the matrix (in most files
        the more frequent one) ranks higher.

    Examples
    --------
    >>> from dcfw.align import precision_at
    >>> source, target = np.eye(3), np.array([[1.0, 0.1, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> precision_at(source, target, ([0, 1, 2], [1, 1, 2]), k=(1, 2))  # word 0 has a nearer one
    {1: 0.6666666666666666, 2: 1.0}
    """
    source = _validate.array(source, "source", ndim=2)
    target = _validate.array(target, "target", ndim=2)
    if source.shape[1] != target.shape[1]:
        raise ValueError(
            f"source and target must have as many columns, got {source.shape[1]} and {target.shape[1]}; "
            "map the source first"
        )
    method = _validate.choice(method, "method", METHODS)
    ks = [k] if isinstance(k, numbers.Number) else _validate.listed(k, "k")
    wanted = [_validate.integer(n, "k", low=1) for n in ks]
    if not wanted:
        raise ValueError("k must name at least one number of words")
    neighbours = _validate.integer(neighbours, "neighbours", low=1)
    # A matrix with a row for each pair would be taken for its first two rows.
    if isinstance(pairs, np.ndarray):
        two = pairs.ndim == 2 and len(pairs) == 2 and not np.ma.is_masked(pairs)
    else:
        two = isinstance(pairs, tuple | list) and len(pairs) >= 2
    if not two:
        raise TypeError("pairs must be (source rows, target rows), two lists of integers of equal length")
    rows, columns = _indices(pairs[0], "source", len(source)), _indices(pairs[1], "target", len(target))
    if rows.shape != columns.shape or not rows.size:
        sizes = f"{rows.size}, {columns.size}"
        raise ValueError(f"pairs must be two lists of equal length, not empty; got {sizes}")
    source, target = unit_rows(source), unit_rows(target)
    penalty = np.zeros(len(target), dtype=target.dtype)
    if method == "csls":
        penalty = _neighbourhood(target, source, neighbours) / 2.0
    ranks = _ranks(source, target, rows, columns, penalty)
    return {n: float(np.mean(ranks < n)) for n in wanted}


def _indices(values: Any, name: str, size: int) -> np.ndarray:
    indices = np.asarray(values)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        got = f"{indices.dtype} of shape {indices.shape}"
        raise TypeError(f"the {name} rows of pairs must be a list of integers, got {got}")
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        got = f"{indices.min()} to {indices.max()}"
        raise ValueError(f"the {name} rows of pairs must be between 0 and {size - 1}, got {got}")
    return indices


def _neighbourhood(points: Array, others: Array, count: int) -> Array:
    """Return the mean cosine of each point with its ``count`` nearest others."""
    count = min(count, len(others))
    means = np.empty(len(points), dtype=points.dtype)
    step = max(1, _BLOCK_ENTRIES // len(others))
    for start in range(0, len(points), step):
        block = points[start : start + step] @ others.T
        block.partition(len(others) - count, axis=1)
        means[start : start + step] = block[:, len(others) - count :].mean(axis=1)
    return means


def _ranks(source: Array, target: Array, rows: np.ndarray, columns: np.ndarray, penalty: Array) -> np.ndarray:
    """Return, for each source word, the number of target words before its best correct translation."""
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    words, first = np.unique(rows, return_index=True)
    ends = np.append(first[1:], len(rows))
    ranks = np.empty(len(words), dtype=np.intp)
    step = max(1, _BLOCK_ENTRIES // len(target))
    for start in range(0, len(words), step):
        scores = source[words[start : start + step]] @ target.T - penalty
        for i, row in enumerate(scores):
            correct = columns[first[start + i] : ends[start + i]]
            best = correct[np.argmax(row[correct])]  # the first of equal ones
            ranks[start + i] = np.count_nonzero(row > row[best]) + np.count_nonzero(row[:best] == row[best])
    return ranks
