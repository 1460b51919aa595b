"""A whole page: one HTML file that contains its style sheet, its script and its data.

The Content-Security-Policy in ``page.html`` allows only the page's own style and script, by their hashes, and
images from ``data:`` addresses: the page makes no request, and injected markup cannot run scripts.  The file
names neither machine nor time, so equal input gives equal files.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from dcfw.cli.page.parts import Card, Cards, Section
from dcfw.cli.page.render import Renderer, anchors, cards

EARLY = "theme.js"  # runs before the page is drawn, so that a stored theme does not flash
SCRIPTS = ("scales.js", "drawing.js", "chart.js", "table.js", "start.js")  # one module: the order matters


@cache
def resource(*names: str) -> str:
    """Return the text of the package's resources, joined."""
    folder = resources.files(__package__)
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def page(
    title: str,
    sections: Sequence[Section],
    *,
    lead: str = "",
    key_figures: Sequence[Card] = (),
    footer: str = "",
) -> str:
    """Return a page as HTML, with the sections' summaries and the key figures at the top.

    >>> from dcfw.cli.page.parts import Section, Text
    >>> html = page("Demo", [Section("One", [Text("Hello.")])])
    >>> html.startswith("<!doctype html>"), html.count("<h2")
    (True, 1)
    """
    renderer = Renderer()
    named = list(zip(sections, anchors(sections), strict=True))
    top = [
        f'<p class="lead">{escape(lead)}</p>' if lead else "",
        cards(Cards(key_figures)) if key_figures else "",
        _summaries(named),
    ]
    texts = {"style": resource("page.css"), "early": resource(EARLY), "script": resource(*SCRIPTS)}
    return Template(resource("page.html")).substitute(
        **texts,
        **{f"{name}_hash": _hash(text) for name, text in texts.items()},
        title=escape(title),
        contents=_contents(named),
        top="\n".join(filter(None, top)),
        body="\n".join(renderer.section(section, name) for section, name in named),
        footer=f"<footer>{escape(footer)}</footer>" if footer else "",
    )


def write(path: str | os.PathLike[str], html: str) -> Path:
    """Write a page atomically and return its path; an OSError says what to do."""
    target = Path(path)
    with _draft(target) as draft:
        draft.write_text(html, encoding="utf-8", errors="backslashreplace", newline="\n")
        os.replace(draft, target)
    return target


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the error of :func:`write` in advance."""
    with _draft(Path(path)) as draft:
        draft.touch()


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside the target; errors name the target and the remedy."""
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            yield draft
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(
            f"the page {target} could not be written ({error.strerror or error}): "
            "give a file in a folder that exists and is writable, with -o"
        ) from error


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _contents(named: Sequence[tuple[Section, str]]) -> str:
    """Return the table of contents, two levels deep."""

    def entries(found: Sequence[tuple[Section, str]], depth: int) -> str:
        items = []
        for section, name in found:
            below = zip(section.sections, anchors(section.sections, name), strict=True)
            inner = entries(list(below), 2) if depth == 1 else ""
            items.append(f'<li><a href="#{name}">{escape(section.title)}</a>{inner}</li>')
        return f"<ul>{''.join(items)}</ul>" if items else ""

    contents = entries(named, 1) or "<ul></ul>"
    summary = "<summary>Contents</summary>"
    return f'<nav aria-label="Contents"><details open>{summary}{contents}</details></nav>'


def _summaries(named: Sequence[tuple[Section, str]]) -> str:
    items = [
        f'<li><a href="#{name}">{escape(section.title)}</a> {escape(section.summary)}</li>'
        for section, name in named
        if section.summary
    ]
    return f'<ul class="summary">{"".join(items)}</ul>' if items else ""
