"""Turn aligned lists of the docstrings into definition lists.

In the source a list of names is most readable in this form ::

    ``fun``   phi(x)
    ``gap``   the FW gap at x
              (nan where it was not measured)

but reStructuredText reads it as one long paragraph.  This extension converts such a paragraph to a
definition list before Sphinx processes it.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

ITEM = re.compile(r"^(?P<term>``[^`]+``(?:, ``[^`]+``)*)\s+(?P<text>\S.*)$")
WIDE = re.compile(r"^``[^`]+``(?:, ``[^`]+``)*\s{2,}\S")


def converted(block: list[str]) -> list[str]:
    """Return the lines of a paragraph, as a definition list if it is an aligned list."""
    if not WIDE.match(block[0]) or any(set(line.strip()) <= {"=", " "} for line in block):
        return block
    lines: list[str] = []
    for line in block:
        found = ITEM.match(line)
        if found:
            lines += [found["term"], "    " + found["text"]]
        elif line.startswith(" "):
            lines.append("    " + line.strip())
        else:
            return block
    return lines


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    result: list[str] = []
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
            continue
        result += converted(block) if block else []
        result.append("")
        block = []
    lines[:] = result


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process, priority=400)  # before numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
