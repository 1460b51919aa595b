"""``dcfw demo``: three kinds of problem, DC-FW and its rivals, a table and a page; no data, no network."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dcfw.cli.application import AsJson

Page = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page to write.")]


def demo(output: Page = Path("dcfw-demo.html"), as_json: AsJson = False) -> None:
    """Solve three small problems with DC-FW and its rivals, and show what is certified.

    The matching of two graphs, in which one is planted; the alignment of two sets of vectors that are mostly
    unobserved; and a regression with outliers, smooth and nonconvex.  Prints one table and writes a
    page with the convergence plots, in about ten seconds.

    \b
    Examples:
      dcfw demo
      dcfw demo -o /tmp/demo.html
      dcfw demo --json
    """
    from dcfw.cli.page.document import check_writable, write
    from dcfw.cli.showcase import solves
    from dcfw.cli.showcase_page import demo_page

    check_writable(output)  # before the work
    begun = time.perf_counter()
    outcomes = list(_with_progress(list(solves())))
    written = write(output, demo_page(outcomes, time.perf_counter() - begun))
    rows = [entry.row for entry in outcomes]
    if as_json:
        typer.echo(json.dumps({"page": str(written), "rows": rows}, indent=2))
    else:
        _print(rows)
        typer.echo(f"Plots and more: open {written} in a browser.")


def _with_progress(lines: list[Any]) -> Iterator[Any]:
    """Yield the outcomes, with a live bar on the standard error stream if that is a terminal."""
    from dcfw.cli.showcase import outcome
    from dcfw.progress import Bar

    live = sys.stderr.isatty()
    with Bar("demo", transient=True) as bar:
        for done, line in enumerate(lines):
            bar(done, len(lines), line.method)

            def show(intermediate_result: Any, name: str = line.method, done: int = done) -> None:
                state = intermediate_result
                bar(done, len(lines), f"{name}, step {state.nit}, gap {state.gap:.0e}")

            yield outcome(line, show if live else None)


def _print(rows: list[dict[str, Any]]) -> None:
    """Print the rows as one table, a section for each problem."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dcfw.cli.showcase_page import ended, interval_text

    console = Console(width=None if sys.stdout.isatty() else 110)
    wide = console.width >= 100  # otherwise the method's name needs the room of the seconds
    caption = "certified gap: an interval that holds gap_DC; 0 means stationary"
    table = Table(caption=caption, box=SIMPLE_HEAD, padding=(0, 1 if wide else 0))
    table.add_column("problem and method", min_width=24)
    for name in ("value", "certified gap", "LMO calls", *(["seconds"] if wide else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    last = None
    for row in rows:
        if row["problem"] != last:
            table.add_section()
            table.add_row(Text(row["problem"], style="bold"))
            last = row["problem"]
        table.add_row(
            Text(f"  {row['method']}"),
            str(row["value"]) if isinstance(row["value"], int) else f"{row['value']:.5f}",
            Text(interval_text(row["dc_gap"])),
            "" if row["lmo_calls"] is None else f"{row['lmo_calls']:,}",
            *([f"{row['seconds']:.2f}"] if wide else []),
            ended(row["status"]),
        )
    console.print(table)
