"""Run the Python code on the pages: ``python docs/pages.py [PAGE ...]``.

Blocks marked ``python`` of one page share a namespace and run in order, as doctests if they contain ``>>>``.
Blocks marked ``py`` are code for other libraries and are only shown.  A block that
imports a package that is not installed ends the page, and a message says so.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
GENERATED = ("_build", "gallery", "tutorials", "generated")
FENCE = re.compile(r"^(?P<fence>```+)(?P<language>\w+)\n(?P<text>.*?)^(?P=fence)$", re.M | re.S)
OPTIONAL = ("torch", "sklearn", "networkx", "matplotlib", "copt", "distributed")


class Block(NamedTuple):
    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """Return the pages that are not generated."""
    return [p for p in sorted(HERE.rglob("*.md")) if not set(p.relative_to(HERE).parts) & set(GENERATED)]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Block(found["language"], found["text"], text.count("\n", 0, found.start()) + 1)


def missing(text: str) -> list[str]:
    """Return the optional packages that a block imports and that are not installed."""
    wanted = (name for name in OPTIONAL if re.search(rf"\b(import|from) (dcfw\.)?{name}\b", text))
    return [name for name in wanted if importlib.util.find_spec(name) is None]


def run(page: Path) -> tuple[int, int, list[str]]:
    """Run a page; return the number of examples and of failures, and messages about skipped blocks."""
    space: dict[str, Any] = {"__name__": "__page__"}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags)
    parser = doctest.DocTestParser()
    plain, broken, skipped = 0, 0, []
    for block in blocks(page):
        if block.language != "python":
            continue
        lacking = missing(block.text)
        if lacking:
            skipped.append(f"line {block.line} needs {', '.join(lacking)}; the rest of the page is skipped")
            break
        if ">>>" in block.text:
            test = parser.get_doctest(block.text, space, str(page.name), str(page), block.line)
            runner.run(test, clear_globs=False)
            space.update(test.globs)  # the test works on a copy
        else:
            code = compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True)
            plain += 1
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(code, space)
            except Exception:
                traceback.print_exc()
                broken = 1
                break  # later blocks depend on it
    results = runner.summarize(verbose=False)
    return results.attempted + plain, results.failed + broken, skipped


def main(arguments: list[str]) -> int:
    failures = 0
    for page in [Path(a).resolve() for a in arguments] or pages():
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):  # for files that examples write
            Path("results").symlink_to(HERE.parent / "results")  # which some of them read
            count, failed, skipped = run(page)
        failures += failed
        if count or skipped:
            seconds = time.perf_counter() - started
            print(f"{page.relative_to(HERE)}: {count} examples, {failed} failed, {seconds:.1f} s", *skipped)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
