"""``dcfw demo``: a first solve of three kinds of problem, without any data or network."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("demo")(demo)


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Solve three small problems with DC-FW and its rivals, and show what is certified.

    A difference of two quadratics over the simplex; a quadratic assignment problem whose optimum is known;
    and the smooth nonconvex function of the paper's figure 1.  It takes some seconds, and longer the first
    time, when loops are compiled.

    \b
    Examples:
      dcfw demo
      dcfw demo --json
    """
    rows = list(_with_progress(list(solves())))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        _print(rows)


@dataclass(frozen=True)
class Solve:
    """One line of the table: which problem, which method, and how to run it."""

    problem: str
    method: str
    run: Callable[[], Any]


def solves() -> Iterator[Solve]:
    """Yield all lines of the table."""
    yield from _simplex()
    yield from _assignment()
    yield from _waves()


def _simplex() -> Iterator[Solve]:
    import numpy as np

    import dcfw
    from dcfw import functions, sets

    rng = np.random.default_rng(0)
    n = 30
    F, G = rng.standard_normal((n, n)), rng.standard_normal((n, n // 4))
    phi = functions.Quadratic(F @ F.T / n) - functions.Quadratic(G @ G.T / n)
    problem = f"DC quadratic on the simplex, n = {n}"
    runs: list[tuple[str, dict[str, Any]]] = [
        ("FW", {"method": "fw"}),
        ("FW-M", {"method": "fw-m"}),
        ("DC-FW, vanilla steps", {"inner": "fw"}),
        ("DC-FW, blended steps (the default)", {}),
    ]
    for label, options in runs:
        run = partial(dcfw.minimize, phi, sets.Simplex(n), tol=1e-4, maxiter=10_000, **options)
        yield Solve(problem, label, run)


def _assignment() -> Iterator[Solve]:
    from dcfw import qap

    instance = qap.generators.li_pardalos((5, 6), rng=0)
    problem = f"QAP, n = {instance.n}, optimum {instance.best}"
    runs: list[tuple[str, dict[str, Any]]] = [
        ("FW (as in FAQ)", {"method": "fw"}),
        ("DC-FW, the paper's split", {"split": "paper"}),
        ("DC-FW, spectral split", {"split": "spectral"}),
        ("DC-FW, best of 10, 2-opt", {"restarts": 10, "polish": "2opt"}),
    ]
    small = qap.generators.li_pardalos((2, 3), rng=0)
    for label, options in runs:

        def run(options: dict[str, Any] = options) -> Any:
            qap.solve(small.A, small.B, rng=0, **options)  # compiled before the clock starts
            return qap.solve(instance.A, instance.B, rng=0, **options)

        yield Solve(problem, label, run)


def _waves() -> Iterator[Solve]:
    import numpy as np

    import dcfw
    from dcfw import functions, sets, splits

    def value(x: Any) -> float:
        return float(np.sin(np.pi * x[0]) * np.cos(np.pi * x[1]))

    def grad(x: Any) -> Any:
        a, b = np.pi * x
        return np.pi * np.array([np.cos(a) * np.cos(b), -np.sin(a) * np.sin(b)])

    phi = functions.Smooth(value, grad, lipschitz=math.pi**2)
    problem = "sin(pi x) cos(pi y), minimum -1"
    start = np.array([0.4, 0.3])
    for label, objective, method in (
        ("FW", phi, "fw"),
        ("DC-FW, sliding split", splits.sliding(phi), "dcfw"),
        ("DC-FW, proximal split", splits.proximal(phi), "dcfw"),
    ):
        run = partial(dcfw.minimize, objective, sets.Box(-1.0, 1.0, 2), start, method=method, tol=1e-3)
        yield Solve(problem, label, run)


def _with_progress(lines: list[Solve]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table, with a bar on the standard error stream if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=len(lines))
        for line in lines:
            bar.update(task, description=f"{line.problem.partition(',')[0]}: {line.method}")
            begun = time.perf_counter()
            result = line.run()
            yield _row(line, result, time.perf_counter() - begun)
            bar.advance(task)


def _row(line: Solve, result: Any, seconds: float) -> dict[str, Any]:
    """Return one line of the table; assignment values are those of the permutation."""
    low, high = result.dc_gap
    return {
        "problem": line.problem,
        "method": line.method,
        "value": result.fun,
        "dc_gap": [float(low), float(high)],
        "lmo_calls": result.n_lmo,
        "seconds": result.get("total_time", seconds),
        "status": result.status.name,
    }


def _print(rows: list[dict[str, Any]]) -> None:
    """Print the rows as one table, a section for each problem."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(caption="certified gap: an interval that holds gap_DC; 0 means stationary")
    table.add_column("problem and method", no_wrap=True)
    for name in ("value", "certified gap", "LMO calls", "seconds"):
        table.add_column(name, justify="right")
    last = None
    for row in rows:
        if row["problem"] != last:
            table.add_section()
            table.add_row(f"[bold]{row['problem']}[/bold]")
            last = row["problem"]
        low, high = row["dc_gap"]
        table.add_row(
            f"  {row['method']}",
            str(row["value"]) if isinstance(row["value"], int) else f"{row['value']:.5f}",
            Text(f"[{low:.1g}, {high:.1g}]"),
            str(row["lmo_calls"]),
            f"{row['seconds']:.2f}",
        )
    Console(width=None if sys.stdout.isatty() else 100).print(table)
