"""The report of the QAPLIB study: its tables beside the published numbers, its charts, and what is missing.

Every number is one of :func:`dcfw_studies.qap_summary.summarise`, which ``summary.json`` has too, or of the
functions in :mod:`dcfw_studies.qap_tables`.  ``rows.csv`` has all rows of the protocol, ``costs.csv`` one
line per instance, ``missing.csv`` the missing rows of the paper's design.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcfw.cli.page.parts import Bullets, Card, Cards, Cell, Chart, Code, Part, Section, Series, Table, Text
from dcfw_studies import qap_tables as tables
from dcfw_studies.qap_summary import cost_rows, expected_instances, summarise
from dcfw_studies.qap_tables import PAPER_METHODS, PUBLISHED_INSTANCES, PUBLISHED_RUNS, SMALL, Runs, title
from dcfw_studies.report import Figure, PageOnly, duration, json_text, rows_csv, table
from dcfw_studies.statistics import performance_profile
from dcfw_studies.store import Store, csv_text

COLUMNS: tuple[str, ...] = ("dataset", "n", "method", "seed", "value", "best")
COLUMNS += ("error_published", "error_relative", "status")
COLUMNS += ("nit", "n_inner", "n_lmo", "gap", "seconds", "protocol", "started", "versions")
MEANING = {
    "published": "what the authors' released code does",
    "text": "what the paper's text says; the published numbers were made by the authors' code instead",
}
SINGLE_RUNS = {"all": "ours, all sizes", "published": "published", f"n <= {SMALL}": f"ours, n <= {SMALL}"}
"""The entries of the summary's ``single_run``, in the order of the table."""
STYLES = ("dcfw-1", "fw", "dcfw-3", "dcfw-centered", "dcfw-2", "blended-spectral", "dcfw-spectral")
"""Methods with a colour of their own, in the order of the colours; the others take the next dash pattern."""

Summary = Mapping[str, Any]


def sections(
    store: Store, protocol: str | None = None, expected: Mapping[str, int] | None = None
) -> list[Section]:
    """Return a section for a protocol, or for each that has rows in the store."""
    rows = store.rows("qap")
    chosen = [Runs(rows, name) for name in (tables.ERROR if protocol is None else [protocol])]
    found = [section(runs, _summary(store, runs, expected)) for runs in chosen if runs.rows]
    if protocol is not None and not found:
        known = ", ".join(sorted({row["protocol"] for row in rows})) or "none"
        raise ValueError(f"the store has no row of protocol {protocol!r}; protocols there: {known}")
    return found


def files(
    store: Store, protocol: str = "published", expected: Mapping[str, int] | None = None
) -> dict[str, str]:
    runs = Runs(store.rows("qap", versions=True), protocol)
    summary = _summary(store, runs, expected)
    return {
        "rows.csv": rows_csv([{name: row.get(name, "") for name in COLUMNS} for row in runs.rows]),
        "costs.csv": csv_text(cost_rows(runs)),
        "missing.csv": csv_text(summary["run"]["missing"]),
        "summary.json": json_text(summary, allow_nan=False),
    }


def _summary(store: Store, runs: Runs, expected: Mapping[str, int] | None) -> Summary:
    failed = [f for f in store.failures("qap") if f["settings"].get("protocol") == runs.protocol]
    return summarise(runs, expected or expected_instances(), store.versions("qap"), failed)


def section(runs: Runs, summary: Summary) -> Section:
    parts = [_single_run(runs, summary), *(make(summary) for make in (_heat_map, _against_fw, _active_sets))]
    parts += [_costs(runs), _instances(runs), _statuses(summary), _coverage(summary)]
    heading = f"QAPLIB, protocol “{runs.protocol}”: DC-FW against Frank-Wolfe"
    return Section(heading, _what(summary), [part for part in parts if part is not None], _take_away(summary))


def style(method: str) -> int:
    """Return the number of the colour, dash and marker of a method, the same in all charts."""
    methods = [*STYLES, *(m for m in tables.COST_METHODS if m not in STYLES), method]
    return methods.index(method)


