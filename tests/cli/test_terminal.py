"""Control characters from files are shown on a terminal as text and never obeyed."""

import io

import numpy as np
import pytest
from typer.testing import CliRunner

import dcfw
from dcfw import functions, sets
from dcfw.checkpoints import file as checkpoint_file
from dcfw.cli import app
from dcfw.progress import Bar

ODD = "\x1b]0;mine\x07\x1b[2J\r\b\u202e"
WRITTEN = r"\x1b]0;mine\x07\x1b[2J"


def silent(text):
    return not any(c in text for c in "\x1b\x07\b\u202e")


def test_an_error_is_shown_without_the_control_characters_of_the_file_that_it_is_about(tmp_path):
    for name in ("a.vec", "b.vec"):
        (tmp_path / name).write_text("1 2\nword 1 2\n")
    (tmp_path / "words.tsv").write_text(f"rank\t{ODD[:-3]}\tn\n1\t2\t3\n")
    options = ["--source", "a.vec", "--target", "b.vec", "--dictionary", "words.tsv"]
    options = [str(tmp_path / option) if "." in option else option for option in options]
    done = CliRunner().invoke(app, ["align", *options], color=True)
    assert done.exit_code == 1
    assert silent(done.output)
    assert f"which has rank, {WRITTEN}" in done.output


def test_the_settings_of_a_foreign_checkpoint_are_shown_without_control_characters(tmp_path):
    path = tmp_path / "run.npz"
    checkpoint_file.write(path, {"fingerprint": {"method": ODD + 10_000 * "x"}, "tree": {}}, [])
    with pytest.raises(ValueError, match="belongs to another run") as caught:
        dcfw.minimize(functions.Quadratic(np.eye(2)), sets.Simplex(2), checkpoint=path)
    assert silent(str(caught.value))
    assert len(str(caught.value)) < 3000


def test_brackets_in_the_name_of_a_file_are_shown_in_a_bar():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with Bar("reading wiki[en].vec", file=stream) as bar:
        bar(1, 2, "at [/x]")
    assert "wiki[en].vec" in stream.getvalue()
    assert "at [/x]" in stream.getvalue()
