"""Nothing that users rely on disappears unannounced: names, parameters, JSON fields, exit codes, promises.

``inventory.json`` is what the last release had.  A name of it that is gone must be named, in backticks, in
the section "Unreleased" of the changelog, with its replacement.
"""

from __future__ import annotations

import json
import re

import pytest

import inventory

BEFORE = json.loads(inventory.FILE.read_text(encoding="utf-8"))


def unreleased() -> str:
    text = (inventory.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found[1] if found else ""


def is_announced(name: str, text: str) -> bool:
    """Return whether the changelog names this, or the class or module that it belongs to.

    ``dcfw.torch.DCFW`` may be written as ``torch.DCFW`` and as ``DCFW``; a module is written in full.
    """
    parts = name.split(".")
    written = [".".join(parts[:end]) for end in range(len(parts), 1, -1)]
    written += [".".join(parts[start:]) for start in range(1, len(parts))]
    return any(re.search(rf"`{re.escape(each)}(?![\w.])[^`]*`", text) for each in written)


def gone() -> list[str]:
    """Return the names and parameters of the last release that are missing today."""
    now = inventory.public_names()
    missing = []
    for name, parameters in BEFORE["public names"].items():
        if name.startswith("dcfw.torch.") and not any(n.startswith("dcfw.torch.") for n in now):
            continue  # PyTorch is not installed here
        if name not in now:
            missing.append(name)
        else:
            missing += [f"{name}({p}=)" for p in parameters if p not in now[name]]
    return missing


def test_every_public_name_is_there_or_announced():
    text = unreleased()
    lost = [n for n in gone() if "(" not in n and not is_announced(n, text)]
    assert lost == []


def test_every_parameter_is_there_or_announced():
    text = unreleased()
    lost = []
    for each in (n for n in gone() if "(" in n):
        name, _, parameter = each.rstrip("=)").partition("(")
        if not is_announced(name, text) or not re.search(rf"`[^`]*\b{parameter}\b[^`]*`", text):
            lost.append(each)
    assert lost == []


def test_statuses_and_columns_of_the_history_are_there():
    now = {status.name: int(status) for status in inventory.dcfw.Status}
    assert {name: now.get(name) for name in BEFORE["statuses"]} == BEFORE["statuses"]
    res = inventory.dcfw.minimize(inventory.dcfw.functions.SquaredNorm(), inventory.dcfw.sets.Simplex(2))
    assert set(BEFORE["history"]) <= set(res.history.columns)


def test_the_exit_codes_are_the_same():
    assert inventory.exit_codes() == BEFORE["exit codes"]


def test_every_json_field_is_there_or_announced():
    text = unreleased()
    now = inventory.json_fields()
    lost = [
        f"{command} --json: {field}"
        for command, before in BEFORE["json fields"].items()
        for field in before
        if field not in now[command] and not re.search(rf"`{command} --json`.*`{re.escape(field)}`", text)
    ]
    assert lost == []


@pytest.mark.parametrize("section", BEFORE["promises"])
def test_no_promise_is_dropped_and_each_names_what_holds_it(section):
    now = inventory.promises()
    assert len(now.get(section, [])) >= len(BEFORE["promises"][section])
    assert all(
        any(".py" in name or ".sh" in name or "make " in name for name in held) for held in now[section]
    )


def test_the_comparison_sees_a_name_that_is_gone(monkeypatch):
    monkeypatch.setitem(BEFORE["public names"], "dcfw.sets.Nowhere", ["shape"])
    monkeypatch.setitem(BEFORE["public names"], "dcfw.minimize", ["objective", "nonsense"])
    assert {"dcfw.sets.Nowhere", "dcfw.minimize(nonsense=)"} <= set(gone())
    assert not is_announced("dcfw.sets.Nowhere", "- `dcfw.sets.NowhereElse` is new")
    assert is_announced("dcfw.images.load", "- `dcfw.images` is now `dcfw_studies.images`")
