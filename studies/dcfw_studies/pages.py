"""From stores to sections: each study describes its own; an unknown study gets a plain table.

A study named NAME contributes ``sections(store) -> list[Section]`` in ``dcfw_studies.NAME_report``; only
modules of this package count, whatever studies a store names.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from dcfw.cli.page.parts import Bullets, Card, Cell, Chart, Column, Section, Table, Text, beyond_floats
from dcfw.cli.page.render import Renderer
from dcfw_studies.records import software_text
from dcfw_studies.report import duration
from dcfw_studies.store import Store

Contribution: TypeAlias = Callable[[Store], list[Section]]

ORDER = ("gaps", "qap", "alignment", "inner", "networks")  # others follow by name
SHOWN = 2000  # rows in a generic table; `dcfw-studies study export` has all
LONGEST = 120  # characters of a value in a generic table
NUMBER = ",.6g"  # the number format of a generic table


def contribution(study: str) -> Contribution | None:
    """Return the function that makes a study's sections, if it has one."""
    if not (study.isidentifier() and study.isascii()):
        return None
    name = f"{__package__}.{study}_report"
    if importlib.util.find_spec(name) is None:
        return None
    found: Contribution = importlib.import_module(name).sections
    return found


def study_sections(store: Store, study: str) -> list[Section]:
    """Return the sections of one study of a store; the last one ends with the origin of its rows.

    Where the study's own function fails on these rows, the page says so and shows the plain rows.
    """
    note = ""
    found: list[Section] = []
    try:
        make = contribution(study)
        if make is not None:
            found = make(store)
            for section in found:  # a value that is neither text nor number shows only here
                Renderer().section(section, "s")
    except (
        ImportError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        found = []
        note = f"The study's own sections could not be made of these rows ({type(error).__name__}: {error})."
    *before, last = found or [generic(store, study, note)]
    below = [*last.sections, provenance(store, study)]
    return [*before, Section(last.title, last.parts, below, last.summary)]


def collect(stores: Sequence[Store]) -> list[tuple[Store, str, list[Section]]]:
    """Return the sections of all studies in all stores; those in two stores are named after the store."""
    found = [(store, study) for store in stores for study in store.studies()]
    found.sort(key=lambda item: (ORDER.index(item[1]) if item[1] in ORDER else len(ORDER), item[1]))
    twice = {study for _, study in found if sum(other == study for _, other in found) > 1}
    result = []
    for store, study in found:
        made = study_sections(store, study)
        if study in twice:
            name = Path(store.path).name
            made = [Section(f"{s.title} ({name})", s.parts, s.sections, s.summary) for s in made]
        result.append((store, study, made))
    return result


def provenance(store: Store, study: str) -> Section:
    """Return the section on the origin of the rows: versions, times, and failures."""
    keys = ("method", "done", "failed", "seconds")
    lines = [[s[key] for key in keys] for s in _counts(store) if s["study"] == study]
    columns = [Column("method"), Column("rows", ",d"), Column("failed", ",d"), Column("seconds", ",.1f")]
    parts: list[Any] = [
        Table("Rows in the store", columns, lines, "Seconds are those of the solver, without metrics."),
        Bullets([f"Software: {software_text(entry)}." for entry in store.versions(study)]),
    ]
    if failures := store.failures(study):
        names = ["dataset", "method", "seed", "error"]
        errors = [[str(f[name]) for name in names] for f in failures[:SHOWN]]
        parts.append(Table("What failed", names, errors, f"{len(failures)} in all."))
    return Section("How the rows were made", parts)


def _counts(store: Store) -> list[dict[str, Any]]:
    """Return the entries of a store's status of the newest version of each study."""
    newest = store.newest()
    return [entry for entry in store.status() if entry["version"] == newest.get(entry["study"])]


def generic(store: Store, study: str, note: str = "") -> Section:
    """Return a section for a study without a description: medians by method, and the rows."""
    rows = [{k: v for k, v in row.items() if k not in ("study", "started")} for row in store.rows(study)]
    parts: list[Any] = [Text(note)] if note else []
    parts.append(Text(f"{len(rows):,} rows, {duration(sum(row['seconds'] for row in rows))} in all."))
    parts += [*_medians(rows), _rows(rows)] if rows else []
    methods, datasets = (len({row[name] for row in rows}) for name in ("method", "dataset"))
    return Section(study, parts, summary=f"{len(rows):,} rows: {methods} methods on {datasets} datasets.")


def _numeric(rows: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Return the columns of some rows, and whether each holds only numbers (or nothing).

    An integer beyond all floats cannot be computed with and does not count as a number.
    """
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).extend([] if value is None else [value])
    return {
        name: bool(found)
        and all(isinstance(value, int | float) and not isinstance(value, bool) for value in found)
        and not any(map(beyond_floats, found))
        for name, found in values.items()
    }


def _medians(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    names = [name for name, numeric in _numeric(rows).items() if numeric and name != "seed"]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["method"], []).append(row)
    lines = []
    for method, members in groups.items():
        values = [[row[name] for row in members if row.get(name) is not None] for name in names]
        lines.append([method, len(members), *(statistics.median(v) if v else None for v in values)])
    columns = [Column("method"), Column("rows", ",d"), *(Column(name, NUMBER) for name in names)]
    return [Table("Medians by method", columns, lines, "Over all datasets and seeds.")] if names else []


def _rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    kinds = _numeric(rows)
    columns = [Column(name, NUMBER if numeric else None) for name, numeric in kinds.items()]
    lines = [
        [row.get(name) if numeric else _plain(row.get(name)) for name, numeric in kinds.items()]
        for row in rows[:SHOWN]
    ]
    note = f"The first {SHOWN:,} of {len(rows):,}; `dcfw-studies study export` has all."
    return Table("Rows", columns, lines, note if len(rows) > SHOWN else "")


def _plain(value: Any) -> Cell | None:
    """Return a short text for a value that is not a number; long lists are summarised."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > LONGEST and isinstance(value, list | dict):
        return Cell(f"{len(value)} {'values' if isinstance(value, list) else 'entries'}")
    return Cell(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


def overview(collected: Sequence[tuple[Store, str, list[Section]]]) -> list[dict[str, Any]]:
    return [
        {
            "store": store.path,
            "study": study,
            "rows": len(store.rows(study)),
            "failures": len(store.failures(study)),
            "sections": [section.title for section in made],
            "tables": sum(section.count(Table) for section in made),
            "charts": sum(section.count(Chart) for section in made),
        }
        for store, study, made in collected
    ]


def key_figures(collected: Sequence[tuple[Store, str, list[Section]]]) -> list[Card]:
    counts = [entry for store in {id(s): s for s, _, _ in collected}.values() for entry in _counts(store)]
    rows, failed = sum(c["done"] for c in counts), sum(c["failed"] for c in counts)
    sections = [section for _, _, made in collected for section in made]
    tables, charts = (sum(section.count(kind) for section in sections) for kind in (Table, Chart))
    return [
        Card("studies", str(len(collected)), ", ".join(dict.fromkeys(study for _, study, _ in collected))),
        Card("finished rows", f"{rows:,}", f"{failed:,} failed"),
        Card("solver time", duration(sum(c["seconds"] for c in counts)), "wall clock, one BLAS thread each"),
        Card("on this page", f"{tables} tables", f"and {charts} charts"),
    ]
