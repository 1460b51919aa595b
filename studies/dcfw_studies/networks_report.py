"""The report of the networks study: tables, charts, and the paper's two claims as found."""

from __future__ import annotations

import importlib
from typing import Any

from dcfw.cli.page.parts import Bullets, Card, Cards, Cell, Chart, Code, Part, Section, Series, Table, Text
from dcfw_studies import networks_tables as tables
from dcfw_studies.networks import RADII, study
from dcfw_studies.report import Figure, json_text, not_there, rows_csv, table
from dcfw_studies.store import Store, csv_text

STYLES = {method: k for k, method in enumerate(tables.TITLES)}
TOLERANCES = {"dcfw": "relative", "dcfw-paper": "the paper's", "dcfw-authors": "the authors' code"}

REPORT = "dcfw-studies report STORE --study networks -o results/networks"
Rows = list[dict[str, Any]]


def sections(store: Store) -> list[Section]:
    rows, texts = split_parts(store.rows("networks"))
    made = [gpt_report().section(texts)] if texts else []
    if not rows:
        return made
    claims = tables.growth(rows)
    what: list[Any] = [
        Text(
            "Every tensor is in the l_inf ball of radius c, biases and normalisation included; batches of "
            "256; L = 10 unless said otherwise (1/L is also the learning rate of SGD and of SFW, which has "
            "momentum 0.9); AdamW with PyTorch's settings. Training figures are means over the epoch as the "
            "network saw the batches, test figures are taken after it; in the tables ± is the standard "
            "deviation over the seeds, not an interval for the mean. What each method is: "
            "`dcfw_studies.training`. The paper trains for 100 epochs on a GPU, with EfficientNet-B0 (its "
            "weights could not be had here; Lite0 stands in its place) and CIFAR-100 besides, and shows one "
            "seed. It states no numbers, only figures, so there are none beside ours."
        ),
        Cards(_cards(rows, claims)),
        Bullets(tables.what_was_run(rows)),
        Code("\n".join([*tables.commands(rows), REPORT])),
    ]
    claimed = [e for e in claims if e["L"] == 10.0 and e["method"] in ("dcfw", "fw")]
    ratios = [f"{tables.times(e['loss_ratio'])} ({tables.TITLES[e['method']]}, {_where(e)})" for e in claimed]
    summary = f"From c = 1 to c = 100 the training loss is multiplied by {', '.join(ratios)}."
    if not ratios:
        summary = "Neither DC-FW nor FW has been run with c = 1, 10 and 100 yet."
    below = [_growth(claims)] if claims else []
    below += [_part(panel, setting, rows) for panel, setting in tables.panels(rows).items()]
    below += _inner_steps(rows) + _precisions(rows)
    if left := not_there(study(tuple(tables.PART_TITLES)), store):
        below.append(Section("What is missing", left))
    return [Section("Networks with bounded weights", what, [*below, *made], summary)]


def gpt_report() -> Any:
    """Return the module of the GPT part, which needs PyTorch."""
    return importlib.import_module("dcfw_studies.gpt_report")


def split_parts(rows: Rows) -> tuple[Rows, Rows]:
    return [r for r in rows if r["part"] != "gpt"], [r for r in rows if r["part"] == "gpt"]


def files(store: Store) -> dict[str, str]:
    rows, texts = split_parts(store.rows("networks", versions=True))
    made = gpt_report().files(texts) if texts else {}
    if not rows:
        return made
    summary = {"table": tables.summary_table(rows), "growth": tables.growth(rows)}
    return made | {
        "rows.csv": rows_csv(rows, without=["curves", "key", "study", "version"]),
        "curves.csv": csv_text(tables.curve_lines(rows)),
        "summary.json": json_text(summary),
    }


def _cards(rows: Rows, claims: Rows) -> list[Card]:
    hours = sum(r["seconds"] for r in rows) / 3600
    cards = [Card("runs", f"{len(rows):,}", f"{hours:.1f} hours of training on one thread of a CPU")]
    for e in claims:
        if e["L"] == 10.0 and e["method"] in tables.CLAIMED:
            of = f"c = 100 against c = 1, {_where(e)}"
            title = f"{tables.TITLES[e['method']]}: training loss"
            cards.append(Card(title, f"x {tables.times(e['loss_ratio'])}", of))
    return cards


def _where(e: dict[str, Any]) -> str:
    """Return the part of a line of the growth, with its setting where it has several."""
    return ", ".join(filter(None, (e["part"], e["setting"])))


def _growth(claims: Rows) -> Section:
    columns: dict[str, str | None] = {"part": None, "method": None, "L": "g", "seeds": "d"}
    columns |= {f"training loss, c = {c:g}": ".3g" for c in RADII} | {"ratio 100 : 1": ",.3g"}
    columns |= {f"test accuracy, c = {c:g}": ".1%" for c in RADII}
    lines = []
    for e in claims:
        losses, accuracies = ([e[f"{k}_{c:g}"] for c in RADII] for k in ("train_loss", "test_accuracy"))
        ratio = Cell(tables.times(e["loss_ratio"]), e["loss_ratio"])
        cells = [tables.name_of(e), tables.TITLES[e["method"]], e["L"], e["seeds"]]
        lines.append([*cells, *losses, ratio, *accuracies])
    note = "The paper: with growing c FW becomes slower, while DC-FW keeps its behaviour. Last epoch, means "
    note += "over the seeds that all three radii have. Below, a loss counts as unchanged if it changes by "
    note += "less than a quarter, or by less than the standard deviation over the seeds."
    listed = table("Loss and accuracy by radius", columns, lines, note)
    return Section("Does the radius matter?", [listed, Bullets(tables.verdicts(claims))])


