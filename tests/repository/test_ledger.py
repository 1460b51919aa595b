"""One ledger: no other file of the library writes counters, and none decides by the text of a message."""

from __future__ import annotations

import ast
from pathlib import Path

import dcfw

HOME = Path(dcfw.__file__).parent
FILES = sorted(path for path in HOME.rglob("*.py") if path.name != "ledger.py")
COUNTERS = {"nit", "n_inner", "n_lmo", "n_fun", "n_grad_f", "n_grad_g", "n_resync", "dc_gap_nit"}


def targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return [node.target]
    if isinstance(node, ast.Assign):
        return [one for t in node.targets for one in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return []


def test_only_the_ledger_writes_counters_and_nothing_decides_by_a_message() -> None:
    nodes = [(path, node) for path in FILES for node in ast.walk(ast.parse(path.read_text()))]
    for path, node in nodes:
        for target in targets(node):
            written = isinstance(target, ast.Attribute) and target.attr in COUNTERS
            assert not written, f"{path}:{node.lineno} writes a counter"  # type: ignore[attr-defined]
        if isinstance(node, ast.Compare):
            texts = [side for side in (node.left, *node.comparators) if isinstance(side, ast.Attribute)]
            read = any(side.attr in ("message", "detail") for side in texts)
            assert not read, f"{path}:{node.lineno} looks into a message"
