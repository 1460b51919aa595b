"""The report of the GPT part of the networks study: methods, widths, equal time, and a figure."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dcfw.cli.page.parts import Bullets, Section
from dcfw_studies import gpt
from dcfw_studies.report import Drawn, table
from dcfw_studies.store import csv_text

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
SETTINGS: dict[str, type] = {"width": int, "lr": float, "steps": int, "variant": str}
RESULTS: dict[str, type] = {
    "loss": float, "loss_3bit": float, "log_lipschitz": float, "parameters": int, "seconds": float,
    "optimizer_seconds": float, "text": str, "torch": str,
}  # fmt: skip
FIELDS = ("method", *SETTINGS, "seed", *RESULTS, "curve")


def files(rows: Rows) -> dict[str, str]:
    order = list(gpt.RATES)
    rows = sorted(rows, key=lambda r: (order.index(r["method"]), *(r[name] for name in FIELDS[1:6])))
    lines = [{**{name: r[name] for name in FIELDS}, "curve": " ".join(map(str, r["curve"]))} for r in rows]
    return {"gpt.csv": csv_text(lines), "gpt.md": report(rows)}


def section(rows: Rows) -> Section:
    measures = ("loss", "loss_3bit", "log_lipschitz", "seconds")
    columns: dict[str, str | None] = {"method": None, "chosen": None, "seeds": "d", "loss": ".3f"}
    columns |= {"3 bits": ".3f", "log of the product of norms": ".1f", "seconds": ".0f"}
    best = {method: own for method in gpt.RATES if (own := best_rows(rows, method))}
    lines = [[m, setting(r[0]), len(r), *(mean(r, name) for name in measures)] for m, r in best.items()]
    note = (
        "Loss in nats per byte on held-out text that no choice has seen, means over the seeds; settings were "
        "chosen on other text. All runs: gpt.csv and gpt.md."
    )
    claims = [line.removeprefix("- ") for line in comparisons(rows)]
    drawn = Drawn(draw(rows), "training loss; losses by learning rate and width", file="gpt")
    parts: list[Any] = [table("Held-out text", columns, lines, note), Bullets(claims), drawn]
    return Section("A byte-level GPT in norm balls", parts, [], " ".join(claims))


def read_line(line: Mapping[str, str]) -> tuple[str, int, dict[str, Any], dict[str, Any]]:
    """Return (method, seed, settings, result) of a line of ``gpt.csv``."""
    settings = {name: kind(line[name]) for name, kind in SETTINGS.items()}
    result = {name: kind(line[name]) if line[name] else None for name, kind in RESULTS.items()}
    result["curve"] = [float(value) for value in line["curve"].split()]
    return line["method"], int(line["seed"]), settings, result


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows with these values, by default of the standard width and number of steps."""
    wanted = {"width": 96, "steps": gpt.STEPS, **wanted}
    return [r for r in rows if all(r[name] == value for name, value in wanted.items())]


def losses(rows: Iterable[Row], **wanted: Any) -> dict[float, float]:
    """Return the loss of each learning rate on the text for choices, infinite where the run failed."""
    found = {r["lr"]: np.inf if r["loss"] is None else r["loss"] for r in select(rows, seed=0, **wanted)}
    return dict(sorted(found.items()))


def by_rate(rows: Iterable[Row], method: str, width: int) -> dict[float, float]:
    return losses(rows, method=method, width=width, steps=gpt.TRANSFER_STEPS, variant="")


def by_variant(rows: Iterable[Row], method: str) -> dict[tuple[float, str], float]:
    """Return the losses on the text for choices by (learning rate, variant)."""
    variants = ("", *gpt.VARIANTS.get(method, ()))
    found = {v: losses(rows, method=method, variant=v) for v in variants}
    return {(lr, v): loss for v, by_lr in found.items() for lr, loss in by_lr.items()}


def mean(rows: Iterable[Row], name: str) -> float:
    return float(np.mean([r[name] for r in rows]))


def best_rows(rows: Rows, method: str) -> list[Row]:
    """Return the runs with the seeds for the report, at the best setting for choices that has them all."""
    found = by_variant(rows, method)
    reported: list[Row] = []
    for lr, variant in sorted(found, key=found.__getitem__):
        own = [r for r in select(rows, method=method, lr=lr, variant=variant) if r["seed"] in gpt.SEEDS]
        reported = own if len(own) > len(reported) else reported
        if len(reported) == len(gpt.SEEDS):
            break
    return reported


