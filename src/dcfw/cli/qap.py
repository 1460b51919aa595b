"""``dcfw qap``: solve a quadratic assignment problem from matrices in files or an instance by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dcfw.cli.application import (
    AsJson,
    certificate,
    number,
    one_of,
    starting_with,
    wrong_ones_are_usage_errors,
)


def _names(incomplete: str) -> list[str]:
    """Complete the names of the examples that come with dcfw."""
    from dcfw.qap.examples import EXAMPLES

    return starting_with(EXAMPLES)(incomplete)


def _list_names(wanted: bool) -> None:
    if wanted:
        from dcfw.qap import names
        from dcfw.qap.examples import EXAMPLES

        typer.echo("\n".join(EXAMPLES))
        try:
            typer.echo("\n".join(names()))
        except FileNotFoundError:
            remedy = "pip install dcfw-studies, dcfw-studies fetch qaplib"
            typer.echo(f"QAPLIB's own instances: {remedy}", err=True)
        raise typer.Exit


def _file(help: str, *names: str) -> Any:
    return typer.Option(*names, metavar="FILE", help=help)


def _pair(help: str) -> Any:
    return typer.Option(metavar="WHAT=WHERE", help=help)


def qap(
    instance: Annotated[
        str | None,
        typer.Argument(
            metavar="INSTANCE",
            autocompletion=_names,
            help="A name such as grid30 or nug30 (see --list), or a .dat file.",
        ),
    ] = None,
    flow: Annotated[
        Path | None, _file("Matrix A: .csv, .npy, .npz, .mtx, .xlsx; rows may have names.")
    ] = None,
    distance: Annotated[Path | None, _file("Matrix B, likewise.")] = None,
    output: Annotated[Path | None, _file("Write the assignment as CSV.", "-o", "--output")] = None,
    fix: Annotated[
        list[str] | None, _pair("A pair that is given, by name or number; may be repeated.")
    ] = None,
    forbid: Annotated[list[str] | None, _pair("A pair that is not allowed, likewise.")] = None,
    today: Annotated[
        Path | None, _file("Today's assignment, as --output writes it: compare with it and start from it.")
    ] = None,
    blanks_are_zero: Annotated[
        bool, typer.Option("--blanks-are-zero", help="Read empty cells as 0 (they are refused otherwise).")
    ] = False,
    method: Annotated[str, one_of("auto", "graduated", "dcfw", "boosted", "fw (as in FAQ)", "cgs")] = "auto",
    split: Annotated[
        str, one_of("auto", "paper", "sliding", "proximal", "balanced", "centered", "spectral")
    ] = "auto",
    restarts: Annotated[
        str, typer.Option(help="How many starts; auto fills the time limit.", metavar="N|auto")
    ] = "auto",
    polish: Annotated[str, one_of("2opt", "tabu", "none")] = "2opt",
    time_limit: Annotated[
        float, typer.Option(help="Seconds for all starts; inf for no limit.", metavar="SECONDS")
    ] = 5.0,
    seed: Annotated[int, typer.Option(help="Seed of the random starts.", min=0)] = 0,
    jobs: Annotated[int, typer.Option(help="Starts to run at the same time; -1 for all cores.")] = 1,
    maximize: Annotated[bool, typer.Option("--maximize", help="Look for a high value instead.")] = False,
    as_json: AsJson = False,
    names: Annotated[
        bool,
        typer.Option(
            "--list",
            callback=_list_names,
            is_eager=True,
            help="Show the QAPLIB names in the data folder and exit.",
        ),
    ] = False,
) -> None:
    """Find a permutation p with a low value of sum_ij A[i,j] B[p(i),p(j)]: what goes where.

    A is the flow between the things to place, B the distance between the places.
    Prints the value, the best one known and the distance to it, a bound that no permutation can beat, what
    is certified about the relaxed solution, and the permutation (counted from 0).  Ctrl-C ends the search
    with the best one so far.

    \b
    Examples:
      dcfw qap --list
      dcfw qap grid30
      dcfw qap --flow flow.csv --distance distance.csv --output assignment.csv
      dcfw qap --flow f.csv --distance d.csv --fix desk=A1 --forbid door=B4
      dcfw qap --flow f.csv --distance d.csv --today assignment.csv
      dcfw qap my/problem.dat --restarts 20 --polish tabu
      dcfw qap tai50a --restarts auto --time-limit 60 --json
      dcfw qap sko100a --method fw --restarts 1 --polish none
    """
    from dcfw.qap import evaluate, solve

    with wrong_ones_are_usage_errors():
        starts = _checked(method, split, polish, restarts, time_limit, jobs)
        if output is not None:
            _check_output(output)
    problem, names_of_rows, sizes = _problem(instance, flow, distance, "0" if blanks_are_zero else None)
    if sizes[0] > sizes[1]:
        count = f"{sizes[0]} things and {sizes[1]} places: some things stay without a place"
        typer.echo(f"{count} (--flow is between things, --distance between places)", err=True)
    pairs = {
        "partial_match": _pairs(fix, names_of_rows, sizes, "--fix"),
        "forbidden": _pairs(forbid, names_of_rows, sizes, "--forbid"),
    }
    now = None if today is None else _today(today, names_of_rows, sizes)
    result = solve(
        problem.A,
        problem.B,
        method=method,
        split=split,
        maximize=maximize,
        **pairs,
        **({} if now is None else {"init": now}),
        rng=seed,
        polish=None if polish == "none" else polish,
        restarts=starts,
        time_limit=time_limit,
        n_jobs=jobs,
        verbose=int(sys.stderr.isatty()),
    )
    report = summary(problem, result, maximize, **pairs)
    if now is not None:
        report["today"] = evaluate(problem.A, problem.B, now)
    assigned = _assigned(report["permutation"], names_of_rows, sizes)
    if names_of_rows != (None, None) or sizes[0] != sizes[1]:
        report["assignment"] = assigned
    typer.echo(json.dumps(report, indent=2) if as_json else text(report))
    if output is not None:
        _write(output, assigned)
    if result.status.name == "INTERRUPTED":
        raise typer.Exit(130)


def _problem(
    instance: str | None, flow: Path | None, distance: Path | None, blank: str | None
) -> tuple[Any, Any, tuple[int, int]]:
    """Return the problem, the names of the rows of A and of B if their files have them, and their sizes."""
    if flow is None and distance is None:
        if instance is None:
            raise typer.BadParameter("give an INSTANCE (dcfw qap grid30), or --flow FILE and --distance FILE")
        found = find(instance)
        return found, (None, None), (found.n, found.n)
    if instance is not None or flow is None or distance is None:
        raise typer.BadParameter("give either an INSTANCE, or both --flow FILE and --distance FILE")
    from dcfw.cli.matrices import read_matrix
    from dcfw.qap.instances import Instance
    from dcfw.qap.problem import padded

    A, B = read_matrix(flow, blank), read_matrix(distance, blank)
    first, second = (M.toarray() if hasattr(M, "toarray") else M for M in (A.values, B.values))
    n = max(len(first), len(second))
    # The padding of the smaller one has no names.
    found = Instance(f"{flow.name}, {distance.name}", padded(first, n), padded(second, n), n)
    return found, (A.labels, B.labels), (len(first), len(second))


def _today(path: Path, names: Any, sizes: tuple[int, int]) -> Any:
    """Return the permutation in a CSV file of pairs WHAT, WHERE (as ``--output`` writes it)."""
    import csv

    from dcfw.qap.labels import assignment

    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file) if any(map(str.strip, line))]
    if any(len(line) != 2 for line in lines):
        raise typer.BadParameter(f"--today {path}: every line must have two cells, what and where")
    lines = lines[1:] if lines and [cell.strip() for cell in lines[0]] == ["what", "where"] else lines
    pairs: dict[int, int] = {}
    for line in lines:
        row, place = _numbered(line, names, sizes, "--today")
        if row in pairs:
            raise typer.BadParameter(
                f"--today {path} has {line[0].strip()!r} twice: leave one of its lines out"
            )
        pairs[row] = place
    return assignment(pairs, sizes, (None, None), "--today")


def _pairs(given: list[str] | None, names: Any, sizes: Any, option: str) -> list[tuple[int, int]] | None:
    """Return the row numbers of WHAT=WHERE options."""
    if not given:
        return None
    pairs = []
    for text in given:
        entries = text.split("=")
        if len(entries) != 2:
            raise typer.BadParameter(f"{option} takes WHAT=WHERE, for example desk=A1 or 0=5, got {text!r}")
        pairs.append(_numbered(entries, names, sizes, option))
    return pairs


def _numbered(entries: list[str], names: Any, sizes: Any, option: str) -> tuple[int, int]:
    """Return the row numbers of a pair of names or numbers."""
    rows = []
    for entry, labels, size in zip(map(str.strip, entries), names, sizes, strict=True):
        if labels is not None and entry in labels:
            rows.append(labels.index(entry))
        elif entry.isdecimal() and int(entry) < size:
            rows.append(int(entry))
        else:
            what = f"neither a name in the file nor one of the indices from 0 to {size - 1}"
            raise typer.BadParameter(f"{option} has {entry!r}, which is {what}")
    return rows[0], rows[1]


def _assigned(permutation: list[int], names: Any, sizes: tuple[int, int]) -> dict[str, str]:
    """Return the assignment without padding, by name where the files have names."""
    rows, places = (
        labels or [str(i) for i in range(size)] for labels, size in zip(names, sizes, strict=True)
    )
    return {row: places[j] for row, j in zip(rows, permutation, strict=False) if j < len(places)}


def _check_output(path: Path) -> None:
    """Refuse a file that cannot be written, before the search."""
    if path.suffix.lower() in (".xlsx", ".xls"):
        raise ValueError(f"--output writes CSV, which Excel opens: name the file {path.stem}.csv")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"--output {path}: there is no such folder, or it is a folder itself")


def _write(path: Path, assigned: dict[str, str]) -> None:
    import csv

    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("what", "where"), *assigned.items()])


def find(instance: str) -> Any:
    """Return the instance of a name or a path, with its best known value if there is one."""
    from dataclasses import replace

    from dcfw.qap.examples import EXAMPLES, example
    from dcfw.qap.instances import Instance, read
    from dcfw.qap.library import best_known, load

    path = Path(instance)
    if instance in EXAMPLES:
        return example(instance)
    if path.is_dir():
        raise ValueError(f"{instance} is a folder; give a .dat file or the name of an instance of QAPLIB")
    if not (path.suffix or path.name != instance or path.is_file()):
        try:
            return load(instance)
        except KeyError as error:  # its advice is for Python
            advice = str(error).replace("dcfw.qap.names()", "`dcfw qap --list`")
            raise type(error)(advice) from None
    if path.suffix.lower() == ".sln":
        raise ValueError(f"{instance} is a solution; give the instance, a .dat file")
    problem = read(path)
    assert isinstance(problem, Instance)
    best, status = best_known(path)
    return replace(problem, best=best, status=status)


def _checked(method: str, split: str, polish: str, restarts: str, time_limit: float, jobs: int) -> int | str:
    """Return the number of starts; refuse values that the solver would refuse, naming the options."""
    from dcfw import _validate
    from dcfw.qap.quadratics import SPLITS
    from dcfw.qap.solver import METHODS, POLISHES, check_method

    if restarts != "auto" and not (restarts.strip().isdecimal() and int(restarts)):
        raise ValueError(f"--restarts must be a positive integer or 'auto', got {restarts!r}")
    _validate.choice(method, "--method", ("auto", *METHODS))
    _validate.choice(split, "--split", ("auto", *SPLITS))
    _validate.choice(polish, "--polish", (*POLISHES, "none"))
    check_method("dcfw" if method == "auto" else method, split, "auto")
    _validate.scalar(time_limit, "--time-limit", low=0.0, allow_inf=True)
    if restarts == "auto" and time_limit == float("inf"):
        raise ValueError("--restarts auto fills the time limit: give --time-limit in seconds")
    if jobs == 0:
        raise ValueError("--jobs must not be 0; -1 means all cores")
    return restarts if restarts == "auto" else int(restarts)


def summary(problem: Any, result: Any, maximize: bool, **pairs: Any) -> dict[str, Any]:
    """Return the report in the order of the printed output."""
    best = None if maximize else problem.best
    low, high = map(float, result.dc_gap)
    proven = _proven(problem, result, maximize, **pairs)
    return {
        "instance": problem.name,
        "n": problem.n,
        "method": result.method,
        "split": result.split,
        "starts": result.n_starts,
        "value": result.fun,
        "best_known": best,
        "best_known_status": None if best is None else problem.status,
        "relative_error": None if best is None else (result.fun - best) / max(best, 1),
        "bound": proven,
        "relaxed_value": float(result.relaxed_fun),
        "fw_gap": number(result.gap),
        "dc_gap": [low, number(high)],
        "lmo_calls": result.n_lmo,
        "seconds": round(result.total_time, 3),
        "status": result.status.name,
        "message": result.message,
        "permutation": result.permutation.tolist(),
    }


def _proven(problem: Any, result: Any, maximize: bool, **pairs: Any) -> int | float | None:
    """Return the best bound of the value; after Ctrl-C the search's own, None without one."""
    from dcfw.qap import bound
    from dcfw.result import Status, mark_ended

    found = [] if result.bound is None else [result.bound]
    if result.status is not Status.INTERRUPTED:
        try:
            found.append(bound(problem.A, problem.B, maximize=maximize, **pairs))
        except KeyboardInterrupt:
            mark_ended(result, Status.INTERRUPTED)
    better, worse = (min, max) if maximize else (max, min)
    return worse(better(found), result.fun) if found else None  # it may pass the value by rounding


