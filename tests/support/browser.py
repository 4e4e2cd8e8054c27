"""A real browser, driven over a pipe; no other program is needed.

Chromium reads its commands from file 3 and answers on file 4, each a JSON text that ends with a zero byte.
"""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 120
"""Seconds; a machine that is busy with something else may need many."""

PIPED = 'exec "$@" 3<&"$READS" 4>&"$WRITES"'
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    # Neither a page nor the browser itself reaches anything beyond this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)


def found() -> str | None:
    """Return the browser of this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a page was like.

    Args:
        complaints: What the browser reported: errors, warnings, refused requests.
        requests: Every address that it asked for.
        picture: A screenshot of the whole page.
        answers: What the questions to the page were answered with.
    """

    complaints: list[str]
    requests: list[str]
    picture: bytes
    answers: dict[str, Any]


class RefusedError(Exception):
    """The browser refused a command."""


class Browser:
    """A browser that is open."""

    def __init__(self, reads: int, writes: int) -> None:
        """Send commands to one file and read answers from the other."""
        self._reads, self._writes = reads, writes
        self._numbers = itertools.count(1)
        self._rest = b""
        self._events: list[dict[str, Any]] = []

    def look(self, file: Path, *, width: int, height: int, dark: bool, ask: dict[str, str]) -> Seen:
        """Open a file in a window of a size, by day or by night, and ask it some questions in JavaScript."""
        self._events.clear()
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        tab = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable", tab)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", tab, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", tab, features=[scheme])
        self.send("Page.navigate", tab, url=file.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._hear()
        answers = {name: self._asked(tab, question) for name, question in ask.items()}
        shot = self.send("Page.captureScreenshot", tab, captureBeyondViewport=True)["data"]
        self.send("Target.closeTarget", targetId=target)
        return Seen(
            complaints=[text for event in self._events for text in _complaint(event)],
            requests=[
                event["params"]["request"]["url"]
                for event in self._events
                if event["method"] == "Network.requestWillBeSent"
            ],
            picture=base64.b64decode(shot),
            answers=answers,
        )

    def _asked(self, tab: str, question: str) -> Any:  # noqa: ANN401  # whatever the page answers
        answer = self.send("Runtime.evaluate", tab, expression=question, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def send(self, method: str, tab: str | None = None, **params: object) -> dict[str, Any]:
        """Send a command to the browser, or to one of its tabs, and return its answer."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": params}
        if tab:
            command["sessionId"] = tab
        os.write(self._writes, json.dumps(command).encode() + b"\0")
        while True:
            answer = self._hear()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RefusedError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._reads], [], [], PATIENCE)
            assert ready, f"the browser has sent nothing for {PATIENCE} s"
            more = os.read(self._reads, 1 << 20)
            assert more, "the browser is gone"
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
        return message


@contextmanager
def opened(program: str, profile: Path) -> Iterator[Browser]:
    """Open a browser, and close it in the end."""
    its_reads, our_writes = os.pipe()
    our_reads, its_writes = os.pipe()
    named = {"READS": str(its_reads), "WRITES": str(its_writes)}
    command = ["/bin/bash", "-c", PIPED, "browser", program, *OPTIONS]
    with subprocess.Popen(
        [*command, f"--user-data-dir={profile}"],
        env={**os.environ, **named},
        pass_fds=(its_reads, its_writes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(its_reads)
        os.close(its_writes)
        try:
            yield Browser(our_reads, our_writes)
        finally:
            os.close(our_writes)
            os.close(our_reads)
            process.terminate()


@contextmanager
def opened_here(profile: Path) -> Iterator[Browser]:
    """Open this machine's browser; `make test` installs one where it may, and elsewhere the test is skipped."""
    program = found()
    if program is None:
        pytest.skip("no Chromium here (Debian: apt install chromium)")
    with opened(program, profile) as browser:
        yield browser


def _complaint(event: dict[str, Any]) -> Iterator[str]:
    params = event.get("params", {})
    match event["method"]:
        case "Log.entryAdded":
            yield params["entry"]["text"]
        case "Runtime.consoleAPICalled":
            yield str(params["args"])
        case "Runtime.exceptionThrown":
            yield str(params["exceptionDetails"])
        case "Network.loadingFailed":
            yield params["errorText"]
