"""The table of sets in the documentation is complete and agrees with what the sets declare."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dcfw import sets
from places import ROOT

sys.path.append(str(ROOT / "docs" / "_ext"))
set_table = pytest.importorskip("set_table", reason="the documentation is not part of an installed dcfw")
NAMES = sorted(set_table.EXAMPLES)


def test_the_page_is_what_the_code_says():
    assert (ROOT / "docs" / "api" / "set_table.md").read_text(encoding="utf-8") == set_table.page()


def test_every_public_set_is_in_the_table():
    public = {name for name in sets.__all__ if isinstance(getattr(sets, name), type)}
    missing = public - {"FeasibleSet", "Oracle", "Set"} ^ set(NAMES)
    assert not missing, f"give {missing} an example in docs/_ext/set_table.py and write the table again"


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_holds(name):
    domain, cells = set_table.EXAMPLES[name], set_table.row(name)
    rng = np.random.default_rng(1)
    x = domain.random(rng) + rng.standard_normal(domain.shape)
    if cells["projection"]:
        p = domain.project(x)
        assert domain.contains(p)
        assert np.vdot(p - x, p - domain.lmo(p - x)) <= 1e-8  # no point is nearer
    oracle = domain.oracle()
    assert f"`{type(oracle(rng.standard_normal(domain.shape))).__name__}`" in cells["atoms"]
    assert oracle.error == 0.0 or cells["oracle"] != "exact"
    if cells["strongly convex"]:
        s, t = domain.lmo(x), domain.lmo(-x)
        middle = 0.5 * (s + t)
        deep = 0.125 * domain.strong_convexity * np.sum((s - t) ** 2)
        direction = rng.standard_normal(domain.shape)
        assert domain.contains(middle + deep * direction / np.linalg.norm(direction))
    if cells["faces"] == "polytope":  # finitely many vertices: nearby directions have the same one
        G = rng.standard_normal(domain.shape)
        np.testing.assert_allclose(
            domain.lmo(G), domain.lmo(G + 1e-9 * rng.standard_normal(domain.shape)), atol=1e-9
        )


@pytest.mark.parametrize("name", NAMES)
def test_every_backend_of_the_table_gives_the_vertex(name):
    torch = pytest.importorskip("torch")
    domain = set_table.EXAMPLES[name]
    G = np.random.default_rng(2).standard_normal(domain.shape)
    found = domain.lmo(torch.asarray(G))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), domain.lmo(G), atol=1e-9)


def test_every_set_is_in_the_docstring_of_its_package_and_known_to_type_checkers():
    source = Path(sets.__file__).read_text(encoding="utf-8")
    names = [name for name in sets.__all__ if name not in ("FeasibleSet", "Oracle", "Set")]
    assert [name for name in names if f"\n``{name}``" not in source] == []
    assert [name for name in sets.__all__ if f"import {name} as {name}\n" not in source] == []
