"""The report of the QAPLIB study: a folder with the rows, the tables, the figures and a README.

=================  =================================================================================
README.md          what was run and what is missing, and the tables beside the published numbers
summary.json       the same for programs
rows.csv           all rows of the protocol
costs.csv          one line per instance: value, error, LAP solves, seconds and status of each method
errors, heat_map,  the figures, as PNG and SVG
costs
=================  =================================================================================

The folder depends on the store and the protocol only: no date, no path and no machine is written into it,
so the same rows give the same files.

    dcfw-studies report STORE --study qap -o results/qap --set protocol=published
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dcfw_studies import qap_tables as tables
from dcfw_studies.qap import _size
from dcfw_studies.qap_active import active_sets
from dcfw_studies.qap_tables import Runs
from dcfw_studies.qap_text import readme
from dcfw_studies.statistics import Interval, Score
from dcfw_studies.store import Store, csv_text
from dcfw_studies.table_file import shortened

COLUMNS = (
    "dataset",
    "n",
    "method",
    "seed",
    "value",
    "best",
    "error_published",
    "error_relative",
    "status",
    "nit",
    "n_inner",
    "n_lmo",
    "gap",
    "seconds",
    "protocol",
    "started",
    "versions",
)
"""The columns of ``rows.csv``."""

ERROR_WORDS = {
    "published": "(value - best) / (‖A‖ ‖B‖), the paper's formula on matrices of unit Frobenius norm",
    "text": "(value - best) / max(best, 1), on the matrices as they are",
}


def expected_instances() -> dict[str, int]:
    """Return the paper's 134 instances with their sizes; the data themselves are not needed."""
    from dcfw.qap.library import NOT_IN_PAPER, shipped_best

    return {name: _size(name) for name in shipped_best() if name not in NOT_IN_PAPER}


def write_report(
    store: str | os.PathLike[str],
    output: str | os.PathLike[str],
    protocol: str = "published",
    *,
    figures: bool = True,
    expected: Mapping[str, int] | None = None,
) -> list[Path]:
    """Write the report of the rows in ``store`` into the folder ``output``.

    Parameters
    ----------
    store : path-like
        The store; it is only read, and may be growing.
    output : path-like
        A folder, made if need be.  Files of an older report are replaced.
    protocol : {"published", "text"}
        Which rows to report.
    figures : bool
        Draw the figures (this needs Matplotlib).
    expected : mapping, optional
        Name -> n of all instances of the study; the paper's 134 by default.

    Returns
    -------
    list of Path
        The files written.
    """
    with Store(store, readonly=True) as opened:
        rows, versions = opened.rows("qap", versions=True), opened.versions("qap")
        failures = [f for f in opened.failures("qap") if f["settings"].get("protocol") == protocol]
    runs = Runs(rows, protocol)
    if not runs.rows:
        known = ", ".join(sorted({row["protocol"] for row in rows})) or "none"
        raise ValueError(f"the store has no row of protocol {protocol!r}; protocols there: {known}")
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    expected = expected_instances() if expected is None else expected
    summary = summarise(runs, expected, versions, failures)
    files = {
        "rows.csv": csv_text(shortened([{name: row.get(name, "") for name in COLUMNS} for row in runs.rows])),
        "costs.csv": csv_text(cost_rows(runs)),
        "summary.json": json.dumps(summary, indent=2, allow_nan=False) + "\n",
    }
    drawn: list[str] = []
    if figures:
        from dcfw_studies.qap_figures import draw_all

        drawn = draw_all(runs, folder)
    files["README.md"] = readme(summary, drawn)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    return [folder / name for name in [*files, *drawn]]


def cost_rows(runs: Runs, seed: int = 0, max_n: int | None = tables.SMALL) -> list[dict[str, Any]]:
    """Return one row per instance with the results of all methods on it, empty where there are none."""
    names = {name for m in runs.methods for name in runs.instances(m, seed, max_n)}
    columns = {
        "value": "value",
        "error": runs.error,
        "lap_solves": "n_lmo",
        "seconds": "seconds",
        "status": "status",
    }
    result = []
    for name in sorted(names, key=lambda name: (runs.sizes[name], name)):
        found = {m: runs.table.get((m, name, seed), {}) for m in runs.methods}
        best = next(row["best"] for row in found.values() if row)
        line: dict[str, Any] = {"dataset": name, "n": runs.sizes[name], "best": best}
        for label, column in columns.items():
            line |= {f"{label} {m}": row.get(column, "") for m, row in found.items()}
        result.append(line)
    return result


# ------------------------------------------------------------------------------------ summary.json


