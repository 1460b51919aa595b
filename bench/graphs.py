"""Graph matching: seeds, speed, quality at equal time and batches, against SciPy's FAQ and other peers.

The second graph is a copy of the first with its nodes shuffled and some edges moved elsewhere (5 % unless a
row says otherwise), so that a good matching is known: the planted one.  Times are processor time of one
thread.

- seeds: edges without a counterpart with 0 to 40 correct seeds, 300 nodes, beside the planted matching's;
- speed: one ``qap.match`` against one FAQ run, and the share of the planted edges that is kept; with
  ``--full`` also 2000 nodes, 5000 and 20,000 nodes with 1 % seeds; each in a separate process, whose peak
  memory is printed;
- quality: ``qap.match(restarts="auto")`` against SciPy's FAQ, graspologic, POT's Gromov-Wasserstein and (60
  nodes) pygmtools' RRWM and IPFP, each restarted for the same time;
- real: networkx's small graphs and, if graspologic is installed, its connectomes, against the same peers;
- batches: ``qap.match_many`` on 10,000 pairs of 20 nodes against a loop over FAQ.

    python -m bench graphs [--full] [--parts quality speed] [--output rows.jsonl] [--graspologic PYTHON]
    python -m bench graphs --tables rows.jsonl

With ``--output`` each measured row is appended to a file, and a second call resumes from it.
``--graspologic`` names a Python that has graspologic.  ``--tables`` prints the tables of measured rows.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from bench import graph_pairs, graph_tables
from bench.graph_pairs import FAMILIES, LARGE, lost, planted
from bench.graph_peers import faq, solvers
from dcfw import qap

Key = dict[str, Any]
Task = tuple[Key, Callable[[], Key]]
"""The key of a row, and the function that measures its values."""


def run(full: bool = False) -> Iterator[tuple[str, float, float, str]]:
    """Yield (name, ours, peer, unit)."""
    return graph_tables.summary(measured(PARTS, full))


def measured(
    parts: Sequence[str], full: bool, output: Path | None = None, graspologic: str | None = None
) -> list[Key]:
    """Return the rows of the parts; rows in the file are not measured again."""
    done = read(output) if output is not None and output.exists() else []
    rows = []
    for part in parts:
        for key, measure in PARTS[part](full, graspologic):
            key = {"part": part, **key}
            row = next((row for row in done if key.items() <= row.items()), None)
            if row is None:
                row = {**key, **measure()}
                if output is not None:
                    with output.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            rows.append(row)
    return rows


def read(path: Path) -> list[Key]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# -- the parts ---------------------------------------------------------------------------------------------


def seeded(full: bool, graspologic: str | None) -> Iterator[Task]:
    for family in FAMILIES:
        for count in (0, 5, 10, 20, 40) if full else (0, 20):
            for seed in range(5 if full else 2):
                yield {"case": family, "seeds": count, "seed": seed}, partial(_seeded, family, count, seed)


def _seeded(family: str, count: int, seed: int) -> Key:
    A, B, p = planted(FAMILIES[family](300, seed), seed)
    rows = np.random.default_rng(seed).permutation(300)[:count]
    q = qap.match(A, B, seeds=np.stack([rows, p[rows]], axis=1), rng=0).permutation
    return {"lost": lost(A, B, q), "planted": lost(A, B, p)}


def fast(full: bool, graspologic: str | None) -> Iterator[Task]:
    sizes = ((1000, 0.0), (2000, 0.0), (5000, 0.01), (20_000, 0.01)) if full else ((1000, 0.0),)
    for n, share in sizes:
        for name in LARGE if full else list(LARGE)[:1]:
            yield (
                {"case": name, "n": n, "seeds": round(share * n)},
                partial(_apart, name, n, round(share * n)),
            )


def _apart(name: str, n: int, count: int) -> Key:
    """Measure in a new process, to get the peak memory of one call."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        row = pool.submit(_fast, name, n, count).result()
    if n == 1000:
        A, B, _ = planted(LARGE[name](n), 1)
        started = process_time()
        faq(A.toarray(), B.toarray())
        row["faq"] = process_time() - started
    return row


