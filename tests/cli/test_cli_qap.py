"""``dcfw qap`` solves files and named instances, and says in one line what is wrong with its input."""

import itertools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dcfw import qap
from dcfw.cli import app
from dcfw.cli.matrices import read_matrix
from dcfw.qap.examples import EXAMPLES, example
from dcfw.result import Status


def call(*arguments):
    quick = [] if {"--restarts", "--time-limit"} & set(arguments) else ["--restarts", "10"]
    return CliRunner().invoke(app, ["qap", *map(str, arguments), *quick])


def numbers(*matrices):
    return "\n".join(" ".join(map(str, row)) for M in matrices for row in np.atleast_2d(M).tolist())


@pytest.fixture
def problem():
    return qap.generators.li_pardalos((3, 3), rng=0)


@pytest.fixture
def file(problem, tmp_path):
    path = tmp_path / "grid9.dat"
    path.write_text(f"{problem.n}\n{numbers(problem.A, problem.B)}\n")
    return path


@pytest.fixture
def library(file, monkeypatch):
    """A data folder with one instance, grid9, whose best value is known from its .sln file."""
    folder = file.parent / "qaplib"
    folder.mkdir()
    file = file.rename(folder / file.name)
    instance = qap.read(file)
    known = qap.generators.li_pardalos((3, 3), rng=0)
    p = " ".join(str(j + 1) for j in known.permutation)
    (folder / "grid9.sln").write_text(f"{instance.n} {known.best}\n{p}\n")
    monkeypatch.setenv("DCFW_DATA", str(folder.parent))
    return folder


def test_a_file_is_solved_and_the_value_is_that_of_the_permutation(problem, file):
    done = call(file, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["value"] == qap.evaluate(problem.A, problem.B, found["permutation"]) == problem.best
    assert (found["instance"], found["n"], found["starts"]) == ("grid9", 9, 10)
    assert found["best_known"] is found["relative_error"] is None
    low, high = found["dc_gap"]
    assert 0.0 <= low <= high
    assert found["bound"] == qap.bound(problem.A, problem.B) <= problem.best


def test_options_reach_the_solver(file):
    found = json.loads(
        call(file, "--method", "fw", "--restarts", 3, "--polish", "none", "--seed", 1, "--json").stdout
    )
    assert (found["method"], found["split"], found["starts"]) == ("fw", "none", 3)
    found = json.loads(call(file, "--split", "spectral", "--restarts", 1, "--json").stdout)
    assert (found["method"], found["split"], found["starts"]) == ("dcfw", "spectral", 1)
    lowest = json.loads(call(file, "--json").stdout)["value"]
    assert json.loads(call(file, "--maximize", "--json").stdout)["value"] > lowest


def test_the_same_seed_gives_the_same_permutation(file):
    first, second = (json.loads(call(file, "--seed", 3, "--json").stdout) for _ in range(2))
    assert first["permutation"] == second["permutation"]


@pytest.mark.parametrize(("starts", "whose"), [(1, "The "), (2, "the best start: The ")])
def test_the_text_says_which_start_has_stopped(file, starts, whose):
    lines = dict(line.split(maxsplit=1) for line in call(file, "--restarts", starts).stdout.splitlines()[1:])
    assert lines["stopped"].startswith(whose)


def test_automatic_restarts_fill_the_time_limit(file):
    found = json.loads(call(file, "--restarts", "auto", "--time-limit", 0.3, "--json").stdout)
    assert found["starts"] > 1
    assert found["seconds"] >= 0.3


def test_a_name_is_looked_up_in_the_data_folder_and_the_error_is_relative(library, problem):
    found = json.loads(call("grid9", "--json").stdout)
    assert found["best_known"] == problem.best
    assert found["relative_error"] == 0.0
    printed = call("grid9").stdout
    assert "grid9, n = 9" in printed
    assert f"best known   {problem.best}" in printed
    assert "error        0 %" in printed


def test_the_text_has_value_certificate_and_permutation(file, problem):
    done = call(file, "--restarts", 1, "--method", "dcfw")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[1:])
    p = np.array(lines["permutation"].split(), dtype=int)
    assert int(lines["value"]) == qap.evaluate(problem.A, problem.B, p)
    assert "DC gap in [" in lines["relaxation"]
    assert "best" not in lines


