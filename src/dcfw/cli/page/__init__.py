"""Self-contained web pages: reports of studies and of the demonstration.

A page is one file that needs no network: its style sheet, its script and its data are inside, and a
Content-Security-Policy forbids everything else.  Three layers:

=============  ==========================================================================================
parts          what a page is made of, as plain data (:class:`Section`, :class:`Table`, :class:`Chart`, ...)
render         those parts as HTML, every text escaped
document       the whole file: head, policy, resources, contents, footer
=============  ==========================================================================================

and beside them :mod:`studies`, which asks each study in a store for its sections, and the resources ``.css``
and ``.js``, which are ours and need no build step.

**A study contributes a function** ``sections(store) -> list[Section]`` in its module
``dcfw_studies.NAME_page`` (or ``NAME_report``, or ``NAME``), where NAME is the study's name in the store.
A study without one gets a generic table of its rows.

>>> from dcfw.cli.page import Section, Text, page
>>> html = page("A title", [Section("Results", [Text("1 < 2")])])
>>> "1 &lt; 2" in html, "default-src 'none'" in html
(True, True)
"""

from dcfw.cli.page.document import page, write
from dcfw.cli.page.parts import (
    Bullets,
    Card,
    Cards,
    Cell,
    Chart,
    Code,
    Column,
    Picture,
    Row,
    Section,
    Series,
    Table,
    Text,
)

__all__ = [
    "Bullets",
    "Card",
    "Cards",
    "Cell",
    "Chart",
    "Code",
    "Column",
    "Picture",
    "Row",
    "Section",
    "Series",
    "Table",
    "Text",
    "page",
    "write",
]
