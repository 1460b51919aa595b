"""Files of word vectors are read as they were written, and errors in them are reported with their place."""

import gzip
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcfw.align import Vectors, read_vectors, write_vectors
from dcfw.align.text_vectors import BLOCK


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a file and gives its path."""

    def write(content, name="small.vec"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def binary(words, matrix, header=None, end=b"\n"):
    head = header or f"{len(words)} {len(matrix[0])}"
    rows = np.asarray(matrix, dtype="<f4")
    records = (word.encode() + b" " + row.tobytes() + end for word, row in zip(words, rows, strict=True))
    return head.encode() + b"\n" + b"".join(records)


NUMBERS = st.floats(-(2.0**100), 2.0**100, width=32)
# Everything but the two characters that separate words and lines, and surrogates, which UTF-8 cannot encode.
WORDS = st.text(st.characters(exclude_characters=" \n\t\r", exclude_categories=["Cs", "Cc"]), min_size=1)


@st.composite
def tables(draw):
    d = draw(st.integers(1, 5))
    words = draw(st.lists(WORDS.filter(lambda w: w == w.strip()), min_size=1, max_size=6, unique=True))
    return words, np.array([[draw(NUMBERS) for _ in range(d)] for _ in words], dtype=np.float32)


@given(table=tables(), name=st.sampled_from(["a.vec", "a.vec.gz", "a.bin", "a.bin.gz", "a.npy"]))
def test_what_is_written_is_read_back(tmp_path_factory, table, name):
    words, matrix = table
    path = tmp_path_factory.mktemp("vectors") / name
    write_vectors(path, words, matrix, digits=9)
    read = read_vectors(path)
    assert read.words == words
    assert read.skipped == {}
    np.testing.assert_array_equal(read.matrix, matrix)
    assert read.matrix.dtype == np.float32


# Pieces that a reader might not take for part of a word.
ODD = st.lists(
    st.sampled_from(
        [
            *"a7 \t\r\n\v\f\x00\x1c\x85",
            "\u00a0",
            "\u2028",
            "\u3000",
            "\ufeff",
            "\ud800",
            "0.5",
            "-.5e3",
            "1e-05",
            "nan",
            "word",
        ]
    ),
    max_size=5,
).map("".join)


def by_hand(path, words):
    """Write the words, with a vector for each, in the format of the file but without any check."""
    with path.open("wb") as file:
        if path.suffix == ".npy":
            np.save(file, np.full((len(words), 1), 0.5))
            path.with_name(f"{path.stem}_words.txt").write_bytes("".join(f"{w}\n" for w in words).encode())
            return
        file.write(f"{len(words)} 1\n".encode())
        number = np.array(0.5, dtype="<f4").tobytes() if path.suffix == ".bin" else b"0.5"
        for word in words:
            file.write(word.encode() + b" " + number + b"\n")


@given(
    words=st.lists(ODD, min_size=1, max_size=2, unique=True), suffix=st.sampled_from(["vec", "bin", "npy"])
)
@example(words=["\u00a0"], suffix="vec")
@example(words=["New York"], suffix="vec")
@example(words=["\v \v"], suffix="vec")
@example(words=["x", "a\tb"], suffix="npy")
@example(words=["a\tb", "x"], suffix="npy")
def test_words_are_written_exactly_if_the_reader_gives_them_back(tmp_path_factory, words, suffix):
    folder = tmp_path_factory.mktemp("odd")
    hand, written = folder / f"hand.{suffix}", folder / f"written.{suffix}"
    try:
        by_hand(hand, words)
        given_back = read_vectors(hand).words == words
    except ValueError:
        given_back = False
    matrix = np.full((len(words), 1), 0.5)
    if given_back:
        write_vectors(written, words, matrix)
        assert read_vectors(written).words == words
    else:
        with pytest.raises(ValueError, match="cannot store"):
            write_vectors(written, words, matrix)
        assert not written.exists()


@given(
    text=st.from_regex(
        r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,2})?", fullmatch=True
    )
)
def test_every_decimal_number_is_what_python_reads(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("number") / "one.vec"
    path.write_text(f"1 1\nword {text}\n")
    assert read_vectors(path, dtype=np.float64).matrix[0, 0] == float(text)


@given(text=st.text("0123456789+-.eExnaif_", min_size=1, max_size=6))
def test_what_python_refuses_as_a_number_is_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("number") / "one.vec"
    path.write_text(f"1 2\nword 1 {text}\n")
    try:
        value = float(text.replace("_", "x"))  # Python allows underscores, the format does not
    except ValueError:
        value = np.nan
    if np.isfinite(value):
        assert read_vectors(path, dtype=np.float64).matrix[0, 1] == value
    else:
        with pytest.raises(ValueError, match="line 2"):
            read_vectors(path, dtype=np.float64)


def test_header_tabs_double_spaces_and_line_ends_do_not_matter(file):
    expected = [[0.5, -1.0], [2.0, 300.0]]
    for content in (
        "2 2\na 0.5 -1\nb 2 3e2\n",
        "a 0.5 -1\nb 2 3e2",
        "2 2\r\na 0.5 -1\r\nb 2 3e2\r\n",
        "a\t0.5\t-1\nb\t2\t3e2\n\n",
        "2 2 \na  .5  -1. \nb 2 3e2 \n",
        b"\xef\xbb\xbf2 2\na 0.5 -1\nb 2 3e2\n",
    ):
        read = read_vectors(file(content))
        assert read.words == ["a", "b"]
        np.testing.assert_array_equal(read.matrix, expected)


def test_words_with_spaces_of_all_kinds_are_kept(file):
    words = ["New York", ". . .", "7 up", "a\u00a0b", "\u2028", "x\x0by", "1 / 2", "at\u3000", "World War 2"]
    content = f"{len(words)} 2\n" + "".join(f"{word} {i} 0.5\n" for i, word in enumerate(words))
    read = read_vectors(file(content))
    assert read.words == words
    assert read.matrix[:, 0].tolist() == list(range(len(words)))


def test_lines_that_straddle_blocks_are_whole(file):
    n, d = 3000, 100
    matrix = np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)
    words = [f"w{i}" for i in range(n)]
    path = file(b"")
    write_vectors(path, words, matrix, digits=9)
    assert path.stat().st_size > 3 * BLOCK
    read = read_vectors(path)
    assert read.words == words
    np.testing.assert_array_equal(read.matrix, matrix)


def test_a_limit_takes_the_first_words_and_reads_no_further(file):
    path = file("4 1\na 1\nb 2\nc 3\nd broken\n")
    read = read_vectors(path, limit=3)
    assert read.words == ["a", "b", "c"]
    assert read.matrix.shape == (3, 1)
    assert read_vectors(file(binary("ab", [[1.0], [2.0]])[:-3], "a.bin"), limit=1).words == ["a"]


@pytest.mark.parametrize(
    ("content", "said", "reason"),
    [
        (b"3 2\na 1 2\nb 1 x\nc 3 4\n", r"line 3: 'x' is not a finite number", "broken"),
        (b"3 2\na 1 2\nb 1 nan\nc 3 4\n", r"line 3: 'nan' is not a finite number", "broken"),
        (b"3 2\na 1 2\nb 1 1e39\nc 3 4\n", r"line 3: 1e39 is too large for float32", "broken"),
        (b"3 2\na 1 2\nb 1\nc 3 4\n", r"line 3: expected 2 numbers, got 1", "dimension"),
        (b"3 2\na 1 2\nb\nc 3 4\n", r"line 3: expected 2 numbers, got 0", "dimension"),
        (b"3 2\na 1 2\nb .1 .2 .3\nc 3 4\n", r"line 3: expected 2 numbers, got 3", "dimension"),
        (b"a 1 2\nb 1.0 2.5 3.5 4\nc 3 4\n", r"line 2: expected 2 numbers, got 4", "dimension"),
        *[
            (b"3 2\na 1 2\n" + line + b"\nc 3 4\n", rf"line 3: expected 2 numbers, got {found}", "dimension")
            for line, found in [
                (b"dog 1e-05 .4 .5", 3),
                (b"dog 0 .4 .5", 3),
                (b"dog -1 .4 .5", 3),
                (b"dog +3E2 7 .4 .5", 4),
                (b"dog\t0\t.4\t.5", 3),
                (b"dog nan .4 .5", 3),
                (b"dog -inf .4 .5", 3),
                (b"route 66 .4 .5", 3),  # ambiguous: 66 may belong to the word
                (b"New York 1e-05 .4 .5", 3),
                (b"New York -1 0.5 .4 .5", 4),
            ]
        ],
        (b"3 2\na 1 2\na 5 6\nc 3 4\n", r"line 3: the word 'a' repeats word 1", "duplicate"),
        (b"3 2\na 1 2\nb\xff 5 6\nc 3 4\n", r"line 3: the word b'b\\xff' is not UTF-8", "encoding"),
        (b"3 2\na 1 2\nc 3 4\n", r"the file ends after 2 of the 3 vectors", "missing"),
    ],
)
def test_a_bad_line_is_named_or_skipped_and_counted(file, content, said, reason):
    with pytest.raises(ValueError, match=said):
        read_vectors(file(content))
    read = read_vectors(file(content), on_error="skip")
    assert read.words == ["a", "c"]
    np.testing.assert_array_equal(read.matrix, [[1.0, 2.0], [3.0, 4.0]])
    assert read.skipped == {reason: 1}


def test_the_number_of_a_bad_line_counts_empty_ones_and_earlier_blocks(file):
    n, numbers = 10_000, " 0.25" * 50
    path = file("".join(f"w{i}{numbers}\n" for i in range(n)) + f"\nbad{numbers[:-3]}?\n")
    assert path.stat().st_size > 2 * BLOCK
    with pytest.raises(ValueError, match=rf"line {n + 2}: '0\?' is not"):
        read_vectors(path)
    assert len(read_vectors(path, on_error="skip").words) == n


def test_all_that_is_bad_is_counted_by_reason(file):
    path = file(b"9 2\na 1 2\n\xff 1 2\nb 1\nb 1 z\na 1 1\na 2 2\nc 3 4\n")
    read = read_vectors(path, on_error="skip")
    assert read.words == ["a", "c"]
    assert read.skipped == {"encoding": 1, "dimension": 1, "broken": 1, "duplicate": 2, "missing": 2}


def test_more_vectors_than_promised_are_an_error_unless_skipping(file):
    path = file("1 2\na 1 2\nb 3 4\n")
    with pytest.raises(ValueError, match="has 2 vectors, but its first line declares 1"):
        read_vectors(path)
    assert read_vectors(path, on_error="skip").words == ["a", "b"]


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize(
    ("rest", "skipped"),
    [(b"", {}), (b"\n" * 10_000, {}), (b"d \x00", {"broken": 1}), (b"\x01" * 9000, {"broken": 1})],
)
def test_binary_vectors_beyond_the_promised_ones_are_refused_or_read_and_no_byte_is_dropped(
    file, end, rest, skipped
):
    matrix = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    path = file(binary("abc", matrix, header="1 2", end=end) + rest, "w.bin")
    with pytest.raises(ValueError, match="continues after the 1 vectors"):
        read_vectors(path)
    read = read_vectors(path, on_error="skip")
    assert (read.words, read.skipped) == (["a", "b", "c"], skipped)
    np.testing.assert_array_equal(read.matrix, matrix)
    assert read_vectors(path, limit=1).words == ["a"]


def test_where_every_line_is_left_out_the_reason_is_named(file):
    path = file("3 4\na .1 .2 .3\nb .1 .2 .3\nc .4 .5 .6\n")
    with pytest.raises(
        ValueError, match=r"no usable vectors of dimension 4; skipped: 3 \(wrong dimension\).*correct\?"
    ):
        read_vectors(path, on_error="skip")
    with pytest.raises(ValueError, match=r"no usable vectors.*skipped: 1 \(a number is not finite"):
        read_vectors(file("a 1 1e99\n"), on_error="skip")


@pytest.mark.parametrize("header", ["999999999999 2", "3 999999999", "999999999999999999 500000", "1 0"])
def test_a_header_with_absurd_sizes_asks_for_no_memory(file, header):
    for name in ("a.vec", "a.vec.gz", "a.bin", "a.bin.gz"):
        content = f"{header}\n".encode() + (b"a 1 2\n" if ".vec" in name else b"a 12345678")
        path = file(gzip.compress(content) if name.endswith("gz") else content, name)
        with pytest.raises(ValueError, match=r"declared|truncated|expected|between 1 and 65536"):
            read_vectors(path)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"word\n", b"only words here\n", b"2 2\n", b"\xff\xfe\x00\x01"]
)
def test_a_file_without_vectors_is_refused(file, content):
    with pytest.raises(ValueError, match=r"expected a header|no usable vectors|ends after 0"):
        read_vectors(file(content))
    with pytest.raises(ValueError, match=r"expected a header|no usable vectors"):
        read_vectors(file(content), on_error="skip")


def test_a_binary_file_without_newlines_is_not_taken_for_text(file):
    with pytest.raises(ValueError, match="not a text file of vectors"):
        read_vectors(file(b"x" * (BLOCK + 1)))


@pytest.mark.parametrize("cut", [30, 400, -12, -1])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_damaged_archive_is_always_an_error(file, cut, on_error):
    rng = np.random.default_rng(0)
    text = "".join(f"w{i} {x:.6f} {y:.6f}\n" for i, (x, y) in enumerate(rng.random((2000, 2))))
    whole = gzip.compress(text.encode())
    assert len(read_vectors(file(whole)).words) == 2000  # an archive by its content, not by its name
    with pytest.raises(ValueError, match="damaged gzip archive"):
        read_vectors(file(whole[:cut]), on_error=on_error)
    spoilt = bytearray(whole)
    spoilt[len(whole) // 2] ^= 0xFF
    with pytest.raises(ValueError, match="damaged gzip archive"):
        read_vectors(file(bytes(spoilt)), on_error=on_error)


def test_the_binary_form_is_read_with_and_without_newlines(file):
    words, matrix = ["a", "été", "c"], [[1.0, 2.0], [-0.1, 1e-30], [5.0, 6.0]]
    for end in (b"\n", b""):
        read = read_vectors(file(binary(words, matrix, end=end), "w.bin"))
        assert read.words == words
        np.testing.assert_array_equal(read.matrix, np.float32(matrix))


def test_a_binary_file_is_found_by_its_format_too(file):
    path = file(binary("ab", [[1.0], [2.0]]), "vectors.dat")
    assert read_vectors(path, format="binary").words == ["a", "b"]


def test_a_cut_binary_file_gives_its_whole_vectors_or_an_error(file):
    content = binary("abcd", np.ones((4, 3)))
    path = file(content[: -(2 * 15 + 4)], "w.bin")
    with pytest.raises(ValueError, match="word 2: the file is truncated: 1 of 4 vectors are complete"):
        read_vectors(path)
    read = read_vectors(path, on_error="skip")
    assert (read.words, read.skipped) == (["a"], {"missing": 3})


def test_bad_binary_records_are_named_or_skipped(file):
    content = bytearray(binary(["a", "b", "a", "d"], [[1, 2], [np.nan, 1], [3, 4], [5, 6]]))
    content[content.index(b"d ")] = 0xFF
    path = file(bytes(content), "w.bin")
    with pytest.raises(ValueError, match="word 2: the vector contains NaN or Inf"):
        read_vectors(path)
    read = read_vectors(path, on_error="skip")
    assert (read.words, read.skipped) == (["a"], {"broken": 1, "duplicate": 1, "encoding": 1})


def test_a_binary_file_of_another_kind_is_recognised(file):
    model = struct.pack("<ii", 793712314, 12) + bytes(100)
    with pytest.raises(ValueError, match="fastText model"):
        read_vectors(file(model, "cc.bin"))
    with pytest.raises(ValueError, match="does not start with a line"):
        read_vectors(file(b"nothing of the kind", "w.bin"))
    with pytest.raises(ValueError, match="the word does not end"):
        read_vectors(file(b"5 2\n" + b"\x00" * 10_000, "w.bin"))
    with pytest.raises(ValueError, match="continues after"):
        read_vectors(file(binary("ab", np.ones((2, 2)), header="1 2"), "w.bin"))


def test_a_matrix_goes_with_the_words_beside_it(tmp_path):
    matrix = np.arange(6.0).reshape(3, 2).astype(np.float16)
    np.save(tmp_path / "en.npy", matrix)
    with pytest.raises(FileNotFoundError, match=r"no word list found.*tried en_words\.tsv"):
        read_vectors(tmp_path / "en.npy")
    (tmp_path / "en.txt").write_text("a\nb\nc\n")
    assert read_vectors(tmp_path / "en.npy").words == ["a", "b", "c"]
    (tmp_path / "en_words.tsv").write_text("row\tsource_rank\tword\n0\t5\tx\n1\t6\ty z\n2\t7\tz\n")
    read = read_vectors(tmp_path / "en.npy", dtype=np.float64)
    assert read.words == ["x", "y z", "z"]
    np.testing.assert_array_equal(read.matrix, matrix.astype(np.float64))
    assert read_vectors(tmp_path / "en.npy", words=tmp_path / "en.txt", limit=2).words == ["a", "b"]
    assert read_vectors(tmp_path / "en.npy", words=["p", "q", "r"]).words == ["p", "q", "r"]


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (b"a\nb\n", "must have a word for each row.*got 2 for 3 rows"),
        (b"a\nb\na\n", "row 2: the word 'a' repeats word 1"),
        (b"a\n\xff\nc\n", "row 1: the word"),
        (b"a\n\nc\n", "row 1: the word is missing"),
        (b"row\tname\n0\ta\n1\tb\n2\tc\n", "one of the 2 columns must have the name 'word'"),
        (b"row\tword\n0\ta\n2\tb\n1\tc\n", "line 3: the words must be in the order of the rows, got row '2'"),
        (b"row\tword\n0\ta\n1\n2\tc\n", "line 3: expected 2 columns, got 1"),
    ],
)
def test_a_wrong_word_list_is_refused(tmp_path, listed, said):
    np.save(tmp_path / "en.npy", np.ones((3, 2)))
    (tmp_path / "en_words.tsv").write_bytes(listed)
    with pytest.raises(ValueError, match=said):
        read_vectors(tmp_path / "en.npy")


@pytest.mark.parametrize("stored", [np.ones(3), np.array([["a", "b"]]), np.array([[1, None]], dtype=object)])
def test_a_npy_file_with_anything_but_a_matrix_of_numbers_is_refused(tmp_path, stored):
    np.save(tmp_path / "en.npy", stored, allow_pickle=True)
    with pytest.raises(ValueError, match=r"en\.npy (must contain a matrix|is not a whole)"):
        read_vectors(tmp_path / "en.npy", words=["a", "b", "c"])


def test_rows_of_a_matrix_that_are_not_finite_are_skipped(tmp_path):
    np.save(tmp_path / "en.npy", [[1.0, 2.0], [np.inf, 0.0], [3.0, np.nan], [1e300, 0.0], [5.0, 6.0]])
    read = read_vectors(tmp_path / "en.npy", words=list("abcde"), on_error="skip")
    assert (read.words, read.skipped) == (["a", "e"], {"broken": 3})


@pytest.mark.parametrize("name", ["a.vec", "a.vec.gz", "a.bin", "a.npy"])
def test_progress_grows_to_the_size_of_the_file(tmp_path, name):
    path = tmp_path / name
    matrix = np.random.default_rng(0).integers(0, 9, (2000, 300)) / 4
    write_vectors(path, [f"w{i}" for i in range(2000)], matrix, digits=9)
    calls = []
    read_vectors(path, progress=lambda done, total: calls.append((done, total)))
    done, totals = zip(*calls, strict=True)
    assert len(set(totals)) == 1
    assert list(done) == sorted(done)
    assert done[-1] == totals[-1]
    assert len(calls) >= 2
    if name != "a.npy":  # its header is not counted
        assert totals[0] == path.stat().st_size


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": 0}, "limit must be at least 1"),
        ({"on_error": "ignore"}, "on_error must be one of"),
        ({"dtype": np.float16}, "dtype must be float32 or float64"),
        ({"format": "vec"}, "format must be one of"),
        ({"words": ["a"]}, r"words must be None for .*\.npy files"),
    ],
)
def test_wrong_arguments_are_refused(file, options, said):
    with pytest.raises(ValueError, match=said):
        read_vectors(file("a 1\n"), **options)


def test_writing_refuses_what_could_not_be_read_back_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.vec"
    write_vectors(path, ["a"], [[1.0]])
    for words, matrix, said in (
        (["a", "b"], [[1.0]], "2 words and 1 rows"),
        (["a\nb"], [[1.0]], r"words contains 'a\\nb', which a\.vec cannot store"),
        ([""], [[1.0]], "cannot store"),
        ([" a"], [[1.0]], "no blanks around it"),
        (["\ud800"], [[1.0]], "cannot store"),
        (["a"], [[np.nan]], "NaN"),
        (["a", "b", "b"], [[1.0]] * 3, "words must be distinct: 'b' is at 1 and at 2"),
    ):
        with pytest.raises(ValueError, match=said):
            write_vectors(path, words, matrix)
    with pytest.raises(ValueError, match=r"'New York', which a\.bin cannot store: a space ends a word; text"):
        write_vectors(tmp_path / "a.bin", ["New York"], [[1.0]])
    with pytest.raises(ValueError, match="cannot store"):
        write_vectors(tmp_path / "a.bin", ["x" * 4096], [[1.0]])
    with pytest.raises(ValueError, match=r"\.npy\.gz"):
        write_vectors(tmp_path / "a.npy.gz", ["a"], [[1.0]])
    assert read_vectors(path).words == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["a.vec"]


def test_the_result_unpacks(file):
    words, matrix, skipped = read_vectors(file("a 1 2\n"))
    assert isinstance(read_vectors(file("a 1 2\n")), Vectors)
    assert (words, matrix.tolist(), skipped) == (["a"], [[1.0, 2.0]], {})
