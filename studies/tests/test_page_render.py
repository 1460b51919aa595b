"""A page is complete, safe and reproducible: escaping, the policy, the packaged resources, the file."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_cases import HOSTILE

from dcfw.cli.page import parts as pages
from dcfw.cli.page.document import check_writable, page, write
from dcfw.cli.page.render import Renderer, alternative, embedded_json
from dcfw_studies import drawing


def everything(text):
    """All kinds of parts, with one text in every place that takes one."""
    table = pages.Table(
        text,
        [text, pages.Column(text, ".1f")],
        [[text, 1.0], [pages.Cell(text, text, 0.5), pages.Cell(text)]],
        text,
    )
    chart = pages.Chart(text, text, text, [pages.Series(text, [1.0], [2.0], [text])], caption=text)
    parts = [
        pages.Text(text),
        pages.Bullets([text]),
        pages.Code(text),
        pages.Cards([pages.Card(text, text, text)]),
        table,
        chart,
        pages.Row([chart]),
    ]
    parts.append(pages.Picture(b"\x89PNG", text, text, text))
    return [pages.Section(text, parts, [pages.Section(text, [pages.Text(text)])], summary=text)]


class Elements(HTMLParser):
    """The elements of a page, what the browser would run, and the text of its JSON."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.data, self._json = [], [], [], False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self._json = tag == "script" and ("type", "application/json") in attrs

    def handle_data(self, data):
        if self._json:
            self.data.append(data)

    def handle_endtag(self, tag):
        self._json = False


def elements(document):
    parser = Elements()
    parser.feed(document)
    return parser


def whole(text):
    return page(text, everything(text), lead=text, key_figures=[pages.Card(text, text, text)], footer=text)


def test_hostile_names_add_no_element_and_no_attribute():
    tame, wild = elements(whole("name")), elements(whole(HOSTILE))
    assert wild.tags == tame.tags
    assert set(wild.attributes) == set(tame.attributes)
    assert not any(name.startswith("on") or name == "style" for name in wild.attributes)


def test_hostile_names_arrive_as_they_are():
    found = elements(whole(HOSTILE))
    assert len(found.data) == 2
    for text in found.data:
        series = json.loads(text)["series"][0]
        assert (series["name"], series["labels"]) == (HOSTILE, [HOSTILE])
    assert html.unescape(whole(HOSTILE)).count(HOSTILE) > 10


@given(st.text(min_size=1, max_size=40))
def test_no_text_changes_the_elements_of_a_page(text):
    ours, tame = (elements("".join(map(Renderer().part, everything(t)[0].parts))) for t in (text, "name"))
    assert ours.tags == tame.tags


@given(st.text(max_size=60))
def test_embedded_json_means_the_same_and_cannot_end_its_element(text):
    written = embedded_json({"name": text})
    assert json.loads(written) == {"name": text}
    assert not set("<>&\u2028\u2029") & set(written)


def test_numbers_that_json_does_not_have_become_gaps():
    chart = pages.Chart("c", "x", "y", [pages.Series("s", [1, 2, 3], [1.0, float("nan"), float("inf")])])
    found = elements(Renderer().part(chart))
    assert json.loads(found.data[0])["series"][0]["y"] == [1, None, None]


def test_the_policy_allows_the_pages_own_script_and_style_and_no_network():
    document = whole("name")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', document).group(1)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    inline = re.findall(r"<style>(.*?)</style>|<script(?: type=\"module\")?>(.*?)</script>", document, re.S)
    assert len(inline) == 3
    for text in (style or script for style, script in inline):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    outside = re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', document)
    assert outside == []


def test_the_resources_are_part_of_the_package():
    names = {entry.name for entry in resources.files("dcfw.cli.page").iterdir()}
    assert {"page.css", "theme.js", "scales.js", "drawing.js", "chart.js", "table.js", "start.js"} <= names


def test_a_page_without_data_is_small_and_always_the_same():
    first, second = whole("name"), whole("name")
    assert first == second
    assert len(first.encode()) < 100_000


def test_light_series_colours_are_those_of_the_figures():
    css = (resources.files("dcfw.cli.page") / "page.css").read_text()
    found = re.findall(r"--colour-\d: light-dark\((#\w{6})", css)
    assert [colour.upper() for colour in found] == [colour.upper() for colour in drawing.COLOURS]


def luminance(colour):
    linear = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in linear]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1])
def test_text_on_every_shade_of_a_table_has_enough_contrast(theme):
    css = (resources.files("dcfw.cli.page") / "page.css").read_text()
    text = re.search(r"--text: light-dark\((#\w{6}), (#\w{6})\)", css).groups()[theme]
    shades = [
        pair[theme] for pair in re.findall(r"\.heat-\d+ { background: light-dark\((#\w{6}), (#\w{6})", css)
    ]
    assert len(shades) == 11
    for shade in shades:
        low, high = sorted([luminance(text), luminance(shade)])
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_sorting_sees_the_exact_number_behind_a_rounded_one():
    table = pages.Table(
        "t", ["m", pages.Column("v", ".2f")], [["a", 1.0049], ["b", None], ["c", float("inf")]]
    )
    text = Renderer().part(table)
    assert 'data-sort="1.0049">1.00</td>' in text
    assert '<td class="number"></td>' in text
    assert 'data-sort="inf">∞</td>' in text


def test_a_chart_has_words_for_those_who_do_not_see_it():
    chart = pages.Chart(
        "Gap", "steps", "gap", [pages.Series("FW", [1, 2, 3], [1.0, 0.5, 0.25])], x_scale="log"
    )
    assert alternative(chart) == "Gap: gap against steps (log scale). FW: 3 points, gap from 1 to 0.25."


def test_a_table_whose_rows_do_not_fit_is_refused():
    with pytest.raises(ValueError, match="2 columns, and a row of 1 cells"):
        pages.Table("t", ["a", "b"], [["only one"]])


def test_a_series_whose_lengths_differ_is_refused():
    with pytest.raises(ValueError, match="2 values of x and 1 of y"):
        pages.Series("s", [1, 2], [1])


@pytest.mark.parametrize("place", ["no/such/folder/page.html", "folder"])
def test_a_page_that_cannot_be_written_says_so_and_leaves_nothing(tmp_path, place):
    (tmp_path / "folder").mkdir()
    for action in (lambda path: write(path, "text"), check_writable):
        with pytest.raises(OSError, match=r"could not be written .*: give a file in a folder that exists"):
            action(tmp_path / place)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_checking_a_path_does_not_touch_what_is_there(tmp_path):
    (tmp_path / "page.html").write_text("old")
    check_writable(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1
