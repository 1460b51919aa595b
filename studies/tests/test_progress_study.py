"""A study shows its progress on a terminal."""

import json
import os
import subprocess
import sys
import threading

import pytest

from places import SOURCE


def on_a_terminal(arguments, folder):
    """Run the command with a terminal for its standard error stream; return its output and what it drew."""
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    ours, theirs = pty.openpty()
    drawn = []

    def read():
        try:
            while chunk := os.read(ours, 4096):
                drawn.append(chunk.decode(errors="replace"))
        except OSError:  # the other end was closed
            pass

    process = subprocess.Popen(
        [sys.executable, "-m", "dcfw_studies", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": SOURCE, "TERM": "xterm", "COLUMNS": "120"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    out = process.stdout.read()
    assert process.wait() == 0, "".join(drawn)
    process.stdout.close()
    reader.join()
    os.close(ours)
    return out, "".join(drawn)


def test_a_study_draws_its_rows_on_a_terminal(tmp_path):
    pytest.importorskip("matplotlib", reason="the report draws figures")
    # Every row but one family's is there already, so that this takes seconds.
    from dcfw_studies import Store
    from dcfw_studies.catalogue import CATALOGUE

    study = CATALOGUE["inner"].study(full=False)
    filler = {"value": 0.0, "status": "CONVERGED", "gap": 0.0, "first_gap": 1.0, "dc_gap_high": 0.0, "nit": 1}
    filler |= {"n_inner": 1, "n_lmo": 1, "n_grad_f": 1, "n_grad_g": 1, "n_fun": 1, "seconds": 0.1}
    with Store(tmp_path / "s.db") as store:
        for task in study.tasks:
            if task.dataset != "alignment":
                store.finish(task, filler, seconds=0.1)
    out, drawn = on_a_terminal(["reproduce", "inner", "--n-jobs", "1", "--store", "s.db", "--json"], tmp_path)
    (done,) = json.loads(out)["studies"]
    assert (done["done"], done["skipped"]) == (8, len(study.tasks) - 8)
    assert "8/8" in drawn
    assert "left" in drawn
    assert "writing the report" in drawn
    assert (tmp_path / "dcfw-results" / "inner" / "inner_solvers.png").stat().st_size > 1000