def test_a_file_with_the_name_and_the_numbers_of_a_qaplib_instance_has_its_best_value(tmp_path):
    # The generator makes tai12a number by number, which is what the checksum is taken of.
    uniform = qap.generators.taillard_uniform(12, seed=qap.generators.TAILLARD_SEED)
    path = tmp_path / "tai12a.dat"
    path.write_text(f"12\n{numbers(uniform.A, uniform.B)}\n")
    found = json.loads(call(path, "--json").stdout)
    assert (found["best_known"], found["best_known_status"]) == (224416, "optimal")
    path.write_text(f"12\n{numbers(uniform.A, uniform.A)}\n")
    assert json.loads(call(path, "--json").stdout)["best_known"] is None


def test_a_wrong_name_is_answered_with_near_ones(library):
    done = call("grid8")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "did you mean 'grid9'?" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_name_like_no_other_is_answered_with_the_command_that_lists_them(library):
    done = call("nosuch")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "`dcfw qap --list` lists them" in done.stderr
    assert "names()" not in done.stderr
    (library / "grid10.dat").touch()
    done = call("--list")
    assert (done.exit_code, done.stdout.splitlines()[-2:]) == (0, ["grid9", "grid10"])


def test_a_file_that_is_cut_short_is_refused_with_its_last_line(file):
    file.write_text("\n".join(file.read_text().splitlines()[:12]))
    done = call(file)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "grid9.dat is cut short" in done.stderr
    assert "last line, 12" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--restarts", "many"], "--restarts must be a positive integer or 'auto', got 'many'"),
        (["--restarts", "0"], "--restarts must be a positive integer or 'auto', got '0'"),
        (["--restarts", "auto", "--time-limit", "inf"], "--restarts auto fills the time limit"),
        (["--split", "spectra"], "did you mean 'spectral'?"),
        (["--split", "spectral", "--method", "fw"], "split='spectral' has no meaning for method 'fw'"),
        (["--method", "newton"], "--method must be one of 'auto', 'dcfw', 'boosted', 'fw', 'cgs'"),
        (["--polish", "3opt"], "--polish must be one of '2opt', 'tabu', 'none'"),
        (["--time-limit", "-1"], "--time-limit must be"),
        (["--time-limit", "nan"], "--time-limit must be"),
        (["--jobs", "0"], "--jobs must not be 0"),
    ],
)
def test_a_wrong_value_is_a_wrong_command_line_and_exit_code_2(file, arguments, said):
    done = call(file, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_missing_file_and_a_solution_file_are_refused(tmp_path):
    assert "No such file" in call(tmp_path / "none.dat").stderr
    assert "give the instance" in call(tmp_path / "nug12.sln").stderr
    assert "is a folder" in " ".join(call(tmp_path).stderr.split())
    assert call("nug12", "--no-such-option").exit_code == 2


def test_an_interrupted_search_prints_its_best_and_is_exit_code_130(problem, file, monkeypatch):
    real = qap.solve

    def interrupted(*arguments, **options):
        result = real(*arguments, **options)
        if len(arguments[0]) == problem.n:  # and not while the loops are compiled
            result.status = Status.INTERRUPTED
        return result

    monkeypatch.setattr(qap, "solve", interrupted)
    done = call(file, "--restarts", 2, "--json")
    assert done.exit_code == 130
    found = json.loads(done.stdout)
    assert found["value"] == qap.evaluate(problem.A, problem.B, found["permutation"])


def test_matrices_with_names_give_an_assignment_by_name(tmp_path):
    (tmp_path / "flow.csv").write_text(",desk,door,bin\ndesk,0,9,1\ndoor,9,0,2\nbin,1,2,0\n")
    (tmp_path / "far.csv").write_text(";a;b;c\na;0;5;1\nb;5;0;2\nc;1;2;0\n")
    output = tmp_path / "assignment.csv"
    options = ("--time-limit", 0.2, "-o", output, "--json")
    done = call("--flow", tmp_path / "flow.csv", "--distance", tmp_path / "far.csv", *options)
    found = json.loads(done.stdout)
    assert found["value"] == 2 * (9 * 1 + 2 * 2 + 1 * 5)
    assert found["assignment"] == {"desk": "a", "door": "c", "bin": "b"}
    assert output.read_text().splitlines() == ["what,where", "desk,a", "door,c", "bin,b"]


def test_a_semicolon_table_has_decimal_commas_and_places_may_stay_empty(tmp_path):
    (tmp_path / "flow.csv").write_text(";desk;door\ndesk;0;1,5\ndoor;1,5;0\n")
    (tmp_path / "far.csv").write_text(",a,b,c\na,0,5,1\nb,5,0,2\nc,1,2,0\n")
    output = tmp_path / "assignment.csv"
    files = (
        "--flow",
        tmp_path / "flow.csv",
        "--distance",
        tmp_path / "far.csv",
        "--time-limit",
        0.2,
        "--json",
    )
    found = json.loads(call(*files, "-o", output).stdout)
    assert found["value"] == 3.0
    assert {found["assignment"]["desk"], found["assignment"]["door"]} == {"a", "c"}
    assert len(output.read_text().splitlines()) == 3
    assert "name the file plan.csv" in call(*files, "-o", tmp_path / "plan.xlsx").stderr


def test_a_table_in_another_encoding_is_named(tmp_path):
    (tmp_path / "flow.csv").write_bytes("B\xfcro,0,1\n".encode("cp1252"))
    done = call("--flow", tmp_path / "flow.csv", "--distance", tmp_path / "flow.csv")
    assert "flow.csv is not in UTF-8" in done.stderr


def test_pairs_are_fixed_and_forbidden_by_name_or_number(tmp_path):
    (tmp_path / "flow.csv").write_text(",desk,door,bin\ndesk,0,9,1\ndoor,9,0,2\nbin,1,2,0\n")
    (tmp_path / "far.csv").write_text(",a,b,c\na,0,5,1\nb,5,0,2\nc,1,2,0\n")
    files = (
        "--flow",
        tmp_path / "flow.csv",
        "--distance",
        tmp_path / "far.csv",
        "--time-limit",
        0.2,
        "--json",
    )
    found = json.loads(call(*files, "--fix", "desk=b", "--forbid", "1=c").stdout)
    assert found["assignment"] == {"desk": "b", "door": "a", "bin": "c"}
    for wrong, message in (
        ("desk", "WHAT=WHERE"),
        ("shelf=a", "neither a name"),
        ("desk=9", "indices from 0"),
    ):
        assert message in call(*files, "--fix", wrong).stderr


@pytest.mark.parametrize("kind", ["npy", "npz", "mtx", "txt"])
def test_matrices_come_in_the_usual_files(kind, tmp_path):
    from scipy.io import mmwrite
    from scipy.sparse import csr_array

    M, file = np.array([[0, 2, 0], [2, 0, 3], [0, 3, 0]]), tmp_path / f"m.{kind}"
    write = {"npy": np.save, "npz": np.savez, "mtx": lambda f, A: mmwrite(f, csr_array(A)), "txt": np.savetxt}
    write[kind](file, M)
    found = json.loads(call("--flow", file, "--distance", file, "--time-limit", 0.1, "--json").stdout)
    assert found["value"] == min(int((M * M[np.ix_(p, p)]).sum()) for p in itertools.permutations(range(3)))


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ("0,1\n1,x\n", "row 2, column 2: could not convert 'x'"),
        ("a;b\n0;1\n2;\n", "row 3, column 2: an empty cell"),
        ("0,1\n1\n", "row 2: 1 numbers where row 1 has 2"),
        ("0,1,2\n1,0,3\n", "must hold a square matrix"),
        ("", "is empty"),
        (",a,b\na,0,1\nc,1,0\n", "only its rows have 'c'"),
        ("a b\na 0 1\nc 2 0\n", "only its rows have 'c'"),
        ("0,,4\n,0,5\n4,5,0\n", "row 1, column 2: an empty cell"),
        ("0,-,4\n-,0,5\n4,5,0\n", "row 1, column 2: could not convert '-'"),
        ("0,1_000\n1_000,0\n", "could not convert '1_000'"),
        (",a,a,b\na,0,1,2\na,3,0,4\nb,5,6,0\n", "has the name 'a' twice"),
        ("a,0,1\na,1,0\n", "has the name 'a' twice"),
        (",0,1\n0,5,6\n1,7,8\n", "to_csv(header=False, index=False)"),
        (",10,20\n10,5,6\n20,7,8\n", "to_csv(header=False, index=False)"),
        ("0,nan\n1,0\n", "has NaN or Inf entries (the first at (0, 1))"),
        ('0,"' + 200_000 * "1" + "\n", "is not a table"),
    ],
)
def test_a_file_that_holds_no_matrix_is_named(flow, message, tmp_path):
    (tmp_path / "flow.csv").write_text(flow)
    done = call("--flow", tmp_path / "flow.csv", "--distance", tmp_path / "flow.csv")
    assert done.exit_code == 1
    assert message in done.stderr
    assert "flow.csv" in done.stderr


