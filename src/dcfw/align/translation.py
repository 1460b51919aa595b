"""A trial of an alignment: fit it to some pairs of a dictionary, and translate the others with it.

Some pairs are held out; of the target vectors of the others a random part of the entries is known, and the
map is fitted to these.  It is compared with no map, with the first vertex (one polar factor of the known
entries), and with orthogonal Procrustes on all entries, an upper bound of what can be expected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.align.dictionary import pairs as pair_up
from dcfw.align.result import AlignResult
from dcfw.align.retrieval import METHODS, mean_cosine, precision_at, unit_rows


@dataclass(frozen=True)
class Trial:
    """The outcome of :func:`trial`.

    ``scores`` has a row for each map: ``"before"`` (None when the dimensions differ), ``"vertex"``,
    ``"masked"`` and ``"full"``; in each ``"cosine"``, the mean cosine of the held-out pairs, and ``"p@1"``,
    ``"p@5"``.  ``source`` and ``target`` are the vectors as compared, ``fitted`` and ``held`` the
    (source, target) rows of the pairs, and ``shift`` is the subtracted mean of the target (0 if not centred).

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw.align import Vectors, trial
    >>> rng = np.random.default_rng(0)
    >>> words, E = [f"w{i}" for i in range(60)], rng.standard_normal((60, 4))
    >>> found = trial(Vectors(words, E, {}), Vectors(words, E, {}), zip(words, words), observed=0.5, rng=0)
    >>> found.share("p@1"), found.rotation.shape
    (1.0, (4, 4))
    """

    result: AlignResult
    scores: dict[str, dict[str, float] | None]
    source: Array
    target: Array
    fitted: tuple[np.ndarray, np.ndarray]
    held: tuple[np.ndarray, np.ndarray]
    missing: dict[str, int]
    observed: float
    shift: Array

    @property
    def rotation(self) -> Array:
        """The map, for columns: ``source @ rotation.T`` is comparable to ``target``."""
        return self.result.rotation

    def share(self, measure: str) -> float:
        """Return a measure of the masked map as a fraction of that with every entry known."""
        masked, full = self.scores["masked"], self.scores["full"]
        assert masked is not None
        assert full is not None
        return masked[measure] / full[measure] if full[measure] else float("nan")


def trial(
    source: Any,
    target: Any,
    dictionary: Any,
    *,
    observed: float = 0.1,
    holdout: float = 0.2,
    lam: float | None = None,
    method: str = "dcfw",
    steps: int = 300,
    tol: float = 1e-4,
    unit: bool = True,
    centre: bool = False,
    retrieval: str = "nn",
    rng: Any = None,
    callback: Callable[..., Any] | None = None,
) -> Trial:
    """Fit a map to a part of a dictionary with few entries known, and test it on the rest.

    Parameters
    ----------
    source, target
        Vectors as :func:`read_vectors` returns them.
    dictionary
        Pairs of words (source, target), the preferred translation first.
    observed
        The fraction of the target entries that is known.
    holdout
        The fraction of the source words held out for the test.  All their translations count as correct.
    lam, method, callback
        As for :func:`align`.
    steps, tol
        Stop after this many Frank-Wolfe steps, or when the gap is at most this fraction of the first one.
    unit, centre
        Scale all vectors to norm 1; then subtract the mean of each language.
    retrieval
        ``"nn"`` or ``"csls"``, as for :func:`precision_at`.
    rng
        Selects the held-out pairs and the known entries.

    Examples
    --------
    >>> from dcfw.align import Vectors, trial
    >>> rng = np.random.default_rng(0)
    >>> words, E = [f"w{i}" for i in range(60)], rng.standard_normal((60, 4))
    >>> Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    >>> found = trial(Vectors(words, E, {}), Vectors(words, E @ Q.T, {}), zip(words, words),
    ...               observed=0.5, rng=0)
    >>> found.scores["full"]["p@1"], found.scores["masked"]["p@1"]
    (1.0, 1.0)
    """
    from dcfw.align.solver import align, nearest_rotation

    observed = _validate.scalar(observed, "observed", low=0.0, high=1.0, open_low=True)
    holdout = _validate.scalar(holdout, "holdout", low=0.0, high=1.0, open_low=True, open_high=True)
    steps = _validate.integer(steps, "steps", low=1)
    tol = _validate.scalar(tol, "tol", low=0.0, high=1.0)
    unit, centre = _validate.flag(unit, "unit"), _validate.flag(centre, "centre")
    retrieval = _validate.choice(retrieval, "retrieval", METHODS)
    rng = _validate.generator(rng)
    dictionary = _validate.listed(dictionary, "dictionary")
    chosen = pair_up(source, target, dictionary)
    n = len(chosen.source)
    if n < 2:
        raise ValueError(
            f"dictionary has {n} pair(s) whose two words have vectors; at least 2 are needed (do the "
            "languages of source, target and dictionary agree, and upper and lower case?)"
        )
    test = rng.permutation(n) < min(max(1, round(holdout * n)), n - 1)
    fitted = (chosen.source[~test], chosen.target[~test])
    everything = pair_up(source, target, dictionary, one_per_source=False)
    asked = np.isin(everything.source, chosen.source[test])
    correct = (everything.source[asked], everything.target[asked])

    S = _validate.array(source.matrix, "source.matrix", ndim=2)
    T = _validate.array(target.matrix, "target.matrix", ndim=2)
    if unit:
        S, T = unit_rows(S), unit_rows(T)
    shift = T.mean(axis=0) if centre else np.zeros(T.shape[1], dtype=T.dtype)
    S, T = (S - S.mean(axis=0), T - shift) if centre else (S, T)

    E1 = np.ascontiguousarray(S[fitted[0]].T, dtype=np.float64)
    E2 = np.ascontiguousarray(T[fitted[1]].T, dtype=np.float64)
    known = rng.random(E2.shape) < observed
    if not known.any():
        raise ValueError(f"observed = {observed:g} leaves no entry of {E2.size}; take a larger one")
    limits: dict[str, Any] = {"tol": 0.0, "rtol": tol, "maxiter": steps, "max_lmo": steps}
    result = align(E1, np.where(known, E2, np.nan), lam=lam, method=method, callback=callback, **limits)
    maps = {
        "before": np.eye(len(E1)) if len(E1) == len(E2) else None,
        "vertex": nearest_rotation(np.where(known, E2, 0.0) @ E1.T),
        "masked": result.rotation,
        "full": nearest_rotation(E2 @ E1.T),
    }
    held = (chosen.source[test], chosen.target[test])
    scores = {}
    for name, R in maps.items():
        scores[name] = None if R is None else _scores(S @ R.T.astype(S.dtype), T, held, correct, retrieval)
    return Trial(result, scores, S, T, fitted, held, everything.missing, float(known.mean()), shift)


def _scores(mapped: Array, target: Array, held: Any, correct: Any, retrieval: str) -> dict[str, float]:
    precision = precision_at(mapped, target, correct, k=(1, 5), method=retrieval)
    cosine = mean_cosine(mapped[held[0]], target[held[1]])
    return {"cosine": cosine, "p@1": precision[1], "p@5": precision[5]}
