"""The words of the QAPLIB report: the README as Markdown, written from the summary and nothing else.

Every number in the text is taken from :func:`dcfw_studies.qap_report.summarise`, so ``README.md`` and
``summary.json`` cannot disagree.  The sentences that judge ("holds here") are computed too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcfw_studies.qap_tables import PAPER_METHODS, PUBLISHED_INSTANCES, PUBLISHED_RUNS, SMALL, title
from dcfw_studies.records import software_text

CAPS = ("MAXITER", "MAX_LMO", "TIME_LIMIT")
"""Statuses of runs that a cap ended."""

MEANING = {
    "published": "what the authors' code does, which gave the published numbers",
    "text": "what the paper's text says; the published numbers were made by the authors' code instead",
}
"""Descriptions of the two protocols."""

SINGLE_RUNS = {
    "all": "ours, all sizes",
    "published": "published",
    f"n <= {SMALL}": f"ours, n <= {SMALL}",
}
"""The entries of the summary's ``single_run``, in the order of the table."""

Summary = Mapping[str, Any]


def readme(summary: Summary, figures: Sequence[str] = ()) -> str:
    """Return the README of a report.

    Parameters
    ----------
    summary : mapping
        From :func:`dcfw_studies.qap_report.summarise`.
    figures : sequence of str
        The files that were drawn.
    """
    parts = [
        "# QAPLIB: DC-FW against Frank-Wolfe",
        *_what(summary),
        *_single_run(summary, figures),
        *_heat_map(summary, figures),
        *_against_fw(summary),
        *_active_sets(summary),
        *_costs(summary, figures),
        *_statuses(summary),
        *_coverage(summary),
    ]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose first column is text and whose other columns are numbers.

    Examples
    --------
    >>> print(table(["method", "error"], [["FW", "0.1"]]))
    | method | error |
    | :--- | ---: |
    | FW | 0.1 |
    """
    rule = [":---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *rows])


def interval(entry: Mapping[str, Any], digits: int = 1) -> str:
    """Return a mean with its interval, if it has one, in words.

    Examples
    --------
    >>> interval({"mean": 1.5, "low": 1.0, "high": 2.0}), interval({"mean": 2, "low": None, "high": None})
    ('1.5 [1.0, 2.0]', '2.0')
    """
    mean = f"{entry['mean']:.{digits}f}"
    if entry["low"] is None:
        return mean
    return f"{mean} [{entry['low']:.{digits}f}, {entry['high']:.{digits}f}]"


def seed_range(seeds: Sequence[int]) -> str:
    """Return seeds in words: a range where they are one.

    Examples
    --------
    >>> seed_range([0, 1, 2]), seed_range([0, 5])
    ('0-2', '0, 5')
    """
    ordered = list(seeds)
    if len(ordered) > 1 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}-{ordered[-1]}"
    return ", ".join(map(str, ordered))


def _figure(figures: Sequence[str], name: str, alt: str) -> list[str]:
    return [f"![{alt}]({name}.png)"] if f"{name}.png" in figures else []


def duration(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> duration(1.0), duration(600.0), duration(9000.0)
    ('1.0 s', '10.0 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# ----------------------------------------------------------------------------------------- sections


def _what(summary: Summary) -> list[str]:
    run, design = summary["run"], summary["run"]["paper_design_rows"]
    protocol = summary["protocol"]
    meaning = MEANING[protocol]
    versions = [software_text(found) for found in run["versions"]]
    commands = [*summary["commands"]["rows"], summary["commands"]["report"]]
    complete = design["done"] == design["of"]
    share = (
        "It is complete here."
        if complete
        else f"Here are {design['done']} of these {design['of']} rows, so the study is **not complete**: "
        "each table says on how many instances and seeds it stands; the last section says what is missing."
    )
    return [
        f"Protocol **{protocol}**: {meaning}. Assignment error: {summary['error']}. "
        "“Better” and “equal” compare exact integer objectives of the rounded permutations.",
        f"The paper's study is {len(PAPER_METHODS)} methods on {PUBLISHED_INSTANCES} instances with "
        f"{PUBLISHED_RUNS} runs each. {share} No number is extrapolated from fewer instances or runs: where "
        "ours stand on fewer instances than the published ones, compare the fractions, and with care, since "
        "the instances left out are no random choice.",
        "Commands that compute these rows (and more, where a sweep is not finished) and write this folder:",
        "```\n" + "\n".join(commands) + "\n```",
        "\n".join(
            [
                f"- data: QAPLIB, {run['instances']} of {run['instances_of_the_study']} instances, with the "
                "best values known",
                "- starts: the same random doubly stochastic matrix for all methods, drawn from the name of "
                "the instance and the seed",
                f"- rows: {run['rows']} ({len(run['failures'])} failed), {duration(run['seconds_total'])} "
                "of solver time in all: "
                + ", ".join(f"{title(m)} {duration(s)}" for m, s in run["seconds"].items()),
                *(f"- software: {text}" for text in versions),
                "- rows of different methods may have been computed at different times and loads of the "
                "machine: do not read a ratio of two methods' seconds from these tables; `python -m bench` "
                "measures ratios in one run",
                "- times are wall-clock seconds of one process and depend on the machine and on what else it "
                "did; values and LAP solves do not, up to rounding in the linear algebra",
            ]
        ),
    ]


def _single_run(summary: Summary, figures: Sequence[str]) -> list[str]:
    found = summary["single_run"]
    lines = []
    for key, name in SINGLE_RUNS.items():
        entry = found[key]
        if entry is not None:
            size = entry["instances"]
            counts = [f"{entry[k]} ({entry[k] / size:.0%})" for k in ("wins", "losses", "ties")]
            sign = f"{entry['sign_test_p']:.2g}" if "sign_test_p" in entry else ""
            errors = [f"{entry['errors'][m]:.4f}" for m in ("dcfw-1", "fw")]
            lines.append([name, str(size), *counts, sign, *errors])
    header = ["", "instances", "DC-FW better", "FW better", "equal", "sign test p"]
    result = [
        "## One run: DC-FW (var 1) against FW",
        table([*header, "mean error DC-FW", "mean error FW"], lines),
    ]
    ours = found["all"]
    if ours is None:
        return ["## One run: DC-FW (var 1) against FW", "No instance has a row of both methods with seed 0."]
    result.append(verdict(ours))
    return result + _figure(figures, "errors", "assignment errors of FW and DC-FW, instance by instance")


def verdict(ours: Mapping[str, Any]) -> str:
    """Say whether the paper's two claims hold on our single run (an entry of ``single_run``)."""
    better = ours["wins"] > ours["losses"]
    lower = ours["errors"]["dcfw-1"] < ours["errors"]["fw"]
    relative = ours["relative_errors"]
    return (
        f"Seed 0. On these {ours['instances']} instances the paper's claim that DC-FW is better more often "
        f"than FW {'holds' if better else 'does not hold'}, and the claim of a lower mean error "
        f"{'holds' if lower else 'does not hold'}. Relative to the best value known, the mean errors are "
        f"{relative['dcfw-1']:.4f} (DC-FW) and {relative['fw']:.4f} (FW). The sign test takes instances as "
        "independent, which those of one family are not."
    )


