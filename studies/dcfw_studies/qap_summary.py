"""The numbers of the QAPLIB report: all tables, and what was run, as JSON values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dcfw_studies import qap_tables as tables
from dcfw_studies.qap import _size
from dcfw_studies.qap_active import active_sets
from dcfw_studies.qap_tables import Runs
from dcfw_studies.statistics import Interval, Score

ERROR_WORDS = {
    "published": "(value - best) / (‖A‖ ‖B‖), the paper's formula on matrices of unit Frobenius norm",
    "text": "(value - best) / max(best, 1), on the matrices as they are",
}


def expected_instances() -> dict[str, int]:
    """Return the paper's 134 instances with their sizes; the data themselves are not needed."""
    from dcfw.qap.library import NOT_IN_PAPER, shipped_best

    return {name: _size(name) for name in shipped_best() if name not in NOT_IN_PAPER}


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
            "missing": tables.missing(runs, expected),
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
