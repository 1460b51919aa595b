"""The tables of the QAPLIB study: pure functions from rows to numbers, and the paper's own numbers.

A *row* is what :func:`dcfw_studies.qap.row` returns, with its dataset, method and seed.  Three rules hold for
all tables:

- **Exact comparison.**  A method is better on an instance when the integer value of its permutation is
  strictly lower, and equal means equal integers.
- **The same runs for both.**  Methods are compared on a :class:`Block`, instances x seeds that all of them
  have; each table states its size.
- **Nothing is extrapolated.**  Counts on fewer than the paper's 134 instances stand beside the published
  counts, both with the fraction of instances.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dcfw_studies.protocols import CAPS
from dcfw_studies.qap import TITLES
from dcfw_studies.statistics import Interval, Score, pairwise_wins, t_interval, win_loss_tie

Row = Mapping[str, Any]

PAPER_METHODS = ("fw", "dcfw-1", "dcfw-2", "dcfw-3", "cgs")  # in the order of the paper's heat map
COST_METHODS: tuple[str, ...] = ("fw", "cgs", "dcfw-2", "dcfw-3", "dcfw-1", "dcfw-balanced", "dcfw-centered")
COST_METHODS += ("dcfw-spectral", "blended-1", "blended-spectral", "best")
"""All methods: FW, then the splits from the loosest to the tightest."""

ERROR = {"published": "error_published", "text": "error_relative"}
"""Protocol -> the column with its assignment error (on unit-norm data, or on the original data)."""

PUBLISHED_INSTANCES, PUBLISHED_RUNS = 134, 10
PUBLISHED_SCORE = Score(73, 43, 18)  # DC-FW (var 1) better, FW better, equal: the paper's single run
PUBLISHED_ERROR = {"dcfw-1": 0.0085, "fw": 0.0112}

SMALL = 50  # the largest n in the table of costs and in one row of the single run
SIZES = (20, 32, SMALL, 80, 256)  # the largest n of each line of the table by size
LIMITS = ("MAXITER", "MAX_LMO", "TIME_LIMIT")  # statuses of runs that reached one

_PUBLISHED_WINS = {
    "fw": [(44.5, 41.82, 47.18), (52.4, 48.61, 56.19), (50.2, 47.54, 52.86), (59.8, 56.12, 63.48)],
    "dcfw-1": [(73.4, 70.80, 76.00), (62.1, 59.10, 65.10), (58.4, 56.23, 60.57), (68.7, 66.17, 71.23)],
    "dcfw-2": [(66.9, 63.20, 70.60), (51.5, 48.25, 54.75), (48.4, 46.05, 50.75), (69.4, 67.76, 71.04)],
    "dcfw-3": [(69.1, 65.94, 72.26), (54.5, 52.64, 56.36), (56.2, 54.48, 57.92), (70.5, 67.88, 73.12)],
    "cgs": [(59.2, 55.08, 63.32), (46.4, 43.76, 49.04), (38.0, 36.61, 39.39), (37.8, 34.96, 40.64)],
}
PUBLISHED_HEAT_MAP = {
    (a, b): Interval(*wins)
    for a, row in _PUBLISHED_WINS.items()
    for b, wins in zip((m for m in PAPER_METHODS if m != a), row, strict=True)
}
"""The paper's heat map: on how many of 134 datasets the first method has the lower error, mean of 10 runs."""


class Block(NamedTuple):
    """Instances and seeds of which every pair was run."""

    instances: tuple[str, ...]
    seeds: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.instances) * len(self.seeds)

    def plain(self) -> dict[str, Any]:
        """Return the block as JSON values."""
        return {"instances": len(self.instances), "seeds": list(self.seeds)}


class Cell(NamedTuple):
    """One comparison of the heat map: the wins per seed, and their block."""

    wins: Interval
    block: Block