@pytest.mark.parametrize(
    ("flow", "read"),
    [
        ("0,,4\n,0,5\n4,5,0\n", [[0, 0, 4], [0, 0, 5], [4, 5, 0]]),
        (",3,4\n3,,5\n4,5,\n", [[0, 3, 4], [3, 0, 5], [4, 5, 0]]),
        (",a,b\na,,1\nb,2,\n", [[0, 1], [2, 0]]),
    ],
)
def test_blanks_that_are_zero_are_no_names(flow, read, tmp_path):
    (tmp_path / "flow.csv").write_text(flow)
    assert read_matrix(tmp_path / "flow.csv", "0").values.tolist() == read


def test_columns_without_a_corner_and_names_of_two_lines_are_read(tmp_path):
    (tmp_path / "flow.txt").write_text("b a\na 0 1\nb 2 3\n")
    values, labels = read_matrix(tmp_path / "flow.txt")
    assert (values.tolist(), labels) == ([[1, 0], [3, 2]], ["a", "b"])
    (tmp_path / "flow.csv").write_text(',"front\ndoor",bin\n"front\ndoor",0,1\nbin,2,3\n')
    values, labels = read_matrix(tmp_path / "flow.csv")
    assert (values.tolist(), labels) == ([[0, 1], [2, 3]], ["front\ndoor", "bin"])


