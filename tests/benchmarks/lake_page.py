"""The page for the lake with 300 tables against the example's: ``python -m tests.benchmarks.lake_page --lake .lake/demo``.

Both are opened in a real browser, by turns: the lake of the example as it is, and the same lake in a project with many more
topics, each with bronze, silver and gold. What is measured is what a person waits for: from the address to the first paint and to
the drawn tables, from a letter in the search to what was found, from the question where an event is to the answer.
"""

import argparse
import base64
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.place import Place
from tests.architecture.tree import search_path
from tests.benchmarks.machine import facts
from tests.engine.written import written
from tests.support.browser import Browser, opened_here
from tests.support.many_tables import generated
from tests.support.page import Server, served
from tests.support.tab import Tab, tab

COMMITS = 4
ROWS = 250
EVENT = "device-telemetry/0/17"
SOUGHT = "signal"

SEARCH = """new Promise(done => {
  const field = document.getElementById('search');
  field.focus();
  setTimeout(() => {
    performance.clearMarks('drawn search');
    field.value = %s;
    const begun = performance.now();
    field.dispatchEvent(new Event('input'));
    document.body.offsetHeight;
    const worked = performance.now() - begun;
    setTimeout(() => {
      const drawn = performance.getEntriesByName('drawn search').at(-1).startTime - begun;
      field.value = '';
      field.dispatchEvent(new Event('input'));
      field.blur();
      done({worked, drawn});
    }, 400);
  }, 100);
})"""
WHY = """new Promise(done => {
  performance.clearMarks('drawn why');
  const begun = performance.now();
  location.hash = '#/why/' + encodeURIComponent(%s);
  const look = () => {
    const found = performance.getEntriesByName('drawn why').at(-1);
    found ? (location.hash = '#/', done(found.startTime - begun)) : setTimeout(look, 5);
  };
  look();
})"""
OPENED = """new Promise(done => {
  const look = () => {
    const drawn = performance.getEntriesByName('drawn lake').at(-1);
    drawn ? done({drawn: drawn.startTime, paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
      tables: document.querySelectorAll('.card').length}) : setTimeout(look, 5);
  };
  look();
})"""
VIEWS = {
    "all": "",
    "table": "#/table/silver.device_telemetry",
    "why": "#/why/" + EVENT.replace("/", "%2F"),
}


