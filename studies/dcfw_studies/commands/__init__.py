"""The command line of the studies: ``dcfw-studies COMMAND``, a module for each command."""

from __future__ import annotations

from dcfw.cli.application import application
from dcfw_studies import __version__
from dcfw_studies.commands import bench, check_rows, fetch, report, reproduce, study, train

app = application(
    "dcfw-studies",
    __version__,
    """Run the experiments of the DC-FW paper and compare them with what was published.

    \b
    Start here:
      dcfw-studies fetch qaplib        bring the data
      dcfw-studies reproduce inner     run a study, or a quick part of it
      dcfw-studies report STORE        one page with tables and plots
      dcfw-studies COMMAND --help      what a command does, with examples

    Exit codes: 0 success, 1 failure (one line says why), 2 wrong command line, 130 interrupted.
    """,
)
app.command()(bench.bench)
app.command(short_help="Rerun a sample of stored rows and compare.")(check_rows.check_rows)
app.add_typer(fetch.group, name="fetch")
app.command(short_help="Write the studies of stores as one page.")(report.report)
app.command(short_help="Run a study of the paper, or a part of it.")(reproduce.reproduce)
app.add_typer(study.group, name="study")
app.command(short_help="Train a network whose weights stay in a box.")(train.train)
