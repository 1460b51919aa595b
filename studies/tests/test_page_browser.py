"""The pages in a real browser: they load without errors or requests, respond to input, and are accessible.

Needs Chromium, its driver and Selenium; without them the tests skip and say what is missing.
"""

import json
import shutil
from dataclasses import replace

import pytest

selenium = pytest.importorskip("selenium", reason='needs Selenium: pip install "dcfw[test]"')
from page_cases import HOSTILE, fill  # noqa: E402
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from dcfw.cli import showcase  # noqa: E402
from dcfw.cli.page import document  # noqa: E402
from dcfw.cli.page.parts import Chart, Section, Series  # noqa: E402
from dcfw.cli.showcase_page import demo_page  # noqa: E402
from dcfw_studies.pages import collect, key_figures  # noqa: E402
from dcfw_studies.store import Store  # noqa: E402
from dcfw_studies.study import Task, printable  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs the program chromium"),
    pytest.mark.skipif(DRIVER is None, reason="needs the program chromedriver"),
    # Selenium leaves sockets to the collector when its driver ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    with Store(folder / "all.db") as store:
        fill(store)
        collected = collect([store])
        html = document.page(
            f"Report {HOSTILE}",
            [section for _, _, made in collected for section in made],
            lead="All studies in small.",
            key_figures=key_figures(collected),
        )
    return document.write(folder / "report.html", html)


@pytest.fixture(scope="module")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    browser.set_script_timeout(300)  # axe reads every node, and the machine may be busy
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Write the page of a demonstration with its quickest solves only."""
    wanted = {
        ("regression", "FW, short steps"),
        ("regression", "DC-FW, default"),
        ("matching", "SciPy's FAQ, best of 10"),
    }
    outcomes = [showcase.outcome(s) for s in showcase.solves() if (s.problem.key, s.method) in wanted]
    return document.write(tmp_path_factory.mktemp("demo") / "demo.html", demo_page(outcomes, 1.0))


def look(driver, page, width=1280, height=900, theme="light"):
    """Reload a page in a window of this size, on a system with this theme."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    for kind in ("browser", "performance"):
        driver.get_log(kind)
    driver.get(page.as_uri())
    driver.execute_script("localStorage.clear(); delete document.documentElement.dataset.theme")
    # Charts are drawn again when their size is known, which makes elements found before that stale.
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return driver


@pytest.fixture
def view(driver, report):
    return look(driver, report)


def figure(driver, kind, title):
    """Return the table or chart whose caption begins with ``title``, scrolled to the middle of the window."""
    found = next(
        f for f in driver.find_elements(By.CSS_SELECTOR, f"figure.{kind}")
        if f.find_element(By.CSS_SELECTOR, "figcaption strong").text.startswith(title)
    )  # fmt: skip
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", found)
    return found


def texts(found, selector):
    script = "return [...arguments[0].querySelectorAll(arguments[1])].filter(e => !e.closest('[hidden]'))"
    return [
        e.strip() for e in found.parent.execute_script(f"{script}.map(e => e.textContent)", found, selector)
    ]


def ticks(chart):
    return texts(chart, ".axes text:not(.label)")


# ------------------------------------------------------------------------------------------- loading


def test_the_page_loads_without_errors_and_without_any_request(view, report):
    assert view.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in view.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    drawn = view.execute_script(
        "return [...document.querySelectorAll('figure.chart')].map(f => f.querySelectorAll('path').length)"
    )
    assert len(drawn) > 15
    assert min(drawn) > 0


def test_hostile_names_are_shown_and_never_run(view):
    assert view.execute_script("return window.hacked") is None
    assert view.execute_script("return document.querySelectorAll('main img, main b[title]').length") == 0
    assert view.title == f"Report {HOSTILE}"
    assert f"nug18{HOSTILE}" in texts(figure(view, "table", "Assignment errors"), "tbody th")
    assert HOSTILE in texts(figure(view, "chart", "Assignment errors"), ".legend button")


