"""Tables of reports that were edited by hand: refused by file and row, or read as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fuzz_rows
from dcfw_studies import Store, Task, inner, table_file
from dcfw_studies.report import write_report
from dcfw_studies.store import csv_text
from dcfw_studies.table_file import read_table

HEADER = "dataset,method,seed,status,seconds\r\n"


def test_mutated_rows_are_refused_by_name_or_read_by_every_reader() -> None:
    """Run more of them with ``python tests/cases/fuzz_rows.py 2000``."""
    assert set(fuzz_rows.run(200, seed=1).counts) <= {"refused", "read", "reported"}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (f"{HEADER}box,fw/given,0,CONVERGED,1", "row 2: its end is missing"),
        (f"{HEADER}box,fw/given,0,CONVERGED\r\n", "row 2: fewer cells"),
        (f"{HEADER}box,fw/given,0,CONVERGED,1,2\r\n", "row 2: more cells"),
        (f"{HEADER}\r\nbox,fw/given,0,CONVERGED,1\r\n", "row 2: an empty line"),
        (HEADER + "box,fw/given,0,CONVERGED,1\r\n" * 2, "row 3: the run of row 2 again"),
        (f"{HEADER}box,fw/given,1_0,CONVERGED,1\r\n", "row 2: '1_0' is no number"),
        (f"{HEADER}box,fw/given,\u0661,CONVERGED,1\r\n", "row 2: '\u0661' is no number"),
        (f"{HEADER}box,fw/given,0,CONVERGED,1e400\r\n", "row 2: '1e400' is no number"),
        (f"{HEADER}box,fw/given,{'9' * 19},CONVERGED,1\r\n", "row 2: '9999"),
        (f"{HEADER}box,fw/given,0,CONVERGED,nan\r\n", "row 2: the result's seconds must be finite"),
        (f"{HEADER}box,fw/given,0,CONVERGED,-1\r\n", "row 2: the result's seconds must be in"),
        (f'{HEADER}box,"fw/given,0,CONVERGED,1\r\n', "not a CSV file"),
        (f'{HEADER}box,"fw"/given,0,CONVERGED,1\r\n', "not a CSV file"),
        (f"{HEADER}box,{'x' * 140_000},0,CONVERGED,1\r\n", "not a CSV file"),
        ("seconds," + HEADER + "1,box,fw/given,0,CONVERGED,2\r\n", "column 'seconds' twice"),
        ("key," + HEADER + "1,box,fw/given,0,CONVERGED,2\r\n", "row 2: .*key"),
    ],
)  # fmt: skip
def test_a_line_that_no_report_has_is_refused_with_its_row_and_nothing_is_stored(
    tmp_path: Path, content: str, named: str
) -> None:
    (tmp_path / "rows.csv").write_text(content, encoding="utf-8", newline="")
    with Store(":memory:") as store:
        with pytest.raises(ValueError, match=rf"(?s)rows\.csv.*{named}"):
            inner.import_rows(store, str(tmp_path))
        assert store.studies() == []


def test_a_wide_header_over_many_short_lines_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(",".join(f"c{k}" for k in range(50_000)) + "\n" + "1\n" * 50_000)
    with pytest.raises(ValueError, match=r"rows\.csv, row 2: fewer cells"):
        read_table(path, ())


def test_a_table_that_is_not_a_file_or_too_large_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").write_text(HEADER)
    monkeypatch.setattr(table_file, "LARGEST", 10)
    with pytest.raises(ValueError, match=r"rows\.csv is no file, or"):
        read_table(tmp_path / "rows.csv", ())
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.csv")  # without a writer
        with pytest.raises(ValueError, match=r"pipe\.csv is no file, or"):
            read_table(tmp_path / "pipe.csv", ())


@pytest.mark.parametrize("text", ["=1", "'=1", "''@x", "'", "-1", "'-1", "\t=1", "two\r\nlines", "a\x00b"])
def test_texts_come_back_from_a_table_and_no_cell_or_column_is_a_formula(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(csv_text([{"note": text, "=cmd()": "x"}]), encoding="utf-8", newline="")
    assert read_table(path, ["note", "=cmd()"]) == [{"note": text, "=cmd()": "x"}]
    assert path.read_text().splitlines()[0] == "note,'=cmd()"


def test_a_spreadsheet_may_have_put_a_mark_before_the_first_column(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"\xef\xbb\xbf" + HEADER.encode())
    assert read_table(tmp_path / "rows.csv", ["dataset"]) == []


def test_a_report_of_rows_that_are_not_ours_names_the_store(tmp_path: Path) -> None:
    with Store(tmp_path / "rows.db") as store:
        store.finish(Task("box", "fw/given", 0, {}, "inner"), {"status": "CONVERGED"}, seconds=1.0)
    with pytest.raises(ValueError, match=r"rows\.db: no report can be made of its rows of 'inner'"):
        write_report("inner", tmp_path / "rows.db", tmp_path / "out", figures=False)