def interval(entry: Mapping[str, Any], digits: int = 1) -> str:
    """Return a mean with its interval, if it has one, in words.

    >>> interval({"mean": 1.5, "low": 1.0, "high": 2.0}), interval({"mean": 2, "low": None, "high": None})
    ('1.5 [1.0, 2.0]', '2.0')
    """
    mean = f"{entry['mean']:.{digits}f}"
    ends = "" if entry["low"] is None else f" [{entry['low']:.{digits}f}, {entry['high']:.{digits}f}]"
    return mean + ends


def _mean(entry: Mapping[str, Any], digits: int = 1) -> Cell:
    return Cell(interval(entry, digits), entry["mean"])


def seed_range(seeds: Sequence[int]) -> str:
    """Return seeds in words, consecutive ones as a range.

    >>> seed_range([0, 1, 2]), seed_range([0, 5])
    ('0-2', '0, 5')
    """
    ordered = list(seeds)
    if len(ordered) > 1 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}-{ordered[-1]}"
    return ", ".join(map(str, ordered))


def verdict(ours: Mapping[str, Any]) -> str:
    """Describe whether the paper's two claims hold in our single run (an entry of ``single_run``)."""
    better = "holds" if ours["wins"] > ours["losses"] else "does not hold"
    lower = "holds" if ours["errors"]["dcfw-1"] < ours["errors"]["fw"] else "does not hold"
    relative = ours["relative_errors"]
    return (
        f"Seed 0. On these {ours['instances']} instances the paper's claim that DC-FW is better more often "
        f"than FW {better}, and the claim of a lower mean error {lower}. Relative to the best value known, "
        "the mean errors are "
        f"{relative['dcfw-1']:.4f} (DC-FW) and {relative['fw']:.4f} (FW). The sign test takes instances as "
        "independent, which those of one family are not."
    )


def order(cells: Sequence[Mapping[str, Any]], protocol: str = "published") -> str:
    """List the pairs (cells of ``heat_map``) in which another method wins more often than in the paper.

    Say in which of them the runs that are missing could change that, if the method that wins more often in
    the paper won them all.
    """
    pairs = {(cell["row"], cell["column"]): cell for cell in cells}
    turned, undecided = [], []
    for (a, b), cell in pairs.items():
        if (b, a) not in pairs:
            continue
        ours, published = (
            [c[whose]["fraction"] for c in (cell, pairs[b, a])] for whose in ("ours", "published")
        )
        if ours[0] > ours[1] and published[0] < published[1]:
            counts = f"({ours[0]:.1%} to {ours[1]:.1%}; published {published[0]:.1%} to {published[1]:.1%})"
            turned.append(f"{title(a)} over {title(b)} {counts}")
            runs = cell["ours"]["instances"] * len(cell["ours"]["seeds"])
            missing = PUBLISHED_INSTANCES * PUBLISHED_RUNS - runs
            if (ours[0] - ours[1]) * runs <= missing:
                undecided.append(f"{title(a)} over {title(b)}")
    if not turned:
        return "In every pair the method that wins more often is the one that does so in the paper."
    could = f"Runs that are missing could still turn {', '.join(undecided)}."
    if not undecided:
        could = "Runs that are missing cannot turn them, whoever wins those."
    same = " The iterates of variants 1, 2, 3 and CGS agree with the authors' released code step by step."
    return (
        f"Pairs in which another method wins more often than in the paper: {'; '.join(turned)}. {could}"
        f"{same if protocol == 'published' else ''}"
    )


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
    share = (
        "It is complete here."
        if design["done"] == design["of"]
        else f"Here are {design['done']} of these {design['of']} rows, so the study is **not complete**: "
        "each table says on how many instances and seeds it stands; the last section but one says "
        "what is missing."
    )
    return [
        Text(
            "The quadratic assignment problem, relaxed to doubly stochastic matrices and rounded. Protocol "
            f"**{summary['protocol']}**: {MEANING[summary['protocol']]}. Assignment error: "
            f"{summary['error']}. “Better” and “equal” compare exact integer objectives of the rounded "
            "permutations. All methods start from the same random doubly stochastic matrix, drawn "
            "from the name of the instance and the seed."
        ),
        Text(
            f"The paper's study is {len(PAPER_METHODS)} methods on {PUBLISHED_INSTANCES} instances with "
            f"{PUBLISHED_RUNS} runs each. {share} No result is extrapolated from fewer instances or runs: "
            "where ours stand on fewer instances than the published ones, compare the fractions, and with "
            "care, since the instances left out are no random choice."
        ),
        Cards(_cards(summary)),
        Text(
            "Commands that compute these rows (and more, where a sweep is not finished) and write "
            "this folder:"
        ),
        Code("\n".join([*summary["commands"]["rows"], summary["commands"]["report"]])),
        Bullets(
            [
                f"Data: QAPLIB, {run['instances']} of {run['instances_of_the_study']} instances, with the "
                "best values known.",
                "Times are processor seconds of one thread (wall-clock seconds for rows made before 18 "
                "November 2026, 20:00) and depend on the machine and its load, which was not the same for "
                "all methods: `python -m bench` measures ratios in one run. Values and LAP solves do not, "
                "up to rounding in the linear algebra. Where assignment problems have ties (esc*, ste36*, "
                "kra*), rounding decides between them, so another version of the kernels may give other "
                "rows.",
            ]
        ),
    ]


