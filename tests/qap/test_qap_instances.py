"""Reading QAPLIB's files: their contents, and the errors for broken ones."""

import csv
import json
import shutil

import numpy as np
import pytest

from dcfw import data, qap
from dcfw.qap import library
from dcfw.qap.instances import read_solution
from dcfw.qap.library import NOT_IN_PAPER, shipped_best


@pytest.fixture
def qaplib():
    try:
        return data.find("qaplib")
    except FileNotFoundError as error:
        pytest.skip(f"needs the QAPLIB files: {error}")


@pytest.fixture
def write(tmp_path):
    def write(text, name="tiny.dat"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A data folder of our own with one tiny instance, and no cache."""
    folder = tmp_path / "data" / "qaplib"
    folder.mkdir(parents=True)
    (folder / "tiny3.dat").write_text("3  0 1 2 1 0 3 2 3 0  0 5 1 2 0 1 4 1 0")
    monkeypatch.setenv("DCFW_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(data, "cache_folder", lambda: tmp_path / "no-cache")
    return folder


# reading


def test_line_breaks_and_white_space_mean_nothing(write):
    instance = qap.read(write("\ufeff 2\r\n0 1\t2 3 4\n\n5 6\n7 \n"))
    assert (instance.name, instance.n, instance.best) == ("tiny", 2, None)
    assert instance.A.dtype == instance.B.dtype == np.int64
    np.testing.assert_array_equal(instance.A, [[0, 1], [2, 3]])
    np.testing.assert_array_equal(instance.B, [[4, 5], [6, 7]])


def test_numbers_that_are_not_integers_give_floats(write):
    instance = qap.read(write("1 0.5 -1e2"))
    assert instance.A.dtype == np.float64
    assert (instance.A[0, 0], instance.B[0, 0]) == (0.5, -100.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("2\n0 1 1 0\n0 1 1", r"cut short: with n = 2 expected 9 numbers .* found 8"),
        ("1 0 0 7", r"trailing numbers: with n = 1 expected 3 numbers .* found 4"),
        ("2\n0 1 1 0\n0 one 1 0", r"line 3: .*number 7 of the file.* 'one'"),
        ("1 0 nan", r"line 1: expected a finite number .* 'nan'"),
        ("1 0 1e999", "expected a finite number"),
        ("1 0 1_0", "expected a finite number"),
        (b"1 0 \xff\x00", "expected a finite number"),
        ("2.5 0 0", "integer of at least 1"),
        ("0", "integer of at least 1"),
        ("-3 1 2", "integer of at least 1"),
        ("99999999999999999999 1 2", "cut short"),
        ("1 0 99999999999999999999", "64 bits"),
    ],
)
def test_a_broken_instance_is_refused_with_what_was_expected(write, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        qap.read(write(text))
    assert "tiny.dat" in str(caught.value)


@pytest.mark.parametrize("text", ["3 40  2 3 1", "3 40\n1\n2 0"])
def test_a_solution_may_count_from_one_or_from_zero(write, text):
    n, value, permutation = qap.read(write(text, "x.SLN"))
    assert (n, value, permutation.tolist()) == (3, 40, [1, 2, 0])


@pytest.mark.parametrize(
    "text", ["3 40 1 2", "3 40 1 2 3 4", "3 40 1 2 2", "3 40 2 3 4", "3 40 1 2 x", "", "3"]
)
def test_a_broken_solution_is_refused(write, text):
    with pytest.raises(ValueError, match=r"x\.sln"):
        read_solution(write(text, "x.sln"))


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        qap.read(tmp_path / "none.dat")


# the data folder


def test_without_data_the_error_names_the_variable_and_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("DCFW_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(data, "cache_folder", lambda: tmp_path / "nothing")
    for call in (qap.names, lambda: qap.load("nug12")):
        with pytest.raises(FileNotFoundError, match=r"DCFW_DATA.*dcfw-studies fetch qaplib") as caught:
            call()
        assert "nowhere" in str(caught.value)
        assert "nothing" in str(caught.value)


def test_a_data_folder_that_is_not_a_path_is_named(monkeypatch):
    monkeypatch.setenv("DCFW_DATA", 5000 * "x")
    with pytest.raises(FileNotFoundError, match=r"DCFW_DATA is 'xxx.*which is not a path"):
        qap.load("nug12")


def test_the_cache_folder_is_searched_after_the_named_one(own_folder, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    shutil.copytree(own_folder, cache / "qaplib")
    monkeypatch.setattr(data, "cache_folder", lambda: cache)
    assert data.find("qaplib") == own_folder
    monkeypatch.setenv("DCFW_DATA", str(tmp_path / "nowhere"))
    assert data.find("qaplib") == cache / "qaplib"
    monkeypatch.delenv("DCFW_DATA")
    assert data.data_folder() == cache


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/dcfw"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/dcfw"),
        ("linux", {}, "/home/me/.cache/dcfw"),
        ("darwin", {}, "/home/me/Library/Caches/dcfw"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/dcfw"),
        ("win32", {}, "/home/me/AppData/Local/dcfw"),
    ],
)
def test_the_cache_folder_is_where_the_platform_wants_it(monkeypatch, platform, variables, expected):
    monkeypatch.setattr(data.sys, "platform", platform)
    monkeypatch.setattr(data.Path, "home", lambda: data.Path("/home/me"))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert data.cache_folder().as_posix() == expected


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd"])
def test_paths_outside_the_data_folder_are_refused(path):
    with pytest.raises(ValueError, match="inside a data folder"):
        data.find(path)


def test_names_are_sorted_by_family_and_number(own_folder):
    for name in ("nug12", "nug8", "tai20b", "tai20a", "bur26a"):
        shutil.copy(own_folder / "tiny3.dat", own_folder / f"{name}.dat")
    assert qap.names() == ["bur26a", "nug8", "nug12", "tai20a", "tai20b", "tiny3"]
    assert qap.names(paper=True) == ["bur26a", "nug12", "tai20a", "tai20b"]


def test_an_unknown_name_is_answered_with_near_ones(own_folder):
    with pytest.raises(KeyError, match=r"^name 'tiny' is not .* did you mean 'tiny3'\?$"):
        qap.load("tiny")
    with pytest.raises(KeyError, match=r"names\(\) lists them"):
        qap.load("zzzzzz")
    with pytest.raises(KeyError, match=r"dcfw\.qap\.read\(path\)"):
        qap.load("tiny3.dat")
    with pytest.raises(KeyError):
        qap.load("../qaplib/tiny3")
    with pytest.raises(TypeError, match="name must be a string"):
        qap.load(3)


def test_an_inverse_permutation_in_a_solution_file_is_turned_round(own_folder):
    instance = qap.load("tiny3")
    assert (instance.best, instance.permutation, instance.status) == (None, None, None)
    p = np.array([1, 2, 0])
    forward, backward = (qap.evaluate(instance.A, instance.B, q) for q in (p, np.argsort(p)))
    assert forward != backward
    for q in (p, np.argsort(p)):
        (own_folder / "tiny3.sln").write_text(f"3 0 {' '.join(str(i + 1) for i in q)}")
        instance = qap.load("tiny3")
        assert (
            instance.best
            == min(forward, backward)
            == qap.evaluate(instance.A, instance.B, instance.permutation)
        )
        assert instance.status == "best_known"


def test_a_solution_of_another_size_is_refused(own_folder):
    (own_folder / "tiny3.sln").write_text("2 0 1 2")
    with pytest.raises(ValueError, match="a permutation of 2 for an instance of size 3"):
        qap.load("tiny3")


def test_a_best_value_that_the_permutation_beats_is_replaced(own_folder, monkeypatch):
    monkeypatch.setattr(library, "best_known", lambda file: (24, "best_known"))
    (own_folder / "tiny3.sln").write_text("3 0 1 2 3")
    assert (qap.load("tiny3").best, qap.load("tiny3").status) == (23, "best_known")


def test_a_file_with_the_name_of_an_instance_but_other_numbers_has_no_best_value(own_folder):
    shutil.copy(own_folder / "tiny3.dat", own_folder / "nug12.dat")
    twelve = np.ones((2, 12, 12), dtype=int)
    (own_folder / "nug14.dat").write_text("12 " + " ".join(map(str, twelve.ravel())))
    for name in ("nug12", "nug14"):
        instance = qap.load(name)
        assert (instance.best, instance.status) == (None, None)


def test_white_space_does_not_cost_an_instance_its_best_value(qaplib, own_folder):
    text = (qaplib / "nug12.dat").read_text()
    (own_folder / "nug12.dat").write_text("\ufeff" + "\r\n".join(text.split()), encoding="utf-8")
    assert (qap.load("nug12").best, qap.load("nug12").status) == (578, "optimal")


@pytest.mark.parametrize("name", ["long.dat", "long.sln"])
@pytest.mark.parametrize(
    "content", [b"1" * 3000 + b" 1 2 3", b"-" + b"1" * 3000 + b" 1 2", b"1" * 4300 + b" 1"]
)
def test_a_size_of_thousands_of_digits_is_refused_in_a_short_message(write, name, content):
    with pytest.raises(ValueError, match=rf"{name}.*11111111.*\.\.\. \(\d+ characters\)") as caught:
        qap.read(write(content, name))
    assert len(str(caught.value)) < 200


# the real files


def test_every_known_permutation_has_its_known_value(qaplib):
    solutions = json.loads((qaplib / "solutions.json").read_text())
    with (qaplib / "best_known.csv").open() as lines:
        best = {row["name"]: int(row["best_known"]) for row in csv.DictReader(lines)}
    assert len(qap.names()) == 136
    for name in qap.names():
        instance = qap.load(name)
        value = qap.evaluate(instance.A, instance.B, instance.permutation)
        assert type(value) is int
        assert value == solutions[name]["value"]
        assert instance.best == best[name] <= value
        assert instance.best == shipped_best()[name][0]
        assert instance.status == shipped_best()[name][1]


def test_the_paper_uses_134_of_the_136(qaplib):
    paper = qap.names(paper=True)
    assert len(paper) == 134
    assert set(qap.names()) - set(paper) == NOT_IN_PAPER


def test_the_solution_files_alone_give_the_known_permutations(qaplib, tmp_path, monkeypatch):
    """As after a download, without the checked tables: inverse, 0-based and mislabelled files included."""
    names = ["esc128", "kra30a", "ste36c", "tai40a", "kra32", "nug12", "tho30", "lipa20a", "bur26a"]
    (tmp_path / "qaplib").mkdir()
    for name in names:
        for suffix in ("dat", "sln"):
            shutil.copy(qaplib / f"{name}.{suffix}", tmp_path / "qaplib")
    monkeypatch.setenv("DCFW_DATA", str(tmp_path))
    for name in names:
        instance = qap.load(name)
        assert qap.evaluate(instance.A, instance.B, instance.permutation) == instance.best
    assert qap.read(qaplib / "tai40a.sln").permutation.min() == 0


# the package


def test_every_public_name_is_there_and_importing_the_package_loads_nothing_heavy():
    import subprocess
    import sys

    for name in qap.__all__:
        assert getattr(qap, name) is not None
        assert name in dir(qap)
    with pytest.raises(AttributeError, match="no_such_name"):
        qap.no_such_name  # noqa: B018
    code = "import sys, dcfw.qap.library; print([m for m in ('numba', 'scipy.optimize') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