def text(report: dict[str, Any]) -> str:
    """Return the report as text."""
    split = "" if report["split"] == "none" else f", split {report['split']}"
    starts = "1 start" if report["starts"] == 1 else f"{report['starts']} starts"
    lines = [
        f"{report['instance']}, n = {report['n']}: {report['method']}{split}, {starts}, "
        f"{report['seconds']:.2f} s",
        f"value        {_shown(report['value'])}",
    ]
    if report["best_known"] is not None:
        status = "optimal" if report["best_known_status"] == "optimal" else "not proven optimal"
        lines.append(f"best known   {report['best_known']} ({status})")
        lines.append(f"error        {100 * report['relative_error']:.4g} %")
    if "today" in report:
        lines.append(f"today        {_shown(report['today'])}{_saved(report['today'], report['value'])}")
    if report["bound"] is not None:
        proven = _what_it_proves(report["value"], report["bound"])
        lines.append(f"bound        {_shown(report['bound'])} ({proven})")
    if report["starts"] == 1:  # the first of many relaxations says nothing about the value
        certified = certificate(report["dc_gap"], "0: stationary")
        lines.append(f"relaxation   {report['relaxed_value']:.10g}, {certified}")
    lines += [
        f"stopped      {'' if report['starts'] == 1 else 'the best start: '}{report['message']}",
        f"permutation  {' '.join(map(str, report['permutation']))}",
    ]
    if "assignment" in report:
        lines += ["assignment", *(f"  {what}: {where}" for what, where in report["assignment"].items())]
    return "\n".join(lines)


def _shown(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def _saved(today: float, value: float) -> str:
    return f" (the value above is {100 * (value - today) / abs(today):+.3g} %)" if today else ""


def _what_it_proves(value: int | float, bound: int | float) -> str:
    if value == bound:
        return "so the value is optimal"
    side, place = ("lower", "above") if value > bound else ("higher", "below")
    apart = f"; this one is {100 * abs((value - bound) / bound):.3g} % {place}" if bound else ""
    return f"no permutation is {side}{apart}"