def _cards(summary: Summary) -> list[Card]:
    run, design = summary["run"], summary["run"]["paper_design_rows"]
    ours, published = summary["single_run"]["all"], summary["single_run"]["published"]
    rows = f"{design['done']:,} of {design['of']:,} rows; nothing is extrapolated"
    cards = [
        Card("runs", f"{run['rows']:,}", f"{duration(run['seconds_total'])} of solver time"),
        Card("the paper's design", f"{design['done'] / design['of']:.0%}", rows),
    ]
    if ours is None:
        return cards
    share, errors, theirs = ours["wins"] / ours["instances"], ours["errors"], published["errors"]
    of = f"{ours['wins']} of {ours['instances']} instances"
    note = f"{of}; published {published['wins']} of {published['instances']}"
    beside = f"FW {errors['fw']:.4f}; published {theirs['dcfw-1']:.4f} and {theirs['fw']:.4f}"
    return [
        Card("DC-FW (var 1) better than FW", f"{share:.0%}", note),
        Card("mean error of DC-FW (var 1)", f"{errors['dcfw-1']:.4f}", beside),
        *cards,
    ]


def _single_run(runs: Runs, summary: Summary) -> Section:
    found = summary["single_run"]
    heading = "One run: DC-FW (var 1) against FW"
    if found["all"] is None:
        return Section(heading, [Text("No instance has a row of both methods with seed 0.")])
    lines = []
    for key, name in SINGLE_RUNS.items():
        if (entry := found[key]) is not None:
            shares = {k: entry[k] / entry["instances"] for k in ("wins", "losses", "ties")}
            counts = [Cell(f"{entry[k]} ({share:.0%})", share) for k, share in shares.items()]
            errors = [entry["errors"][m] for m in ("dcfw-1", "fw")]
            lines.append([name, entry["instances"], *counts, entry.get("sign_test_p"), *errors])
    columns = {"run": None, "instances": "d", "DC-FW better": "d", "FW better": "d", "equal": "d"}
    columns |= {"sign test p": ".2g", "mean error DC-FW": ".4f", "mean error FW": ".4f"}
    note = f"Seed 0, protocol “{runs.protocol}”; percentages are of the instances."
    compared = table("Ours beside the published run", columns, lines, note)
    said = Text(verdict(found["all"]))
    return Section(heading, [compared, said, Figure([_error_chart(runs)], file="errors")])


def _error_chart(runs: Runs) -> Chart:
    names, error = tables.ordered_errors(runs)
    series = []
    for method in dict.fromkeys(("fw", "dcfw-1", *runs.methods)):
        places = [k for k, name in enumerate(names, 1) if name in error[method]]
        labels = [names[k - 1] for k in places]
        values = [error[method][name] for name in labels]
        hidden = method not in ("fw", "dcfw-1")
        series.append(Series(title(method), places, values, labels, style=style(method), hidden=hidden))
    titles = "Assignment errors, instance by instance", "instances, ordered by FW's error", "assignment error"
    caption = f"Seed 0, protocol “{runs.protocol}”. Point at a mark for the name of the instance; the "
    caption += "legend brings in the other methods."
    return Chart(*titles, series, kind="scatter", caption=caption)


