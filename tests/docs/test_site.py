"""The pages as a site: each is in it, each link leads to something, and a browser searches it from a folder, without a network."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import site
from tests.docs.pages import PAGES
from tests.support.tab import PATIENCE, opened_tab

pytestmark = pytest.mark.slow

RESULTS = "[...document.querySelectorAll('*')].map(e => e.shadowRoot).filter(e => e).flatMap(e => [...e.children]).map(e => e.innerText).join()"
"""What the search shows, in a part of the page that keeps its text to itself."""


@pytest.fixture(scope="module", name="built")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site, as `make docs` builds it; that its links lead to something is a part of that."""
    folder = tmp_path_factory.mktemp("site") / "docs"
    assert site.build(folder) > len(PAGES)
    return folder


def test_each_page_is_in_the_site_and_in_its_order(built: Path) -> None:
    """The order is the table of the front page, which leads to every page."""
    in_order = [page for entry in site.table() for _, page in entry.pages]
    made = {page for page in PAGES if (built / site.place(page)).with_suffix(".html").is_file()}

    assert made == set(PAGES)
    assert {each.name for each in in_order} > {
        "first_table.md",
        "ask.md",
        "decisions.md",
        "changelog.md",
    }
    leads = re.findall(
        r'href="(?:\./)?([^"#]+)\.html" class="md-nav__link"', (built / "index.html").read_text()
    )
    assert [each for each in leads if each != "index"] == [
        site.place(page)[:-3] for page in in_order
    ]


LEFT = re.compile(r"\n *[*|] .{0,60}|```.{0,40}|\]\(.{0,40}")
"""Marks that a browser of the repository understands and the maker of the site did not, such as a list that is indented by less than four."""


def test_nothing_is_left_of_the_marks_of_a_text(built: Path) -> None:
    """A list in a list that is none there is one long sentence."""
    found = []
    for page in sorted(built.rglob("*.html")):
        text = page.read_text().partition("<article")[2].partition("</article")[0]
        prose = re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)
        found += [f"{page.relative_to(built)}: {each}" for each in LEFT.findall(prose)]

    assert not found


PAGE = '<h1 id="top">Page</h1><link rel="stylesheet" href="style.css">'


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('<a href="other.html">', ""),
        ('<a href="other.html#top">', ""),
        ('<a href="https:{}">', ""),
        ('<a href="others.html">', "others.html: no such file"),
        ('<a href="other.html#nowhere">', "other.html#nowhere: no such section"),
        ('<a href="#nowhere">', "#nowhere: no such section"),
        ('<script src="missing.js"></script>', "missing.js: no such file"),
        ('<script src="//elsewhere/x.js"></script>', "asks for //elsewhere/x.js"),
        ('<img src="http:{}">', "asks for http:{}"),
    ],
)
def test_a_link_that_leads_to_nothing_is_found(tmp_path: Path, more: str, says: str) -> None:
    """And what a page would fetch from elsewhere; else a site without a mistake would show nothing."""
    elsewhere = "/" + "/elsewhere/x"
    (tmp_path / "style.css").touch()
    (tmp_path / "other.html").write_text(PAGE)
    (tmp_path / "index.html").write_text(PAGE + more.format(elsewhere))

    found = [*site.mistakes(tmp_path)]

    assert [each.removeprefix("index.html ").removeprefix("-> ") for each in found] == (
        [says.format(elsewhere)] if says else []
    )


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for the browser; what it has seen is kept where `make prove` says."""
    yield tmp_path
    keep = site.WORK / "pictures"
    keep.mkdir(parents=True, exist_ok=True)
    for picture in (tmp_path / "pictures").glob("*.png"):
        shutil.copy(picture, keep)


@pytest.mark.prove(alone="a browser")
def test_a_browser_reads_and_searches_it_from_the_folder(built: Path, folder: Path) -> None:
    """No server is there and no network: the search runs in the page."""
    with opened_tab(folder) as tab:
        deadline = time.monotonic() + PATIENCE
        tab.browser.send("Network.enable", tab.session)
        tab.go((built / "index.html").as_uri())
        tab.sees("every event is accounted for", "Your first table")
        tab.shot("front page")
        tab.click("Search", exact=False)
        tab.browser.send("Input.insertText", tab.session, text="watermark")
        while "results\nA topic that fell silent" not in (seen := str(tab.ask(RESULTS))):
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)
        tab.shot("search")
        for kind in ("keyDown", "keyUp"):
            key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
            tab.browser.send("Input.dispatchKeyEvent", tab.session, type=kind, **key)
        tab.sees("A watermark moves by rows alone")
        tab.shot("found")
        assert str(tab.ask("location.pathname")).endswith("/infra/docs/freshness.html")
        asked = [
            event["params"]["request"]["url"]
            for event in tab.browser._events
            if event["method"] == "Network.requestWillBeSent"
        ]

    assert asked
    assert {address.partition(":")[0] for address in asked} <= {"file", "data", "blob"}
