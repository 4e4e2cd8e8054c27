"""A real browser reads the report: by day and by night, on a desk and on a telephone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline_quality.page import page
from tests.support.browser import Browser, Seen, opened_here
from tests.support.findings import report

pytestmark = [pytest.mark.slow, pytest.mark.whole]

ODD = "<script>document.title='taken'</script>\u202e" + "long" * 30
SIZES = {"desk": (1280, 900), "tablet": (768, 1024), "telephone": (360, 740)}

CONTRAST = """
(() => {
  const light = c => { const v = c.map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const ground = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  const weak = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.closest('script, style, svg')) continue;
    const [a, b] = [light(parts(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) weak.push(e.className + ' ' + e.textContent.slice(0, 30) + ' ' + ratio.toFixed(2));
  }
  return weak;
})()
"""
QUESTIONS = {
    "beyond": "document.documentElement.scrollWidth - document.documentElement.clientWidth",
    "title": "document.title",
    "ground": "getComputedStyle(document.body).backgroundColor",
    "weak": CONTRAST,
    "small": "[...document.querySelectorAll('main *')].filter(e => e.textContent.trim() && !e.closest('svg, .odd') && "
    "parseFloat(getComputedStyle(e).fontSize) < 12).length",
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Open this machine's browser."""
    with opened_here(tmp_path_factory.mktemp("profile")) as here:
        yield here


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the pictures of a run are kept for who wants to look at them."""
    return tmp_path_factory.mktemp("pictures")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True], ids=["by day", "by night"])
def test_the_page_can_be_read(
    browser: Browser, pictures: Path, tmp_path: Path, size: str, *, dark: bool
) -> None:
    """Nothing is beyond the edge, too faint or too small, and the browser reports no error."""
    file = tmp_path / "report.html"
    file.write_text(page(report(ODD)), encoding="utf-8")
    width, height = SIZES[size]

    seen = browser.look(file, width=width, height=height, dark=dark, ask=QUESTIONS)

    (pictures / f"{size} {'dark' if dark else 'light'}.png").write_bytes(seen.picture)
    assert seen.complaints == []
    assert seen.requests == [file.as_uri()]
    assert seen.answers["beyond"] == 0
    assert seen.answers["weak"] == []
    assert seen.answers["small"] == 0
    assert seen.answers["title"].startswith("The numbers of 21 November")
    assert is_dark(seen) is dark


def test_the_browser_would_have_complained(browser: Browser, tmp_path: Path) -> None:
    """A test that cannot fail proves nothing: here is a page with each fault that is looked for."""
    file = tmp_path / "bad.html"
    file.write_text(
        "<body style='background:#fff'><main><p style='color:#bbb;width:3000px;font-size:9px'>faint"
        "</p><img src='missing.png'><script>console.error('no'); missing()</script></main>"
    )

    seen = browser.look(file, width=360, height=740, dark=False, ask=QUESTIONS)

    assert seen.answers["beyond"] > 0
    assert [text.split()[0] for text in seen.answers["weak"]] == ["faint"]
    assert seen.answers["small"] == 1
    assert any("ReferenceError" in text for text in seen.complaints)
    assert len(seen.requests) == 2


def is_dark(seen: Seen) -> bool:
    red, *_ = (int(part) for part in seen.answers["ground"].strip("rgb()").split(","))
    return red < 128