def _heat_map(summary: Summary) -> Section:
    heading = "Heat map: all pairs"
    cells = summary["heat_map"]
    if not cells:
        return Section(heading, [Text("No two methods have a row in common.")])
    shares = [cell[whose]["fraction"] for cell in cells for whose in ("ours", "published")]
    low, high = min(shares), max(shares)
    methods = [m for m in PAPER_METHODS if any(m in (c["row"], c["column"]) for c in cells)]
    maps, pairs = [], list[list[Any]]()
    for whose, caption, note in (
        ("ours", "Ours", "Each pair on the instances x seeds that both methods have."),
        ("published", "Published", f"{tables.PUBLISHED_INSTANCES} instances, {tables.PUBLISHED_RUNS} runs."),
    ):
        shade: dict[tuple[str, str], Any] = {(m, m): "–" for m in methods}
        for c in cells:
            share = c[whose]["fraction"]
            heat = (share - low) / (high - low) if high > low else 0.5
            shade[c["row"], c["column"]] = Cell(f"{share:.0%}", share, heat)
        lines = [[title(a), *(shade.get((a, b)) for b in methods)] for a in methods]
        caption += ": how often the row's method beats the column's"
        note += " The stronger the colour, the more often; one scale for both."
        maps.append(table(caption, {"lower error": None} | {title(m): ".0%" for m in methods}, lines, note))
    for c in cells:
        size = f"{c['ours']['instances']} x {len(c['ours']['seeds'])}"
        pairs.append([f"{title(c['row'])} < {title(c['column'])}", size])
        for of in (c["ours"], c["published"]):
            pairs[-1] += [_mean(of, 2), of["fraction"]]
    columns = {"lower error": None, "ours on": None, "ours": ".2f", "of ours": ".1%"}
    columns |= {"published": ".2f", f"of {PUBLISHED_INSTANCES}": ".1%"}
    absent = [title(m) for m in PAPER_METHODS if m not in summary["run"]["seconds"]]
    note = (
        "Mean number of instances on which the first method has the strictly lower error, with 90 % "
        "Student-t intervals over the seeds (none from one seed). Each pair stands on the largest set of "
        f"instances x seeds that both methods have; the published one on {PUBLISHED_INSTANCES} x "
        f"{PUBLISHED_RUNS}."
    )
    note += f" No rows of {', '.join(absent)}." if absent else ""
    listed = table("The pairs with their intervals", columns, pairs, note)
    parts: list[Part] = [Figure(maps, file="heat_map"), listed]
    parts += [
        Text(order(cells, summary["protocol"])),
        *_by_size(summary["by_size"]),
        *_common(summary["heat_map_common"]),
    ]
    return Section(heading, parts)


def _by_size(entries: Sequence[Mapping[str, Any]]) -> list[Table]:
    methods = [m for m in PAPER_METHODS if any(m in e["scores"] for e in entries)]
    capped = [m for m in PAPER_METHODS if any(e["capped"].get(m) for e in entries)]
    if not methods:
        return []
    lines = []
    for e in entries:
        cells = []
        for m in methods:
            score = e["scores"].get(m)
            text = score and " : ".join(f"{score[k]:,}" for k in ("wins", "losses", "ties"))
            cells.append(score and Cell(text, score["wins"] - score["losses"]))
        lines.append([f"{e['above'] + 1} to {e['up_to']}", *cells, *(e["capped"].get(m) for m in capped)])
    columns: dict[str, str | None] = {"n": None, **{f"against {title(m)}": "d" for m in methods}}
    columns |= {f"capped, {title(m)}": ".0%" for m in capped}
    note = (
        "Runs in which DC-FW (var 1) has the better, the worse and the same permutation, of all runs that "
        "both have. The last columns are the shares of runs that ended at a limit of the protocol."
    )
    return [table("Variant 1 against the others, by size", columns, lines, note)]


