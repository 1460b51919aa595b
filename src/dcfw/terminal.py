r"""Untrusted text on a terminal, which would execute its control sequences.

>>> print(shown("red \x1b[31m, back \b, café"))
red \x1b[31m, back \x08, café
"""

from __future__ import annotations


def shown(text: str, keep: str = "") -> str:
    """Return a text with unprintable characters escaped, except those in ``keep``."""
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text
    )