def test_the_policy_stops_scripts_and_requests_of_others(view):
    blocked = view.execute_async_script(
        """
        const done = arguments[0];
        const found = [];
        document.addEventListener("securitypolicyviolation", (e) => {
          found.push(e.effectiveDirective);
          if (found.length === 3) done(found.sort());
        });
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
        const picture = new Image();
        picture.src = "http://127.0.0.1:9/x.png";
        fetch("http://127.0.0.1:9/").catch(() => {});
        """
    )
    assert blocked == ["connect-src", "img-src", "script-src-elem"]
    assert view.execute_script("return window.hacked") is None
    view.get_log("browser")


# -------------------------------------------------------------------------------------------- tables


def test_a_table_is_sorted_by_number_both_ways_and_back(view):
    table = figure(view, "table", "LAP solves")
    head = table.find_elements(By.CSS_SELECTOR, "thead th")[1]
    button = head.find_element(By.TAG_NAME, "button")
    before = texts(table, "tbody td:nth-child(2)")

    def numbers():
        return [float(text.replace(",", "")) for text in texts(table, "tbody td:nth-child(2)")]

    assert head.get_attribute("aria-sort") is None
    button.click()
    assert (head.get_attribute("aria-sort"), numbers()) == ("ascending", sorted(numbers()))
    button.send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers() == sorted(numbers(), reverse=True)
    button.click()
    assert (head.get_attribute("aria-sort"), texts(table, "tbody td:nth-child(2)")) == (None, before)


def test_names_with_numbers_are_sorted_as_people_do(view):
    table = figure(view, "table", "Assignment errors")
    table.find_element(By.CSS_SELECTOR, "thead button").click()
    table.find_element(By.CSS_SELECTOR, "thead button").click()
    assert texts(table, "tbody th")[:3] == [f"nug18{HOSTILE}", "nug17", "nug16"]


def test_the_filter_keeps_the_rows_with_all_words_and_counts_them(view):
    table = figure(view, "table", "The pairs with their intervals")
    box = table.find_element(By.CSS_SELECTOR, "input[type=search]")
    assert texts(table, ".count") == ["20 rows"]
    box.send_keys("cgs  < FW")
    assert all("CGS" in name and "FW" in name for name in texts(table, "tbody th"))
    assert texts(table, ".count") == [f"{len(texts(table, 'tbody tr'))} of 20 rows"]
    box.clear()
    box.send_keys("no such words")
    assert texts(table, ".count") == ["0 of 20 rows"]
    assert texts(table, "tbody tr") == []


# -------------------------------------------------------------------------------------------- charts


def test_a_line_that_drops_to_zero_leaves_a_chart_that_ends_at_a_floor(driver, tmp_path):
    series = [Series("to rounding", [1, 2, 3], [1.0, 0.1, 1e-15]), Series("to 0", [1, 2, 4], [1.0, 0.2, 0.0])]
    chart = Chart("Gaps", "calls", "gap", series, y_scale="log", y_floor=1e-6)
    page = document.write(tmp_path / "page.html", document.page("Zero", [Section("One", [chart])]))
    script = "return [...document.querySelectorAll('.plot path.line')].map(e => e.getAttribute('d'))"
    assert [line.count("L") for line in look(driver, page).execute_script(script)] == [2, 2]


def test_pointing_at_a_chart_reads_the_nearest_point(view):
    chart = figure(view, "chart", "Assignment errors")
    mark = chart.find_elements(By.CSS_SELECTOR, ".plot g.colour-1 path.dot")[5]
    ActionChains(view).move_to_element(mark).perform()
    tip = chart.find_element(By.CSS_SELECTOR, ".tip")
    assert tip.is_displayed()
    name, instance, x, y = texts(chart, ".tip > *")
    assert name == "FW"
    assert instance.startswith("nug")
    assert x == "instances, ordered by FW's error: 6"
    data = view.execute_script(
        "return JSON.parse(arguments[0].querySelector('script').textContent).series[0]", chart
    )
    assert data["labels"][5] == instance
    assert float(y.rpartition(" ")[2]) == data["y"][5]
    ActionChains(view).move_to_element(chart.find_element(By.TAG_NAME, "figcaption")).perform()
    assert not tip.is_displayed()


