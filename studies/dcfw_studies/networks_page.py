"""The networks study on a page.

The numbers come from :mod:`dcfw_studies.networks_report`; nothing is computed here.
"""

from __future__ import annotations

from typing import Any

from dcfw.cli.page import (
    Bullets,
    Card,
    Cards,
    Cell,
    Chart,
    Code,
    Column,
    Row,
    Section,
    Series,
    Table,
    Text,
)
from dcfw_studies.networks import RADII
from dcfw_studies.networks_report import (
    PART_TITLES,
    SHOWN,
    TITLES,
    Panel,
    commands,
    groups,
    growth,
    mean_curve,
    panels,
    summary_table,
    times,
    verdicts,
    what_was_run,
)
from dcfw_studies.store import Store

STYLES = {method: k for k, method in enumerate(TITLES)}


def sections(store: Store) -> list[Section]:
    """Return the section of the study."""
    rows = store.rows("networks")
    if not rows:
        return []
    claims = growth(rows)
    cards = [
        Card("runs", f"{len(rows):,}", f"{sum(r['seconds'] for r in rows) / 3600:.1f} hours of training")
    ]
    cards += [
        Card(
            f"{TITLES[e['method']]}: training loss",
            f"x {times(e['loss_ratio'])}",
            f"c = 100 against c = 1, {_where(e)}",
        )
        for e in claims
        if e["L"] == 10.0 and e["method"] in ("dcfw", "fw", "sfw")
    ]
    what: list[Any] = [
        Text(
            "Networks whose tensors stay in the l_inf ball of radius c, trained in batches of 256, L = 10. "
            "The paper: with growing c Frank-Wolfe becomes slower, while DC-FW keeps its behaviour. It shows "
            "figures only, so there are no published numbers beside ours."
        ),
        Cards(cards),
        Bullets([line.removeprefix("- ") for line in what_was_run(rows)]),
        Code("\n".join(commands(rows))),
        _growth(claims),
        Bullets([line.removeprefix("- ") for line in verdicts(claims)]),
    ]
    below = [_part(panel, setting, rows) for panel, setting in panels(rows).items()]
    ratios = [
        f"{times(e['loss_ratio'])} ({TITLES[e['method']]}, {_where(e)})"
        for e in claims
        if e["L"] == 10.0 and e["method"] in ("dcfw", "fw")
    ]
    summary = f"From c = 1 to c = 100 the training loss is multiplied by {', '.join(ratios)}."
    if not ratios:
        summary = "Neither DC-FW nor FW has been run with c = 1, 10 and 100 yet."
    return [Section("Networks with bounded weights", what, below, summary)]


def _where(e: dict[str, Any]) -> str:
    """Return the part of a line of the growth, with its setting where there are several."""
    return ", ".join(filter(None, (e["part"], e["setting"])))


def _growth(claims: list[dict[str, Any]]) -> Table:
    columns = [Column("part"), Column("method"), Column("L", "g"), Column("seeds", "d")]
    columns += [Column(f"training loss, c = {c:g}", ".3g") for c in RADII]
    columns += [Column("ratio 100 : 1", ",.3f")]
    columns += [Column(f"test accuracy, c = {c:g}", ".1%") for c in RADII]
    lines = [
        [
            _where(e), TITLES[e["method"]], e["L"], e["seeds"],
            *(e[f"train_loss_{c:g}"] for c in RADII),
            e["loss_ratio"],
            *(e[f"test_accuracy_{c:g}"] for c in RADII),
        ]
        for e in claims
    ]  # fmt: skip
    return Table(
        "Does the radius matter?", columns, lines, "Last epoch, means over the seeds that all three have."
    )


def _part(panel: Panel, setting: str, rows: list[dict[str, Any]]) -> Section:
    chosen = [r for r in rows if Panel.of(r) == panel]
    content: list[Any] = []
    for c in RADII:
        charts = [_curves(chosen, c, kind) for kind in ("train_loss", "test_accuracy")]
        content.append(Row([chart for chart in charts if chart is not None]))
    inner = _inner(chosen)
    if inner is not None:
        content.append(inner)
    return Section(panel.named(PART_TITLES, setting), [_table(chosen), *content])


def _curves(rows: list[dict[str, Any]], c: float, measure: str) -> Chart | None:
    series = []
    for (_, method, L, radius), runs in groups(rows).items():
        if method in SHOWN and L == 10.0 and radius in (None, c):
            values = mean_curve(runs, measure).tolist()
            series.append(
                Series(TITLES[method], list(range(1, len(values) + 1)), values, style=STYLES[method])
            )
    if not series:
        return None
    loss = measure == "train_loss"
    return Chart(
        f"{'Training loss' if loss else 'Test accuracy'}, c = {c:g}",
        "epoch",
        "training loss" if loss else "test accuracy",
        series,
        y_scale="log" if loss else "linear",
        caption="Means over the seeds; SGD and AdamW have no bound.",
    )


def _inner(rows: list[dict[str, Any]]) -> Chart | None:
    series: list[Series] = []
    for (_, method, L, c), runs in groups(rows).items():
        if method in ("dcfw", "dcfw-paper") and L == 10.0 and c is not None:
            values = mean_curve(runs, "inner_steps").tolist()
            name = f"c = {c:g}, {'ours' if method == 'dcfw' else 'paper'}"
            series.append(Series(name, list(range(1, len(values) + 1)), values, style=len(series)))
    if not series:
        return None
    return Chart(
        "Inner steps of a tensor",
        "epoch",
        "inner steps, mean",
        series,
        y_scale="log",
        caption="Ours: tolerance relative to each step's first gap; paper: the only-decreasing tolerance.",
    )


def _table(rows: list[dict[str, Any]]) -> Table:
    columns = [Column("method"), Column("L", "g"), Column("c", "g"), Column("seeds", "d")]
    columns += [Column("training loss", ".4g"), Column("test loss", ".4g")]
    columns += [Column("training accuracy", ".1%"), Column("test accuracy", ".1%")]
    columns += [Column("at the bound", ".2%"), Column("largest weight", ".3g")]
    columns += [Column("inner steps", ".1f"), Column("seconds", ".0f")]
    lines = []
    for e in summary_table(rows):
        spread = e["test_accuracy_sd"]
        accuracy = f"{e['test_accuracy']:.1%}" + ("" if spread is None else f" ± {100 * spread:.1f}")
        lines.append(
            [
                TITLES[e["method"]],
                None if e["method"] == "adamw" else e["L"],
                e["c"],
                e["seeds"],
                e["train_loss"],
                e["test_loss"],
                e["train_accuracy"],
                Cell(accuracy, e["test_accuracy"]),
                e["at_bound"],
                e["largest"],
                e["inner_steps"],
                e["seconds"],
            ]
        )
    return Table(
        "Last epoch", columns, lines, "Means over the seeds; test accuracy with its standard deviation."
    )