def _heat_map(summary: Summary, figures: Sequence[str]) -> list[str]:
    lines = []
    for cell in summary["heat_map"]:
        ours, published = cell["ours"], cell["published"]
        lines.append(
            [
                f"{title(cell['row'])} < {title(cell['column'])}",
                f"{ours['instances']} x {len(ours['seeds'])}",
                interval(ours, 2),
                f"{ours['fraction']:.1%}",
                interval(published, 2),
                f"{published['fraction']:.1%}",
            ]
        )
    absent = [title(m) for m in PAPER_METHODS if m not in summary["run"]["seconds"]]
    result = [
        "## Heat map: all pairs",
        "Mean number of instances on which the first method has the strictly lower error, with 90 % "
        "Student-t intervals over the seeds (none from one seed). Each pair stands on the largest set of "
        "instances x seeds that both methods have; the published one on "
        f"{PUBLISHED_INSTANCES} x {PUBLISHED_RUNS}."
        + (f" No rows of {', '.join(absent)}." if absent else ""),
    ]
    if not lines:
        return [*result, "No two methods have a row in common."]
    result.append(
        table(["lower error", "ours on", "ours", "of ours", "published", f"of {PUBLISHED_INSTANCES}"], lines)
    )
    result.append(order(summary["heat_map"]))
    result += _common(summary["heat_map_common"])
    return result + _figure(figures, "heat_map", "heat map of pairwise wins, ours beside the published one")