def _part(panel: tables.Panel, setting: str, rows: Rows) -> Section:
    chosen = [r for r in rows if tables.Panel.of(r) == panel]
    charts = [_curves(chosen, c, kind) for kind in ("train_loss", "test_accuracy") for c in RADII]
    file = "-".join(filter(None, ("epochs", panel.part, setting.replace(", ", "-").replace(" ", "_"))))
    drawn = [chart for chart in charts if chart.series]
    parts: list[Part] = [_table(chosen), *([Figure(drawn, file=file)] if drawn else [])]
    return Section(panel.named(tables.PART_TITLES, setting), parts)


def _curves(rows: Rows, c: float, measure: str) -> Chart:
    series = []
    for (_, method, L, radius), runs in tables.groups(rows).items():
        if method in tables.SHOWN and L == 10.0 and radius in (None, c):
            values = tables.mean_curve(runs, measure).tolist()
            epochs = list(range(1, len(values) + 1))
            series.append(Series(tables.TITLES[method], epochs, values, style=STYLES[method]))
    loss = measure == "train_loss"
    name = "training loss" if loss else "test accuracy"
    caption = "Means over the seeds; SGD and AdamW have no bound."
    title = f"{name.capitalize()}, c = {c:g}"
    return Chart(title, "epoch", name, series, y_scale="log" if loss else "linear", caption=caption)


def _inner_steps(rows: Rows) -> list[Section]:
    lines, series = [], dict[tables.Panel, list[Series]]()
    names = tables.short_names(rows)
    for (panel, method, L, c), runs in tables.groups(rows).items():
        if method in TOLERANCES and L == 10.0 and c is not None:
            values = tables.mean_curve(runs, "inner_steps").tolist()
            lines.append([names[panel], TOLERANCES[method], c, values[0], values[-1]])
            epochs = list(range(1, len(values) + 1))
            # One style for a line in all charts, which share their legend.
            style = len(RADII) * list(TOLERANCES).index(method) + RADII.index(c)
            drawn = Series(f"c = {c:g}, {TOLERANCES[method]}", epochs, values, style=style)
            series.setdefault(panel, []).append(drawn)
    if not lines:
        return []
    charts = [
        Chart(names[panel], "epoch", "inner steps of a tensor, mean", found, y_scale="log")
        for panel, found in series.items()
    ]
    columns = {"part": None, "tolerance": None, "c": "g", "first epoch": ".1f", "last epoch": ".1f"}
    note = (
        "Means over steps and tensors, L = 10. The paper's tolerance only decreases, so the least gap that "
        "noise has produced so far decides; ours is relative to the first gap of each step."
    )
    parts = [table("Inner steps in the first and last epoch", columns, lines, note)]
    return [Section("Inner steps", [*parts, Figure(charts, file="inner_steps")])]


def _precisions(rows: Rows) -> list[Section]:
    pairs = tables.precisions(rows)
    if not pairs:
        return []
    columns: dict[str, str | None] = {"part": None, "method": None, "c": "g", "seed": "d"}
    columns |= {"training loss, float32": ".3g", "training loss, bfloat16": ".3g"}
    columns |= {"test accuracy, float32": ".1%", "test accuracy, bfloat16": ".1%"}
    lines = []
    for one, other in pairs:
        values = [r[name] for name in ("train_loss", "test_accuracy") for r in (one, other)]
        named = tables.SHORT_TITLES[one["part"]], tables.TITLES[one["method"]], one["c"], one["seed"]
        lines.append([*named, *values])
    change = sum(abs(other["test_accuracy"] - one["test_accuracy"]) for one, other in pairs) / len(pairs)
    note = (
        "Pairs of runs that differ in the precision of the layers alone (weights and steps are in float32). "
        "Each rounds in another way from the first step on, so single runs differ as those of two seeds do. "
        f"Mean distance of the test accuracies: {100 * change:.1f} points."
    )
    return [
        Section("bfloat16 against float32", [table("Last epoch in both precisions", columns, lines, note)])
    ]


def _table(rows: Rows) -> Table:
    columns = {"method": None, "L": "g", "c": "g", "seeds": "d", "training loss": ".4g", "test loss": ".4g"}
    columns |= {"training accuracy": ".1%", "test accuracy": ".1%", "at the bound": ".2%"}
    columns |= {"largest weight": ".3g", "inner steps": ".1f", "seconds": ".0f"}
    lines = []
    for e in tables.summary_table(rows):
        cells = [tables.TITLES[e["method"]], None if e["method"] == "adamw" else e["L"], e["c"], e["seeds"]]
        cells += [_spread(e[name], e[f"{name}_sd"], name.endswith("accuracy")) for name in tables.MEASURES]
        lines.append([*cells, *(e[k] for k in ("at_bound", "largest", "inner_steps", "seconds"))])
    return table("Last epoch", columns, lines, "Means over the seeds, with their standard deviations.")


def _spread(mean: float, deviation: float | None, share: bool) -> Cell:
    """Return a mean with its standard deviation if there is one, shares in per cent."""
    text = f"{100 * mean:.1f}" if share else f"{mean:.4g}"
    if deviation is not None:
        text += f" ± {100 * deviation:.1f}" if share else f" ± {deviation:.2g}"
    return Cell(text + (" %" if share else ""), mean)
