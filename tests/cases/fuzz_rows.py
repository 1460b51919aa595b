"""Hostile tables of reports: real rows with cells, columns, lines or bytes changed, read by every reader.

``python tests/cases/fuzz_rows.py 2000`` runs that many.  A table is refused with a ValueError that names the
file, or it is taken into a store, and report and page are made of it, or refused; anything else is a failure.
"""

from __future__ import annotations

import csv
import io
import random
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

from dcfw_studies import row_checks
from dcfw_studies.pages import collect
from dcfw_studies.report import write_report
from dcfw_studies.store import Store
from fuzz_checkpoints import Tally
from places import ROOT

SECONDS = 10.0
"""How long all readers together may compute."""
MEGABYTES = 200
"""How much more memory than before."""
LINES = 8
"""Rows of the sample of a table."""
TABLES = {
    "qap": ("rows.csv",),
    "inner": ("rows.csv",),
    "alignment": ("rows.csv", "curves.csv"),
    "networks": ("rows.csv", "curves.csv"),
}
RUN = ("part", "dataset", "method", "L", "c", "seed", "epochs", "images", "precision")
"""The columns that identify the run of a point of a curve."""
CELLS = [
    *("", " ", "0", "-1", "1.5", "1e400", "-1e308", "nan", "NaN", "inf", "-inf", "1_000", "0x10", "True"),
    *("9" * 19, "9" * 5000, "0." + "3" * 5000, "18446744073709551616", "\u0661\u0662", "\uff11"),
    *("=1+1", "+1+cmd|' /C calc'!A0", "@SUM(1)", "-2+3", "'=1", "''=1", "\t=1", "\r=1", "'"),
    *("two\nlines", "two\r\nlines", "a,b", 'a"b', "\x00", "a\x00b", "\u2028", "\x1b[2J", "x" * 140_000),
    *("{}", "same", '{"code": 1}', '{"code": "0000000000000000"}', "[" * 5000, '{"a": ' + "9" * 5000 + "}"),
    *("../../etc/passwd", "<script>window.hacked=1</script>", "nug12", "digits", "published", "gpt", "long"),
]  # fmt: skip
NAMES = [
    *("", "key", "study", "version", "seed", "seconds", "started", "versions", "method", "curve", "curves"),
    *("value", "=1+1", "__class__", "\x00", "x" * 1000, "protocol", "part", "rate", "status", "n"),
]


