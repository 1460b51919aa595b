"""The report of the GPT part of the networks study: methods, widths, equal time, and a figure."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dcfw.cli.page.parts import Bullets, Section
from dcfw_studies.gpt import (
    BATCH,
    CHOSEN,
    CONTEXT,
    EQUAL_TIME,
    RATES,
    SEEDS,
    STEPS,
    TRANSFER_STEPS,
    TUNING,
    WIDTHS,
    tasks,
)
from dcfw_studies.report import Drawn, table
from dcfw_studies.store import csv_text

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
SETTINGS: dict[str, type] = {"width": int, "lr": float, "steps": int}
RESULTS: dict[str, type] = {
    "loss": float, "loss_3bit": float, "log_lipschitz": float, "parameters": int, "seconds": float,
    "optimizer_seconds": float, "text": str, "torch": str,
}  # fmt: skip
FIELDS = ("method", *SETTINGS, "seed", *RESULTS, "curve")


def files(rows: Rows) -> dict[str, str]:
    """Return the table of all runs and a report of its own, by name."""
    rows = sorted(rows, key=lambda r: (list(RATES).index(r["method"]), *(r[name] for name in FIELDS[1:5])))
    lines = [{**{name: r[name] for name in FIELDS}, "curve": " ".join(map(str, r["curve"]))} for r in rows]
    return {"gpt.csv": csv_text(lines), "gpt.md": report(rows)}


def section(rows: Rows) -> Section:
    """Return the table of the best learning rates, what it says, and the figure."""
    measures = ("loss", "loss_3bit", "log_lipschitz", "seconds")
    columns: dict[str, str | None] = {"method": None, "lr": "g", "seeds": "d", "loss": ".3f", "3 bits": ".3f"}
    columns |= {"log of the product of norms": ".1f", "seconds": ".0f"}
    best = {method: own for method in RATES if (own := best_rows(rows, method))}
    lines = [[m, own[0]["lr"], len(own), *(mean(own, name) for name in measures)] for m, own in best.items()]
    note = "Validation loss in nats per byte; means over the seeds. All runs: gpt.csv and gpt.md."
    claims = [line.removeprefix("- ") for line in comparisons(rows)]
    drawn = Drawn(draw(rows), "training loss; losses by learning rate and width", file="gpt")
    parts: list[Any] = [table("Best learning rates", columns, lines, note), Bullets(claims), drawn]
    return Section("A byte-level GPT in norm balls", parts, [], " ".join(claims))


def read_line(line: Mapping[str, str]) -> tuple[str, int, dict[str, Any], dict[str, Any]]:
    """Return (method, seed, settings, result) of a line of ``gpt.csv``."""
    settings = {name: kind(line[name]) for name, kind in SETTINGS.items()}
    result = {name: kind(line[name]) if line[name] else None for name, kind in RESULTS.items()}
    result["curve"] = [float(value) for value in line["curve"].split()]
    return line["method"], int(line["seed"]), settings, result


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows with these values, in the standard width and number of steps unless said otherwise."""
    wanted = {"width": 96, "steps": STEPS, **wanted}
    return [r for r in rows if all(r[name] == value for name, value in wanted.items())]


def losses(rows: Iterable[Row], **wanted: Any) -> dict[float, float]:
    """Return the validation loss of each learning rate (seed 0); of a run that failed it is infinite."""
    return {
        r["lr"]: np.inf if r["loss"] is None else r["loss"]
        for r in sorted(select(rows, seed=0, **wanted), key=lambda r: r["lr"])
    }


def by_rate(rows: Iterable[Row], method: str, width: int) -> dict[float, float]:
    """Return the losses of the comparison of widths."""
    return losses(rows, method=method, width=width, steps=TRANSFER_STEPS)


def mean(rows: Iterable[Row], name: str) -> float:
    return float(np.mean([r[name] for r in rows]))


def best_rows(rows: Rows, method: str) -> list[Row]:
    """Return the runs of a method at its best learning rate, none if it has none."""
    found = losses(rows, method=method)
    return select(rows, method=method, lr=min(found, key=found.__getitem__)) if found else []


