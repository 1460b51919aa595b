"""Options of several commands; settings of a study: ``--set seeds=3 --set methods=fw,dcfw-1``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the study.")
]


def settings_for(function: Callable[..., Any], pairs: Sequence[str] | None) -> dict[str, Any]:
    """Return the keyword arguments that NAME=VALUE pairs stand for, by the annotations of a function."""
    known = {
        name: str(parameter.annotation)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, _, text = pair.partition("=")
        name = name.replace("-", "_")
        if name not in known or not text:
            raise ValueError(f"--set takes NAME=VALUE with NAME among {', '.join(known)}, got {pair!r}")
        found[name] = _value(name, text, known[name])
    return found


def _value(name: str, text: str, kind: str) -> Any:
    if "Sequence" in kind:
        return text.split(",")
    try:
        value: Any = int(text) if "int" in kind else float(text) if "float" in kind else text
    except ValueError:
        raise ValueError(f"--set {name} must be a number, got {text!r}") from None
    if not isinstance(value, str) and value <= 0:
        raise ValueError(f"--set {name} must be positive, got {text}")
    return value
