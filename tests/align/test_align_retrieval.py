"""Precision of translation is that of looking at every pair of words, and ties are settled by the order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcfw.align import mean_cosine, precision_at, retrieval


def cosines(source, target):
    """All cosines, one by one."""
    table = np.zeros((len(source), len(target)))
    for i, x in enumerate(source):
        for j, y in enumerate(target):
            length = np.sqrt(x @ x) * np.sqrt(y @ y)
            table[i, j] = x @ y / length if length else 0.0
    return table


def brute_force(source, target, rows, columns, k, neighbours=None):
    """Sort all target words for each source word."""
    scores = cosines(source, target)
    if neighbours:
        near_source = np.sort(scores, axis=1)[:, ::-1][:, :neighbours].mean(axis=1)
        near_target = np.sort(scores, axis=0)[::-1][:neighbours].mean(axis=0)
        scores = 2.0 * scores - near_source[:, None] - near_target
    hits = []
    for i in sorted(set(rows)):
        nearest = np.argsort(-scores[i], kind="stable")[:k]
        hits.append(any(j in nearest for r, j in zip(rows, columns, strict=True) if r == i))
    return float(np.mean(hits))


@st.composite
def questions(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, m, d = draw(st.integers(1, 25)), draw(st.integers(1, 25)), draw(st.integers(2, 6))
    source, target = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    count = draw(st.integers(1, 30))
    return source, target, rng.integers(0, n, count), rng.integers(0, m, count)


@given(question=questions(), block=st.sampled_from([1, 40, 1 << 22]))
def test_the_precision_is_that_of_a_full_sort(question, block):
    source, target, rows, columns = question
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "_BLOCK_ENTRIES", block)
        for method, neighbours in (("nn", None), ("csls", 3)):
            found = precision_at(source, target, (rows, columns), (1, 2, 5), method, neighbours=3)
            expected = {k: brute_force(source, target, rows, columns, k, neighbours) for k in (1, 2, 5)}
            assert found == pytest.approx(expected, abs=1e-12)


def test_any_of_many_translations_counts_once():
    target = np.eye(4)
    source = np.array([[1.0, 0.9, 0.0, 0.0]])
    assert precision_at(source, target, ([0, 0], [1, 3]), k=(1, 2)) == {1: 0.0, 2: 1.0}
    assert precision_at(source, target, ([0, 0, 0], [1, 3, 0]), k=1) == {1: 1.0}


def test_the_first_of_equally_near_words_wins_and_zeros_win_nothing():
    target = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    assert precision_at([[1.0, 0.0]], target, ([0], [1]), k=(1, 2)) == {1: 0.0, 2: 1.0}
    assert precision_at([[1.0, 0.0]], target, ([0], [0]), k=1) == {1: 1.0}
    assert precision_at([[0.0, 0.0]], target, ([0], [2]), k=(1, 2, 3)) == {1: 0.0, 2: 0.0, 3: 1.0}


def test_lengths_do_not_matter():
    rng = np.random.default_rng(0)
    source, target = rng.standard_normal((30, 4)), rng.standard_normal((40, 4))
    pairs = (np.arange(30), rng.integers(0, 40, 30))
    scaled = source * rng.uniform(0.1, 9.0, (30, 1)), target * rng.uniform(0.1, 9.0, (40, 1))
    for method in ("nn", "csls"):
        assert precision_at(*scaled, pairs, 5, method) == precision_at(source, target, pairs, 5, method)


def test_local_scaling_takes_a_hub_away():
    # The hub is near to both source words, but each has a word of its own that is nearly as near.
    source = np.array([[1.0, 0.3], [0.3, 1.0]])
    target = np.array([[1.0, 1.0], [1.0, -0.3], [-0.3, 1.0]])
    pairs = ([0, 1], [1, 2])
    assert precision_at(source, target, pairs, 1, "nn") == {1: 0.0}
    assert precision_at(source, target, pairs, 1, "csls", neighbours=2) == {1: 1.0}


def test_the_mean_cosine_looks_at_what_is_known_and_counts_rows_that_have_some():
    rng = np.random.default_rng(1)
    source, target = rng.standard_normal((6, 5)), rng.standard_normal((6, 5))
    target[rng.random((6, 5)) < 0.4] = np.nan
    target[2] = np.nan
    expected = []
    for x, y in zip(source, target, strict=True):
        seen = ~np.isnan(y)
        if seen.any():
            expected.append(x[seen] @ y[seen] / np.linalg.norm(x[seen]) / np.linalg.norm(y[seen]))
    assert len(expected) == 5
    assert mean_cosine(source, target) == pytest.approx(np.mean(expected))
    assert np.isnan(mean_cosine(source, np.full((6, 5), np.nan)))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (([[1.0, 0.0]], [[1.0]], ([0], [0])), ValueError, "as many columns"),
        (([[1.0]], [[1.0]], ([1], [0])), ValueError, "source rows of pairs must be between 0 and 0"),
        (([[1.0]], [[1.0]], ([0], [-1])), ValueError, "target rows of pairs must be between"),
        (([[1.0]], [[1.0]], ([0.5], [0])), TypeError, "must be a list of integers"),
        (([[1.0]], [[1.0]], ([], [])), ValueError, "not empty"),
        (([[1.0]], [[1.0]], ([0], [0]), 0), ValueError, "k must be at least 1"),
        (([[1.0]], [[1.0]], ([0], [0]), 1, "knn"), ValueError, "method must be one of 'nn', 'csls'"),
        (([[np.nan]], [[1.0]], ([0], [0])), ValueError, "source has NaN"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, said):
    with pytest.raises(error, match=said):
        precision_at(*arguments)


def test_the_masked_entries_of_a_masked_target_have_no_part_in_the_cosine():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((40, 6))
    hidden = rng.random(vectors.shape) < 0.8
    masked = np.ma.masked_array(np.where(hidden, 999.0, vectors), mask=hidden)
    assert mean_cosine(vectors, masked) == pytest.approx(1.0)
    other = rng.standard_normal((40, 6))
    assert mean_cosine(other, masked) == mean_cosine(other, masked.filled(np.nan))
    with pytest.raises(ValueError, match="source has masked entries"):
        mean_cosine(masked, vectors)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-160, 1e200, 1e308])
def test_cosines_of_tiny_and_huge_vectors_are_those_of_any_other_length(size):
    assert mean_cosine(
        size * np.array([[0.75, 1.0], [1.0, 0.0]]), [[0.75, 1.0], [1.0, 1.0]]
    ) == pytest.approx(0.5 + 0.5**1.5, rel=1e-12)
    mixed = retrieval.unit_rows(np.array([[size, 0.0], [0.0, 3.0], [0.0, 0.0]]))
    assert mixed.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
