"""Summarise the rows of ``bench graphs`` as (ours, peer) and as the tables of results/graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]
Cell = tuple[float, float]
"""A mean and its standard error."""


def summary(rows: Rows) -> Iterator[tuple[str, float, float, str]]:
    """Yield (name, ours, peer, unit); the peer of seeds is the planted matching."""
    for (family, count), found in grouped(of(rows, "seeds"), "case", "seeds").items():
        mean, error = cell(found)
        name = f"{family}, {count} seeds (standard error {error:.1f})"
        yield name, mean, float(np.mean([row["planted"] for row in found])), "edges; peer: planted"
    for row in of(rows, "speed"):
        facts = f"kept {row['kept']:.4f}, nodes {row['nodes']:.4f}, {row['memory']:.2f} GiB"
        yield f"{row['case']}, n={row['n']}: {facts}", row["cpu"], row.get("faq", float("nan")), "s"
    for part in ("quality", "real"):
        for case, cells in compared(of(rows, part)).items():
            peers = {name: found[0] for name, found in cells.items() if name != "dcfw"}
            best = min(peers, key=peers.__getitem__)
            yield f"{', '.join(map(str, case))}; peer: {best}", cells["dcfw"][0], peers[best], "edges"
    for row in of(rows, "batches"):
        yield f"{row['count']} {row['case']} of 20 nodes, each", row["cpu"], row["faq"], "s"
        yield f"{row['count']} {row['case']} of 20 nodes, mean", row["lost"], row["faq_lost"], "edges"


INTRODUCTION = """# Graph matching

`python -m bench graphs --full --output results/graphs/rows.jsonl --graspologic PYTHON` measures the rows
(it goes on where it ended), and `python -m bench graphs --tables results/graphs/rows.jsonl` prints this
page. Processor time of one thread on a busy machine. The second graph is a shuffled copy with 5 % of the
edges moved unless a row says otherwise; numbers are edges of either graph without a counterpart (less is
better), mean and standard error."""
NOTES = {
    "Correct seeds": "300 nodes, five graphs each; the default call.",
    "Speed": "One path without swaps; one graph each, in a process of its own.",
    "Quality at equal time": "Every solver restarts until its time has passed; RRWM and IPFP (pygmtools) up "
    "to 60 nodes, where one run of RRWM takes up to 3 s. A cell of one graph has no standard error: "
    "there, best means best or equal.",
    "Real graphs": "Copies of networkx's graphs with a tenth of the edges moved, and graspologic's "
    "connectomes: the two sides of a larva's mushroom body (directed) and two mice.",
    "Batches": "`qap.match_many` against a loop over SciPy's FAQ (on every tenth pair), by turns; 20 nodes. "
    "Beside the default: `swaps=4`, which takes less than twice its time, and `qap.match` on 100 of the "
    "pairs, which takes some hundred times as long.",
}


def tables(rows: Rows) -> str:
    """Return the page of results/graphs in Markdown."""
    parts = {
        "Correct seeds": _seeds(of(rows, "seeds")),
        "Speed": _speed(of(rows, "speed")),
        "Quality at equal time": _quality(of(rows, "quality")),
        "Real graphs": _quality(of(rows, "real")),
        "Batches": _batches(of(rows, "batches")),
    }
    sections = [f"## {title}\n\n{NOTES[title]}\n\n{text}" for title, text in parts.items() if text]
    return "\n\n".join([INTRODUCTION, *sections])


def of(rows: Rows, part: str) -> Rows:
    return [row for row in rows if row["part"] == part]


def grouped(rows: Rows, *names: str) -> dict[tuple[Any, ...], Rows]:
    found: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names if name in row), []).append(row)
    return found


def cell(rows: Rows) -> Cell:
    values = [row["lost"] for row in rows]
    error = float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0
    return float(np.mean(values)), error


def shown(found: Cell) -> str:
    return f"{found[0]:.1f} ± {found[1]:.1f}" if found[1] > 0.0 else f"{found[0]:g}"


def compared(rows: Rows) -> dict[tuple[Any, ...], dict[str, Cell]]:
    """Return, for each case, the cell of each solver."""
    cases = grouped(rows, "case", "n", "noise", "seconds")
    return {
        case: {name: cell(found) for (name,), found in grouped(of_case, "solver").items()}
        for case, of_case in cases.items()
    }


def wins(cells: dict[str, Cell]) -> bool:
    """Return whether ours is best, or within the best one's standard error of it."""
    mean, error = min(cells.values())
    return cells["dcfw"][0] <= mean + error


def _markdown(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def _seeds(rows: Rows) -> str:
    counts = sorted({row["seeds"] for row in rows})
    lines = []
    for (family,), found in grouped(rows, "case").items():
        planted = np.mean([row["planted"] for row in found if row["seeds"] == counts[0]])
        cells = [cell([row for row in found if row["seeds"] == count]) for count in counts]
        lines.append([family, f"{planted:.1f}", *map(shown, cells)])
    return _markdown(["", "planted", *(f"{count} seeds" for count in counts)], lines) if rows else ""


def _speed(rows: Rows) -> str:
    head = ["", "n", "seeds", "planted edges kept", "nodes", "seconds", "one FAQ run, s", "peak memory, GiB"]
    lines = [
        [
            row["case"],
            str(row["n"]),
            str(row["seeds"]),
            f"{row['kept']:.4f}",
            f"{row['nodes']:.4f}",
            f"{row['cpu']:.1f}",
            f"{row['faq']:.1f}" if "faq" in row else "",
            f"{row['memory']:.2f}",
        ]
        for row in sorted(rows, key=lambda row: row["n"])
    ]
    return _markdown(head, lines) if rows else ""


def _quality(rows: Rows) -> str:
    if not rows:
        return ""
    cases = compared(rows)
    names = list(dict.fromkeys(name for cells in cases.values() for name in cells))
    lines, first = [], 0
    graphs = grouped(rows, "case", "n", "noise", "seconds")
    for case, cells in cases.items():
        first += wins(cells)
        texts = [shown(cells[name]) if name in cells else "" for name in names]
        family, n, *noise, seconds = case
        kind = family if not noise else f"{family}, {noise[0]:.0%} moved"
        count = str(len(grouped(graphs[case], "seed")))
        lines.append([kind, str(n), count, f"{seconds:g}", *texts])
    table = _markdown(["", "n", "graphs", "s", *names], lines)
    score = f"dcfw is best, or within one standard error of the best, in {first} of {len(cases)} cells."
    return f"{score}\n\n{table}"


def _batches(rows: Rows) -> str:
    head = ["", "pairs", "ours, mean", "`swaps=4`", "`match`", "FAQ, mean"]
    head += ["ours, each", "FAQ, each", "times faster"]
    lines = [
        [
            row["case"],
            str(row["count"]),
            f"{row['lost']:.2f}",
            f"{row['lost_of_four_swaps']:.2f}",
            f"{row['lost_of_match']:.2f}",
            f"{row['faq_lost']:.2f}",
            f"{1e6 * row['cpu']:.0f} us",
            f"{1e6 * row['faq']:.0f} us",
            f"{row['faq'] / row['cpu']:.1f}",
        ]
        for row in rows
    ]
    return _markdown(head, lines) if rows else ""
