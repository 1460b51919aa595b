"""``dcfw align`` fits a map to files, says how well it translates, and says in one line what is wrong."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dcfw.align import Vectors, read_vectors, trial, write_vectors
from dcfw.cli import app
from dcfw.result import Status

D = 12


def call(*arguments):
    return CliRunner().invoke(app, ["align", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    """Two languages whose vectors differ by a rotation and noise, and a dictionary."""
    rng = np.random.default_rng(0)
    n = 300
    rotation = np.linalg.qr(rng.standard_normal((D, D)))[0]
    source = rng.standard_normal((n, D))
    target = source @ rotation.T + 0.3 * rng.standard_normal((n, D))
    order = rng.permutation(n)
    write_vectors(tmp_path / "en.vec", [f"en{i}" for i in range(n)], source)
    write_vectors(tmp_path / "fr.vec.gz", [f"fr{i}" for i in order], target[order])
    pairs = [f"en{i} fr{i}\n" for i in range(n)] + ["en0 fr1\n", "en7 nowhere\n", "nobody fr3\n"]
    (tmp_path / "en-fr.txt").write_text("".join(pairs))
    return tmp_path


def files(folder):
    return [
        *("--source", folder / "en.vec"),
        *("--target", folder / "fr.vec.gz"),
        *("--dictionary", folder / "en-fr.txt"),
    ]


@pytest.fixture
def report(folder):
    def run(*arguments):
        done = call(*files(folder), *arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


def test_the_map_is_found_and_stands_between_nothing_and_full_procrustes(report):
    found = report("--observed", 0.3)
    scores = found["scores"]
    assert list(scores) == ["before", "vertex", "masked", "full"]
    assert scores["before"]["p@1"] < 0.1
    assert scores["masked"]["p@1"] > 0.9
    assert scores["full"]["cosine"] > 0.9
    for score in scores.values():
        assert score["p@1"] <= score["p@5"]
    assert found["share_of_full"]["cosine"] == pytest.approx(
        scores["masked"]["cosine"] / scores["full"]["cosine"]
    )
    assert found["pairs"] == {"fitted": 240, "held_out": 60, "missing": {"source": 1, "target": 1}}
    assert found["observed"] == pytest.approx(0.3, abs=0.05)
    assert (found["source"]["words"], found["target"]["dimension"]) == (300, D)
    low, high = found["dc_gap"]
    assert 0.0 <= low <= high
    assert found["fw_gap"] >= 0.0
    assert found["polar_factors"] <= 300


def test_options_reach_the_fit(report):
    assert report("--method", "fw-m", "--steps", 7, "--tol", 0)["polar_factors"] <= 7
    assert report("--method", "fw-m", "--steps", 7)["method"] == "fw-m"
    assert report("--holdout", 0.5)["pairs"]["fitted"] == 150
    assert report("--limit", 100)["source"]["words"] == 100
    one, other = report("--lam", 1e-4, "--steps", 50), report("--lam", 1.0, "--steps", 50)
    assert one["objective"] != other["objective"]
    plain, scaled = report("--steps", 20), report("--steps", 20, "--retrieval", "csls")
    assert plain["scores"]["full"]["cosine"] == scaled["scores"]["full"]["cosine"]


def test_the_seed_decides_and_the_same_one_gives_the_same(report):
    def scores(seed):
        return report("--seed", seed, "--steps", 20)["scores"]

    assert scores(3) == scores(3)
    assert scores(3) != scores(4)


def test_the_text_has_all_maps_and_the_certificate(folder):
    done = call(*files(folder), "--steps", 30)
    assert done.exit_code == 0, done.output
    for said in (
        "240 fitted, 60 held out; 2 of the dictionary",
        "before",
        "after one step",
        "full Procrustes",
    ):
        assert said in done.stdout
    assert "DC gap in [" in done.stdout
    assert max(map(len, done.stdout.splitlines()[3:])) <= 80  # above are the names of files
    assert done.stderr == ""


def test_the_rotation_that_is_written_is_orthogonal_and_maps_the_words(folder, report):
    report("--output", folder / "rotation.npy", "--observed", 0.5)
    R = np.load(folder / "rotation.npy")
    np.testing.assert_allclose(R @ R.T, np.eye(D), atol=1e-10)
    report("--output", folder / "mapped.vec", "--observed", 0.5)
    mapped, source = read_vectors(folder / "mapped.vec"), read_vectors(folder / "en.vec")
    assert mapped.words == source.words
    unit = source.matrix / np.linalg.norm(source.matrix, axis=1, keepdims=True)
    np.testing.assert_allclose(mapped.matrix, unit @ R.T, atol=1e-5)


def test_centred_vectors_are_written_in_the_coordinates_of_the_target(folder, report):
    # A large shift of the target must be in the mapped vectors too.
    target = read_vectors(folder / "fr.vec.gz")
    write_vectors(folder / "fr.vec.gz", target.words, target.matrix + 5.0)
    report("--output", folder / "mapped.vec", "--observed", 0.5, "--centre", "--no-unit")
    mapped = read_vectors(folder / "mapped.vec")
    row = {word: i for i, word in enumerate(target.words)}
    other = target.matrix[[row["fr" + word[2:]] for word in mapped.words]] + 5.0
    assert np.abs(mapped.matrix - other).mean() < 0.6


def test_dimensions_may_differ_and_then_there_is_no_score_before_the_fit(folder, report):
    source = read_vectors(folder / "en.vec")
    write_vectors(folder / "en.vec", source.words, source.matrix[:, : D - 3])
    found = report("--steps", 30)
    assert found["scores"]["before"] is None
    assert found["scores"]["masked"]["cosine"] > 0.3
    assert "before                       -" in call(*files(folder), "--steps", 5).stdout


def test_broken_lines_are_an_error_or_counted(folder):
    with (folder / "en.vec").open("a") as file:
        file.write("broken 1 2 3\n")
    done = call(*files(folder))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "line 302: expected 12 numbers, got 3" in done.stderr
    assert done.stderr.count("\n") == 1
    done = call(*files(folder), "--skip-broken", "--steps", 5)
    assert done.exit_code == 0
    assert "(skipped: 1 dimension)" in done.stdout


def renamed(folder, word):
    """Put a word in place of the first of the source."""
    source = read_vectors(folder / "en.vec")
    write_vectors(folder / "en.vec", [word, *source.words[1:]], source.matrix)


def test_mapped_vectors_have_the_words_of_the_source_however_odd(folder, report):
    for word in ("\u00a0", "New York"):
        renamed(folder, word)
        found = report("--output", folder / "mapped.vec", "--steps", 5)
        assert found["source"]["words"] == 300
        assert read_vectors(folder / "mapped.vec").words[0] == word
    report("--output", folder / "rotation.npy", "--steps", 5)  # has no words
    renamed(folder, "\u00a0")
    report("--output", folder / "mapped.bin", "--steps", 5)
    assert read_vectors(folder / "mapped.bin").words[0] == "\u00a0"


def test_an_output_that_cannot_be_written_is_refused_before_the_fit(folder, monkeypatch):
    from dcfw.align import translation

    def fitted(*arguments, **options):
        raise AssertionError("the work was done before the complaint")

    monkeypatch.setattr(translation, "trial", fitted)
    renamed(folder, "New York")
    (folder / "there.vec").mkdir()
    for name, said in (
        ("m.bin", "--output: words contains 'New York', which m.bin cannot store"),
        ("m.npy.gz", "--output must end in .npy for the rotation, or in .vec"),
        ("there.vec", "--output must name a file, got the folder"),
    ):
        done = call(*files(folder), "--output", folder / name)
        assert (done.exit_code, done.stdout) == (1, "")
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("form", [["--json"], []])
def test_a_file_that_cannot_be_written_does_not_lose_the_report(folder, monkeypatch, form):
    from dcfw.align import vectors

    def full(*arguments, **options):
        raise OSError("no space left on the device")

    monkeypatch.setattr(vectors, "write_vectors", full)
    done = call(*files(folder), "--output", folder / "mapped.vec", "--steps", 5, *form)
    assert done.exit_code == 1
    assert "no space left" in done.stderr
    assert "masked" in json.loads(done.stdout)["scores"] if form else "full Procrustes" in done.stdout


def test_the_rotation_goes_into_the_file_that_was_named(folder, report):
    report("--output", folder / "R.NPY", "--steps", 5)
    assert np.load(folder / "R.NPY").shape == (D, D)


def test_errors_name_options_of_the_command_not_arguments_of_python(folder):
    with (folder / "en.vec").open("a") as file:
        file.write("en7" + " 1" * D + "\n")
    done = call(*files(folder))
    assert done.exit_code == 1
    assert "repeats word 8; correct the file, or skip unusable vectors with --skip-broken\n" in done.stderr
    with pytest.raises(ValueError, match="skip unusable vectors with on_error='skip'"):
        read_vectors(folder / "en.vec")
    np.save(folder / "en.npy", np.ones((3, D)))
    done = call(*files(folder), "--source", folder / "en.npy")
    assert done.exit_code == 1
    assert "en.txt); put one there\n" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--observed", "0"], "--observed must be"),
        (["--observed", "1.5"], "--observed must be"),
        (["--holdout", "1"], "--holdout must be"),
        (["--method", "newton"], "--method must be"),
        (["--retrieval", "knn"], "--retrieval must be one of 'nn', 'csls'"),
        (["--lam", "-1"], "--lam must be"),
        (["--tol", "2"], "--tol must be"),
    ],
)
def test_a_wrong_value_is_a_wrong_command_line_and_exit_code_2(folder, arguments, said):
    done = call(*files(folder), *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--output", "no/such/folder/out.vec"], "--output: the folder of"),
        (["--source", "no-such-file.vec"], "No such file"),
    ],
)
def test_a_wrong_file_is_one_line_and_exit_code_1(folder, arguments, said):
    done = call(*files(folder), *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_dictionary_of_other_words_is_refused_with_a_hint(folder):
    (folder / "en-fr.txt").write_text("EN0 FR0\n")
    done = call(*files(folder))
    assert done.exit_code == 1
    assert "0 pair(s) whose two words have vectors" in done.stderr
    assert call().exit_code == 2


def test_held_out_words_are_not_fitted_to():
    rng = np.random.default_rng(0)
    words, E = [f"w{i}" for i in range(50)], rng.standard_normal((50, 4))
    found = trial(Vectors(words, E, {}), Vectors(words, E, {}), list(zip(words, words, strict=True)), rng=0)
    assert not set(found.fitted[0]) & set(found.held[0])
    assert len(found.fitted[0]) + len(found.held[0]) == 50


def test_an_interrupted_fit_prints_its_scores_and_is_exit_code_130(folder, monkeypatch):
    from dcfw.align import translation

    real = translation.trial

    def interrupted(*arguments, **options):
        found = real(*arguments, **options)
        found.result.status = Status.INTERRUPTED
        return found

    monkeypatch.setattr(translation, "trial", interrupted)
    done = call(*files(folder), "--steps", 20, "--json")
    assert done.exit_code == 130
    assert "masked" in json.loads(done.stdout)["scores"]


@pytest.mark.parametrize(("pairs", "d"), [(2, D), (40, 1)])
def test_a_single_held_out_pair_and_vectors_with_one_entry_are_enough(tmp_path, pairs, d):
    words = [f"w{i}" for i in range(40)]
    write_vectors(tmp_path / "en.vec", words, np.random.default_rng(0).standard_normal((40, d)))
    (tmp_path / "en-en.txt").write_text("".join(f"{word} {word}\n" for word in words[:pairs]))
    vectors = ["--source", tmp_path / "en.vec", "--target", tmp_path / "en.vec"]
    done = call(*vectors, "--dictionary", tmp_path / "en-en.txt", "--observed", 0.9)
    assert done.exit_code == 0, done.output


def test_a_cosine_that_nothing_is_known_of_is_null_in_json(folder):
    words = [f"en{i}" for i in range(300)]
    write_vectors(folder / "en.vec", words, np.zeros((300, D)))
    done = call(*files(folder), "--json")

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    found = json.loads(done.stdout, parse_constant=refuse)
    assert found["scores"]["masked"]["cosine"] is None
    assert call(*files(folder)).exit_code == 0