def test_a_method_is_hidden_and_shown_by_its_entry_in_the_legend(view):
    chart = figure(view, "chart", "Gap against time")
    lines = ".plot path.line"
    button = chart.find_elements(By.CSS_SELECTOR, ".legend button")[1]
    assert (button.get_attribute("aria-pressed"), len(texts(chart, lines))) == ("true", 3)
    button.click()
    assert (button.get_attribute("aria-pressed"), len(texts(chart, lines))) == ("false", 2)
    button.send_keys(Keys.SPACE)
    assert (button.get_attribute("aria-pressed"), len(texts(chart, lines))) == ("true", 3)


def test_dragging_zooms_and_a_double_click_or_the_button_resets(view):
    chart = figure(view, "chart", "Assignment errors")
    plot = chart.find_element(By.CSS_SELECTOR, ".plot svg")
    whole = ticks(chart)
    drag = ActionChains(view).move_to_element_with_offset(plot, -100, -60).click_and_hold()
    drag.move_by_offset(120, 80).perform()
    assert chart.find_element(By.CSS_SELECTOR, ".rubber").is_displayed()
    ActionChains(view).release().perform()
    assert ticks(chart) != whole
    chart.find_elements(By.CSS_SELECTOR, ".tools button")[2].click()
    assert ticks(chart) == whole
    chart.find_elements(By.CSS_SELECTOR, ".tools button")[0].click()
    assert ticks(chart) != whole
    ActionChains(view).double_click(plot).perform()
    assert ticks(chart) == whole


def touch(driver, kind, *points):
    driver.execute_cdp_cmd(
        "Input.dispatchTouchEvent",
        {"type": kind, "touchPoints": [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]},
    )


def test_a_tap_reads_a_point_and_a_pinch_zooms(view):
    chart = figure(view, "chart", "Assignment errors")
    place = "const b = arguments[0].getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]"
    x, y = view.execute_script(place, chart.find_elements(By.CSS_SELECTOR, ".plot path.dot")[3])
    touch(view, "touchStart", (x, y))
    touch(view, "touchEnd")
    assert texts(chart, ".tip > b") == ["FW"]
    whole = ticks(chart)
    x, y = view.execute_script(place, chart.find_element(By.CSS_SELECTOR, ".plot svg"))
    touch(view, "touchStart", (x - 40, y), (x + 40, y))
    touch(view, "touchMove", (x - 120, y), (x + 120, y))
    touch(view, "touchEnd")
    assert ticks(chart) != whole


def test_a_chart_can_be_read_with_the_keyboard(view):
    chart = figure(view, "chart", "Gap against steps")
    plot = chart.find_element(By.CSS_SELECTOR, ".plot")
    plot.send_keys(Keys.ARROW_RIGHT)
    plot.send_keys(Keys.ARROW_RIGHT)
    spoken = texts(chart, "[aria-live]")[0]
    assert spoken.startswith("DC-FW: steps 1.")
    plot.send_keys(Keys.ARROW_DOWN)
    assert texts(chart, "[aria-live]")[0].startswith("FW-K: steps 1.")
    whole = ticks(chart)
    plot.send_keys("+")
    assert ticks(chart) != whole
    plot.send_keys("0")
    assert ticks(chart) == whole


def test_the_numbers_of_a_chart_are_a_table_behind_a_disclosure(view):
    chart = figure(view, "chart", "Gap against steps")
    assert chart.find_elements(By.CSS_SELECTOR, "details table") == []
    chart.find_element(By.TAG_NAME, "summary").click()
    assert len(chart.find_elements(By.CSS_SELECTOR, "details tbody tr")) == 3 * 40


def test_logarithmic_axes_have_powers_of_ten(view):
    chart = figure(view, "chart", "Gap against steps")
    assert {"1", "10", "100", "1,000", "10,000"} <= set(ticks(chart))
    assert {"10⁻³", "10⁻⁴"} & set(ticks(chart))


# --------------------------------------------------------------------------------- themes and screens