def main() -> None:
    """Measure by turns, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", type=Path, required=True, help="of `strandline demo`")
    parser.add_argument("--topics", type=int, default=92, help="topics of three tables each")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--pictures", type=Path, help="a folder for what both look like")
    typed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lake-page-") as place, ExitStack() as stack:
        folder = Path(place)
        small, many = folder / "demo", folder / "many"
        for each in (small, many):
            shutil.copytree(typed.lake, each)
        copy = generated(folder / "copy", typed.topics)
        for number in range(typed.topics):
            fill(Place.of(many), number)
        env = {"PYTHONPATH": search_path(copy)}
        servers = {
            "demo": stack.enter_context(served(folder / "a", small)),
            "many": stack.enter_context(served(folder / "b", many, env, cwd=copy)),
        }
        browser = stack.enter_context(opened_here(folder / "profile"))
        found = {name: measured(browser, each, typed.rounds) for name, each in servers.items()}
        if typed.pictures:
            typed.pictures.mkdir(parents=True, exist_ok=True)
            for name, each in servers.items():
                draw(browser, each, typed.pictures, name)
    ratios = {
        name: round(found["many"][name] / value, 2)
        for name, value in found["demo"].items()
        if value and name != "tables"
    }
    print(json.dumps({**facts(), **found, "many/demo": ratios}, indent=2))  # noqa: T201  # the figures


def fill(lake: Place, number: int) -> None:
    """Write the three tables of a topic, as four batches of a stream do."""
    name, at = f"many_{number}", datetime.now(UTC) - timedelta(minutes=COMMITS)  # noqa: TID251  # the page shows ages
    for batch in range(COMMITS):
        first = batch * ROWS
        rows = [
            {"id": f"r{n}", "value": n, "event_at": at + timedelta(minutes=batch)}
            for n in range(first, first + ROWS)
        ]
        usual: dict[str, Any] = {"mode": "micro-batch", "stream": "s", "batch": batch}
        counts = {"read": ROWS, "good": ROWS, "written": ROWS, "duration_ms": 180 + 20 * batch}
        offsets = {f"many-{number}/0": (first, first + ROWS)}
        newest = (at + timedelta(minutes=batch)).isoformat()
        bronze = Entry(
            table=f"bronze.{name}",
            source=f"many-{number}",
            offsets=offsets,
            newest_arrival=newest,
            **usual,
            **counts,
        )
        written(lake / "bronze" / name, rows, bronze.encoded())
        silver = Entry(
            table=f"silver.{name}",
            source=bronze.table,
            versions={bronze.table: (batch, batch)},
            newest=newest,
            **usual,
            **counts,
        )
        written(lake / "silver" / name, rows, silver.encoded())
        gold = Entry(
            table=f"gold.{name}_1m",
            source=silver.table,
            versions={silver.table: (batch, batch)},
            **usual,
            **{**counts, "written": 1},
        )
        window = [{"window_from": at, "readings": ROWS, "value": first}]
        written(lake / "gold" / f"{name}_1m", window, gold.encoded())


def measured(browser: Browser, server: Server, rounds: int) -> dict[str, float]:
    """Return the first opening, and the medians of some further ones, in milliseconds."""
    pictures = Path(tempfile.mkdtemp())
    first = opened(browser, server, pictures)[1]
    seen: dict[str, list[float]] = {}
    for _ in range(rounds):
        page, found = opened(browser, server, pictures)
        searched = waited(page, SEARCH % json.dumps(SOUGHT))
        found |= {"search worked": searched["worked"], "search drawn": searched["drawn"]}
        found["why"] = waited(page, WHY % json.dumps(EVENT))
        for name, value in found.items():
            seen.setdefault(name, []).append(float(value))
    return {
        "first ever drawn": round(first["drawn"]),
        **{name: round(statistics.median(values), 1) for name, values in seen.items()},
    }


def opened(browser: Browser, server: Server, pictures: Path) -> tuple[Tab, dict[str, float]]:
    """Open the page in a tab of its own."""
    page = tab(browser, pictures, width=1280, height=900)
    page.go(server.page)
    page.sees("Tables to trust")
    return page, dict(waited(page, OPENED))


def waited(page: Tab, question: str) -> Any:  # noqa: ANN401  # whatever the page answers
    """Ask the page, and wait for what it promises."""
    params: Mapping[str, Any] = {"returnByValue": True, "awaitPromise": True}
    answer = page.browser.send("Runtime.evaluate", page.session, expression=question, **params)
    assert "exceptionDetails" not in answer, answer
    return answer["result"]["value"]


def draw(browser: Browser, server: Server, folder: Path, name: str) -> None:
    """Keep what each view looks like, by day and by night, on a desk and on a telephone."""
    for width, height in ((1280, 900), (390, 844)):
        for dark in (False, True):
            page = tab(browser, folder, width=width, height=height, dark=dark)
            for view, hash_ in VIEWS.items():
                page.go(f"{server.page}{hash_}")
                page.sees(*_words(view))
                kind = "dark" if dark else "light"
                _shot(page, folder / f"{name}-{view}-{width}-{kind}.png")


def _words(view: str) -> list[str]:
    return {
        "all": ["Tables to trust"],
        "table": ["Rules", "open rows|held back"],
        "why": ["Evidence"],
    }[view]


def _shot(page: Tab, file: Path) -> None:
    send: Callable[..., dict[str, Any]] = page.browser.send
    file.write_bytes(base64.b64decode(send("Page.captureScreenshot", page.session)["data"]))


if __name__ == "__main__":
    main()