def _common(common: Mapping[str, Any] | None) -> list[Table]:
    if common is None:
        return []
    methods = common["methods"]
    wins = {(cell["row"], cell["column"]): _mean(cell) for cell in common["cells"]}
    lines = [[title(a), *(wins.get((a, b), "-") for b in methods)] for a in methods]
    of = f"Instances: {common['instances']}; seeds: {seed_range(common['seeds'])}; row against column."
    columns = {"lower error": None, **{title(m): ".1f" for m in methods}}
    return [table("The same on the one set that all of these methods have", columns, lines, of)]


def _against_fw(summary: Summary) -> Section | None:
    lines = []
    for m, e in summary["against_fw"].items():
        counts = [_mean(e["wins"]), _mean(e["losses"]), e["ties"]]
        errors = [_mean(e["error"], 4), _mean(e["fw_error"], 4)]
        lines.append([title(m), f"{e['instances']} x {len(e['seeds'])}", *counts, *errors])
    if not lines:
        return None
    columns = {"method": None, "on": None, "better than FW": ".1f", "worse": ".1f", "equal": ".1f"}
    columns |= {"mean error": ".4f", "mean error FW": ".4f"}
    note = (
        "On the instances x seeds that both have: means per seed with 90 % intervals. FW's error is that on "
        "the same instances and seeds."
    )
    return Section("Every method against FW", [table("Wins and errors", columns, lines, note)])


def _active_sets(summary: Summary) -> Section | None:
    lines = [
        [
            f"{entry['instances']} (n <= {entry['largest_n']}) x {len(entry['seeds'])}",
            *(entry["laps"][m] for m in ("dcfw-1", "blended-1")),
            entry["ratio"],
            *(entry["errors"][m] for m in ("dcfw-1", "blended-1")),
            _mean(entry["difference"], 4),
            " : ".join(str(entry["score"][k]) for k in ("wins", "losses", "ties")),
        ]
        for entry in summary["active_sets"]
    ]
    if not lines:
        return None
    columns = {"instances x seeds": None, "LAP solves, vanilla": ",.0f", "blended": ",.0f"}
    columns |= {"times fewer": ".1f", "mean error, vanilla": ".4f", "blended ": ".4f", "difference": ".4f"}
    columns |= {"better : worse : equal": None}
    note = (
        "DC-FW (var 1) from the same starts with the same stop; LAP solves are geometric means. The "
        "difference is blended minus vanilla, with its 90 % interval over the seeds; the score counts the "
        "runs with the better, the worse and the same permutation."
    )
    heading = "Active sets: the paper's split with vanilla and with blended steps"
    return Section(heading, [table("Vanilla and blended inner steps", columns, lines, note)])


def _costs(runs: Runs) -> Section | None:
    found = tables.costs(runs)
    if not found.table:
        return None
    keys: tuple[str, ...] = ("lap_total", "lap_median", "lap_max", "seconds_total", "seconds_median")
    keys += ("error_mean", "error_median", "best_known")
    lines = [[title(m), *(entry[k] for k in keys)] for m, entry in found.table.items()]
    columns = {"method": None, "LAP solves": ",d", "median": ",.0f", "largest": ",d", "seconds": ",.1f"}
    columns |= {"median ": ".3f", "mean error": ".4f", "median  ": ".4f", "best known": "d"}
    aside = ", ".join(f"{title(m)} (instances: {count})" for m, count in found.set_aside.items())
    size = f"{len(found.block.instances)} instances with n <= {SMALL}, seed 0"
    note = f"On the {size}, that all methods of this table have. “Best known” counts the instances on which "
    note += "that value was found. Instance by instance: [costs.csv](costs.csv)."
    if runs.protocol == "published":
        note += " The balanced split has no row: it is variant 1 on matrices of equal norm, which these are."
    note += f" Set aside for having too few rows: {aside}." if aside else ""
    profile = performance_profile(tables.solves_to_the_end(runs, found))
    # Extended to the right edge, beyond the last method's step.
    steps, trade = [], []
    for m, (tau, rho) in profile.items():
        entry, look = found.table[m], style(m)
        steps.append(Series(title(m), [*tau, 2 * tau[-1]], [*rho, rho[-1]], style=look))
        trade.append(Series(title(m), [entry["lap_total"]], [entry["error_mean"]], style=look))
    titles = "Performance profile of LAP solves", "LAP solves over the fewest of any method"
    late = f"{size}; a run that did not converge never arrives."
    charts = [Chart(*titles, "fraction of instances", steps, kind="step", x_scale="log", caption=late)]
    titles = "What the LAP solves buy", "LAP solves on all instances together"
    lower = f"{size}. Lower left is better."
    charts += [Chart(*titles, "mean assignment error", trade, kind="scatter", x_scale="log", caption=lower)]
    parts: list[Part] = [table("LAP solves, time, error", columns, lines, note), Figure(charts, file="costs")]
    return Section(f"What the splits cost, n <= {SMALL}", parts)


