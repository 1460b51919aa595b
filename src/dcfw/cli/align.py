"""``dcfw align``: fit a map between two sets of word vectors of which few entries are known, and test it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dcfw.cli.application import AsJson, certificate, number, one_of, wrong_ones_are_usage_errors

_LAM = "1e-4 of the mean squared length of the source vectors"


def align(
    source: Annotated[Path, typer.Option(help="Source vectors: .vec, .vec.gz, .bin or .npy.")],
    target: Annotated[Path, typer.Option(help="Target vectors, in the same formats.")],
    dictionary: Annotated[
        Path, typer.Option(help="Pairs of words, a source and a target word on each line.")
    ],
    observed: Annotated[float, typer.Option(help="The part of the target entries that is known.")] = 0.1,
    holdout: Annotated[float, typer.Option(help="The part of the source words kept for the test.")] = 0.2,
    lam: Annotated[float | None, typer.Option(help="Weight of the nuclear norm.", show_default=_LAM)] = None,
    method: Annotated[str, one_of("dcfw", "boosted", "fw-k", "fw-m")] = "dcfw",
    steps: Annotated[int, typer.Option(help="Frank-Wolfe steps, each one polar factor.", min=1)] = 300,
    tol: Annotated[float, typer.Option(help="Stop at this part of the first gap.")] = 1e-4,
    unit: Annotated[bool, typer.Option("--unit/--no-unit", help="Scale all vectors to norm 1.")] = True,
    centre: Annotated[
        bool, typer.Option("--centre/--no-centre", help="Take from each vector its language's mean.")
    ] = False,
    retrieval: Annotated[str, one_of("nn (nearest cosine)", "csls")] = "nn",
    limit: Annotated[
        int, typer.Option(help="Read only this many words of each file; 0 for all.", metavar="WORDS", min=0)
    ] = 0,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out lines that cannot be read, and count them.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Decides the pairs held out and the entries known.", min=0)] = 0,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the rotation (.npy), or the mapped source vectors (.vec, .vec.gz, .bin)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit an orthogonal map with few target entries known, and translate with it.

    Some pairs of the dictionary are held out; of the others only a part of the target entries is kept, and
    the map is fitted to those.  Prints, for the held-out words, the mean cosine and how often the right word
    is the nearest (P@1) or among the nearest five (P@5): before, after, after one step only, and with every
    entry known (full Procrustes).  Ctrl-C ends the fit with the best map so far.

    \b
    Examples:
      dcfw align --source en.vec --target fr.vec --dictionary en-fr.txt
      dcfw align --source en.bin --target fr.vec.gz --dictionary en-fr.txt --json
      dcfw align --source en.npy --target fr.npy --dictionary pairs.tsv \\
        --observed 0.2 --limit 50000 --output mapped.vec
    """
    from dcfw.align.dictionary import read_dictionary
    from dcfw.align.translation import trial
    from dcfw.align.vectors import check_writable
    from dcfw.progress import Bar

    with wrong_ones_are_usage_errors():  # before large files are read
        _check_values(observed, holdout, lam, method, tol, retrieval)
    if output is not None:
        _check_name(output)
    words = read_dictionary(dictionary)
    on_error = "skip" if skip_broken else "raise"
    left, right = (_read(path, limit or None, on_error) for path in (source, target))
    if output is not None and not _holds_the_rotation(output):
        try:
            check_writable(output, left.words)
        except ValueError as error:
            raise ValueError(f"--output: {error}") from None
    with Bar(f"aligning, {method}", transient=True) as bar:

        def show(intermediate_result: Any) -> None:
            bar(intermediate_result.n_lmo, steps, f"gap {intermediate_result.gap:.2g}")

        found = trial(
            left,
            right,
            words,
            observed=observed,
            holdout=holdout,
            lam=lam,
            method=method,
            steps=steps,
            tol=tol,
            unit=unit,
            centre=centre,
            retrieval=retrieval,
            rng=seed,
            callback=show if sys.stderr.isatty() else None,
        )
    report = summary(found, [(str(source), left), (str(target), right)])
    typer.echo(json.dumps(report, indent=2) if as_json else text(report))  # first: writing may fail
    if output is not None:
        _write(output, found, left.words)
    if found.result.status.name == "INTERRUPTED":
        raise typer.Exit(130)


def _read(path: Path, limit: int | None, on_error: str) -> Any:
    """Read vectors; errors name the options of this command."""
    from dcfw.align.rows import SKIPPING
    from dcfw.align.vectors import NAMING, read_vectors
    from dcfw.progress import Bar

    try:
        with Bar(f"reading {path.name}", transient=True) as bar:
            progress = bar if sys.stderr.isatty() else None
            return read_vectors(path, limit=limit, on_error=on_error, progress=progress)
    except (ValueError, FileNotFoundError) as error:
        said = str(error).replace(SKIPPING, "--skip-broken").replace(NAMING, "put one there")
        if said == str(error):
            raise
        raise type(error)(said) from None


