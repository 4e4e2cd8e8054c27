"""The page is one file, shows exactly the figures of the structure, and executes nothing from the data."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from strandline_quality.findings import MEANING, Verdict
from strandline_quality.page import page
from tests.support.findings import report

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "</style></pre></title>",
    '" onmouseover="alert(1)" x="',
    "' onfocus='alert(1)",
    "\u202etxt.exe\u2066",
    "\ud800\x00\x1b[2J",
    "<!--",
    "javascript:alert(1)",
    "{{7*7}}",
)
ONCE = {"br", "link", "meta", "img", "input", "hr", "wbr"}


class Reader(HTMLParser):
    """Reads a page as strictly as it can be read."""

    def __init__(self, text: str) -> None:
        """Read all of it."""
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an element."""
        self.elements.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ONCE:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an element that closes itself, as those of pictures do."""
        self.elements.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        """See that it is the one that is open."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Remember what is read."""
        if self._open and self._open[-1] not in {"script", "style"}:
            self.words.append(data)

    @property
    def text(self) -> str:
        """Return everything that is read."""
        return "".join(self.words)


@pytest.mark.whole
@pytest.mark.parametrize("odd", HOSTILE)
def test_what_is_in_data_is_text_of_the_page(odd: str) -> None:
    """Payloads, reasons, names and what people type all come from outside."""
    plain, read = Reader(page(report("x"))), Reader(page(report(odd)))

    extra = [tag for tag in read.elements if tag not in {"span", "wbr"}]
    assert extra == [tag for tag in plain.elements if tag not in {"span", "wbr"}]
    assert {name for name, _ in read.attributes} == {name for name, _ in plain.attributes}
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page(report(odd)))


@pytest.mark.whole
def test_data_is_seen_as_it_came() -> None:
    """Escaping must not eat anything."""
    read = Reader(page(report("<b>&amp;</b>")))

    assert "late<b>&amp;</b>" in read.text
    assert "U+202E" in Reader(page(report("\u202e"))).text


def test_the_page_needs_nothing_but_itself() -> None:
    """It is read on a train, and in ten years."""
    text = page(report("x"))
    read = Reader(text)

    assert not re.search(r"https?:|//[a-z]|url\(|@import", text)
    loaded = {"src", "srcset", "data", "poster", "action", "background"}
    assert not loaded & {name for name, _ in read.attributes}
    assert all(v.startswith("#") for name, v in read.attributes if name in {"href", "xlink:href"})
    assert "link" not in read.elements


def test_the_page_forbids_every_script() -> None:
    """If something were missed after all, it would still not run."""
    read = Reader(page(report()))

    policies = [v for name, v in read.attributes if name == "content" and "default-src" in v]
    assert policies == [
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    ]
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert read.elements.count("script") == 1


@pytest.mark.whole
@pytest.mark.parametrize("odd", ["", *HOSTILE])
def test_the_structure_is_in_the_page_and_is_the_one_that_is_printed(odd: str) -> None:
    """A program that finds the page needs no second file."""
    found = report(odd)

    embedded = re.search(
        r'<script type="application/json" id="findings">(.*?)</script>', page(found), re.DOTALL
    )

    assert embedded is not None
    assert json.loads(embedded[1]) == json.loads(json.dumps(found.as_json()))


def test_every_figure_of_the_structure_is_read_in_the_page() -> None:
    """What is counted and not shown might as well not be counted."""
    read = Reader(page(report())).text

    for figure in (
        "1,234,567",
        "1,200,001",
        "30,333",
        "4,233",
        "77",
        "5,151",
        "5,150",
        "98,765",
        "0.32 %",
        "97.20 %",
        "missing:value",
        "`value` IS NOT NULL",
        "fleet",
        "1,100,000",
        "The gate is shut since 21 Nov 2026, 10:00",
    ):
        assert figure in read, figure


@pytest.mark.whole
def test_headings_descend_and_every_table_has_a_caption() -> None:
    """Screen readers need both."""
    text = page(report())

    levels = [int(level) for level in re.findall(r"<h([1-6])", text)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert text.count("<table") == text.count("<caption>")
    assert text.count('role="img"') == text.count('role="img" aria-label="') > 0


@pytest.mark.whole
@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_is_a_word_and_a_sign_with_its_meaning(verdict: Verdict) -> None:
    """Never a colour alone."""
    text = page(report(verdict=verdict))

    assert f'href="#v-{verdict.name.lower()}"' in text
    assert f'id="v-{verdict.name.lower()}"' in text
    assert MEANING[verdict] in Reader(text).text


@pytest.mark.parametrize("days", [1, 3, 7])
def test_a_report_may_cover_many_days(days: int) -> None:
    """Long ones draw days instead of hours."""
    read = Reader(page(report(days=days))).text

    assert ("Rows read each hour" in read) == (days < 5)
    assert ("Rows read each day" in read) == (days >= 5)
