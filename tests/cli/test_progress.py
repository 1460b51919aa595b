"""Long commands draw a bar with the time left on a terminal, and nothing at all on anything else."""

import io
import json
import os
import re
import subprocess
import sys

from dcfw import qap
from dcfw.progress import Bar
from places import SOURCE
from processes import on_a_terminal


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_shows_its_title_the_part_done_and_the_time_left():
    stream = Terminal()
    with Bar("reading", file=stream) as bar:
        for done in range(5):
            bar(done, 4, f"step {done}")
    assert "reading" in stream.getvalue()
    assert "left" in stream.getvalue()
    assert "step 4" in stream.getvalue()


def test_a_long_text_behind_a_bar_does_not_squeeze_the_times_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    with Bar("demo", file=stream) as bar:
        bar(1, 4, "a text that is far too long for the room that is left behind a bar of this terminal")
    drawn = stream.getvalue()
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[\d;?]*\w", "", drawn))
    assert any(re.search(r"0:00:00 \+ 0:00:00 left a text that is far too long .*…", line) for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_bar_writes_nothing_to_a_file():
    stream = io.StringIO()
    with Bar("reading", file=stream) as bar:
        bar(1, 2)
    assert stream.getvalue() == ""


def test_a_search_shows_its_progress_on_a_terminal_and_its_answer_stays_clean(tmp_path):
    instance = qap.generators.taillard_uniform(20, rng=0)
    rows = "\n".join(" ".join(map(str, row)) for M in (instance.A, instance.B) for row in M)
    (tmp_path / "t.dat").write_text(f"20\n{rows}\n")
    command = ["qap", "t.dat", "--restarts", "5", "--json"]
    out, drawn = on_a_terminal("dcfw", command, tmp_path)
    assert json.loads(out)["starts"] == 5
    assert re.search(r"qap.solve \d\.\d s  step \d+  value \d+  gap .* lmo  CONVERGED", drawn)
    quiet = subprocess.run(
        [sys.executable, "-m", "dcfw", *command],
        env={**os.environ, "PYTHONPATH": SOURCE},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert quiet.stderr == ""
    assert json.loads(quiet.stdout)["permutation"] == json.loads(out)["permutation"]
