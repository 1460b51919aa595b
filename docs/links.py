"""Check the links of the built site: ``python docs/links.py docs/_build/html``.

Every link to a page, file or anchor of the site must exist, and no page may load a script, a
style sheet, a font or a picture from elsewhere.  Links to other sites are not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}


class Page(HTMLParser):
    """The anchors of a page, its links, and the files that it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: set[str] = set()
        self.loads: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("id", "name"):
                self.anchors.add(value)
            if (tag, name) == ("a", "href"):
                self.targets.add(value)
            if (tag, name) in LOADED:
                self.loads.add(value)


def problems(root: Path) -> list[str]:
    read = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.html"))
        if "_static" not in path.parts
    }
    found = []
    for path, page in read.items():
        here = path.relative_to(root)
        for target in sorted(page.targets | page.loads):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loads and parts.scheme != "data":
                    found.append(f"{here} loads {target}")
                continue
            goal = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if goal.is_dir():
                goal /= "index.html"
            if not goal.exists():
                found.append(f"{here} links to {target}, which does not exist")
            elif parts.fragment and goal in read and unquote(parts.fragment) not in read[goal].anchors:
                found.append(f"{here} links to {target}, which has no such anchor")
    return found


def main(folder: str) -> int:
    root = Path(folder).resolve()
    if not (root / "index.html").is_file():
        print(f"{folder} contains no site: build it first")
        return 1
    found = problems(root)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(found)} broken links")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
