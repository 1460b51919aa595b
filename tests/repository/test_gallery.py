"""Every example of the gallery runs, checks its own answer, and draws a picture.

``scripts/docs.sh`` runs them for every change and ends where one fails; the nightly job checks the pictures.
"""

from __future__ import annotations

import ast
import runpy

import pytest

from places import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


def test_the_gallery_is_there():
    assert len(EXAMPLES) >= 8
    assert (EXAMPLES[0].parent / "README.rst").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_checks_its_answer_and_draws_a_picture(path, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("networkx")
    if "import torch" in path.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    try:
        runpy.run_path(str(path), run_name="__main__")
        assert plt.get_fignums()
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
            for ax in plt.figure(number).axes:
                assert ax.get_title() or ax.get_xlabel() or ax.get_label() == "<colorbar>"
        assert "success: True" in capsys.readouterr().out
    finally:
        plt.close("all")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_short_and_says_what_it_shows(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    title, rule, *_ = ast.get_docstring(tree).splitlines()
    assert set(rule) == {"="}
    assert len(rule) == len(title)
    assert "checked against" in " ".join(ast.get_docstring(tree).split())
    assert any(isinstance(node, ast.Assert) for node in tree.body)
    assert len(text.splitlines()) <= 110