def summarise(
    runs: Runs,
    expected: Mapping[str, int],
    versions: Sequence[Mapping[str, str]] = (),
    failures: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return all tables, and what was run, as JSON values (an interval that is unknown has nulls)."""
    started = sorted(row["started"] for row in runs.rows if row.get("started"))
    done = sum((m, i, s) in runs.table for m, i, s in _paper_design(expected))
    return {
        "study": "qap",
        "protocol": runs.protocol,
        "error": ERROR_WORDS[runs.protocol],
        "commands": {
            "report": f"dcfw-studies report STORE --study qap -o FOLDER --set protocol={runs.protocol}",
            "rows": tables.run_commands(runs, expected),
        },
        "run": {
            "rows": len(runs.rows),
            "instances": len(runs.sizes),
            "instances_of_the_study": len(expected),
            "paper_design_rows": {"done": done, "of": len(list(_paper_design(expected)))},
            "coverage": [entry._asdict() for entry in tables.coverage(runs, expected)],
            "statuses": tables.statuses(runs),
            "failures": [{k: f[k] for k in ("dataset", "method", "seed", "error")} for f in failures],
            "seconds": {m: sum(r["seconds"] for r in runs.rows if r["method"] == m) for m in runs.methods},
            "seconds_total": sum(row["seconds"] for row in runs.rows),
            "first_started": started[0] if started else None,
            "last_started": started[-1] if started else None,
            "versions": list(versions),
        },
        "single_run": {
            "all": _single(tables.single_run(runs)),
            f"n <= {tables.SMALL}": _single(tables.single_run(runs, max_n=tables.SMALL)),
            "published": {
                **_score(tables.PUBLISHED_SCORE, tables.PUBLISHED_INSTANCES),
                "errors": tables.PUBLISHED_ERROR,
            },
        },
        "heat_map": [
            {"row": a, "column": b, "ours": _cell(cell), "published": _published_cell(a, b)}
            for (a, b), cell in _by_row(tables.heat_map(runs))
        ],
        "heat_map_common": _common_heat_map(runs),
        "against_fw": {
            m: {
                **_block(entry.block),
                "wins": _interval(entry.wins),
                "losses": _interval(entry.losses),
                "ties": entry.ties,
                "error": _interval(entry.error),
                "fw_error": _interval(entry.fw_error),
            }
            for m, entry in tables.against_fw(runs).items()
        },
        "active_sets": active_sets(runs),
        "costs": _costs(runs),
    }


def _paper_design(expected: Mapping[str, int]) -> Iterable[tuple[str, str, int]]:
    for method in tables.PAPER_METHODS:
        for name in expected:
            for seed in range(tables.PUBLISHED_RUNS):
                yield method, name, seed


def _by_row(cells: Mapping[tuple[str, str], tables.Cell]) -> list[tuple[tuple[str, str], tables.Cell]]:
    place = {m: i for i, m in enumerate(tables.PAPER_METHODS)}
    return sorted(cells.items(), key=lambda item: (place[item[0][0]], place[item[0][1]]))


def _score(score: Score, instances: int) -> dict[str, Any]:
    return {"instances": instances, **score._asdict()}


def _single(found: tables.SingleRun | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        **_score(found.score, len(found.instances)),
        "sign_test_p": found.p_value,
        "errors": found.errors,
        "relative_errors": found.relative_errors,
    }


def _interval(interval: Interval) -> dict[str, float | None]:
    # JSON has no word for infinity.
    return {k: v if math.isfinite(v) else None for k, v in interval._asdict().items()}


def _block(block: tables.Block) -> dict[str, Any]:
    return {"instances": len(block.instances), "seeds": list(block.seeds)}


def _cell(cell: tables.Cell) -> dict[str, Any]:
    fraction = cell.wins.mean / len(cell.block.instances)
    return {**_interval(cell.wins), "fraction": fraction, **_block(cell.block)}


def _published_cell(a: str, b: str) -> dict[str, Any]:
    wins = tables.PUBLISHED_HEAT_MAP[a, b]
    size = tables.PUBLISHED_INSTANCES
    return {**_interval(wins), "fraction": wins.mean / size, "instances": size, "runs": tables.PUBLISHED_RUNS}


def _common_heat_map(runs: Runs) -> dict[str, Any] | None:
    """Return the heat map on the one block that the paper's methods share; None if there is none."""
    methods = [m for m in tables.PAPER_METHODS if m in runs.methods]
    block = runs.block(methods) if len(methods) > 1 else tables.Block((), ())
    if not block.size:
        return None
    cells = _by_row(tables.heat_map(runs, methods, block))
    listed = [{"row": a, "column": b, **_interval(cell.wins)} for (a, b), cell in cells]
    return {**_block(block), "methods": methods, "cells": listed}


def _costs(runs: Runs) -> dict[str, Any]:
    found = tables.costs(runs)
    return {
        "seed": 0,
        "max_n": tables.SMALL,
        "instances": list(found.block.instances),
        "methods": found.table,
        "set_aside": found.set_aside,
    }
