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
for _command in (bench, check_rows, fetch, report, reproduce, study, train):
    _command.register(app)