class Runs:
    """The rows of one protocol ("published" or "text"), by method, instance and seed."""

    def __init__(self, rows: Iterable[Row], protocol: str = "published") -> None:
        if protocol not in ERROR:
            raise ValueError(f"protocol must be one of {', '.join(ERROR)}, got {protocol!r}")
        self.protocol = protocol
        self.error = ERROR[protocol]
        self.rows = [row for row in rows if row["protocol"] == protocol]
        self.table = {(row["method"], row["dataset"], row["seed"]): row for row in self.rows}
        self.sizes: dict[str, int] = {row["dataset"]: row["n"] for row in self.rows}

    @property
    def methods(self) -> list[str]:
        """The methods that have a row, in the order of the tables."""
        present = {row["method"] for row in self.rows}
        return [m for m in COST_METHODS if m in present] + sorted(present - set(COST_METHODS))

    def instances(self, method: str, seed: int, max_n: int | None = None) -> set[str]:
        """Return the instances that ``method`` has run with ``seed``."""
        return {
            name
            for (m, name, s) in self.table
            if m == method and s == seed and (max_n is None or self.sizes[name] <= max_n)
        }

    def get(self, column: str, method: str, block: Block) -> np.ndarray:
        """Return a column on a block, of shape (instances, seeds)."""
        return np.array([[self.table[method, i, s][column] for s in block.seeds] for i in block.instances])

    def block(
        self, methods: Sequence[str], seeds: Sequence[int] | None = None, max_n: int | None = None
    ) -> Block:
        """Return the largest block found on which all ``methods`` are complete.

        Seeds join in the order of the number of their instances, as long as instances x seeds grows; the
        values of rows play no part.
        """
        found = {row["seed"] for row in self.rows} if seeds is None else set(seeds)
        covered = {s: set.intersection(*(self.instances(m, s, max_n) for m in methods)) for s in found}
        best, chosen, shared = Block((), ()), [], None
        for seed in sorted(found, key=lambda s: (-len(covered[s]), s)):
            chosen.append(seed)
            shared = covered[seed] if shared is None else shared & covered[seed]
            names = sorted(shared, key=lambda name: (self.sizes[name], name))
            candidate = Block(tuple(names), tuple(sorted(chosen)))
            if candidate.size > best.size:
                best = candidate
        return best


def single_run(
    runs: Runs, a: str = "dcfw-1", b: str = "fw", seed: int = 0, max_n: int | None = None
) -> dict[str, Any] | None:
    """Compare two methods on one seed by exact integer values; None if they share no instance.

    ``sign_test_p`` is that of the two-sided test without the ties, a rough guide only: instances of one
    family are not independent.
    """
    from scipy.stats import binomtest

    block = runs.block([a, b], [seed], max_n)
    if not block.size:
        return None
    score = win_loss_tie(*(runs.get("value", m, block)[:, 0] for m in (a, b)))
    decided = score.wins + score.losses
    return {
        "instances": len(block.instances),
        **score._asdict(),
        "sign_test_p": float(binomtest(score.wins, decided).pvalue) if decided else 1.0,
        "errors": {m: float(np.mean(runs.get(runs.error, m, block))) for m in (a, b)},
        "relative_errors": {m: float(np.mean(runs.get("error_relative", m, block))) for m in (a, b)},
    }


def ordered_errors(
    runs: Runs, a: str = "dcfw-1", b: str = "fw", seed: int = 0
) -> tuple[list[str], dict[str, dict[str, float]]]:
    """Return the common instances by increasing error of ``b``, and the errors of all methods on them."""
    shared = runs.block([a, b], [seed]).instances
    error = {
        m: {i: runs.table[m, i, seed][runs.error] for i in shared if (m, i, seed) in runs.table}
        for m in runs.methods
    }
    return sorted(shared, key=lambda i: (error[b][i], error[a][i], i)), error


def heat_map(
    runs: Runs, methods: Sequence[str] = PAPER_METHODS, block: Block | None = None
) -> dict[tuple[str, str], Cell]:
    """Return, for each ordered pair of methods, the mean number of instances on which the first is better.

    Each pair is counted on its own largest block, or on ``block`` if that is given; pairs without a common
    row are left out.  The interval is Student's with 90 % over the seeds.
    """
    cells: dict[tuple[str, str], Cell] = {}
    for a, b in itertools.combinations(methods, 2):
        shared = runs.block([a, b]) if block is None else block
        if shared.size:
            wins = pairwise_wins({m: runs.get("value", m, shared) for m in (a, b)}, confidence=0.90)
            cells[a, b], cells[b, a] = Cell(wins[a, b], shared), Cell(wins[b, a], shared)
    return {pair: cells[pair] for pair in itertools.permutations(methods, 2) if pair in cells}


def by_size(runs: Runs, a: str = "dcfw-1") -> list[dict[str, Any]]:
    """Compare ``a`` with the paper's other methods on instances of similar size, on all runs that both have.

    ``capped`` is the share of the runs that ended at a limit.
    """
    table = []
    for low, high in itertools.pairwise((0, *SIZES)):
        rows = [row for row in runs.rows if low < row["n"] <= high]
        line: dict[str, Any] = {"above": low, "up_to": high, "scores": {}, "capped": {}}
        for method in PAPER_METHODS:
            mine = [row for row in rows if row["method"] == method]
            pairs = [(runs.table.get((a, row["dataset"], row["seed"])), row) for row in mine]
            values = [(one["value"], other["value"]) for one, other in pairs if one is not None]
            if values and method != a:
                line["scores"][method] = win_loss_tie(*np.transpose(values))._asdict()
            if mine:
                line["capped"][method] = sum(row["status"] in LIMITS for row in mine) / len(mine)
        if line["scores"]:
            table.append(line)
    return table