def report(rows: Rows) -> str:
    """Return the text of the report."""
    texts = {r["text"][:16] for r in rows}
    size = next((r["parameters"] for r in select(rows)), "?")
    lines = [
        "# A byte-level GPT in norm balls",
        "",
        f"{len(rows)} runs: `dcfw-studies reproduce networks --store STORE --set parts=gpt`, then "
        "`dcfw-studies report STORE --study networks -o results/networks`. What each method is, and how it "
        "was tuned: `dcfw_studies.gpt`. Text: docstrings of the installed NumPy and SciPy (SHA-256 "
        f"{', '.join(sorted(texts))}...), the last tenth for validation. {size} parameters "
        f"at width 96; {STEPS} steps of {BATCH} sequences of {CONTEXT} bytes; processor seconds of one "
        "thread of a shared machine. Losses are nats per byte on the validation text, means (and ranges) "
        "over the seeds at the best learning rate of seed 0.",
        "",
        "| method | learning rates (loss, seed 0) | seeds | loss | 3 bits | log of the product of norms | "
        "seconds | in the optimizer |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for method in RATES:
        own = best_rows(rows, method)
        if own:
            lines.append(_line(method, losses(rows, method=method), own))
    lines += ["", *comparisons(rows), "", TUNING, "", *transfer(rows), *equal_time(rows), *missing(rows)]
    return "\n".join([*lines, "![training loss; losses by learning rate and width](gpt.png)", ""])


def _line(method: str, tried: Mapping[float, float], own: list[Row]) -> str:
    rates = ", ".join(
        f"**{lr:g}** ({loss:.3f})" if lr == own[0]["lr"] else f"{lr:g} ({loss:.3f})"
        for lr, loss in tried.items()
    )
    found = [r["loss"] for r in own]
    spread = f" ({min(found):.3f} to {max(found):.3f})" if len(own) > 1 else ""
    low, lipschitz, whole, part = (
        mean(own, name) for name in ("loss_3bit", "log_lipschitz", "seconds", "optimizer_seconds")
    )
    return (
        f"| {method} | {rates} | {len(own)} | {mean(own, 'loss'):.3f}{spread} | {low:.3f} | "
        f"{lipschitz:.1f} | {whole:.0f} | {part:.0f} |"
    )


def comparisons(rows: Rows) -> list[str]:
    """Compare ``scion`` with the other methods, over the seeds that both methods have."""
    lines = []
    ours = {r["seed"]: r["loss"] for r in best_rows(rows, "scion")}
    for peer in RATES:
        theirs = {r["seed"]: r["loss"] for r in best_rows(rows, peer)}
        common = sorted(ours.keys() & theirs.keys())
        if peer == "scion" or not common:
            continue
        percent = 100.0 * (sum(ours[s] for s in common) / sum(theirs[s] for s in common) - 1.0)
        wins = sum(ours[s] < theirs[s] for s in common)
        lines.append(
            f"- `scion` against `{peer}`: {percent:+.1f} % in the mean loss, lower with {wins} of "
            f"{len(common)} seeds."
        )
    return lines


def transfer(rows: Rows) -> list[str]:
    """Return the table of learning rates by width."""
    compared = [r for r in rows if r["steps"] == TRANSFER_STEPS]
    methods = [method for method in RATES if any(r["method"] == method for r in compared)]
    if not methods:
        return []
    lines = [
        "## Do learning rates transfer?",
        "",
        f"Validation loss after {TRANSFER_STEPS} steps with seed 0; the best of each width is in bold. "
        "A best rate at the end of its row is not bracketed, and one seed does not tell differences of a few "
        "thousandths apart.",
        "",
    ]
    for method in methods:
        by_width = {width: by_rate(rows, method, width) for width in WIDTHS}
        rates = sorted(set().union(*by_width.values()))
        lines += [
            f"| {method}, width | " + " | ".join(f"lr {lr:g}" for lr in rates) + " | best |",
            "| --- |" + " ---: |" * (len(rates) + 1),
        ]
        for width, found in by_width.items():
            low = min(found, key=found.__getitem__, default=None)
            cells = ["" if lr not in found else f"{found[lr]:.3f}" for lr in rates]
            cells = [f"**{cell}**" if lr == low else cell for lr, cell in zip(rates, cells, strict=True)]
            lines.append(f"| {width} | " + " | ".join(cells) + f" | {'' if low is None else f'{low:g}'} |")
        lines.append("")
    return lines


def equal_time(rows: Rows) -> list[str]:
    """Return the runs with as many steps as take Scion's time."""
    others = [(m, steps, select(rows, method=m, steps=steps)) for m, steps in EQUAL_TIME.items()]
    if not any(own for _, _, own in others):
        return []
    lines = [
        "## Equal time",
        "",
        "| method | steps | seeds | seconds | loss |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    chosen = [("scion", STEPS, best_rows(rows, "scion")), ("muon", STEPS, best_rows(rows, "muon"))]
    for method, steps, own in chosen + others:
        if own:
            lines.append(
                f"| {method} | {steps} | {len(own)} | {mean(own, 'seconds'):.0f} | {mean(own, 'loss'):.3f} |"
            )
    return [*lines, ""]


def missing(rows: Rows) -> list[str]:
    """List the runs that are missing, and chosen learning rates that the rows do not support."""
    done = {(r["method"], r["seed"], *(r[name] for name in SETTINGS)) for r in rows}
    left = [t for t in tasks() if (t[0], t[1], *(t[2][name] for name in SETTINGS)) not in done]
    lines = []
    if left:
        names = (f"{m} ({', '.join(f'{k} {v:g}' for k, v in s.items())}, seed {seed})" for m, seed, s in left)
        lines += [f"Not run yet: {'; '.join(names)}.", ""]
    for method, lr in CHOSEN.items():
        own = best_rows(rows, method)
        if own and own[0]["lr"] != lr:
            lines += [f"`{method}` has its {SEEDS} seeds at {lr:g}, but {own[0]['lr']:g} is better here.", ""]
    return lines


def draw(rows: Rows) -> bytes:
    """Draw the training loss of each method, and the validation loss by learning rate and width, as PNG."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for method in RATES:
        own = best_rows(rows, method)
        if own:
            steps = np.arange(20, STEPS + 1, 20)
            average = np.mean([r["curve"] for r in own], axis=0)
            left.plot(steps, average, label=f"{method}, lr {own[0]['lr']:g}")
    left.set(xlabel="step", ylabel="training loss, mean of the seeds", title="Best learning rates, width 96")
    left.legend()
    for method, color in (("scion", "tab:orange"), ("adamw", "tab:red")):
        for width, style in zip(WIDTHS, (":", "-", "--"), strict=True):
            found = by_rate(rows, method, width)
            low = min(found.values(), default=np.inf)
            right.plot(
                [lr / CHOSEN[method] for lr in found],
                [loss - low for loss in found.values()],
                style,
                color=color,
                marker="o",
                label=f"{method}, width {width}",
            )
    right.set(
        xscale="log",
        xlabel="learning rate / best at width 96",
        ylabel="validation loss above the best of the width",
        title="Do learning rates transfer?",
    )
    right.legend()
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120)
    pyplot.close(figure)
    return picture.getvalue()
