"""The QAPLIB study on a page: the tables of its report beside the published numbers, and its charts.

Nothing is computed here.  The numbers are those of :func:`dcfw_studies.qap_report.summarise`, which are
also in ``summary.json``, and of the functions in :mod:`dcfw_studies.qap_tables` that the figures draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcfw.cli.page import Card, Cards, Cell, Chart, Code, Column, Row, Section, Series, Table, Text
from dcfw_studies import qap_tables as tables
from dcfw_studies.qap_report import cost_rows, expected_instances, summarise
from dcfw_studies.qap_tables import PAPER_METHODS, Runs, title
from dcfw_studies.qap_text import MEANING, SINGLE_RUNS, duration, interval, seed_range, verdict
from dcfw_studies.statistics import performance_profile
from dcfw_studies.store import Store

STYLES = ("dcfw-1", "fw", "dcfw-3", "dcfw-centered", "dcfw-2", "blended-spectral", "dcfw-spectral")
"""Methods with a colour of their own, in the order of the colours; the others take the next dash pattern."""

Summary = Mapping[str, Any]


def sections(store: Store) -> list[Section]:
    """Return a section for each protocol that has rows in the store."""
    rows, versions, failures = store.rows("qap"), store.versions("qap"), store.failures("qap")
    found = []
    for protocol in tables.ERROR:
        runs = Runs(rows, protocol)
        if runs.rows:
            failed = [f for f in failures if f["settings"].get("protocol") == protocol]
            found.append(section(runs, summarise(runs, expected_instances(), versions, failed)))
    return found


def section(runs: Runs, summary: Summary) -> Section:
    """Return the section of one protocol."""
    parts = [
        _single_run(runs, summary),
        _heat_map(summary),
        _against_fw(summary),
        _active_sets(summary),
        _costs(runs),
        _instances(runs),
        _coverage(summary),
    ]
    return Section(
        f"QAPLIB, protocol “{runs.protocol}”",
        _what(summary),
        [part for part in parts if part is not None],
        _take_away(summary),
    )


def style(method: str) -> int:
    """Return the number of the colour, dash and marker of a method, the same in all charts."""
    others = [m for m in tables.COST_METHODS if m not in STYLES]
    if method in STYLES:
        return STYLES.index(method)
    return len(STYLES) + (others.index(method) if method in others else len(others))


def _take_away(summary: Summary) -> str:
    ours = summary["single_run"]["all"]
    if ours is None:
        return f"{summary['run']['rows']:,} runs; DC-FW (var 1) and FW have no instance in common yet."
    published = summary["single_run"]["published"]
    return (
        f"DC-FW (var 1) finds the better permutation on {ours['wins']} of {ours['instances']} instances, FW "
        f"on {ours['losses']} (published: {published['wins']} and {published['losses']} of "
        f"{published['instances']})."
    )


def _what(summary: Summary) -> list[Any]:
    run, design = summary["run"], summary["run"]["paper_design_rows"]
    ours, published = summary["single_run"]["all"], summary["single_run"]["published"]
    cards = [
        Card("runs", f"{run['rows']:,}", f"{duration(run['seconds_total'])} of solver time"),
        Card("the paper's design", f"{design['done'] / design['of']:.0%}", _rows_of(design)),
    ]
    if ours is not None:
        cards[:0] = [
            Card(
                "DC-FW (var 1) better than FW",
                f"{ours['wins'] / ours['instances']:.0%}",
                f"{ours['wins']} of {ours['instances']} instances; published {published['wins']} of "
                f"{published['instances']}",
            ),
            Card(
                "mean error of DC-FW (var 1)",
                f"{ours['errors']['dcfw-1']:.4f}",
                f"FW {ours['errors']['fw']:.4f}; published {published['errors']['dcfw-1']:.4f} and "
                f"{published['errors']['fw']:.4f}",
            ),
        ]
    return [
        Text(
            "The quadratic assignment problem, relaxed to doubly stochastic matrices and rounded. Protocol "
            f"“{summary['protocol']}”: {MEANING[summary['protocol']]}. Assignment error: {summary['error']}. "
            "“Better” and “equal” compare exact integer objectives."
        ),
        Cards(cards),
        Text("These commands compute the rows:"),
        Code("\n".join(summary["commands"]["rows"])),
    ]


def _rows_of(design: Mapping[str, int]) -> str:
    return f"{design['done']:,} of {design['of']:,} rows; nothing is extrapolated"


def _single_run(runs: Runs, summary: Summary) -> Section:
    found = summary["single_run"]
    heading = "One run: DC-FW (var 1) against FW"
    if found["all"] is None:
        return Section(heading, [Text("No instance has a row of both methods with seed 0.")])
    lines = []
    for key, name in SINGLE_RUNS.items():
        entry = found[key]
        if entry is not None:
            size = entry["instances"]
            counts = [
                Cell(f"{entry[k]} ({entry[k] / size:.0%})", entry[k] / size)
                for k in ("wins", "losses", "ties")
            ]
            errors = [entry["errors"][m] for m in ("dcfw-1", "fw")]
            lines.append([name, size, *counts, entry.get("sign_test_p"), *errors])
    columns = [Column("run"), Column("instances", "d"), Column("DC-FW better", "d")]
    columns += [Column("FW better", "d"), Column("equal", "d"), Column("sign test p", ".2g")]
    columns += [Column("mean error DC-FW", ".4f"), Column("mean error FW", ".4f")]
    return Section(
        heading,
        [
            Text(verdict(found["all"])),
            Table(
                "Ours beside the published run",
                columns,
                lines,
                f"Seed 0, protocol “{runs.protocol}”; percentages are of the instances.",
            ),
            _error_chart(runs),
        ],
    )


def _error_chart(runs: Runs) -> Chart:
    names, error = tables.ordered_errors(runs)
    first = ["fw", "dcfw-1"]
    series = []
    for method in [*first, *(m for m in runs.methods if m not in first)]:
        places = [k for k, name in enumerate(names, 1) if name in error[method]]
        labels = [names[k - 1] for k in places]
        values = [error[method][name] for name in labels]
        shown = method in first
        series.append(Series(title(method), places, values, labels, style=style(method), hidden=not shown))
    return Chart(
        "Assignment errors, instance by instance",
        "instances, ordered by FW's error",
        "assignment error",
        series,
        kind="scatter",
        caption=f"Seed 0, protocol “{runs.protocol}”. Point at a mark for the name of the instance; the "
        "legend brings in the other methods.",
    )


def _heat_map(summary: Summary) -> Section:
    heading = "All pairs of methods"
    cells = summary["heat_map"]
    if not cells:
        return Section(heading, [Text("No two methods have a row in common.")])
    shares = [cell[whose]["fraction"] for cell in cells for whose in ("ours", "published")]
    low, high = min(shares), max(shares)
    methods = [m for m in PAPER_METHODS if any(m in (c["row"], c["column"]) for c in cells)]
    maps = []
    for whose, caption, note in (
        ("ours", "Ours", "Each pair on the instances x seeds that both methods have."),
        ("published", "Published", f"{tables.PUBLISHED_INSTANCES} instances, {tables.PUBLISHED_RUNS} runs."),
    ):
        shade = {
            (c["row"], c["column"]): Cell(
                f"{c[whose]['fraction']:.0%}",
                c[whose]["fraction"],
                (c[whose]["fraction"] - low) / (high - low) if high > low else 0.5,
            )
            for c in cells
        }
        lines = [[title(a), *(shade.get((a, b), "–" if a == b else None) for b in methods)] for a in methods]
        maps.append(
            Table(
                f"{caption}: how often the row's method beats the column's",
                ["lower error", *(Column(title(m), ".0%") for m in methods)],
                lines,
                note + " The stronger the colour, the more often; one scale for both.",
            )
        )
    pairs = [
        [
            f"{title(c['row'])} < {title(c['column'])}",
            f"{c['ours']['instances']} x {len(c['ours']['seeds'])}",
            Cell(interval(c["ours"], 2), c["ours"]["mean"]),
            c["ours"]["fraction"],
            Cell(interval(c["published"], 2), c["published"]["mean"]),
            c["published"]["fraction"],
        ]
        for c in cells
    ]
    columns = [Column("lower error"), Column("ours on"), Column("ours", ".2f"), Column("of ours", ".1%")]
    columns += [Column("published", ".2f"), Column(f"of {tables.PUBLISHED_INSTANCES}", ".1%")]
    note = "Mean number of instances with the strictly lower error; 90 % Student-t intervals over the seeds. "
    note += f"Protocol “{summary['protocol']}”."
    return Section(heading, [Row(maps), Table("The pairs with their intervals", columns, pairs, note)])


def _against_fw(summary: Summary) -> Section | None:
    lines = [
        [
            title(m),
            f"{entry['instances']} x {len(entry['seeds'])}",
            *(Cell(interval(entry[k]), entry[k]["mean"]) for k in ("wins", "losses")),
            entry["ties"],
            *(Cell(interval(entry[k], 4), entry[k]["mean"]) for k in ("error", "fw_error")),
        ]
        for m, entry in summary["against_fw"].items()
    ]
    if not lines:
        return None
    columns = [Column("method"), Column("instances x seeds"), Column("better than FW", ".1f")]
    columns += [Column("worse", ".1f"), Column("equal", ".1f"), Column("mean error", ".4f")]
    note = "On what both have: means per seed with 90 % intervals. FW's error is that on the same runs. "
    note += f"Protocol “{summary['protocol']}”."
    table = Table("Wins and errors", [*columns, Column("mean error FW", ".4f")], lines, note)
    return Section("Every method against FW", [table])


def _active_sets(summary: Summary) -> Section | None:
    lines = [
        [
            f"{entry['instances']} (n <= {entry['largest_n']}) x {len(entry['seeds'])}",
            entry["laps"]["dcfw-1"],
            entry["laps"]["blended-1"],
            entry["ratio"],
            entry["errors"]["dcfw-1"],
            entry["errors"]["blended-1"],
            Cell(interval(entry["difference"], 4), entry["difference"]["mean"]),
            " : ".join(str(entry["score"][k]) for k in ("wins", "losses", "ties")),
        ]
        for entry in summary["active_sets"]
    ]
    if not lines:
        return None
    columns = [Column("instances x seeds"), Column("LAP solves, vanilla", ",.0f")]
    columns += [Column("blended", ",.0f"), Column("times fewer", ".1f"), Column("mean error, vanilla", ".4f")]
    columns += [Column("blended", ".4f"), Column("difference", ".4f"), Column("better : worse : equal")]
    note = "DC-FW (var 1), same starts and stop. LAP solves are geometric means; the difference is blended "
    note += f"minus vanilla with its 90 % interval over the seeds. Protocol “{summary['protocol']}”."
    return Section("What active sets save", [Table("Vanilla and blended inner steps", columns, lines, note)])


def _costs(runs: Runs) -> Section | None:
    found = tables.costs(runs)
    if not found.table:
        return None
    keys = ("lap_total", "lap_median", "lap_max", "seconds_total", "error_mean", "error_median", "best_known")
    lines = [[title(m), *(entry[k] for k in keys)] for m, entry in found.table.items()]
    columns = [Column("method"), Column("LAP solves", ",d"), Column("median", ",.0f")]
    columns += [Column("largest", ",d"), Column("seconds", ",.1f"), Column("mean error", ".4f")]
    columns += [Column("median error", ".4f"), Column("best known found", "d")]
    aside = ", ".join(f"{title(m)} (instances: {count})" for m, count in found.set_aside.items())
    size = f"{len(found.block.instances)} instances with n <= {tables.SMALL}, seed 0"
    note = (
        f"{size}, protocol “{runs.protocol}”. Seconds depend on the machine and its load; LAP solves do not."
    )
    note += f" Set aside for having too few rows: {aside}." if aside else ""
    profile = performance_profile(tables.solves_to_the_end(runs, found))
    # Out to the right edge, where the last method has arrived.
    steps = [
        Series(title(m), [*tau, 2 * tau[-1]], [*rho, rho[-1]], style=style(m))
        for m, (tau, rho) in profile.items()
    ]
    trade = [
        Series(title(m), [entry["lap_total"]], [entry["error_mean"]], style=style(m))
        for m, entry in found.table.items()
    ]
    charts = [
        Chart(
            "Performance profile of LAP solves",
            "LAP solves over the fewest of any method",
            "fraction of instances",
            steps,
            kind="step",
            x_scale="log",
            caption=f"{size}; a run that did not converge never arrives.",
        ),
        Chart(
            "What the LAP solves buy",
            "LAP solves on all instances together",
            "mean assignment error",
            trade,
            kind="scatter",
            x_scale="log",
            caption=f"{size}. Lower left is better.",
        ),
    ]
    return Section(
        "What the methods cost", [Table("LAP solves, time, error", columns, lines, note), Row(charts)]
    )


def _instances(runs: Runs) -> Section:
    rows = cost_rows(runs, max_n=None)
    named = [(m, title(m)) for m in runs.methods]

    def table(label: str, caption: str, spec: str, note: str) -> Table:
        columns = [Column("instance"), Column("n", "d"), Column("best known", ",d")]
        columns += [Column(name, spec) for _, name in named]
        lines = [
            [r["dataset"], r["n"], r["best"], *(_or_nothing(r[f"{label} {m}"]) for m, _ in named)]
            for r in rows
        ]
        return Table(caption, columns, lines, note)

    note = f"Seed 0, protocol “{runs.protocol}”; empty where a method was not run."
    return Section(
        "Instance by instance",
        [
            table("error", "Assignment errors", ".4f", note),
            table("lap_solves", "LAP solves", ",d", note),
        ],
    )


def _or_nothing(value: Any) -> Any:
    return None if value == "" else value


def _coverage(summary: Summary) -> Section:
    run = summary["run"]
    total = run["instances_of_the_study"]
    lines = [
        [title(e["method"]), seed_range(e["seeds"]), e["instances"], len(e["missing"])]
        for e in run["coverage"]
    ]
    names = sorted({name for counts in run["statuses"].values() for name in counts})
    ended = [[title(m), *(counts.get(n, 0) for n in names)] for m, counts in run["statuses"].items()]
    columns = [
        Column("method"),
        Column("seeds"),
        Column("instances", "d"),
        Column(f"missing of {total}", "d"),
    ]
    parts: list[Any] = [
        Table("What was run", columns, lines, "Seeds of a method that cover the same instances."),
        Table("How the runs ended", ["method", *(Column(n, ",d") for n in names)], ended),
    ]
    return Section("What is there, and what is missing", parts)