def sample(study: str) -> dict[str, bytes]:
    """Return a few lines of the tables of a report, with the curves of their runs."""
    folder = ROOT / "results" / study
    with open(folder / "rows.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    rows = rows[:: max(len(rows) // LINES, 1)][:LINES]
    found = {"rows.csv": text([header, *rows])}
    for name in TABLES[study][1:]:
        with open(folder / name, newline="", encoding="utf-8") as file:
            head, *points = csv.reader(file)
        same = [column for column in head if column in header and column in RUN]
        runs = {tuple(row[header.index(column)] for column in same) for row in rows}
        kept = [p for p in points if tuple(p[head.index(column)] for column in same) in runs]
        kept = kept[:: len(kept) // 100 + 1] if study == "alignment" else kept
        found[name] = text([head, *kept])
    return found


def text(rows: list[list[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue().encode("utf-8", "surrogatepass")


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return a table with cells, columns, lines or bytes changed."""
    kind = rng.choice(["cell", "cell", "cell", "column", "line", "bytes", "cut", "raw"])
    rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
    if kind == "cell":
        for _ in range(rng.choice([1, 1, 2, 5])):
            row = rng.choice(rows[1:])
            row[rng.randrange(len(row))] = rng.choice(CELLS)
    elif kind == "column":
        at, action = rng.randrange(len(rows[0])), rng.choice(["rename", "repeat", "remove", "swap", "many"])
        if action == "rename":
            rows[0][at] = rng.choice(NAMES)
        elif action == "swap":
            other = rng.randrange(len(rows[0]))
            rows[0][at], rows[0][other] = rows[0][other], rows[0][at]
        elif action == "many":
            rows[0] += [f"c{k}" for k in range(100_000)]
        for row in rows if action in ("repeat", "remove") else []:
            row[at : at + 1] = [row[at]] * 2 if action == "repeat" else []
    elif kind == "line":
        at, action = (
            rng.randrange(len(rows)),
            rng.choice(["repeat", "remove", "empty", "longer", "shorter", "swap"]),
        )
        other = rng.randrange(len(rows))
        if action == "swap":
            rows[at], rows[other] = rows[other], rows[at]
        new = {"repeat": [rows[at]] * 2, "remove": [], "empty": [[], rows[at]], "longer": [[*rows[at], "1"]]}
        rows[at : at + 1] = {**new, "shorter": [rows[at][:-1]], "swap": [rows[at]]}[action]
    if kind in ("cell", "column", "line"):
        return text(rows)
    at = rng.randrange(len(content))
    if kind == "cut":
        return content[:at]
    if kind == "raw":
        bad = (
            b'"',
            b"\xff\xfe",
            b"\x00",
            b"\r",
            b"\n",
            b",",
            b"\xed\xa0\x80",
            b"\xef\xbb\xbf",
            b'"' * 3,
            b"\n" * 9999,
        )
        return content[:at] + rng.choice(bad) + content[at:]
    changed = bytearray(content)
    for _ in range(rng.choice([1, 4, 30])):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def outcome(study: str, tables: dict[str, bytes], folder: Path) -> str:
    """Read tables by all readers; return what happened ("WRONG ..." if it may not)."""
    place = folder / study
    place.mkdir(exist_ok=True)
    for name, content in tables.items():
        (place / name).write_bytes(content)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        found = _read(study, place, folder / "rows.db")
    except Exception as error:
        found = f"WRONG error {type(error).__name__}: {error!s:.300}"
    finally:
        for old in folder.glob("rows.db*"):
            old.unlink()
    if time.process_time() - started > SECONDS:
        found = f"WRONG {time.process_time() - started:.1f} s"
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > MEGABYTES * 1024:
        found = "WRONG memory"
    return found


def _read(study: str, place: Path, path: Path) -> str:
    refused = ""
    with Store(path) as store:
        try:
            new = row_checks.take(study, place, store)
        except ValueError as error:
            refused = str(error)
            if str(place) not in refused or store.studies():
                return f"WRONG refusal {error!s:.300}"
    try:
        checked = row_checks.check(study, place, 0, 0)
    except ValueError as error:
        return "refused" if str(error) == refused else f"WRONG check-rows {error!s:.300}"
    if refused or checked.rows != new:
        return f"WRONG check-rows reads {checked.rows} rows, the import {refused or new}"
    if not new:
        return "read"
    with Store(path, readonly=True) as store:
        collect([store])
    try:
        write_report(study, path, place / "out", figures=False)
    except ValueError as error:
        return "read" if "rows.db" in str(error) else f"WRONG report {error!s:.300}"
    return "reported"


def run(count: int, seed: int = 0) -> Tally:
    """Return how many of ``count`` tables were refused, read, reported or WRONG (and print the latter)."""
    samples = {study: sample(study) for study in TABLES}
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for study, tables in samples.items():
            what = outcome(study, tables, Path(place))
            assert what in ("reported", "read"), f"{study} as it is: {what}"
        tally = Tally()
        for number in range(count):
            rng = random.Random(f"{seed} {number}")
            study = rng.choice(list(TABLES))
            name = rng.choice(TABLES[study])
            tables = {**samples[study], name: mutated(samples[study][name], rng)}
            case = f"seed {seed}, case {number}, {study}/{name}"
            with tally.timing(case):
                what = outcome(study, tables, Path(place))
            tally.add(case, what)
    return tally


if __name__ == "__main__":
    print(run(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
