"""The command line: ``dcfw COMMAND``.

Each command, or group of commands, is a module in :mod:`dcfw.commands` with a function
``register(app)``; this file finds them and does what is the same for all: ``--version``, ``--debug`` and
errors.  What a user can mend (a missing or a damaged file, a full disk) is one line on the standard error
stream and exit code 1; a wrong command line (an option, a choice or a number that there is not) is exit code
2; Ctrl-C is 130, after what was finished is safe; only a bug shows a traceback.  ``dcfw --debug COMMAND``
shows it always.

``dcfw --help`` should answer at once, so commands import what they need when they run.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dcfw import __version__, commands
from dcfw._terminal import shown


def _is_expected(error: Exception) -> bool:
    """Tell whether an error is about the user's input or machine, and not a bug of ours."""
    ours = type(error).__module__.partition(".")[0] == "dcfw"
    return ours or isinstance(error, ValueError | OSError | ImportError)


def _said(error: Exception) -> str:
    """Return the message; an error of the system is put as its file and what is wrong with it."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class _Commands(TyperGroup):
    """The top of the command line: all errors of all commands pass here."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `dcfw ... | head`: not an error, and handled by the caller
            raise
        except KeyboardInterrupt:
            if ctx.params.get("debug"):
                raise
            typer.echo("dcfw: interrupted", err=True)
            raise typer.Exit(130) from None
        except Exception as error:
            if ctx.params.get("debug") or not _is_expected(error):
                raise
            message = " ".join(_said(error).split()) or type(error).__name__
            typer.echo(f"dcfw: {shown(message)}", err=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    name="dcfw",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dcfw {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of any error.")] = False,
) -> None:
    """Minimise differences of convex functions without projections (DC-FW).

    \b
    Start here:
      dcfw demo                 three small problems, solved and certified
      dcfw qap problem.dat      solve a quadratic assignment problem
      dcfw reproduce inner      run a study of the paper, or a quick part of it
      dcfw info                 what is installed, and which data are found
      dcfw COMMAND --help       what a command does, with examples

    \b
    Complete commands with the Tab key (bash, zsh, fish, PowerShell):
      dcfw --install-completion

    Exit codes: 0 success, 1 failure (one line says why), 2 wrong command line, 130 interrupted.
    """


for _module in sorted(m.name for m in pkgutil.iter_modules(commands.__path__) if m.name[0] != "_"):
    importlib.import_module(f"dcfw.commands.{_module}").register(app)