def _fast(name: str, n: int, count: int) -> Key:
    A, B, p = planted(LARGE[name](n), 1)
    rows = np.random.default_rng(5).permutation(n)[:count]
    started = process_time()
    q = qap.match(A, B, seeds=np.stack([rows, p[rows]], axis=1), rng=0).permutation
    return {
        "cpu": process_time() - started,
        "kept": float(qap.evaluate(A, B, q) / qap.evaluate(A, B, p)),
        "nodes": float(np.mean(p == q)),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def good(full: bool, graspologic: str | None) -> Iterator[Task]:
    """Yield all cells with one graph each, then with the next, so that partial results cover all cells."""
    sizes = {60: 0.5, 300: 1.0} if full else {60: 0.5}
    named = {n: solvers(n, graspologic) for n in sizes}
    noises = (0.05, 0.1, 0.2) if full else (0.1,)
    for seed, n, family, noise in product(range(3 if full else 1), sizes, FAMILIES, noises):
        pair = partial(graph_pairs.small_planted, family, n, noise, seed)
        for name, solver in named[n].items():
            key = {"case": family, "n": n, "noise": noise, "seed": seed, "seconds": sizes[n]}
            yield {**key, "solver": name}, partial(_compared, pair, solver, sizes[n])


def real(full: bool, graspologic: str | None) -> Iterator[Task]:
    pairs: dict[tuple[int, str], Callable[[], tuple[np.ndarray, np.ndarray]]] = {}
    folder = graph_pairs.data_folder()
    if folder is not None:
        pairs[0, "fly, left and right"] = partial(graph_pairs.fly, folder)
        pairs[0, "two mice"] = partial(graph_pairs.mice, folder)
    names = ("les_miserables_graph", "karate_club_graph", "davis_southern_women_graph")
    for seed, name in product(range(3 if full else 1), names):
        pairs[seed, name.removesuffix("_graph").replace("_", " ")] = partial(graph_pairs.social, name, seed)
    for (seed, name), pair in sorted(pairs.items(), key=lambda item: item[0][0]):
        n = len(pair()[0])
        for solver_name, solver in solvers(n, graspologic).items():
            key = {"case": name, "n": n, "seed": seed, "seconds": 1.0, "solver": solver_name}
            yield key, partial(_compared, pair, solver, 1.0)


def _compared(pair: Callable[[], tuple[np.ndarray, np.ndarray]], solver: Any, seconds: float) -> Key:
    A, B = pair()
    p, taken = solver(A, B, seconds)
    return {"lost": lost(A, B, p), "cpu": taken}


def batches(full: bool, graspologic: str | None) -> Iterator[Task]:
    count = 10_000 if full else 2000
    for name, flips in (("independent", 1.0), ("noisy copies", 0.05)):
        yield {"case": name, "count": count}, partial(_batch, flips, count)


def _batch(flips: float, count: int) -> Key:
    """Time ours on all pairs and FAQ on every tenth, alternately."""
    rng = np.random.default_rng(0)
    A, other = (np.triu(rng.random((2, count, 20, 20)) < 0.3, 1)).astype(np.int64)
    B = other if flips == 1.0 else np.abs(A - np.triu(rng.random(A.shape) < flips, 1))
    A, B = A + A.swapaxes(1, 2), B + B.swapaxes(1, 2)
    p = rng.permutation(20)
    B = B[:, p][:, :, p]
    qap.match_many(np.stack([A[:9], B[:9]], axis=1), rng=0)
    times, ours, theirs = np.zeros(2), [], []
    for part in np.array_split(np.arange(count), 10):
        started = process_time()
        ours.append(qap.match_many(np.stack([A[part], B[part]], axis=1), rng=0).disagreement)
        times[0] += process_time() - started
        few = part[: max(1, len(part) // 10)]
        started = process_time()
        found = [faq(A[k], B[k]) for k in few]
        times[1] += (process_time() - started) * len(part) / len(few)
        theirs += [lost(A[k], B[k], p) for k, p in zip(few, found, strict=True)]
    few = np.arange(0, count, count // 100)
    longer = qap.match_many(np.stack([A, B], axis=1), swaps=4, rng=0).disagreement
    return {
        "cpu": times[0] / count,
        "faq": times[1] / count,
        "lost": float(np.concatenate(ours).mean()),
        "lost_of_four_swaps": float(longer.mean()),
        "lost_of_match": float(np.mean([qap.match(A[k], B[k], rng=0).disagreement for k in few])),
        "faq_lost": float(np.mean(theirs)),
    }


PARTS: dict[str, Callable[[bool, str | None], Iterator[Task]]] = {
    "seeds": seeded,
    "speed": fast,
    "quality": good,
    "real": real,
    "batches": batches,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; measure, or print the tables of measured rows."""
    parser = argparse.ArgumentParser(prog="python -m bench graphs", description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all sizes, noise levels and graphs")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--output", type=Path, help="append rows to this file, and skip rows already in it")
    parser.add_argument("--graspologic", help="a Python interpreter that has graspologic")
    parser.add_argument("--tables", type=Path, help="only print the tables of the rows in this file")
    options = parser.parse_args(arguments)
    if options.tables is not None:
        print(graph_tables.tables(read(options.tables)))
        return
    rows = measured(options.parts, options.full, options.output, options.graspologic)
    for name, mine, peer, unit in graph_tables.summary(rows):
        print(f"{name:60s} {mine:11.4g} {peer:11.4g}  {unit}")
