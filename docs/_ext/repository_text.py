"""Include text of the repository in pages, so that no number is copied by hand.

A line of a Markdown page such as ::

    [QAPLIB](../results/qap/README.md "included here")
    [Which inner solver](../results/inner/README.md#which-inner-solver "included here")

is a link where the page is read in the repository.  On the site it is replaced by the file (without its
title), or by the section whose heading is the link's text.  Paths of pictures are adapted, and links to files
become downloads.  A missing file is replaced by a note.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

DIRECTIVE = re.compile(r'^\[(?P<title>.+)\]\((?P<path>[^\s#]+)(?P<section>#\S+)? "included here"\)$', re.M)
IMAGE = re.compile(r"!\[(?P<alt>[^]]*)\]\((?P<target>[^):]+)\)")
LINK = re.compile(r"(?<!!)\[(?P<text>[^]]*)\]\((?P<target>[^)#:]+)\)")
logger = logging.getLogger(__name__)


def section_of(text: str, title: str) -> str:
    """Return the text from the heading ``title`` to the next one of the same or a higher level."""
    found = re.search(rf"^(#+) {re.escape(title)}\n", text, re.M)
    if found is None:
        raise KeyError(title)
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def relocated(text: str, source: Path, page: Path) -> str:
    """Return Markdown whose relative pictures and links are those of ``source``, for use on ``page``."""

    def reach(target: str) -> str:
        return Path(os.path.relpath(source.parent / target, page.parent)).as_posix()

    text = IMAGE.sub(lambda m: f"![{m['alt']}]({reach(m['target'])})", text)
    return LINK.sub(lambda m: f"{{download}}`{m['text']} <{reach(m['target'])}>`", text)


def include(app: Sphinx, docname: str, content: list[str]) -> None:
    page = Path(app.srcdir) / docname

    def replace(match: re.Match[str]) -> str:
        source = (page.parent / match["path"]).resolve()
        if not source.is_file():
            return f"*`{source.name}` is missing: this study has not been run yet.*"
        app.env.note_dependency(str(source))
        text = source.read_text(encoding="utf-8")
        if match["section"]:
            try:
                text = section_of(text, match["title"])
            except KeyError:
                logger.warning("%s has no section %r", match["path"], match["title"], location=docname)
                return ""
        else:
            text = re.sub(r"\A# .*\n", "", text)
        return relocated(text, source, page)

    content[0] = DIRECTIVE.sub(replace, content[0])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", include)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
