"""The command line: ``dcfw COMMAND``.

Each command is a function in a module of its name, which imports only the standard library and typer at the
top, so that ``--help`` is fast.  Commands print their answer on the standard output and everything else on
the standard error stream, and raise ordinary exceptions: :mod:`dcfw.cli.application` turns them into one line
and an exit code.  The studies of the paper have their own command line, ``dcfw-studies``.
"""

from __future__ import annotations

from dcfw import __version__
from dcfw.cli import align, demo, info, qap
from dcfw.cli.application import application

app = application(
    "dcfw",
    __version__,
    """Minimise differences of convex functions without projections (DC-FW).

    \b
    Start here:
      dcfw demo                 three small problems, solved and certified
      dcfw qap problem.dat      solve a quadratic assignment problem
      dcfw info                 what is installed, and which data are found
      dcfw COMMAND --help       what a command does, with examples

    \b
    Complete commands with the Tab key (bash, zsh, fish, PowerShell):
      dcfw --install-completion

    Exit codes: 0 success, 1 failure (one line says why), 2 wrong command line, 130 interrupted.
    """,
)
app.command(short_help="Align word vectors of which few entries are known.")(align.align)
app.command(short_help="Solve three small problems, with certificates.")(demo.demo)
app.command(short_help="Show versions, extras, threads and data.")(info.info)
app.command(short_help="Solve a quadratic assignment problem.")(qap.qap)
