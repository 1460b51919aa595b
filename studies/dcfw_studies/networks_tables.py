"""The numbers of the networks study's report, and the paper's two claims as found.

The claims are about growing c: DC-FW keeps its behaviour, Frank-Wolfe slows down.  They are judged by the
training loss after the last epoch at c = 100 against c = 1, for each method, with the same seeds.  Only runs
of one :class:`Panel` are combined: the same part, data, epochs, images and precision.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dcfw_studies.networks import ONE_RUN, PARTS, RADII

Row = Mapping[str, Any]

TITLES = {
    "dcfw": "DC-FW",
    "dcfw-exact": "DC-FW, closed form",
    "dcfw-paper": "DC-FW, the paper's tolerance",
    "dcfw-authors": "DC-FW, the authors' code",
    "fw": "FW, open loop",
    "sfw": "SFW, rescaled",
    "sgd": "SGD",
    "adamw": "AdamW",
}
PART_TITLES = {
    "digits": "Convolutional network, digits",
    "head": "Linear head on EfficientNet-Lite0 features, CIFAR-10",
    "cnn": "Convolutional network, CIFAR-10",
}
SHORT_TITLES = {"digits": "CNN, digits", "head": "head on features, CIFAR-10", "cnn": "CNN, CIFAR-10"}
MEASURES = ("train_loss", "test_loss", "train_accuracy", "test_accuracy")
BESIDES = ("inner_steps", "at_bound", "largest")
CLAIMED = ("dcfw", "dcfw-authors", "fw", "sfw")
SHOWN = (*CLAIMED, "sgd", "adamw")  # methods in the charts


class Panel(NamedTuple):
    """A part of the study in one setting: what its runs have in common."""

    part: str
    dataset: str
    epochs: int
    images: int | None
    precision: str

    @classmethod
    def of(cls, line: Row) -> Panel:
        """Return the panel of a row, or of a line of the tables below."""
        precision = line.get("precision") or "float32"
        return cls(line["part"], line["dataset"], line["epochs"], line.get("images"), precision)

    @property
    def place(self) -> tuple[Any, ...]:
        """The sort key; all images come after fewer."""
        images = np.inf if self.images is None else self.images
        return PARTS.index(self.part), self.dataset, self.epochs, images, self.precision

    def named(self, titles: Mapping[str, str], setting: str = "") -> str:
        title = titles[self.part]
        if self.dataset == "cifar100":
            title = title.replace("CIFAR-10", "CIFAR-100")
        return f"{title}, {setting}" if setting else title


Key = tuple[Panel, str, float, float | None]  # panel, method, L, c


def panels(rows: Iterable[Row]) -> dict[Panel, str]:
    """Return the panels in order, each with its setting in words where its part has several.

    >>> run = {"part": "digits", "dataset": "digits"}
    >>> list(panels([{**run, "epochs": 30}, {**run, "epochs": 5}]).values())
    ['5 epochs', '30 epochs']
    """
    found = sorted({Panel.of(r) for r in rows}, key=lambda panel: panel.place)

    def setting(panel: Panel) -> str:
        others = [p for p in found if (p.part, p.dataset) == (panel.part, panel.dataset)]
        words = {"epochs": f"{panel.epochs} epochs", "images": f"{panel.images or 'all'} images"}
        words["precision"] = panel.precision
        return ", ".join(text for name, text in words.items() if len({getattr(p, name) for p in others}) > 1)

    return {panel: setting(panel) for panel in found}


def short_names(rows: Iterable[Row]) -> dict[Panel, str]:
    """Return the panels in order, each with the short name of its part and setting."""
    return {panel: panel.named(SHORT_TITLES, setting) for panel, setting in panels(rows).items()}


def groups(rows: Iterable[Row]) -> dict[Key, list[Row]]:
    """Return (panel, method, L, c) -> its rows, in the order of the tables."""
    found: dict[Key, list[Row]] = {}
    for r in rows:
        found.setdefault((Panel.of(r), r["method"], r.get("L", 10.0), r["c"]), []).append(r)
    methods = list(TITLES)

    def place(key: Key) -> tuple[Any, ...]:
        panel, method, L, c = key
        return panel.place, methods.index(method), L, c or 0.0

    return {key: found[key] for key in sorted(found, key=place)}


def summary_table(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one line per panel, method, L and c: means and standard deviations over the seeds."""
    lines = []
    for (panel, method, L, c), runs in groups(rows).items():
        line: dict[str, Any] = {**panel._asdict(), "method": method, "L": L, "c": c, "seeds": len(runs)}
        for name in (*MEASURES, *BESIDES):
            values = [float(r[name]) for r in runs if r[name] is not None]
            line[name] = float(np.mean(values)) if values else None
            if name in MEASURES:
                line[f"{name}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
        line["seconds"] = float(np.mean([r["seconds"] for r in runs]))
        lines.append(line)
    return lines


def growth(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return, for each panel and method, the last epoch at c = 1, 10 and 100 over common seeds."""
    rows = list(rows)
    by_c: dict[tuple[Panel, str, float], dict[float, dict[int, Row]]] = {}
    for (panel, method, L, c), runs in groups(rows).items():
        if c is not None:
            by_c.setdefault((panel, method, L), {})[c] = {r["seed"]: r for r in runs}
    settings = panels(rows)
    lines = []
    for (panel, method, L), found in by_c.items():
        seeds = sorted(set.intersection(*(set(runs) for runs in found.values())))
        if set(found) != set(RADII) or not seeds:
            continue
        line: dict[str, Any] = {**panel._asdict(), "setting": settings[panel], "method": method, "L": L}
        line["seeds"] = len(seeds)
        for name, c in itertools.product(("train_loss", "test_accuracy"), RADII):
            line[f"{name}_{c:g}"] = float(np.mean([found[c][s][name] for s in seeds]))
        line["loss_ratio"] = line["train_loss_100"] / max(line["train_loss_1"], 1e-12)
        line["accuracy_change"] = line["test_accuracy_100"] - line["test_accuracy_1"]
        losses = np.array([[found[c][s]["train_loss"] for s in seeds] for c in (1.0, 100.0)])
        spread = float(np.std(losses, axis=1, ddof=1).max()) if len(seeds) > 1 else 0.0
        line["within_spread"] = bool(abs(line["train_loss_100"] - line["train_loss_1"]) < spread)
        lines.append(line)
    return lines


def precisions(rows: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Return the pairs of runs, in float32 and in bfloat16, that differ in nothing else."""
    found: dict[Key, dict[int, dict[str, Row]]] = {}
    for (panel, method, L, c), runs in groups(rows).items():
        by_seed = found.setdefault((panel._replace(precision=""), method, L, c), {})
        for r in runs:
            by_seed.setdefault(r["seed"], {})[panel.precision] = r
    pairs = (pair for by_seed in found.values() for _, pair in sorted(by_seed.items()))
    return [(pair["float32"], pair["bfloat16"]) for pair in pairs if len(pair) == 2]


def curve_lines(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [
        {name: r.get(name) for name in ONE_RUN}
        | {"epoch": epoch + 1, **{name: values[epoch] for name, values in r["curves"].items()}}
        for r in rows
        for epoch in range(len(r["curves"]["train_loss"]))
    ]


def mean_curve(runs: Iterable[Row], name: str) -> np.ndarray:
    """Return the mean curve of runs, NaN where nothing was recorded."""
    curves = [[np.nan if v is None else v for v in r["curves"][name]] for r in runs]
    if len({len(curve) for curve in curves}) > 1:
        raise ValueError("runs with the same settings have curves of different lengths: one is not of them")
    return np.asarray(np.mean(np.array(curves, dtype=float), axis=0))


def what_was_run(rows: list[dict[str, Any]]) -> list[str]:
    """List what was run per part and setting."""
    lines = []
    for part in PART_TITLES:
        found = [panel for panel in panels(rows) if panel.part == part]
        if not found:
            lines.append(f"{PART_TITLES[part]}: not run.")
        for panel in found:
            chosen = [r for r in rows if Panel.of(r) == panel]
            seeds = sorted({r["seed"] for r in chosen})
            lines.append(
                f"{panel.named(PART_TITLES)}: {len(chosen)} runs, {panel.epochs} epochs, "
                f"{panel.images or 'all'} training images, {panel.precision}, "
                f"seeds {', '.join(map(str, seeds))}, {sum(r['seconds'] for r in chosen) / 60:.0f} minutes."
            )
    return lines


def commands(rows: list[dict[str, Any]]) -> list[str]:
    """Return the commands that compute the rows.

    >>> commands([{"part": "head", "dataset": "cifar10", "epochs": 50}])[1]
    'dcfw-studies reproduce networks --store STORE --set parts=head --set epochs=50'
    """
    lines = ["dcfw-studies fetch cifar10"]
    for panel in panels(rows):
        line = "dcfw-studies reproduce networks --store STORE"
        line += f" --set parts={panel.part} --set epochs={panel.epochs}"
        line += f" --set images={panel.images}" if panel.images else ""
        line += f" --set dataset={panel.dataset}" if panel.dataset == "cifar100" else ""
        line += f" --set precision={panel.precision}" if panel.part == "cnn" else ""
        lines.append(line)
    return lines


def times(ratio: float) -> str:
    """Return a factor in three digits, large ones without an exponent."""
    return f"{ratio:.3g}" if ratio < 1000.0 else f"{ratio:,.0f}"


def verdicts(claims: Iterable[Mapping[str, Any]]) -> list[str]:
    """State the two claims as found: the loss and the accuracy each by its sign.

    A loss is unchanged if it changes by less than a quarter or the standard deviation over the seeds.
    """
    lines = []
    for e in claims:
        if e["L"] != 10.0 or e["method"] not in CLAIMED:
            continue
        ratio, change = e["loss_ratio"], 100 * e["accuracy_change"]
        noise = e["within_spread"]
        worse, better = ratio > 1.25 and not noise, ratio < 0.8 and not noise
        if worse or better:
            against = change >= 0.05 if worse else change <= -0.05
            what = f"{'trains' if against else 'becomes'} {'worse' if worse else 'better'} as c grows"
        else:
            against = abs(change) >= 5.0
            what = "keeps its training loss" if against else "stays put"
        lines.append(
            f"{name_of(e)}: {TITLES[e['method']]} {what}: from c = 1 to c = 100 the training loss is "
            f"multiplied by {times(ratio)}{' (within the spread of the seeds)' if noise else ''} "
            f"{'but' if against else 'and'} the test accuracy {_points(change)}."
        )
    return lines


def name_of(e: Mapping[str, Any]) -> str:
    return Panel.of(e).named(SHORT_TITLES, e["setting"])


def _points(change: float) -> str:
    """Describe by how much an accuracy changes.

    >>> _points(1.23), _points(-15.0), _points(-0.04)
    ('rises by 1.2 points', 'falls by 15.0 points', 'is the same to a tenth of a point')
    """
    if abs(change) < 0.05:
        return "is the same to a tenth of a point"
    return f"{'rises' if change > 0 else 'falls'} by {abs(change):.1f} points"
