"""The common part of the command lines of dcfw and its studies: global options, option types and errors.

User errors (a missing or damaged file, a full disk) give one line on the standard error stream and exit code
1, a wrong command line 2, Ctrl-C 130 after finished results are safe; only a bug shows a traceback, which
``--debug`` always shows.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dcfw.terminal import shown

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class Commands(TyperGroup):
    """The top of a command line: the errors of all commands pass here."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `dcfw ... | head`: not an error, and handled by the caller
            raise
        except KeyboardInterrupt:
            if ctx.params.get("debug"):
                raise
            typer.echo(f"{self.name}: interrupted", err=True)
            raise typer.Exit(130) from None
        except Exception as error:
            ours = type(error).__module__.partition(".")[0] in ("dcfw", "dcfw_studies")
            expected = ours or isinstance(error, ValueError | OSError | ImportError)  # otherwise it is a bug
            if ctx.params.get("debug") or not expected:
                raise
            said = str(error)
            if isinstance(error, OSError) and error.strerror and error.filename is not None:
                said = f"{error.filename}: {error.strerror}"
            message = " ".join(said.split()) or type(error).__name__
            typer.echo(f"{self.name}: {shown(message)}", err=True)
            raise typer.Exit(1) from None


def one_of(*entries: str) -> Any:
    """Return an option that takes one of some values, which may have remarks: ``"fw (as in FAQ)"``.

    >>> one_of("2opt", "tabu", "none").help
    '2opt, tabu or none.'
    """
    return typer.Option(
        help=f"{', '.join(entries[:-1])} or {entries[-1]}.",
        autocompletion=starting_with(entry.partition(" ")[0] for entry in entries),
    )


def starting_with(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes the beginning of one of some values."""
    known = tuple(known)
    return lambda incomplete: [value for value in known if value.startswith(incomplete)]


def application(name: str, version: str, about: str) -> typer.Typer:
    """Return a Typer app with ``--version``, ``--debug`` and the help text ``about``, but no commands."""
    app = typer.Typer(
        name=name,
        cls=Commands,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{name} {version}")
            raise typer.Exit

    def main(
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=show_version, is_eager=True, help="Show the version and exit."
            ),
        ] = False,
        debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of any error.")] = False,
    ) -> None:
        pass

    app.callback(help=about)(main)
    return app


@contextmanager
def wrong_ones_are_usage_errors() -> Iterator[None]:
    """Turn TypeError and ValueError in this block into a usage error (exit code 2)."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None


def certificate(dc_gap: Any, zero: str) -> str:
    """Return a report's DC gap in words; ``zero`` is the meaning of 0."""
    low, high = dc_gap
    return "no certificate yet" if high is None else f"DC gap in [{low:.3g}, {high:.3g}] ({zero})"


def number(value: float) -> float | None:
    """Return the number, or None if it is not finite: JSON has neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None