def test_empty_cells_of_excel_are_blanks(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([[None, "a", "b"], ["a", "0", None], ["b", "1", "0"]], dtype=str)
    monkeypatch.setattr(pandas, "read_excel", lambda *given, **options: table)
    with pytest.raises(ValueError, match="row 2, column 3: an empty cell"):
        read_matrix(tmp_path / "flow.xlsx")
    assert read_matrix(tmp_path / "flow.xlsx", "0").values.tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[0, 1j], [1j, 0]]), "m.npy must hold real numbers, got dtype complex128"),
        (np.array([["0", "1"], ["1", "0"]]), "m.npy must hold real numbers, got dtype <U1"),
        (np.array([[0, np.nan], [1, 0]]), "m.npy has NaN or Inf entries (the first at (0, 1))"),
        (np.array([[0, 1e200], [1, 0]]), "m.npy has entries beyond 1e+150"),
        (np.zeros((0, 0)), "m.npy must hold a square matrix, got shape (0, 0)"),
    ],
)
def test_an_array_file_that_holds_no_matrix_is_named(array, message, tmp_path):
    np.save(tmp_path / "m.npy", array)
    done = call("--flow", tmp_path / "m.npy", "--distance", tmp_path / "m.npy")
    assert done.exit_code == 1
    assert message in done.stderr


def test_things_and_places_that_do_not_exist_are_neither_written_nor_accepted(tmp_path):
    np.save(tmp_path / "flow.npy", [[0, 1], [1, 0]])
    np.save(tmp_path / "far.npy", [[0, 5, 1], [5, 0, 9], [1, 9, 0]])
    output = tmp_path / "assignment.csv"
    files = ("--flow", tmp_path / "flow.npy", "--distance", tmp_path / "far.npy", "--time-limit", 0.1)
    found = json.loads(call(*files, "-o", output, "--json").stdout)
    assert set(found["assignment"]) == {"0", "1"}
    assert set(found["assignment"].values()) == {"0", "2"}
    assert len(output.read_text().splitlines()) == 3
    assert json.loads(call(*files, "--today", output, "--json").stdout)["today"] == found["value"] == 2
    for pair in ("2=0", "0=3"):
        assert "indices from 0 to" in " ".join(call(*files, "--fix", pair).stderr.split())
    swapped = ("--flow", tmp_path / "far.npy", "--distance", tmp_path / "flow.npy", "--time-limit", 0.1)
    assert len(json.loads(call(*swapped, "--json").stdout)["assignment"]) == 2