def against_fw(runs: Runs) -> dict[str, dict[str, Any]]:
    """Compare every method with FW on all rows that both have; intervals are over the seeds."""
    table: dict[str, dict[str, Any]] = {}
    for method in runs.methods:
        block = runs.block([method, "fw"])
        if method == "fw" or not block.size:
            continue
        wins = pairwise_wins({m: runs.get("value", m, block) for m in (method, "fw")}, confidence=0.90)
        mine, theirs = wins[method, "fw"], wins["fw", method]
        errors = [t_interval(runs.get(runs.error, m, block).mean(axis=0), 0.90) for m in (method, "fw")]
        intervals = {"wins": mine, "losses": theirs, "error": errors[0], "fw_error": errors[1]}
        ties = len(block.instances) - mine.mean - theirs.mean
        table[method] = {**block.plain(), "ties": ties, **{k: v.plain() for k, v in intervals.items()}}
    return table


class Costs(NamedTuple):
    """All methods on one block of instances, one seed: the table of costs and what it stands on."""

    block: Block
    table: dict[str, dict[str, float]]
    set_aside: dict[str, int]


def costs(runs: Runs, seed: int = 0, max_n: int | None = SMALL) -> Costs:
    """Return LAP solves, seconds and errors of all methods on the instances that all of them have.

    A method with fewer than half of the instances of the best covered one is set aside, since it would leave
    little to compare the others on; ``set_aside`` has the number of its instances.
    """
    covered = {m: len(runs.instances(m, seed, max_n)) for m in runs.methods}
    most = max(covered.values(), default=0)
    methods = [m for m, count in covered.items() if 2 * count >= most > 0]
    block = runs.block(methods, [seed], max_n) if methods else Block((), ())
    table: dict[str, dict[str, float]] = {}
    for method in methods if block.size else []:
        solves, seconds, error = (runs.get(c, method, block)[:, 0] for c in ("n_lmo", "seconds", runs.error))
        table[method] = {
            "lap_total": int(solves.sum()),
            "lap_median": float(np.median(solves)),
            "lap_max": int(solves.max()),
            "seconds_total": float(seconds.sum()),
            "seconds_median": float(np.median(seconds)),
            "seconds_max": float(seconds.max()),
            "error_mean": float(error.mean()),
            "error_median": float(np.median(error)),
            "best_known": int(np.sum(runs.get("value", method, block) == runs.get("best", method, block))),
            "converged": int(np.sum(runs.get("status", method, block) == "CONVERGED")),
        }
    return Costs(block, table, {m: count for m, count in covered.items() if m not in table})


