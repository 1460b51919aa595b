"""``verbose=1`` shows a line of progress; without it nothing is shown, and slow preparations are logged."""

import io
import logging
import pickle
import re
import time

import numpy as np
import pytest

import dcfw
from dcfw import align, callbacks, functions, progress, qap, sets

RNG = np.random.default_rng(0)
M = RNG.standard_normal((8, 8))
E = RNG.standard_normal((3, 20))
DOORS = {
    "minimize": lambda **o: dcfw.minimize(functions.Quadratic(M @ M.T), sets.Simplex(8), **o),
    "qap.solve": lambda **o: qap.solve(M, M.T, rng=0, **o),
    "qap.solve, search": lambda **o: qap.solve(M, M.T, rng=0, restarts="auto", max_steps=2000, **o),
    "align.align": lambda **o: align.align(E, E[::-1], **o),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_solve_is_silent_unless_it_is_asked_to_speak_and_its_answer_is_the_same(door, capfd):
    quiet = DOORS[door]()
    assert capfd.readouterr() == ("", "")
    told = DOORS[door](verbose=1)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(rf"({door.split(',')[0]} \d+\.\d s  .*\n)+", err)
    assert err.rstrip().endswith(told.status.name)
    assert ("bound" in err) == ("search" in door)
    np.testing.assert_array_equal(told.x, quiet.x)
    assert (told.fun, told.n_lmo) == (quiet.fun, quiet.n_lmo)


def test_the_callback_is_called_beside_the_progress_and_ends_the_run(capfd):
    seen = []

    def stop(intermediate_result):
        seen.append(intermediate_result.nit)
        raise StopIteration

    assert DOORS["minimize"](verbose=1, callback=stop).status.name == "CALLBACK"
    assert seen == [0]


@pytest.mark.parametrize(("verbose", "error"), [(-1, ValueError), ("loud", TypeError), (None, TypeError)])
def test_a_wrong_verbose_is_refused(verbose, error):
    with pytest.raises(error, match="verbose"):
        DOORS["minimize"](verbose=verbose)


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_slow_preparation_is_logged_once(verbose, caplog, monkeypatch, capfd):
    monkeypatch.setattr(callbacks, "PATIENCE", 0.05)

    class Slow(functions.Function):
        def value(self, x):
            time.sleep(0.3)
            return 0.0

        def grad(self, x):
            return 0.0 * x

    with caplog.at_level(logging.INFO, logger="dcfw"):
        dcfw.minimize(Slow(), sets.Simplex(3), method="fw", verbose=verbose)
    assert [record.name for record in caplog.records] == ["dcfw"]
    assert caplog.messages[0].startswith("minimize: no step after 0.05 s")
    assert (capfd.readouterr().err == "") == (verbose == 0)


def test_public_solvers_without_verbose_work_where_the_log_is_on(caplog):
    spaces = np.ones((2, 3, 3)) - np.eye(3)
    with caplog.at_level(logging.INFO, logger="dcfw"):
        assert dcfw.gromov.gromov_wasserstein(*spaces).fun < 1e-9


def test_a_line_on_a_terminal_is_rewritten_in_place_and_fits(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    with callbacks.progress(every=0.0, file=stream, title="a \x1b[31m title") as show:
        DOORS["minimize"](callback=show)
    *lines, end = re.sub(r"\x1b\[K", "", stream.getvalue()).split("\r")[1:]
    assert lines
    assert end.endswith("\n")
    assert max(map(len, [*lines, end.rstrip()])) <= 39
    assert "\x1b" not in "".join(lines)


def test_a_line_in_a_notebook_is_one_display_that_is_updated(monkeypatch):
    pytest.importorskip("IPython")
    shown = []
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr(
        "IPython.display.display", lambda data, raw, display_id: shown.append(data) or Handle(shown)
    )

    class Handle:
        def __init__(self, shown):
            self.update = lambda data, raw: shown.append(data)

    line = progress.Line()
    line.write("<1>")
    line.write("2")
    assert [data["text/plain"] for data in shown] == ["<1>", "2"]
    assert "&lt;1&gt;" in shown[0]["text/html"]


def test_a_progress_that_is_sent_to_another_process_is_silent_there(capfd):
    copy = pickle.loads(pickle.dumps(callbacks.progress(every=0.0)))
    DOORS["minimize"](callback=copy)
    assert capfd.readouterr().err == ""
