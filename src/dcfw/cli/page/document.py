"""The whole page: one HTML file with its style sheet, its script and its data inside.

The Content-Security-Policy in the head allows the page's own inline style and script by their hashes, images
from ``data:`` addresses, and nothing else: no request can leave the page, and no text that slipped into
markup could run.  Nothing of the machine or the time is written, so the same input gives the same file.
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

from dcfw.cli.page.parts import Card, Cards, Section
from dcfw.cli.page.render import Renderer, anchors, cards

STYLES = ("page.css",)
EARLY = "theme.js"
"""Runs before the page is drawn, so that a remembered theme does not flash."""
SCRIPTS = ("scales.js", "drawing.js", "chart.js", "table.js", "start.js")
"""One module in this order: later files use the names of earlier ones."""

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' "
    "height='16' rx='4' fill='%230072B2'/%3E%3Cpath d='M3 4l4 6 2-2 4 4' fill='none' stroke='white' "
    "stroke-width='1.8' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E"
)


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
    """Return a page as HTML.

    Parameters
    ----------
    title : str
        Title and heading of the page.
    sections : sequence of Section
        Its contents.  Their summaries are listed at the top, with links.
    lead : str
        A sentence or two below the heading.
    key_figures : sequence of Card
        What a reader should see first.
    footer : str
        The last line.

    Examples
    --------
    >>> from dcfw.cli.page import Section, Text
    >>> html = page("Demo", [Section("One", [Text("Hello.")])])
    >>> html.startswith("<!doctype html>"), html.count("<h2")
    (True, 1)
    """
    styles, early, script = resource(*STYLES), resource(EARLY), resource(*SCRIPTS)
    renderer = Renderer()
    names = anchors(sections)
    body = "\n".join(renderer.section(section, name) for section, name in zip(sections, names, strict=True))
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src {_hash(styles)}",
            f"script-src {_hash(early)} {_hash(script)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>",
        f'<link rel="icon" href="{ICON}">',
        f"<style>{styles}</style>",
        f"<script>{early}</script>",
    ]
    top = [
        '<header class="top">',
        '<p class="brand"><span aria-hidden="true">◆</span> dcfw</p>',
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(lead)}</p>' if lead else "",
        cards(Cards(key_figures)) if key_figures else "",
        _summaries(sections, names),
        "</header>",
    ]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>',
            *head,
            '</head>\n<body>\n<a class="skip" href="#main">Skip to the contents</a>',
            '<div class="frame">',
            _contents(sections, names),
            '<main id="main">',
            *(line for line in top if line),
            body,
            f"<footer>{escape(footer)}</footer>" if footer else "",
            "</main>\n</div>",
            f'<script type="module">{script}</script>',
            "</body>\n</html>\n",
        ]
    )


def write(path: str | os.PathLike[str], html: str) -> Path:
    """Write a page, whole or not at all, and return its path.

    An :class:`OSError` says that the page could not be written, why, and what to do.
    """
    target = Path(path)
    with _draft(target) as draft:
        draft.write_text(html, encoding="utf-8", errors="backslashreplace", newline="\n")
        os.replace(draft, target)
    return target


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the error of :func:`write` now, if a page could not be written there."""
    target = Path(path)
    with _draft(target) as draft:
        draft.touch()


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Give a path beside the target, and turn what goes wrong there into words."""
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


def _contents(sections: Sequence[Section], names: Sequence[str]) -> str:
    """Return the list of contents, two levels deep."""
    lines = []
    for section, name in zip(sections, names, strict=True):
        below = "".join(
            f'<li><a href="#{inner}">{escape(entry.title)}</a></li>'
            for entry, inner in zip(section.sections, anchors(section.sections, name), strict=True)
        )
        nested = f"<ul>{below}</ul>" if below else ""
        lines.append(f'<li><a href="#{name}">{escape(section.title)}</a>{nested}</li>')
    return (
        '<nav aria-label="Contents"><details open><summary>Contents</summary>'
        f"<ul>{''.join(lines)}</ul></details></nav>"
    )


def _summaries(sections: Sequence[Section], names: Sequence[str]) -> str:
    found = [(s, name) for s, name in zip(sections, names, strict=True) if s.summary]
    if not found:
        return ""
    items = "".join(
        f'<li><a href="#{name}">{escape(section.title)}</a> {escape(section.summary)}</li>'
        for section, name in found
    )
    return f'<ul class="summary">{items}</ul>'
