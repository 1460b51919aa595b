"""The numbers of the QAPLIB report: all tables, and what was run, as JSON values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from dcfw_studies import qap_tables as tables
from dcfw_studies.qap import _size
from dcfw_studies.qap_tables import Runs

ERROR_WORDS = {
    "published": "(value - best) / (‖A‖ ‖B‖), the paper's formula on matrices of unit Frobenius norm",
    "text": "(value - best) / max(best, 1), on the matrices as they are",
}


def expected_instances() -> dict[str, int]:
    """Return the paper's 134 instances with their sizes; the data are not needed."""
    from dcfw.qap.library import NOT_IN_PAPER, shipped_best

    return {name: _size(name) for name in shipped_best() if name not in NOT_IN_PAPER}


def cost_rows(runs: Runs, seed: int = 0, max_n: int | None = tables.SMALL) -> list[dict[str, Any]]:
    """Return one row per instance with the results of all methods on it, empty where there are none."""
    names = {name for m in runs.methods for name in runs.instances(m, seed, max_n)}
    columns = {"value": "value", "error": runs.error, "lap_solves": "n_lmo"}
    columns |= {"seconds": "seconds", "status": "status"}
    result = []
    for name in sorted(names, key=lambda name: (runs.sizes[name], name)):
        found = {m: runs.table.get((m, name, seed), {}) for m in runs.methods}
        best = next(row["best"] for row in found.values() if row)
        line: dict[str, Any] = {"dataset": name, "n": runs.sizes[name], "best": best}
        for label, column in columns.items():
            line |= {f"{label} {m}": row.get(column, "") for m, row in found.items()}
        result.append(line)
    return result


def summarise(
    runs: Runs,
    expected: Mapping[str, int],
    versions: Sequence[Mapping[str, str]] = (),
    failures: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return all tables and the extent of the runs as JSON values (unknown interval ends are null)."""
    started = sorted(row["started"] for row in runs.rows if row.get("started"))
    design = list(itertools.product(tables.PAPER_METHODS, expected, range(tables.PUBLISHED_RUNS)))
    done = sum(point in runs.table for point in design)
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
            "paper_design_rows": {"done": done, "of": len(design)},
            "missing": tables.missing(runs, expected),
            "coverage": tables.coverage(runs, expected),
            "statuses": tables.statuses(runs),
            "failures": [{k: f[k] for k in ("dataset", "method", "seed", "error")} for f in failures],
            "seconds": {m: sum(r["seconds"] for r in runs.rows if r["method"] == m) for m in runs.methods},
            "seconds_total": sum(row["seconds"] for row in runs.rows),
            "first_started": started[0] if started else None,
            "last_started": started[-1] if started else None,
            "versions": list(versions),
        },
        "single_run": {
            "all": tables.single_run(runs),
            f"n <= {tables.SMALL}": tables.single_run(runs, max_n=tables.SMALL),
            "published": {
                "instances": tables.PUBLISHED_INSTANCES,
                **tables.PUBLISHED_SCORE._asdict(),
                "errors": tables.PUBLISHED_ERROR,
            },
        },
        "heat_map": [
            {"row": a, "column": b, "ours": _cell(cell), "published": _published_cell(a, b)}
            for (a, b), cell in tables.heat_map(runs).items()
        ],
        "heat_map_common": _common_heat_map(runs),
        "by_size": tables.by_size(runs),
        "against_fw": tables.against_fw(runs),
        "active_sets": tables.active_sets(runs),
        "costs": _costs(runs),
    }


def _cell(cell: tables.Cell) -> dict[str, Any]:
    fraction = cell.wins.mean / len(cell.block.instances)
    return {**cell.wins.plain(), "fraction": fraction, **cell.block.plain()}


def _published_cell(a: str, b: str) -> dict[str, Any]:
    wins = tables.PUBLISHED_HEAT_MAP[a, b]
    size = tables.PUBLISHED_INSTANCES
    return {**wins.plain(), "fraction": wins.mean / size, "instances": size, "runs": tables.PUBLISHED_RUNS}


def _common_heat_map(runs: Runs) -> dict[str, Any] | None:
    """Return the heat map on the one block that the paper's methods share; None if there is none."""
    methods = [m for m in tables.PAPER_METHODS if m in runs.methods]
    block = runs.block(methods) if len(methods) > 1 else tables.Block((), ())
    if not block.size:
        return None
    cells = tables.heat_map(runs, methods, block)
    listed = [{"row": a, "column": b, **cell.wins.plain()} for (a, b), cell in cells.items()]
    return {**block.plain(), "methods": methods, "cells": listed}


def _costs(runs: Runs) -> dict[str, Any]:
    found = tables.costs(runs)
    return {
        "seed": 0,
        "max_n": tables.SMALL,
        "instances": list(found.block.instances),
        "methods": found.table,
        "set_aside": found.set_aside,
    }