def _check_values(
    observed: float, holdout: float, lam: float | None, method: str, tol: float, retrieval: str
) -> None:
    """Refuse values that the trial would refuse, naming the options."""
    from dcfw import _validate
    from dcfw.align import retrieval as translation
    from dcfw.align.solver import METHODS

    _validate.choice(method, "--method", METHODS)
    _validate.choice(retrieval, "--retrieval", translation.METHODS)
    _validate.scalar(observed, "--observed", low=0.0, high=1.0, open_low=True)
    _validate.scalar(holdout, "--holdout", low=0.0, high=1.0, open_low=True, open_high=True)
    if lam is not None:
        _validate.scalar(lam, "--lam", low=0.0)
    _validate.scalar(tol, "--tol", low=0.0, high=1.0)


def _check_name(output: Path) -> None:
    """Refuse a file that cannot be written, before the work."""
    if not output.absolute().parent.is_dir():
        raise ValueError(f"--output: the folder of {output} does not exist")
    if output.is_dir():
        raise ValueError(f"--output must name a file, got the folder {output}")
    if output.name.lower().endswith(".npy.gz"):
        forms = ".npy for the rotation, or in .vec, .vec.gz or .bin for the mapped vectors"
        raise ValueError(f"--output must end in {forms}, got {output}")


def _holds_the_rotation(output: Path) -> bool:
    return output.suffix.lower() == ".npy"


def _write(output: Path, found: Any, words: list[str]) -> None:
    import numpy as np

    from dcfw.align.vectors import write_vectors

    if _holds_the_rotation(output):
        with output.open("wb") as file:  # np.save would add .npy to a name that ends in .NPY
            np.save(file, found.rotation)
    else:
        write_vectors(output, words, found.source @ found.rotation.T + found.shift)


def summary(found: Any, files: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the report in the order of the printed output."""
    result = found.result
    low, high = map(float, result.dc_gap)
    return {
        "source": _file(*files[0]),
        "target": _file(*files[1]),
        "pairs": {"fitted": len(found.fitted[0]), "held_out": len(found.held[0]), "missing": found.missing},
        "observed": found.observed,
        "scores": {
            name: None if row is None else {measure: number(value) for measure, value in row.items()}
            for name, row in found.scores.items()
        },
        "share_of_full": {name: number(found.share(name)) for name in ("cosine", "p@1", "p@5")},
        "method": result.method,
        "objective": float(result.fun),
        "fw_gap": number(result.gap),
        "dc_gap": [low, number(high)],
        "polar_factors": int(result.n_lmo),
        "subgradients": int(result.n_grad_g),
        "seconds": round(float(result.time), 3),
        "status": result.status.name,
        "message": result.message,
    }


def _file(path: str, vectors: Any) -> dict[str, Any]:
    n, d = vectors.matrix.shape
    return {"file": path, "words": n, "dimension": d, "skipped": vectors.skipped}


_NAMES = {"before": "before", "vertex": "after one step", "masked": "after", "full": "full Procrustes"}


def text(report: dict[str, Any]) -> str:
    """Return the report as text."""
    lines = []
    for side in ("source", "target"):
        file = report[side]
        skipped = ", ".join(f"{count} {reason}" for reason, count in file["skipped"].items())
        rest = f" (skipped: {skipped})" if skipped else ""
        lines.append(f"{side:<9}{file['file']}: {file['words']} words, d = {file['dimension']}{rest}")
    pairs = report["pairs"]
    missing = f"{sum(pairs['missing'].values())} of the dictionary without vectors"
    lines += [
        f"pairs    {pairs['fitted']} fitted, {pairs['held_out']} held out; {missing}",
        f"known    {100 * report['observed']:.3g} % of the target entries of the fitted pairs",
        "",
        f"{'held-out words':<18}{'mean cosine':>12}{'P@1':>9}{'P@5':>9}",
    ]
    for name, label in _NAMES.items():
        score = report["scores"][name]
        cells = ["-"] * 3
        if score is not None:
            cosine = "-" if score["cosine"] is None else f"{score['cosine']:.3f}"
            cells = [cosine, *(f"{100 * score[p]:.1f} %" for p in ("p@1", "p@5"))]
        lines.append(f"{label:<18}{cells[0]:>12}{cells[1]:>9}{cells[2]:>9}")
    share = ["-" if v is None else f"{100 * v:.1f} %" for v in report["share_of_full"].values()]
    lines += [
        f"{'after, of full':<18}{share[0]:>12}{share[1]:>9}{share[2]:>9}",
        "",
        f"fit      {report['method']}: {report['polar_factors']} polar factors, {report['subgradients']} "
        f"subgradients, {report['seconds']:.2f} s",
        f"         {certificate(report['dc_gap'], '0 means stationary')}",
        f"stopped  {report['message']}",
    ]
    return "\n".join(lines)