def solves_to_the_end(runs: Runs, found: Costs, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the LAP solves of each method on the instances of ``found``, inf where it did not converge."""
    block = Block(found.block.instances, (seed,))
    result = {}
    for method in found.table:
        solves = np.maximum(runs.get("n_lmo", method, block)[:, 0], 1)
        result[method] = np.where(runs.get("status", method, block)[:, 0] == "CONVERGED", solves, np.inf)
    return result


def statuses(runs: Runs) -> dict[str, dict[str, int]]:
    return {m: dict(Counter(r["status"] for r in runs.rows if r["method"] == m)) for m in runs.methods}


def coverage(runs: Runs, expected: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return for each method its seeds, grouped by the instances they cover; ``expected`` maps names to n."""
    table = []
    for method in runs.methods:
        groups: dict[frozenset[str], list[int]] = defaultdict(list)
        for seed in sorted({r["seed"] for r in runs.rows if r["method"] == method}):
            groups[frozenset(runs.instances(method, seed))].append(seed)
        for names, seeds in groups.items():
            missing = sorted(set(expected) - names, key=lambda name: (expected[name], name))
            line = {"method": method, "seeds": seeds, "instances": len(names)}
            table.append({**line, "largest": max(runs.sizes[name] for name in names), "missing": missing})
    return table


def missing(runs: Runs, expected: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the missing rows of the paper's design, by instance and method, with their cost.

    ``seconds_each`` is the mean over the available seeds.  Without any (``measured`` is false) it is that of
    variant 1 on the instance times the method's ratio to it on similar instances (see :func:`_ratio`), at
    most the time limit of the protocol.
    """
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in runs.rows:
        seconds[row["method"], row["dataset"]].append(max(row["seconds"], 1e-6))
    means = {key: float(np.mean(found)) for key, found in seconds.items()}
    found = []
    for name, n in sorted(expected.items(), key=lambda item: (item[1], item[0])):
        for method in PAPER_METHODS:
            seeds = [s for s in range(PUBLISHED_RUNS) if (method, name, s) not in runs.table]
            if seeds:
                each = means.get((method, name))
                guess = means.get(("dcfw-1", name), 0.0) * _ratio(means, method, name, expected)
                cost = min(guess if each is None else each, CAPS[runs.protocol]["time_limit"])
                line = {"dataset": name, "n": n, "method": method, "runs": len(seeds)}
                line |= {"seeds": " ".join(map(str, seeds)), "measured": each is not None}
                found.append({**line, "seconds_each": cost})
    return found


def _ratio(means: Mapping[tuple[str, str], float], method: str, name: str, sizes: Mapping[str, int]) -> float:
    """Return the geometric mean of a method's time over that of variant 1 on instances with n >= 30.

    If there are any, only those of the same kind (tai64c for tai256c) or else of the same family count.
    """
    ratios: dict[str, float] = {
        other: np.log(means[method, other] / means["dcfw-1", other])
        for other, n in sizes.items()
        if n >= 30 and (method, other) in means and ("dcfw-1", other) in means
    }
    for alike in (_kind, _family):
        if chosen := [ratio for other, ratio in ratios.items() if alike(other) == alike(name)]:
            return float(np.exp(np.mean(chosen)))
    return float(np.exp(np.mean(list(ratios.values())))) if ratios else 1.0


def _kind(name: str) -> str:
    return "".join(c for c in name if not c.isdigit())


def _family(name: str) -> str:
    return "".join(itertools.takewhile(str.isalpha, name))


def run_commands(runs: Runs, expected: Mapping[str, int], store: str = "STORE") -> list[str]:
    """Return commands that compute (at least) these rows, from an empty store."""
    top = max(expected.values(), default=0)
    wanted: dict[tuple[int, int], list[str]] = defaultdict(list)
    for method in runs.methods:
        largest: dict[int, int] = {}
        for row in runs.rows:
            if row["method"] == method:
                largest[row["seed"]] = max(largest.get(row["seed"], 0), row["n"])
        for n in sorted(set(largest.values()), reverse=True):
            seeds = 1 + max(seed for seed, size in largest.items() if size >= n)
            # A run with more instances and at least as many seeds includes these rows.
            larger = (ms for (size, count), ms in wanted.items() if size > n and count >= seeds)
            if not any(method in methods for methods in larger):
                wanted[n, seeds].append(method)
    commands = []
    for (n, seeds), methods in sorted(wanted.items(), reverse=True):
        limit = "" if n >= top else f" --set max_n={n}"
        commands.append(
            f"dcfw-studies reproduce qap --store {store} --set methods={','.join(methods)}"
            f" --set seeds={seeds} --set protocol={runs.protocol}{limit}"
        )
    return commands


VANILLA, BLENDED = "dcfw-1", "blended-1"


def active_sets(runs: Runs) -> list[dict[str, Any]]:
    """Compare the two on all instances that both have with seed 0, and on their largest common block.

    Return one entry per block: geometric means of the LAP solves and of their ratio, mean errors, and the
    mean difference of the errors (blended minus vanilla) with its 90 % interval over the seeds.
    """
    if not {VANILLA, BLENDED} <= set(runs.methods):
        return []
    blocks = [runs.block([VANILLA, BLENDED], seeds=[0]), runs.block([VANILLA, BLENDED])]
    return [_compare(runs, block) for block in dict.fromkeys(blocks) if block.size]


def _compare(runs: Runs, block: Block) -> dict[str, Any]:
    def column(name: str) -> dict[str, np.ndarray]:
        return {m: runs.get(name, m, block) for m in (VANILLA, BLENDED)}

    laps = {m: np.maximum(found.astype(float), 1.0) for m, found in column("n_lmo").items()}
    errors = {m: found.astype(float) for m, found in column(runs.error).items()}
    values = column("value")
    return {
        "instances": len(block.instances),
        "largest_n": max(runs.sizes[name] for name in block.instances),
        "seeds": list(block.seeds),
        "laps": {m: _geometric(found) for m, found in laps.items()},
        "ratio": _geometric(laps[VANILLA] / laps[BLENDED]),
        "errors": {m: float(found.mean()) for m, found in errors.items()},
        "difference": t_interval((errors[BLENDED] - errors[VANILLA]).mean(axis=0)).plain(),
        "score": win_loss_tie(values[BLENDED], values[VANILLA])._asdict(),
    }


def _geometric(values: np.ndarray) -> float:
    return float(np.exp(np.log(values).mean()))


def title(method: str) -> str:
    return TITLES.get(method, method)