def background(driver):
    return driver.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_the_page_follows_the_system_until_the_reader_chooses_and_remembers_the_choice(driver, report):
    view = look(driver, report)
    light = background(view)
    view.find_element(By.CSS_SELECTOR, "button.theme").click()
    dark = background(view)
    assert dark != light
    view.refresh()
    assert background(view) == dark
    assert background(look(driver, report, theme="dark")) == dark


def sideways(driver):
    return driver.execute_script(
        "const root = document.documentElement; return root.scrollWidth > root.clientWidth"
    )


def widest(driver):
    """Return the elements that extend beyond the window, for the message of a failure."""
    return driver.execute_script(
        """
        return [...document.querySelectorAll("main *, nav *")]
          .filter((e) => !e.closest(".scroll, pre") || e.matches(".scroll, pre"))
          .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth)
          .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 60)}`).slice(0, 8)
        """
    )


@pytest.mark.parametrize("width", [360, 700, 1280])
def test_no_screen_scrolls_sideways(driver, report, width):
    view = look(driver, report, width=width, height=780)
    assert not sideways(view), widest(view)
    wide = view.execute_script(
        "return [...document.querySelectorAll('figure.chart svg')].map(s => s.getBoundingClientRect().right)"
    )
    assert max(wide) <= width


def test_charts_follow_the_width_of_the_window(driver, report):
    widths = []
    for width in (1280, 500):
        view = look(driver, report, width=width)
        box = figure(view, "chart", "Assignment errors").find_element(By.CSS_SELECTOR, ".plot svg")
        widths.append(box.get_dom_attribute("viewBox").split()[2])
    assert float(widths[0]) > float(widths[1])


def test_the_contents_are_folded_on_a_phone_and_open_beside_a_page(driver, report):
    for width, is_open in ((1280, True), (360, False)):
        view = look(driver, report, width=width)
        assert view.execute_script("return document.querySelector('nav details').open") is is_open


def test_printing_is_light_and_without_controls(driver, report):
    view = look(driver, report, theme="dark")
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    view.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    assert background(view) == "rgb(255, 255, 255)"
    for selector in ("nav", ".tools", "button.theme", "details.numbers"):
        assert not view.find_element(By.CSS_SELECTOR, selector).is_displayed(), selector
    view.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def complaints(view):
    """Return the violations that axe finds on the page shown."""
    axe = pytest.importorskip("axe_core_python.selenium", reason='needs axe: pip install "dcfw[test]"')
    found = axe.Axe().run(view, options={"resultTypes": ["violations"]})  # one node of each other kind
    assert len(found["passes"]) > 20
    return [(v["id"], [n["html"][:200] for n in v["nodes"]][:3]) for v in found["violations"]]


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_axe_finds_nothing_wrong_with_the_report(driver, report, theme, width):
    view = look(driver, report, width=width, theme=theme)
    figure(view, "chart", "Gap against steps").find_element(By.TAG_NAME, "summary").click()
    assert complaints(view) == []


@pytest.mark.parametrize(("theme", "width"), [("dark", 1280), ("light", 360)])
def test_the_page_of_the_demo_loads_in_silence_fits_and_satisfies_axe(driver, demo, theme, width):
    view = look(driver, demo, width=width, theme=theme)
    assert view.get_log("browser") == []
    assert not sideways(view), widest(view)
    assert len(view.find_elements(By.CSS_SELECTOR, "figure.chart path.line")) >= 4
    assert complaints(view) == []


# ------------------------------------------------------------------------------------- hostile names

PAYLOADS = (
    "<script>window.hacked = 1; alert(1)</script>",
    "</script><script>window.hacked = 1</script>",
    "</style><style>body { display: none }</style><script>window.hacked = 1</script>",
    '"><img src="http://127.0.0.1:9/x.png" onerror="window.hacked = 1">',
    "' onmouseover='window.hacked = 1' autofocus onfocus='window.hacked = 1",
    '<a href="javascript:window.hacked=1">link</a>',
    "[link](javascript:window.hacked=1)",
    "<svg onload=window.hacked=1><foreignObject><iframe src=http://127.0.0.1:9/></iframe></svg>",
    "${window.hacked = 1} `${alert(1)}` {{constructor.constructor('window.hacked=1')()}}",
    "\u2028window.hacked = 1;\u2029//",
    "red; background: url(http://127.0.0.1:9/x.png)} body {display: none}",
    "<!--<script>window.hacked = 1",
    "]]><base href='http://127.0.0.1:9/'><meta http-equiv='refresh' content='0;url=http://127.0.0.1:9/'>",
    "__proto__",
    "\x00<b>\x1b[2J</b>\ud800",
)


