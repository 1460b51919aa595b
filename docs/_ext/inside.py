"""Sphinx fixes for names that are documented twice, on their own page and on one about the internals.

On the pages about the internals, a reference to a private object becomes text; elsewhere it is an error.  On
the pages with source code, the links back to the documentation are removed: viewcode knows only one place for
a module's names, so half of these links would be wrong.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def as_text(app: Sphinx, env: Any, node: nodes.Element, contents: nodes.Element) -> nodes.Element | None:
    return contents if node.get("refdoc", "").startswith("api/inside/") else None


def without_ways_back(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    if page.startswith("_modules/") and "body" in context:
        context["body"] = re.sub(r'<a class="viewcode-back".*?</a>', "", context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("missing-reference", as_text, priority=900)
    app.connect("html-page-context", without_ways_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