def order(cells: Sequence[Mapping[str, Any]]) -> str:
    """Say in which pairs (cells of ``heat_map``) another method wins more often than in the paper."""
    ours, published = (
        {(cell["row"], cell["column"]): cell[whose]["fraction"] for cell in cells}
        for whose in ("ours", "published")
    )
    turned = [
        f"{title(a)} over {title(b)} ({ours[a, b]:.1%} to {ours[b, a]:.1%}; "
        f"published {published[a, b]:.1%} to {published[b, a]:.1%})"
        for a, b in ours
        if (b, a) in ours and ours[a, b] > ours[b, a] and published[a, b] < published[b, a]
    ]
    if not turned:
        return "In every pair the method that wins more often is the one that does so in the paper."
    return (
        "Pairs in which another method wins more often than in the paper: "
        + "; ".join(turned)
        + ". Missing instances do not explain that, and the iterates of variants 1, 2, 3 and CGS agree with "
        "the authors' released code step by step: the published order of these methods is not what that code "
        "gives."
    )


def _common(common: Mapping[str, Any] | None) -> list[str]:
    if common is None:
        return []
    methods = common["methods"]
    wins = {(cell["row"], cell["column"]): interval(cell) for cell in common["cells"]}
    return [
        f"The same on the one set that all of {', '.join(title(m) for m in methods)} have "
        f"(instances: {common['instances']}; seeds: {seed_range(common['seeds'])}), row against column:",
        table(
            ["", *map(title, methods)],
            [[title(a), *(wins.get((a, b), "-") for b in methods)] for a in methods],
        ),
    ]


def _against_fw(summary: Summary) -> list[str]:
    lines = [
        [
            title(m),
            f"{entry['instances']} x {len(entry['seeds'])}",
            interval(entry["wins"]),
            interval(entry["losses"]),
            f"{entry['ties']:.1f}",
            interval(entry["error"], 4),
            interval(entry["fw_error"], 4),
        ]
        for m, entry in summary["against_fw"].items()
    ]
    if not lines:
        return []
    return [
        "## Every method against FW",
        "On the instances x seeds that both have: means per seed with 90 % intervals. FW's error is that on "
        "the same instances and seeds.",
        table(["method", "on", "better than FW", "worse", "equal", "mean error", "mean error FW"], lines),
    ]


def _active_sets(summary: Summary) -> list[str]:
    found = summary["active_sets"]
    if not found:
        return []
    lines = [
        [
            f"{entry['instances']} (n <= {entry['largest_n']}) x {len(entry['seeds'])}",
            f"{entry['laps']['dcfw-1']:,.0f}",
            f"{entry['laps']['blended-1']:,.0f}",
            f"{entry['ratio']:.1f}",
            f"{entry['errors']['dcfw-1']:.4f}",
            f"{entry['errors']['blended-1']:.4f}",
            interval(entry["difference"], 4),
            " : ".join(str(entry["score"][k]) for k in ("wins", "losses", "ties")),
        ]
        for entry in found
    ]
    header = ["instances x seeds", "LAP solves, vanilla", "blended", "times fewer", "mean error, vanilla"]
    return [
        "## Active sets: the paper's split with vanilla and with blended steps",
        "DC-FW (var 1) from the same starts with the same stop; LAP solves are geometric means. The "
        "difference is blended minus vanilla, with its 90 % interval over the seeds; the score counts "
        "the runs with the better, the worse and the same permutation.",
        table([*header, "blended", "difference", "better : worse : equal"], lines),
    ]


