"""Stores for the tests of pages: a few rows of every study, with names that try to break out of the page."""

from __future__ import annotations

import numpy as np

from dcfw_studies.store import Store
from dcfw_studies.study import Task

HOSTILE = "</script><img src=x onerror=\"window.hacked='yes'\"><b title='&amp;'>"
"""A name that would run code, or at least add elements, if it were ever taken for markup."""

INSTANCES = {f"nug{n}": n for n in range(12, 18)}
METHODS = ("fw", "dcfw-1", "dcfw-2", "dcfw-3", "cgs", "blended-1", HOSTILE)


def fill(store: Store, seeds: int = 3) -> None:
    """Put rows of all studies into a store."""
    rng = np.random.default_rng(0)
    fill_qap(store, rng, seeds)
    fill_alignment(store, rng)
    fill_inner(store, rng)
    for seed in range(12):
        task = Task(
            f"data {HOSTILE}", f"method {HOSTILE}", seed, {"setting": HOSTILE}, study=f"own {HOSTILE}"
        )
        store.finish(task, {"loss": 1.0 / (seed + 1), "words": HOSTILE, "list": [1, 2, HOSTILE]}, seconds=0.5)
    store.fail(
        Task("nug30", "cgs", 0, {"protocol": "published"}, study="qap"), f"MemoryError: {HOSTILE}", HOSTILE
    )


def fill_qap(store, rng, seeds, instances=INSTANCES):
    """Rows of the QAPLIB study: the values grow with the method's position, with ties."""
    for name, n in {**instances, f"nug18{HOSTILE}": 24}.items():
        for place, method in enumerate(METHODS):
            for seed in range(seeds):
                excess = int(rng.integers(0, 4)) * (place + 1)
                result = {
                    **{"n": n, "value": 1000 + excess, "best": 1000, "gap": 1e-3, "nit": 3, "n_inner": 5},
                    **{
                        "error_published": excess / 1e4,
                        "error_relative": excess / 1e3,
                        "status": "CONVERGED",
                    },
                    **{"n_lmo": 10 * (place + 1) * n, "seconds": 0.01 * n},
                }
                store.finish(
                    Task(name, method, seed, {"protocol": "published"}, study="qap"), result, seconds=1.0
                )


def curve(rng, points=40):
    steps = np.geomspace(1, 1e4, points)
    gap = (1.0 / steps) * np.exp(0.1 * rng.standard_normal(points))
    return {
        "n_lmo": steps.tolist(), "n_grad_g": np.sqrt(steps).tolist(), "time": (0.01 * steps).tolist(),
        "gap": gap.tolist(), "least": np.minimum.accumulate(gap).tolist(), "dc_high": gap.tolist(),
        "fun": gap.tolist(),
    }  # fmt: skip


def fill_alignment(store, rng):
    def row(rate, part, **more):
        scores = {f"{name} {m}": 0.9 for name in ("map", "vertex", "full")
                  for m in ("cosine", "held cosine", "p@1", "p@5")}  # fmt: skip
        return {
            **{"status": "MAX_LMO", "value": 0.5, "gap": 1e-4 / rate, "dc_gap_low": 0.0, "dc_gap_high": 1e-5},
            **{"nit": 9, "n_lmo": 10_000, "n_grad_g": 42, "n_grad_f": 10, "n_fun": 0, "words": 500},
            **{"curve": curve(rng), "seconds": 2.0, **scores},
        }

    for dataset in ("planted", "real"):
        for method in ("dcfw", "fw-k", "fw-m"):
            settings = {"rate": 0.1, "steps": 10_000, "part": "long"}
            store.finish(Task(dataset, method, 0, settings, study="alignment"), row(0.1, "long"), seconds=2.0)
            for rate in (0.05, 0.1, 0.5):
                for seed in (0, 1):
                    settings = {"rate": rate, "steps": 1000, "part": "rates"}
                    task = Task(dataset, method, seed, settings, study="alignment")
                    store.finish(task, row(rate * (1 + seed), "rates"), seconds=2.0)
    settings = {"rate": 0.1, "steps": 10, "part": "choices", "lam": 0.0, "scaling": "raw"}
    store.finish(Task("real", "dcfw-exact", 0, settings, study="alignment"), row(0.1, "choices"), seconds=2.0)


def fill_inner(store, rng):
    for place, inner in enumerate(("fw", "away", "pairwise", "blended")):
        for split in ("spectral", "sliding", "proximal"):
            for seed in range(3):
                result = {
                    **{
                        "value": -1.0,
                        "status": "MAX_LMO" if place == 0 and seed else "CONVERGED",
                        "gap": 1e-6,
                    },
                    **{"first_gap": 1.0, "dc_gap_high": 1e-6, "nit": 5, "n_inner": 9, "n_grad_g": 6},
                    **{"n_lmo": int(rng.integers(10, 90)), "n_grad_f": 10 + place, "seconds": 0.1 + place},
                }
                task = Task("box", f"{inner}/{split}", seed, {"rtol": 1e-5, "max_lmo": 9}, study="inner")
                store.finish(task, result, seconds=0.1)
