"""The alignment study of the paper: DC-FW, FW-K and FW-M on partially observed embeddings.

The data sets, all with d = 300, of whose target entries a random part is observed:

``planted``   E2 = Q E1 + 0.5 N: 10,000 Gaussian words, a random orthogonal Q, Gaussian noise
``short``     the same with all vectors divided by sqrt(d), so that lambda weighs 300 times as much
``shrunken``  E2 = 0.3 Q E1 + 0.5 N with as many words as there are real pairs
``real``      English (word2vec) and French (fastText) vectors of the pairs of a dictionary: of 4340 English
              words with one translation each a fifth is held out for the translation test

The methods run as in the authors' code (``protocol="published"``), except ``dcfw-exact`` (exact steps) and
``dcfw-active`` (an active set, the default of ``align``).  All compute in float64 with the same polar factor
and gradient, so that their times can be compared.

Of the parts, ``long`` has 10^4 steps at 10 % observed and ``rates`` 10^3 steps over five rates and three
seeds; ``choices`` varies lambda, the scaling, the number of steps and the length of the target vectors.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcfw.cli.page.curves import curve
from dcfw_studies import checks
from dcfw_studies.store import Store
from dcfw_studies.study import Study, Task, rng_for
from dcfw_studies.table_file import naming, numbers, read_table, take_rows

METHODS: dict[str, dict[str, Any]] = {
    "dcfw": {"published": "dcfw"},
    "fw-k": {"published": "fw-k"},
    "fw-m": {"published": "fw-m"},
    "dcfw-exact": {"method": "dcfw", "inner": "fw"},
    "dcfw-active": {"method": "dcfw"},
}
"""Name in the tables -> the authors' method, or the options of :func:`dcfw.align.align`."""

RATES = (0.02, 0.05, 0.1, 0.2, 0.5)
LONG, SHORT = 10_000, 1000
NOISE = 0.5
PLANTED = {"planted": (10_000, 1.0, 1.0), "short": (10_000, 1.0, 300**-0.5), "shrunken": (3472, 0.3, 1.0)}
"""Name -> words, the factor of Q, and that of all vectors."""
DATASETS = ("planted", "short", "real")
ALL = (*DATASETS, "shrunken")
HELD_OUT = 0.2

LAMBDAS, SCALINGS, STEPS = (0.0, 1e-4, 1e-3, 1e-2), ("raw", "unit", "centred"), (10, 100, 1000)
TARGETS = (2.0, 4.0, 8.0, 16.0)  # the values in the part `choices`; targets are factors of the target vectors


class Data(NamedTuple):
    """Source and target vectors (columns are words), and what a map is tested on."""

    E1: np.ndarray
    E2: np.ndarray
    test: dict[str, Any] | None