@pytest.fixture(scope="module")
def hostile_demo(tmp_path_factory):
    """The page of a demonstration whose names, words, states and messages all come from an attacker."""
    quick = next(
        s for s in showcase.solves()
        if (s.problem.key, s.method) == ("regression", "DC-FW, default")
    )  # fmt: skip
    real = showcase.outcome(quick)
    outcomes = []
    for number, text in enumerate(PAYLOADS):
        problem = replace(quick.problem, title=text, text=text, oracle=text)
        row = {name: text if isinstance(value, str) else value for name, value in real.row.items()}
        method = f"{text} {number}"
        outcomes.append(
            replace(real, solve=replace(quick, problem=problem, method=method), row={**row, "method": method})
        )
    return document.write(tmp_path_factory.mktemp("hostile") / "demo.html", demo_page(outcomes, 1.0))


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    """The page of a report with such names of studies, data, methods, columns, values and errors."""
    folder = tmp_path_factory.mktemp("hostile")
    with Store(folder / "rows.db") as store:
        for number, text in enumerate(printable(text) for text in PAYLOADS):
            for study in ("qap", "inner", f"own {text}"):
                task = Task(text, f"{text} {number}", number, {"protocol": "published", "s": text}, study)
                result = {
                    "status": text,
                    "value": number,
                    "gap": 0.5,
                    "n": 9,
                    text: text,
                    f"list {text}": [text],
                }
                store.finish(task, result, seconds=1.0, started=text, versions={text: text})
                store.fail(Task(f"{text}!", text, 0, {}, study), text, text)
        collected = collect([store])
        sections = [section for _, _, made in collected for section in made]
        lines = [Series(text, [1, 2, 3], [1.0, 0.5, 0.1], labels=[text] * 3) for text in PAYLOADS[:6]]
        sections.append(Section(PAYLOADS[0], [Chart(PAYLOADS[1], PAYLOADS[2], PAYLOADS[3], lines)]))
        html = document.page(
            PAYLOADS[1], sections, lead=PAYLOADS[0], key_figures=key_figures(collected), footer=PAYLOADS[3]
        )
    return document.write(folder / "report.html", html)


@pytest.mark.parametrize("name", ["hostile_demo", "hostile_report"])
def test_nothing_that_a_name_says_runs_loads_or_hides_the_page(driver, request, name):
    page = request.getfixturevalue(name)
    view = look(driver, page)
    before = view.execute_script("return Object.keys(window).length")
    # Trigger every kind of event on every element, so that a handler in a name would run.
    view.execute_script(
        """
        for (const node of document.querySelectorAll("main *, nav *"))
          for (const kind of ["mouseover", "pointermove", "focus", "load", "error", "toggle"])
            node.dispatchEvent(new Event(kind, { bubbles: kind !== "load" }));
        for (const node of document.querySelectorAll("details")) node.open = true;
        for (const node of document.querySelectorAll("thead button, .legend button")) node.click();
        """
    )
    assert view.execute_script("return [window.hacked, ({}).hacked]") == [None, None]
    assert view.execute_script("return Object.keys(window).length") == before
    foreign = "main img[onerror], iframe, base, main meta, main style, foreignObject, a[href^='javascript']"
    assert view.execute_script("return document.querySelectorAll(arguments[0]).length", foreign) == 0
    handlers = "return [...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())"
    assert not [name for name in view.execute_script(handlers) if name.startswith("on")]
    assert view.execute_script("return document.body.offsetHeight") > 1000
    assert view.get_log("browser") == []  # refused scripts and requests appear here too
    messages = [json.loads(entry["message"])["message"] for entry in view.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]
    assert view.current_url == page.as_uri()
