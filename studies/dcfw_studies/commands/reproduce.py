"""``dcfw-studies reproduce``: run a study of the paper, or a quick part of it, and write its report."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dcfw.cli.application import wrong_ones_are_usage_errors
from dcfw_studies.commands.settings import AsJson, Settings

STORE, FOLDER = Path("dcfw-study.db"), Path("dcfw-results")

# The studies of `dcfw_studies.catalogue`, which `--help` does not load.
Name = StrEnum("Name", ["gaps", "qap", "alignment", "networks", "inner", "all"])


def reproduce(
    name: Annotated[Name, typer.Argument(metavar="STUDY", help="Which study.")],
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The whole study, or a part of a minute or two.")
    ] = False,
    n_jobs: Annotated[
        int, typer.Option(help="Rows to compute at the same time; -1 for one per core.", metavar="N")
    ] = -1,
    dask: Annotated[
        str | None,
        typer.Option(help="Compute on a Dask cluster: the address of its scheduler.", metavar="ADDRESS"),
    ] = None,
    store: Annotated[Path, typer.Option(help="The file that keeps the rows.", metavar="FILE")] = STORE,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to write FOLDER/STUDY/README.md.", metavar="FOLDER")
    ] = FOLDER,
    chosen_settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run a study of the paper and write its tables and figures beside the published numbers.

    \b
    STUDY      what it shows                                     --full takes
    gaps       figure 1: gaps near minima, saddles and maxima    1 minute
    qap        DC-FW against FW (after `dcfw-studies fetch qaplib`)      80 hours
    alignment  DC-FW, FW-K, FW-M on embeddings                   2 hours
    networks   training in boxes (needs "dcfw-studies[networks]")        4 hours
    inner      inner solvers and splits on nine families         10 minutes
    all        one after the other

    These are times on 2 cores. `--quick`, the default, is a part of each that takes a minute or two; it says
    which part it is.
    Every row is stored as it finishes. Interrupt or kill it at any time: the same command goes on from
    there. Several of these commands may share a store, and no row is done twice.
    `--full` after `--quick` keeps the rows of the quick part.  `--set` chooses a part
    of your own, by the parameters of `study` in the module of the study.

    \b
    Examples:
      dcfw-studies reproduce inner
      dcfw-studies reproduce qap --quick --n-jobs 2
      dcfw-studies reproduce alignment --full --store alignment.db -o results
      dcfw-studies reproduce qap --full --dask tcp://192.168.0.10:8786
      dcfw-studies reproduce all --json > summary.json
      dcfw-studies reproduce qap --set methods=fw,dcfw-1 --set max_n=50

    \b
    A cluster is started with, for example:
      dask scheduler
      dask worker tcp://192.168.0.10:8786 --nworkers 4 --nthreads 1
    """
    # Times of rows are compared: one BLAS thread each, which must be set before NumPy is loaded.
    for variable in ("OPENBLAS", "MKL", "OMP"):
        os.environ[f"{variable}_NUM_THREADS"] = "1"
    from dcfw_studies.catalogue import CATALOGUE
    from dcfw_studies.runner import count_jobs

    if chosen_settings and name is Name.all:
        raise typer.BadParameter("--set is for one study, not for all")
    with wrong_ones_are_usage_errors():
        count_jobs(n_jobs)
    chosen = list(CATALOGUE) if name is Name.all else [name.value]
    answer: dict[str, Any] = {"store": str(store), "studies": [], "not_run": {}}
    studies = {}
    for each in chosen:
        try:
            studies[each] = CATALOGUE[each].study(full, chosen_settings)
        except (ImportError, FileNotFoundError) as error:
            if name is not Name.all:
                raise
            answer["not_run"][each] = str(error)
            typer.echo(f"{each} is left out: {error}", err=True)
    try:
        for each, study in studies.items():
            answer["studies"].append(
                _run(CATALOGUE[each], study, full, store, output / each, n_jobs=n_jobs, dask=dask)
            )
            if not as_json:
                typer.echo(_text(answer["studies"][-1]))
    except KeyboardInterrupt:
        there = f"finished rows are kept in {store}, the same command goes on from there"
        typer.echo(f"dcfw-studies: interrupted; {there}", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        typer.echo(f"rows are kept in {store}: see dcfw-studies study status {store}")
    if failed := sum(entry["failed"] for entry in answer["studies"]):
        hint = f"see dcfw-studies study status {store} --failures"
        typer.echo(f"dcfw-studies: {failed} rows failed: {hint}", err=True)
    if failed or answer["not_run"]:
        raise typer.Exit(1)


def _run(
    entry: Any, study: Any, full: bool, path: Path, folder: Path, *, n_jobs: int, dask: str | None
) -> dict[str, Any]:
    """Compute the rows that are missing, write the report, and return what was done."""
    from dcfw_studies import Store, run
    from dcfw_studies.progress import ProgressBar
    from dcfw_studies.runner import count_jobs

    processes = None if dask else count_jobs(n_jobs)
    keys = {task.key for task in study.tasks}
    part = "full" if full else "quick"
    with Store(path) as store:
        there = len(keys & store.finished_keys(study))
        left = f"{len(study.tasks)} rows" + (f", {there} of them in {path} already" if there else "")
        typer.echo(f"{entry.name}, {part}: {entry.part(full).what}", err=True)
        typer.echo(f"{left}; the whole part takes {entry.time(full, processes)}", err=True)
        with ProgressBar(entry.name) as bar:
            summary = run(study, store, n_jobs=n_jobs, dask=dask, progress=bar)
        names = ("dataset", "method", "seed", "settings", "error")
        failures = [{name: failure[name] for name in names} for failure in store.failures(study)]
        finished = len(keys & store.finished_keys(study))
    files: list[Path] = []
    if finished:
        with ProgressBar(f"{entry.name}: writing the report"):
            files = entry.write_report(str(path), folder)
    return {
        **{"study": entry.name, "part": part, "what": entry.part(full).what},
        **{"rows": len(study.tasks), "finished": finished},
        **{name: getattr(summary, name) for name in ("done", "skipped", "failed", "elsewhere")},
        **{"seconds": round(summary.seconds, 3), "failures": failures},
        "report": [str(file) for file in files],
    }


def _text(done: dict[str, Any]) -> str:
    other = f", {done['elsewhere']} with another runner" if done["elsewhere"] else ""
    files = done["report"]
    readme = [file for file in files if file.endswith("README.md")] or files[:1]
    return "\n".join(
        [
            f"{done['study']}: {done['finished']} of {done['rows']} rows are there, {done['done']} of them "
            f"computed now in {done['seconds']:.1f} s, {done['failed']} failed{other}",
            *(f"  the report is {file} ({len(files)} files)" for file in readme),
        ]
    )