def load(dataset: str, seed: int, scaling: str = "unit") -> Data:
    """Return the data of a run; the seed decides the planted map, or which pairs are held out."""
    rng = rng_for("alignment data", dataset, seed)
    if dataset in PLANTED:
        n, shrink, length = PLANTED[dataset]
        E1 = rng.standard_normal((300, n))
        Q = np.linalg.qr(rng.standard_normal((300, 300)))[0]
        E2 = shrink * (Q @ E1) + NOISE * rng.standard_normal((300, n))
        return Data(length * E1, length * E2, None)
    from dcfw.align.retrieval import unit_rows
    from dcfw.data import find
    from dcfw.npy import mapped

    paths = [find(f"embeddings/{language}.npy") for language in ("en", "fr")]
    source, target = (np.array(mapped(path), dtype=np.float64) for path in paths)
    if scaling != "raw":
        source, target = unit_rows(source), unit_rows(target)
    if scaling == "centred":
        source, target = source - source.mean(axis=0), target - target.mean(axis=0)
    with open(find("embeddings/pairs.tsv"), encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    every = np.array([(int(line["en_row"]), int(line["fr_row"])) for line in lines])
    first = every[[line["first_for_en"] == "1" for line in lines]]
    held = rng.permutation(len(first)) < round(HELD_OUT * len(first))
    correct = every[np.isin(every[:, 0], first[held, 0])]
    fitted = first[~held]
    test = {"source": source, "target": target, "held": first[held], "correct": correct}
    return Data(source[fitted[:, 0]].T.copy(), target[fitted[:, 1]].T.copy(), test)


def observed(dataset: str, seed: int, rate: float, shape: tuple[int, ...]) -> np.ndarray:
    return rng_for("alignment mask", dataset, seed, rate).random(shape) < rate


def quality(R: np.ndarray, data: Data) -> dict[str, float]:
    """Return cosine and residual of the fitted pairs, and how well held-out words are translated.

    The residual is ||R E1 - E2|| / ||E2||; the authors' script computes it without the division.
    """
    from dcfw.align import mean_cosine, precision_at

    residual = float(np.linalg.norm(R @ data.E1 - data.E2) / np.linalg.norm(data.E2))
    scores = {"cosine": mean_cosine((R @ data.E1).T, data.E2.T), "residual": residual}
    if data.test is not None:
        mapped, target = data.test["source"] @ R.T, data.test["target"]
        held, correct = data.test["held"], data.test["correct"]
        found = precision_at(mapped, target, (correct[:, 0], correct[:, 1]), k=(1, 5))
        scores |= {"p@1": found[1], "p@5": found[5]}
        scores["held cosine"] = mean_cosine(mapped[held[:, 0]], target[held[:, 1]])
    return scores


def run(method: str, E1: np.ndarray, E2: np.ndarray, known: np.ndarray, *, lam: float, steps: int) -> Any:
    from dcfw.align import MaskedLeastSquares, align
    from dcfw_studies.protocols import align_published

    options = METHODS[method]
    budget: dict[str, Any] = {"maxiter": steps + 1, "max_inner": steps, "max_lmo": steps}
    if "published" in options:
        f = MaskedLeastSquares(E1, E2, known, passes=steps)
        return align_published(f, lam=lam, method=options["published"], **budget)
    return align(E1, E2, known, lam=lam, tol=0.0, **options, **budget)


def row(
    dataset: str,
    method: str,
    seed: int,
    rate: float,
    steps: int,
    part: str,
    lam: float = 1e-4,
    scaling: str = "unit",
    target: float = 1.0,
    nudge: float = 0.0,
) -> dict[str, Any]:
    """Run one method once; ``target`` multiplies the target vectors in the fit.

    ``nudge`` moves the source vectors by that fraction of themselves, in random directions, as rounding does.
    """
    from dcfw.align import nearest_rotation

    data = load(dataset, seed, scaling)
    d = len(data.E1)
    if nudge:
        by = nudge * np.random.default_rng(0).standard_normal(data.E1.shape)
        data = data._replace(E1=(1 + by) * data.E1)
    known = observed(dataset, seed, rate, data.E2.shape)
    wanted = data.E2 if target == 1.0 else target * data.E2
    result = run(method, data.E1, wanted, known, lam=lam, steps=steps)
    maps = {
        "map": result.rotation,
        "vertex": nearest_rotation(np.where(known, data.E2, 0.0) @ data.E1.T),
        "full": nearest_rotation(data.E2 @ data.E1.T),
        "random": nearest_rotation(rng_for("alignment rotation", dataset, seed).standard_normal((d, d))),
    }
    scores = {f"{name} {key}": value for name, R in maps.items() for key, value in quality(R, data).items()}
    if part == "choices":
        # The best linear map: is it anything like a rotation?
        sigma = np.linalg.svd(np.linalg.lstsq(data.E1.T, data.E2.T, rcond=None)[0], compute_uv=False)
        scores |= {"sigma least": float(sigma[-1]), "sigma largest": float(sigma[0])}
        scores["sigma median"] = float(np.median(sigma))
    return {
        "status": result.status.name,
        "value": float(result.fun),
        "gap": float(np.min(result.history["gap"])),
        "dc_gap_low": float(result.dc_gap[0]),
        "dc_gap_high": float(result.dc_gap[1]),
        **{name: result[name] for name in ("nit", "n_lmo", "n_grad_g", "n_grad_f", "n_fun")},
        "observed": float(known.mean()),
        "words": data.E1.shape[1],
        "seconds": result.time,
        "curve": curve(result.history),
        **scores,
    }


def study(
    parts: Sequence[str] = ("long", "rates", "choices"), seeds: int = 3, datasets: Sequence[str] = ALL
) -> Study:
    """Return the study's parts as one study, of these data sets."""
    for part in parts:
        checks.choice(part, "parts", ("long", "rates", "choices"))
    for dataset in datasets:
        checks.choice(dataset, "datasets", ALL)
    tasks = []
    for dataset in DATASETS:
        if "long" in parts:
            settings = {"rate": 0.1, "steps": LONG, "part": "long"}
            tasks += [Task(dataset, method, 0, settings) for method in METHODS]
        if "rates" in parts and dataset != "short":
            tasks += [
                Task(dataset, method, seed, {"rate": rate, "steps": SHORT, "part": "rates"})
                for rate in RATES
                for method in ("dcfw", "fw-k", "fw-m")
                for seed in range(seeds)
            ]
    if "choices" in parts:
        grid: list[dict[str, Any]] = [
            dict(zip(("lam", "scaling", "steps"), each, strict=True))
            for each in itertools.product(LAMBDAS, SCALINGS, STEPS)
        ]
        grid += [{"target": factor, "steps": n} for factor, n in itertools.product(TARGETS, STEPS[1:])]
        tried = [("real", each) for each in grid]
        tried += [("shrunken", {"target": factor, "steps": 100}) for factor in (1.0, *TARGETS)]
        for dataset, each in tried:
            tasks.append(Task(dataset, "dcfw-exact", 0, {"rate": 0.1, "part": "choices", **each}))
    return Study("alignment", row, tasks=[task for task in tasks if task.dataset in datasets], cost=_cost)


def _cost(task: Task) -> float:
    # FW-M computes values as well, FW-K a subgradient in each step.
    return float(task.settings["steps"]) * {"fw-k": 1.5, "fw-m": 3.0}.get(task.method, 1.0)


SETTINGS = {"part": str, "rate": float, "steps": int, "lam": float, "scaling": str, "target": float}
COUNTS = ("n_lmo", "n_grad_g", "n_grad_f", "n_fun", "nit", "words")
TEXTS = ("study", "dataset", "method", "seed", "status")


def import_rows(store: Store, folder: str) -> int:
    """Put the rows of a report (``rows.csv``, ``curves.csv``) into a store; return how many were new."""
    file = Path(folder) / "curves.csv"
    curves = _read_curves(file) if file.exists() else {}  # a report without long runs has none

    def read(line: dict[str, str]) -> tuple[Task, dict[str, Any]]:
        settings = {name: kind(line[name]) for name, kind in SETTINGS.items() if line.get(name)}
        task = Task(line["dataset"], line["method"], int(line["seed"]), settings, "alignment", 1)
        given = {name: text for name, text in line.items() if text}
        result = {**numbers(given, (*SETTINGS, *TEXTS), COUNTS), "status": line.get("status", "")}
        if settings["part"] == "long":
            if (task.dataset, task.method) not in curves:
                raise ValueError("curves.csv has no point of this run")
            result["curve"] = curves[task.dataset, task.method]
        return task, result

    return take_rows(store, Path(folder) / "rows.csv", ("dataset", "method", "seed", "part", "seconds"), read)


def _read_curves(file: Path) -> dict[tuple[str, str], dict[str, list[float]]]:
    curves: dict[tuple[str, str], dict[str, list[float]]] = {}
    for number, line in enumerate(read_table(file, ("dataset", "method", "n_lmo", "least")), 2):
        with naming(file, number):
            curve = curves.setdefault((line.pop("dataset"), line.pop("method")), {name: [] for name in line})
            for name, text in line.items():
                curve[name].append(float(text))
    return curves
