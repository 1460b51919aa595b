"""Control characters in names and errors of rows are written out on a terminal."""

from typer.testing import CliRunner

from dcfw_studies.commands import app
from dcfw_studies.store import Store
from dcfw_studies.study import Task

ODD = "\x1b]0;mine\x07\x1b[2J\r\b\u202e"


WRITTEN = r"\x1b]0;mine\x07\x1b[2J"


def silent(text):
    return not any(c in text for c in "\x1b\x07\b\u202e")


def test_a_store_is_shown_without_the_control_characters_in_it(tmp_path):
    path = str(tmp_path / "odd.db")
    with Store(path) as store:
        for version in ("1", "2"):
            task = Task("data", f"method {ODD}", int(version), study=f"study {ODD}")
            store.finish(task, {}, seconds=1.0, versions={"dcfw": version})
        store.fail(Task(f"d {ODD}", "m", 0, study=f"study {ODD}"), f"Error: {ODD}", f"line 1\nline 2 {ODD}")
    # Without color=True the runner would take escape sequences out, as click does where there is no terminal.
    done = CliRunner().invoke(app, ["study", "status", path, "--failures"], color=True)
    assert done.exit_code == 0
    assert silent(done.output)
    assert done.output.count(WRITTEN) >= 6
    assert "line 1\nline 2" in done.output