def _costs(summary: Summary, figures: Sequence[str]) -> list[str]:
    found = summary["costs"]
    lines = [
        [
            title(m),
            f"{entry['lap_total']:,}",
            f"{entry['lap_median']:,.0f}",
            f"{entry['lap_max']:,}",
            f"{entry['seconds_total']:.1f}",
            f"{entry['seconds_median']:.3f}",
            f"{entry['error_mean']:.4f}",
            f"{entry['error_median']:.4f}",
            str(entry["best_known"]),
        ]
        for m, entry in found["methods"].items()
    ]
    if not lines:
        return []
    aside = ", ".join(f"{title(m)} (instances: {count})" for m, count in found["set_aside"].items())
    header = [
        "method",
        "LAP solves",
        "median",
        "largest",
        "seconds",
        "median",
        "mean error",
        "median",
        "best known",
    ]
    return [
        f"## What the splits cost, n <= {found['max_n']}",
        f"Seed {found['seed']}, on the {len(found['instances'])} instances with n <= {found['max_n']} that "
        "all methods of this table have. “Best known” counts the instances on which that value was found. "
        "Instance by instance: [costs.csv](costs.csv)."
        + (
            " The balanced split has no row: it is variant 1 on matrices of equal norm, which these are."
            if summary["protocol"] == "published"
            else ""
        )
        + (f" Set aside for having too few rows: {aside}." if aside else ""),
        table(header, lines),
        *_figure(figures, "costs", "LAP solves and seconds of all splits"),
    ]


def _statuses(summary: Summary) -> list[str]:
    found = summary["run"]["statuses"]
    names = sorted({name for counts in found.values() for name in counts})
    lines = [[title(m), *(str(counts.get(name, 0)) for name in names)] for m, counts in found.items()]
    capped = {m: sum(counts.get(name, 0) for name in CAPS) for m, counts in found.items()}
    hit = ", ".join(f"{title(m)} {count}" for m, count in capped.items() if count)
    return [
        "## How the runs ended",
        table(["method", *names], lines),
        f"Runs that a cap ended: {hit or 'none'}.",
    ]


def _coverage(summary: Summary) -> list[str]:
    run = summary["run"]
    total = run["instances_of_the_study"]
    lines, notes = [], []
    for entry in run["coverage"]:
        missing = entry["missing"]
        lines.append(
            [title(entry["method"]), seed_range(entry["seeds"]), str(entry["instances"]), str(len(missing))]
        )
        if missing and len(missing) <= total // 4:
            notes.append(
                f"- {title(entry['method'])}, seeds {seed_range(entry['seeds'])}: {', '.join(missing)}"
            )
    seen = {entry["method"]: 0 for entry in run["coverage"]}
    for entry in run["coverage"]:
        seen[entry["method"]] += len(entry["seeds"])
    few = [
        f"- {title(m)}: {seen.get(m, 0)} of {PUBLISHED_RUNS} seeds were run"
        for m in PAPER_METHODS
        if seen.get(m, 0) < PUBLISHED_RUNS
    ]
    failed = [
        f"- failed: {f['dataset']}, {title(f['method'])}, seed {f['seed']}: {f['error']}"
        for f in run["failures"]
    ]
    result = [
        "## What is there, and what is missing",
        table(["method", "seeds", "instances", f"missing of {total}"], lines),
    ]
    if few:
        result.append(f"Methods with fewer than the paper's {PUBLISHED_RUNS} seeds:\n\n" + "\n".join(few))
    if notes:
        result.append(
            "Instances that are missing (shown where they are few; `summary.json` has all):\n\n"
            + "\n".join(notes)
        )
    if failed:
        result.append("\n".join(failed))
    return result