def _instances(runs: Runs) -> Section:
    rows = cost_rows(runs, max_n=None)
    note = f"Seed 0, protocol “{runs.protocol}”; empty where a method was not run."
    parts = []
    for label, caption, spec in (("error", "Assignment errors", ".4f"), ("lap_solves", "LAP solves", ",d")):
        columns = {"instance": None, "n": "d", "best known": ",d", **{title(m): spec for m in runs.methods}}
        keys = ["dataset", "n", "best", *(f"{label} {m}" for m in runs.methods)]
        lines = [[None if r[key] == "" else r[key] for key in keys] for r in rows]
        parts.append(table(caption, columns, lines, note))
    return PageOnly("Instance by instance", parts)


def _statuses(summary: Summary) -> Section:
    found = summary["run"]["statuses"]
    names = sorted({name for counts in found.values() for name in counts})
    lines = [[title(m), *(counts.get(name, 0) for name in names)] for m, counts in found.items()]
    capped = {m: sum(counts.get(name, 0) for name in tables.LIMITS) for m, counts in found.items()}
    hit = ", ".join(f"{title(m)} {count}" for m, count in capped.items() if count)
    ended = table("Statuses", {"method": None, **dict.fromkeys(names, ",d")}, lines, "")
    return Section("How the runs ended", [ended, Text(f"Runs that a cap ended: {hit or 'none'}.")])


def _coverage(summary: Summary) -> Section:
    run = summary["run"]
    total = run["instances_of_the_study"]
    names = ("method", "seeds", "instances", "missing")
    covered = ([e[name] for name in names] for e in run["coverage"])
    lines = [[title(m), seed_range(seeds), count, len(missing)] for m, seeds, count, missing in covered]
    columns = {"method": None, "seeds": None, "instances": "d", f"missing of {total}": "d"}
    listed = table("What was run", columns, lines, "Seeds of a method that cover the same instances.")
    return Section("What is there, and what is missing", [listed, *_missing(run["missing"])])


def _missing(entries: Sequence[Mapping[str, Any]]) -> list[Any]:
    if not entries:
        return []
    cells: dict[tuple[str, int], dict[str, Cell]] = {}
    for e in entries:
        text = f"{e['runs']} x {'' if e['measured'] else '~'}{duration(e['seconds_each'])}"
        cells.setdefault((e["dataset"], e["n"]), {})[e["method"]] = Cell(text, e["runs"] * e["seconds_each"])
    methods = [m for m in PAPER_METHODS if any(m in found for found in cells.values())]
    lines = [[name, n, *(found.get(m) for m in methods)] for (name, n), found in cells.items()]
    count, seconds = sum(e["runs"] for e in entries), sum(e["runs"] * e["seconds_each"] for e in entries)
    note = (
        f"{count:,} rows of the paper's design, {duration(seconds)} of one core. Runs x time of one: the "
        "mean over the seeds that were run; with ~ extrapolated from variant 1 on the instance, by the "
        "method's geometric mean ratio to it on instances of the same kind, or else family, with n from 30 "
        "on (on all such instances if there are none), up to the protocol's cap. "
        "[missing.csv](missing.csv) names the seeds."
    )
    columns = {"instance": None, "n": "d", **dict.fromkeys(map(title, methods), "d")}
    return [table("Missing rows and their cost", columns, lines, note)]
