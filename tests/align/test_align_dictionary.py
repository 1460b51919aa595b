"""Dictionaries are read in the common formats, and pairs are the rows of their words."""

import os
from pathlib import Path

import numpy as np
import pytest

from dcfw.align import Vectors, pairs, read_dictionary, read_vectors


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "dictionary.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_spaces_and_tabs_may_separate_even_in_one_file(file):
    content = "cat chat\ndog\tchien\nNew York\tNew York\r\n\nsea  mer \ncat chat\n"
    expected = [("cat", "chat"), ("dog", "chien"), ("New York", "New York"), ("sea", "mer")]
    assert read_dictionary(file(content)) == expected
    assert read_dictionary(file("\ufeff" + content)) == expected


def test_a_word_may_have_unusual_spaces_in_it(file):
    assert read_dictionary(file("a\u00a0b c\u2028d\n")) == [("a\u00a0b", "c\u2028d")]


def test_a_table_is_read_by_its_header(file):
    path = file("id\ten\tfr\tkind\n1\tcat\tchat\tboth\n2\tdog\tchien\tone\n")
    assert read_dictionary(path) == [("cat", "chat"), ("dog", "chien")]
    assert read_dictionary(path, columns=("fr", "en")) == [("chat", "cat"), ("chien", "dog")]
    path = file("target\tnote\tsource\nchat\tx\tcat\n")
    assert read_dictionary(path) == [("cat", "chat")]


def test_a_header_of_two_columns_is_not_a_pair(file):
    for header in ("source\ttarget", "Source\tTarget\r"):
        assert read_dictionary(file(f"{header}\ncat\tchat\nNew York\tNew York\n")) == [
            ("cat", "chat"),
            ("New York", "New York"),
        ]
    assert read_dictionary(file("target\tsource\nchat\tcat\n")) == [("cat", "chat")]
    assert read_dictionary(file("source\tsource\ntarget\tcible\n"))[0] == ("source", "source")


def test_a_comma_separated_file_is_refused_with_a_hint(file):
    with pytest.raises(
        ValueError, match=r"line 1: expected two words.*'cat,chat'; use tabs instead of commas"
    ):
        read_dictionary(file("cat,chat\ndog,chien\n"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"cat chat\nalone\n", r"line 2: expected two words, .* got 'alone'"),
        (b"cat chat\n\nthree words here\n", r"line 3: expected two words"),
        (b"cat\tchat\ndog\t\n", r"line 2: expected two words"),
        (b"cat chat\n\xff x\n", r"line 2: the line is not UTF-8"),
        (b"", "is empty"),
        (b"a\tb\tc\n1\tx\n", r"line 2: expected 3 columns, got 2"),
        (b"a\tb\tc\n1\t2\tx\n", "columns must name two columns of .*, which has a, b, c"),
    ],
)
def test_a_bad_line_is_named(file, content, said):
    with pytest.raises(ValueError, match=said):
        read_dictionary(file(content))


def test_a_column_that_is_not_there_is_answered_with_those_that_are(file):
    with pytest.raises(ValueError, match="columns must be one of 'en', 'fr', 'n'"):
        read_dictionary(file("en\tfr\tn\na\tb\t1\n"), columns=("en", "de"))


def test_pairs_take_the_first_translation_that_has_a_vector():
    source = Vectors(["dog", "cat", "sea"], np.eye(3), {})
    target = Vectors(["chatte", "mer", "chat"], np.eye(3), {})
    dictionary = [("cat", "matou"), ("cat", "chat"), ("cat", "chatte"), ("sea", "mer"), ("sun", "mer")]
    one = pairs(source, target, dictionary)
    assert (one.source.tolist(), one.target.tolist()) == ([1, 2], [2, 1])
    every = pairs(source, target, dictionary, one_per_source=False)
    assert (every.source.tolist(), every.target.tolist()) == ([1, 1, 2], [2, 0, 1])
    assert one.missing == every.missing == {"source": 1, "target": 1}


def test_no_pair_at_all_gives_empty_rows_that_can_index():
    found = pairs(["a"], ["b"], [("x", "y")])
    assert np.eye(3)[found.source].shape == (0, 3)
    assert found.missing == {"source": 1, "target": 0}


def real():
    folder = Path(os.environ.get("DCFW_DATA", "")) / "embeddings"
    if not (os.environ.get("DCFW_DATA") and folder.is_dir()):
        pytest.skip("the real word vectors are not here: DCFW_DATA names no folder with embeddings")
    return folder


def test_the_real_vectors_and_dictionary_have_the_pairs_that_their_table_names():
    folder = real()
    en, fr = read_vectors(folder / "en.npy"), read_vectors(folder / "fr.npy")
    assert (en.matrix.shape, fr.matrix.shape) == ((11241, 300), (10986, 300))
    np.testing.assert_array_equal(en.matrix, np.load(folder / "en.npy").astype(np.float32))
    table = np.loadtxt(
        folder / "pairs.tsv", delimiter="\t", skiprows=1, usecols=(0, 1, 5), dtype=int, encoding="utf-8",
        comments=None,
    )  # fmt: skip
    dictionary = read_dictionary(folder / "pairs.tsv")
    every = pairs(en, fr, dictionary, one_per_source=False)
    np.testing.assert_array_equal(np.column_stack([every.source, every.target]), table[:, :2])
    one = pairs(en, fr, dictionary)
    np.testing.assert_array_equal(np.column_stack([one.source, one.target]), table[table[:, 2] == 1, :2])
    assert len(one.source) == 4340
    assert one.missing == {"source": 0, "target": 0}
