"""Render formulas as MathML, which browsers display without scripts, fonts or network access.

docutils translates LaTeX; this extension connects it to Sphinx's HTML and turns formulas that it cannot
translate into warnings.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def render(node: nodes.Element, *, block: bool) -> str:
    # docutils supports ``aligned``, but not the display environments.
    tex = re.sub(r"\{(align|equation|gather)\*?\}", "{aligned}", node.astext())
    tex = re.sub(r"\\dots(?![a-z])", r"\\ldots", tex)
    if block and "\\\\" in tex and "\\begin" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    try:
        mathml = str(tex2mathml(tex, as_block=block))
    except (MathError, ValueError, KeyError, IndexError) as error:
        logger.warning("formula not understood: %s: %s", tex, error, location=node)
        return f"<code>{tex}</code>"
    # Keep brackets without \left and \right at text size; MathML would stretch them.
    return re.sub(r'<mo( class="math\w+")?>([‖|⟨⟩{}])</mo>', r'<mo stretchy="false">\2</mo>', mathml)


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(render(node, block=False))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    self.body.append(render(node, block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
