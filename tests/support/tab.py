"""A tab of a real browser, used as a person does: read what is visible, click on words.

Nothing is found by a class or a position in the page, only by its role and its visible words, and a click is the
mouse's own: on something covered, hidden or greyed out it waits, and in the end fails with what was to be seen.
"""

import base64
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.browser import Browser, RefusedError, opened_here

PATIENCE = 60.0
POLL = 0.25
KNOBS = "button, a, [role=button], [role=tab], [role=menuitem], [role=option], [role=radio], label"

FIND = """
((knobs, words, exact, nth) => {
  const shown = e => (e.innerText || e.getAttribute('aria-label') || e.value || e.placeholder || '')
    .replace(/\\s+/g, ' ').trim();
  const found = [...document.querySelectorAll(knobs)].filter(e =>
    e.checkVisibility({visibilityProperty: true}) && (exact ? shown(e) === words : shown(e).includes(words)));
  const knob = found.at(nth);
  if (!knob) return null;
  if (knob.disabled || knob.getAttribute('aria-disabled') === 'true') return null;
  knob.scrollIntoView({block: 'center', inline: 'center'});
  const box = knob.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const top = document.elementFromPoint(x, y);
  return top && (knob.contains(top) || top.contains(knob)) ? [x, y] : null;
})
"""


@dataclass(slots=True)
class Tab:
    """One tab.

    Args:
        browser: In which it is open.
        session: Under which the browser knows it.
        pictures: A folder for what it looked like, in the order in which it was looked at.
    """

    browser: Browser
    session: str
    pictures: Path

    def go(self, address: str) -> None:
        """Open an address, in front of the other tabs: a tab behind another is not drawn, and its lists stay empty."""
        self.browser.send("Page.bringToFront", self.session)
        self.browser.send("Page.navigate", self.session, url=address)

    @property
    def words(self) -> str:
        """Return everything that is to be read."""
        return str(self.ask("document.body ? document.body.innerText : ''"))

    def sees(self, *patterns: str, within: float = PATIENCE) -> None:
        """Wait until all patterns are to be read."""

        def missing() -> list[str]:
            words = self.words
            return [each for each in patterns if not re.search(each, words)]

        deadline = time.monotonic() + within
        while left := missing():
            if time.monotonic() > deadline:
                self.shot("missing")
                raise AssertionError(f"{left} is not to be seen in {within:.0f} s:\n{self.words}")
            time.sleep(POLL)

    def click(
        self,
        words: str,
        *,
        on: str = KNOBS,
        exact: bool = True,
        nth: int = 0,
        within: float = PATIENCE,
    ) -> None:
        """Click on what shows some words, as soon as it can be clicked."""
        find = f"{FIND}({', '.join(json.dumps(each) for each in (on, words, exact, nth))})"
        deadline = time.monotonic() + within
        last = None
        # Where it is twice is where it stays: a dialog that opens still moves.
        while (at := self.ask(find)) is None or at != last:
            if time.monotonic() > deadline:
                self.shot("missing")
                raise AssertionError(f"{words!r} cannot be clicked:\n{self.words}")
            last = at
            time.sleep(POLL)
        x, y = at
        spot = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.browser.send("Input.dispatchMouseEvent", self.session, type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.send("Input.dispatchMouseEvent", self.session, type=kind, **spot)

    def write(self, text: str) -> None:
        """Replace the text of the focused field, and press Enter."""
        self.ask("document.activeElement.select && document.activeElement.select()")
        self.browser.send("Input.insertText", self.session, text=text)
        for kind in ("keyDown", "keyUp"):
            key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
            self.browser.send("Input.dispatchKeyEvent", self.session, type=kind, **key)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, each by its name or its letter."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            for kind in ("keyDown", "keyUp"):
                more = text if kind == "keyDown" else {}
                self.browser.send(
                    "Input.dispatchKeyEvent", self.session, type=kind, key=key, **more
                )

    def click_out(self, words: str, **options: Any) -> "Tab":  # noqa: ANN401  # handed on as they are
        """Click on what opens another tab, and return that."""
        before = {each["targetId"] for each in self._pages()}
        self.click(words, **options)
        deadline = time.monotonic() + PATIENCE
        while not (new := [each for each in self._pages() if each["targetId"] not in before]):
            assert time.monotonic() < deadline, f"{words!r} opens no other tab"
            time.sleep(POLL)
        return _attached(self.browser, new[0]["targetId"], self.pictures)

    def shot(self, name: str) -> None:
        """Keep what it looks like."""
        shot = self.browser.send("Page.captureScreenshot", self.session)
        number = len(list(self.pictures.iterdir()))
        (self.pictures / f"{number:02} {name}.png").write_bytes(base64.b64decode(shot["data"]))

    def ask(self, question: str) -> Any:  # noqa: ANN401  # whatever the page answers
        """Ask the page in JavaScript; while it is being exchanged for another it answers nothing."""
        params = {"expression": question, "returnByValue": True}
        try:
            answer = self.browser.send("Runtime.evaluate", self.session, **params)
        except RefusedError:
            return None
        return None if "exceptionDetails" in answer else answer["result"].get("value")

    def _pages(self) -> list[dict[str, Any]]:
        found = self.browser.send("Target.getTargets")["targetInfos"]
        return [each for each in found if each["type"] == "page"]


@contextmanager
def opened_tab(folder: Path) -> Iterator[Tab]:
    """Open this machine's browser with a tab, whose pictures are kept in the folder."""
    pictures = folder / "pictures"
    pictures.mkdir()
    with opened_here(folder / "profile") as browser:
        yield tab(browser, pictures)


def tab(
    browser: Browser, pictures: Path, *, width: int = 1600, height: int = 1000, dark: bool = False
) -> Tab:
    """Open a tab of a size, by day or by night."""
    target = browser.send("Target.createTarget", url="about:blank")["targetId"]
    new = _attached(browser, target, pictures)
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.send("Emulation.setDeviceMetricsOverride", new.session, **size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.send("Emulation.setEmulatedMedia", new.session, features=[scheme])
    return new


def _attached(browser: Browser, target: str, pictures: Path) -> Tab:
    session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime"):
        browser.send(f"{domain}.enable", session)
    return Tab(browser, session, pictures)