@pytest.mark.parametrize("again", ["desk,x", "0,x"])
def test_a_thing_that_is_twice_in_todays_assignment_is_named(again, tmp_path):
    (tmp_path / "flow.csv").write_text(",desk,door\ndesk,0,1\ndoor,1,0\n")
    (tmp_path / "far.csv").write_text(",x,y\nx,0,1\ny,1,0\n")
    (tmp_path / "today.csv").write_text(f"what,where\ndesk,y\n{again}\ndoor,x\n")
    files = ("--flow", tmp_path / "flow.csv", "--distance", tmp_path / "far.csv")
    done = call(*files, "--today", tmp_path / "today.csv")
    assert done.exit_code == 2
    assert f"{again[:-2]!r} twice" in " ".join(done.stderr.split())


@pytest.mark.parametrize("restarts", ["auto", 2])
def test_ctrl_c_while_the_bound_is_computed_loses_no_answer(restarts, problem, file, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(qap, "bound", interrupted)
    output = tmp_path / "assignment.csv"
    options = ("--method", "dcfw", "--time-limit", 0.2, "--restarts", restarts, "-o", output)
    done = call(file, *options, "--json")
    assert done.exit_code == 130
    found = json.loads(done.stdout)
    assert found["value"] == qap.evaluate(problem.A, problem.B, found["permutation"])
    assert found["status"] == "INTERRUPTED"
    assert (found["bound"] is None) == (restarts == 2)
    assert len(output.read_text().splitlines()) == 10
    assert "permutation" in call(file, *options).stdout


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_an_example_is_solved_without_any_file(name, monkeypatch, tmp_path):
    monkeypatch.setenv("DCFW_DATA", str(tmp_path))
    problem = example(name)
    assert np.array_equal(problem.A, example(name).A)
    assert qap.bound(problem.A, problem.B) <= problem.best
    res = qap.solve(problem.A, problem.B, restarts=2, polish="2opt", rng=0)
    assert res.fun >= problem.best


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("qap --polish ", {"2opt", "tabu", "none"}),
        ("qap --split sp", {"spectral"}),
        ("qap gri", {"grid30"}),
        ("align --retrieval c", {"csls"}),
    ],
)
def test_values_of_options_are_completed(words, offered):
    environment = {"_DCFW_COMPLETE": "complete_bash", "COMP_WORDS": f"dcfw {words}"}
    environment["COMP_CWORD"] = str(len(f"dcfw {words}".split(" ")) - 1)
    answer = CliRunner().invoke(app, [], prog_name="dcfw", env=environment)
    assert offered <= set(answer.output.split())
    assert "auto" not in answer.output.split() or "auto" in offered


def test_todays_layout_is_compared_with_and_blanks_and_columns_in_another_order_are_read(tmp_path):
    (tmp_path / "flow.csv").write_text(",a,b,c\na,0,5,\nb,1,0,2\nc,,3,0\n")
    (tmp_path / "walk.csv").write_text(";z;x;y\nx;2,5;0;1,0\ny;1,5;1,0;0\nz;0;2,5;1,5\n")
    (tmp_path / "today.csv").write_text("what,where\na,x\nb,z\nc,y\n")
    files = ("--flow", tmp_path / "flow.csv", "--distance", tmp_path / "walk.csv", "--time-limit", 0.1)
    refused = call(*files)
    assert refused.exit_code == 1
    assert "--blanks-are-zero" in refused.stderr
    done = call(*files, "--blanks-are-zero", "--today", tmp_path / "today.csv", "--json")
    found = json.loads(done.stdout)
    A = np.array([[0, 5, 0], [1, 0, 2], [0, 3, 0]])
    B = np.array([[0, 1, 2.5], [1, 0, 1.5], [2.5, 1.5, 0]])  # x, y, z
    value = {p: float((A * B[np.ix_(p, p)]).sum()) for p in itertools.permutations(range(3))}
    assert found["today"] == value[0, 2, 1]
    assert found["value"] == min(value.values())


def test_a_file_that_cannot_be_written_is_refused_before_the_search(tmp_path):
    for output in (tmp_path / "layout.xlsx", tmp_path / "nowhere" / "layout.csv", tmp_path):
        done = call("grid30", "--time-limit", 600, "--output", output)
        assert done.exit_code == 2
        assert "--output" in done.stderr