def setting(row: Row) -> str:
    return f"lr {row['lr']:g}" + (f", {row['variant']}" if row["variant"] else "")


def report(rows: Rows) -> str:
    texts = {r["text"][:16] for r in rows}
    size = next((r["parameters"] for r in select(rows)), "?")
    lines = [
        "# A byte-level GPT in norm balls",
        "",
        f"{len(rows)} runs: `dcfw-studies reproduce networks --store STORE --set parts=gpt`, then "
        "`dcfw-studies report STORE --study networks -o results/networks`. What each method is, and how it "
        "was tuned: `dcfw_studies.gpt`. Text: docstrings of the installed NumPy and SciPy (SHA-256 "
        f"{', '.join(sorted(texts))}...); of each ten pieces eight are for training, one is for choices and "
        f"one is held out. {size} parameters at width 96; {gpt.STEPS} steps of {gpt.BATCH} sequences of "
        f"{gpt.CONTEXT} bytes; processor seconds of one thread of a shared machine. Losses are nats per "
        "byte.",
        "",
        "## Held-out text",
        "",
        "Means (and ranges) over seeds that had no part in the choices, at the best settings below that have "
        "them.",
        "",
        "| method | setting | seeds | loss | 3 bits | log of the product of norms | seconds | in the "
        "optimizer |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    names = ("loss", "loss_3bit", "log_lipschitz", "seconds", "optimizer_seconds")
    for method in gpt.RATES:
        if own := best_rows(rows, method):
            losses, (loss, low, lipschitz, whole, part) = (
                [r["loss"] for r in own],
                (mean(own, n) for n in names),
            )
            spread = f"{loss:.3f} ({min(losses):.3f} to {max(losses):.3f})"
            cells = [method, setting(own[0]), str(len(own)), spread, f"{low:.3f}", f"{lipschitz:.1f}"]
            lines.append("| " + " | ".join([*cells, f"{whole:.0f}", f"{part:.0f}"]) + " |")
    lines += ["", *comparisons(rows), "", *choices(rows)]
    lines += [*transfer(rows), *equal_time(rows), *missing(rows)]
    return "\n".join([*lines, "![training loss; losses by learning rate and width](gpt.png)", ""])


def choices(rows: Rows) -> list[str]:
    """Describe what was tried with seed 0, on the text for choices."""
    lines = [
        "## What was tried",
        "",
        "Losses with seed 0 on the text for choices: learning rates with the usual options, then variants at "
        "the best rate; the best is in bold. Four methods have twenty variants each, but for runs that are "
        "missing (at the end). The first eight of the rivals were written down before the first run, their "
        "next eight and sixteen of `scion` when some of `muon`'s were known, the last four of each when all "
        "those were; for `scion`'s last four some twenty runs on text that is left out here had looked at "
        "radii by role. `adamw+`, `scion+` and `dcfw` have none. All begin with their defaults, which were "
        "found on other text: Scion's momentum and radii by sixteen variants on documentation that is left "
        "out here, those of `scion+` on the same documentation.",
        "",
        "| method | settings | learning rates | variants |",
        "| --- | ---: | --- | --- |",
    ]
    for method in gpt.RATES:
        found = by_variant(rows, method)
        low = min(found.values(), default=None)
        cells: dict[bool, list[str]] = {False: [], True: []}  # learning rates, variants
        for (lr, v), loss in found.items():
            name = v or f"{lr:g}"
            cells[bool(v)].append(f"{f'**{name}**' if loss == low else name} ({loss:.3f})")
        if found:
            rates, variants = ", ".join(cells[False]), "; ".join(cells[True])
            lines.append(f"| {method} | {len(found)} | {rates} | {variants} |")
    return [*lines, ""]


def comparisons(rows: Rows) -> list[str]:
    """Compare ``scion`` and ``scion+`` with the other methods, over common seeds."""
    lines = []
    for own, peer in itertools.product(("scion", "scion+"), gpt.RATES):
        ours, theirs = ({r["seed"]: r["loss"] for r in best_rows(rows, m)} for m in (own, peer))
        common = sorted(ours.keys() & theirs.keys())
        if peer != own and common:
            percent = 100.0 * (sum(ours[s] for s in common) / sum(theirs[s] for s in common) - 1.0)
            wins = f"lower with {sum(ours[s] < theirs[s] for s in common)} of {len(common)} seeds."
            lines.append(f"- `{own}` against `{peer}`: {percent:+.1f} % in the mean loss, {wins}")
    return lines


def transfer(rows: Rows) -> list[str]:
    compared = [r for r in rows if r["steps"] == gpt.TRANSFER_STEPS]
    methods = [method for method in gpt.TRANSFER_RATES if any(r["method"] == method for r in compared)]
    if not methods:
        return []
    lines = [
        "## Do learning rates transfer?",
        "",
        f"Loss after {gpt.TRANSFER_STEPS} steps with seed 0 on the text for choices; the best of each width "
        "is in bold. A best rate at the end of its row is not bracketed, and one seed does not tell "
        "differences of a few thousandths apart.",
        "",
    ]
    for method in methods:
        by_width = {width: by_rate(rows, method, width) for width in gpt.WIDTHS}
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
    others = []
    for method, steps in gpt.EQUAL_TIME.items():
        reported = {r["variant"] for r in best_rows(rows, method)}
        own = [r for r in select(rows, method=method, steps=steps) if r["variant"] in reported]
        others.append((method, steps, own))
    if not any(own for _, _, own in others):
        return []
    lines = [
        "## Equal time",
        "",
        "| method | steps | seeds | seconds | loss |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for method, steps, own in [(m, gpt.STEPS, best_rows(rows, m)) for m in ("scion", "muon")] + others:
        if own:
            seconds, loss = mean(own, "seconds"), mean(own, "loss")
            lines.append(f"| {method} | {steps} | {len(own)} | {seconds:.0f} | {loss:.3f} |")
    return [*lines, ""]


def missing(rows: Rows) -> list[str]:
    """List the missing runs, and chosen learning rates that the rows do not support."""
    done = {(r["method"], r["seed"], *(r[name] for name in SETTINGS)) for r in rows}
    left: Counter[str] = Counter()
    for method, seed, settings in gpt.tasks():
        if (method, seed, *(settings[name] for name in SETTINGS)) not in done:
            size = f"width {settings['width']}, {settings['steps']} steps"
            left[f"{method} ({size}{', for the report' if seed in gpt.SEEDS else ''})"] += 1
    lines = []
    if left:
        names = "; ".join(f"{name}: {count}" for name, count in left.items())
        lines += [f"Not run yet: {names}; of some 15 seconds each.", ""]
    for method in gpt.CHOSEN:
        found, own = by_variant(rows, method), best_rows(rows, method)
        if own and (own[0]["lr"], own[0]["variant"]) != min(found, key=found.__getitem__):
            lines += [f"`{method}` is reported at {setting(own[0])}: its best setting lacks seeds.", ""]
    return lines


def draw(rows: Rows) -> bytes:
    """Draw the training loss of each method, and the loss by learning rate and width, as PNG."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for method in gpt.RATES:
        own = best_rows(rows, method)
        if own:
            steps = np.arange(20, gpt.STEPS + 1, 20)
            average = np.mean([r["curve"] for r in own], axis=0)
            left.plot(steps, average, label=f"{method}, {setting(own[0])}")
    left.set(xlabel="step", ylabel="training loss, mean of the seeds", title="Chosen settings, width 96")
    if left.lines:
        left.legend(fontsize="small")
    for method, color in (("scion", "tab:orange"), ("adamw", "tab:red")):
        for width, style in zip(gpt.WIDTHS, (":", "-", "--"), strict=True):
            found = by_rate(rows, method, width)
            low, at = min(found.values(), default=np.inf), by_rate(rows, method, 96) or found
            scaled = [lr / min(at, key=at.__getitem__) for lr in found]
            look = {"color": color, "marker": "o", "label": f"{method}, width {width}"}
            right.plot(scaled, [loss - low for loss in found.values()], style, **look)
    right.set(
        xscale="log",
        xlabel="learning rate / best at width 96",
        ylabel="loss above the best of the width",
        title="Do learning rates transfer?",
    )
    ticks = [0.25, 0.5, 1.0, 2.0, 4.0]
    right.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    right.set_xticks([], minor=True)
    right.legend()
    shown = itertools.product(gpt.TRANSFER_RATES, gpt.WIDTHS)
    right.set_visible(any(by_rate(rows, method, width) for method, width in shown))
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120)
    pyplot.close(figure)
    return picture.getvalue()
