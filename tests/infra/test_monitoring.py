"""The dashboard, the alert rules and the page about them use metrics and labels that the endpoint has; a real Prometheus agrees."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import bind
from strandline.engine.service.metrics_page import METRICS
from strandline.engine.service.stream_health import Ill
from strandline_dagster.resources import Alarm
from tests.architecture.tree import ROOT
from tests.docs.pages import anchors
from tests.docs.test_readme import table_rows
from tests.support.watched_lake import labels, lease_of_another, look, watched_lake

MONITORING = ROOT / "infra" / "monitoring"
BOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0][
    "rules"
]
LABELS = {each.name: {*each.labels} for each in METRICS}
ON_STORE = "strandline_lease_holders_total"
"""What only a lake on an object store has."""

NAME = re.compile(r"\bstrandline_\w+")
MATCHED = re.compile(r"\b(strandline_\w+)\{([^}]*)\}")
GROUPED = re.compile(r"\b(?:by|without|on) \(([^)]*)\) ?\(?(strandline_\w+)")
SHOWN = re.compile(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}")
FROM_SERVER = {"instance", "job"}
"""Labels that Prometheus adds."""

PROGRAMS = {
    name: shutil.which(name) or str(ROOT / ".cache" / "prometheus" / "usr" / "bin" / name)
    for name in ("prometheus", "promtool")
}
needs_prometheus = pytest.mark.skipif(
    not all(Path(each).exists() for each in PROGRAMS.values()),
    reason="no Prometheus here: `make guests` fetches Debian's package",
)


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, and the text that shows its labels."""

    name: str
    expr: str
    shown: str


def panels() -> list[dict[str, Any]]:
    return [each for each in BOARD["panels"] if each["type"] != "row"]


def queries() -> list[Query]:
    """Return all expressions of the dashboard and of the alert rules."""
    found = [
        Query(each["title"], target["expr"], target["legendFormat"])
        for each in panels()
        for target in each["targets"]
    ]
    rules = [Query(each["alert"], each["expr"], each["annotations"]["summary"]) for each in RULES]
    return [*found, *rules]


@pytest.mark.parametrize("query", queries(), ids=lambda each: each.name)
def test_a_query_uses_metrics_and_labels_that_are_exposed(query: Query) -> None:
    """A panel with a name that was changed is empty, and an alert is never raised."""
    names = NAME.findall(query.expr)
    assert names
    assert {*names} <= {*LABELS}
    for name, matchers in MATCHED.findall(query.expr):
        assert {*re.findall(r"(\w+) ?(?:=~|!~|!=|=)", matchers)} <= LABELS[name]
    for group, name in GROUPED.findall(query.expr):
        assert {*re.findall(r"\w+", group)} <= LABELS[name]
    every = set[str]().union(*(LABELS[name] for name in names))
    assert {*SHOWN.findall(query.shown)} - {"value"} <= every | FROM_SERVER


def test_the_dashboard_is_one_that_any_grafana_can_load() -> None:
    """Its source of data is chosen where it is loaded; it names no machine, and no panel hides another."""
    text = json.dumps(BOARD)
    assert "//" not in text
    assert {each["name"] for each in BOARD["templating"]["list"]} == {"datasource", "table"}
    ids = [each["id"] for each in BOARD["panels"]]
    assert len(ids) == len({*ids})
    squares = set[tuple[int, int]]()
    for each in BOARD["panels"]:
        at = each["gridPos"]
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24, each["title"]
        assert not own & squares, each["title"]
        squares |= own
    for each in panels():
        assert {str(target["datasource"]["uid"]) for target in each["targets"]} == {"${datasource}"}


def test_each_alert_names_a_page_and_each_page_of_the_watchdog_has_an_alert() -> None:
    named = {each["annotations"]["runbook"].partition("#")[::2] for each in RULES}
    pages = {page for page, _ in named}

    assert {page for page in pages if not (ROOT / page).is_file()} == set()
    sections = {(page, section) for page, section in named if section}
    assert {each for each in sections if each[1] not in anchors(ROOT / each[0])} == set()
    # A page with many incidents is no answer at 3 a.m.: only those of one alarm are named without a section.
    assert {page for page, section in named if not section} <= {alarm.path for alarm in Alarm}
    assert {f"infra/runbooks/{ill}.md" for ill in Ill} <= pages
    assert all(each["labels"]["severity"] in {"critical", "warning"} for each in RULES)
    assert len({each["alert"] for each in RULES}) == len(RULES)


def test_the_page_lists_every_metric_with_its_labels_and_its_meaning() -> None:
    """The meaning is the help that a scrape has."""
    rows = {row[0].strip("`"): row[1:] for row in table_rows("monitoring.md")}
    shown = {name: rows[name] for name in rows if name.startswith("strandline_")}

    assert shown == {each.name: [", ".join(each.labels), each.means] for each in METRICS}


def test_a_number_in_a_summary_is_no_yes_or_no() -> None:
    """The value of ``A == 1 and B`` is A's: thousands of alerts waited, and the alarm said one."""
    counted = [each for each in RULES if "$value" in each["annotations"]["summary"]]

    assert counted
    assert [each["alert"] for each in counted if re.match(r"\S+ == \d", each["expr"])] == []


@needs_prometheus
def test_promtool_finds_nothing_in_the_page_and_the_rules(tmp_path: Path) -> None:
    """It knows the conventions of names, units and types, and the language of expressions."""
    page = look(watched_lake(tmp_path, clock.now()), clock.now()).text()
    promtool = PROGRAMS["promtool"]

    of_page = _run(promtool, "check", "metrics", given=page)
    of_rules = _run(promtool, "check", "rules", str(MONITORING / "alerts.yml"))

    assert of_page.returncode == 0, of_page.stdout + of_page.stderr
    assert not of_page.stdout + of_page.stderr
    assert of_rules.returncode == 0, of_rules.stdout
    assert f"{len(RULES)} rules found" in of_rules.stdout


@needs_prometheus
@pytest.mark.slow
def test_a_prometheus_that_scrapes_a_lake_answers_every_panel_and_sees_what_is_wrong(
    tmp_path: Path,
) -> None:
    """The shut gate, the table that fails and the records that expire wait for the time that their alerts ask for."""
    moment = clock.now()
    lake = watched_lake(tmp_path / "lake", moment)
    with (
        lease_of_another(lake, "silver.device_telemetry"),
        look(lake, moment).served("127.0.0.1", 0) as port,
        _prometheus(tmp_path / "prometheus", port) as server,
    ):
        _until(lambda: len(server.asked("up == 1")) == 1)
        _until(lambda: {"StrandlineGateShut", "StrandlineFailing"} <= server.alerts())
        empty = [
            each.name
            for each in queries()
            if ON_STORE not in each.expr and not _answers(server, each)
        ]
        raised = server.alerts()

    assert set(empty) <= {each["alert"] for each in RULES} | {"parts that could not be read"}
    assert raised >= {"StrandlineExpiring", "StrandlineGateShut", "StrandlineFailing"}
    assert not raised & {"StrandlineDead", "StrandlineUnseen", "StrandlineUnbalanced"}


def _answers(server: "Server", query: Query) -> bool:
    expr = query.expr.replace("$table", ".*").replace("$__rate_interval", "1m")
    is_of_one_scrape = "rate(" in expr or "increase(" in expr  # which has no rate
    return bool(server.asked(expr)) or is_of_one_scrape


@dataclass(frozen=True, slots=True)
class Server:
    """A Prometheus."""

    port: int

    def asked(self, expr: str) -> list[Any]:
        """Return the answer to an expression."""
        found: list[Any] = self._of(f"query?query={quote(expr)}")["result"]
        return found

    def alerts(self) -> set[str]:
        """Return the alerts that fire, or will when what they see lasts."""
        return {each["labels"]["alertname"] for each in self._of("alerts")["alerts"]}

    def _of(self, path: str) -> Any:  # noqa: ANN401  # JSON
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]


@contextmanager
def _prometheus(folder: Path, scraped: int) -> Iterator[Server]:
    """Run a real Prometheus with the rules of the project, which scrapes a page each second."""
    folder.mkdir()
    config = folder / "prometheus.yml"
    config.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(MONITORING / "alerts.yml")],
                "scrape_configs": [
                    {
                        "job_name": "strandline",
                        "static_configs": [{"targets": [f"127.0.0.1:{scraped}"]}],
                    }
                ],
            }
        )
    )
    server = Server(bind(0))
    command = [
        PROGRAMS["prometheus"],
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{server.port}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _until(lambda: _is_ready(server) or process.poll() is not None)
            assert process.poll() is None, (folder / "log").read_text()
            yield server
        finally:
            process.terminate()
            process.wait()


def _is_ready(server: Server) -> bool:
    try:
        return isinstance(server.asked("vector(1)"), list)
    except OSError:
        return False


def _until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _run(*words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, input=given, capture_output=True, text=True, check=False)


def test_what_the_dashboard_shows_is_in_a_real_page(tmp_path: Path) -> None:
    """Each name that it uses has a sample in a lake that has everything, beside what needs an object store."""
    moment = clock.now()
    lake = watched_lake(tmp_path, moment)
    with lease_of_another(lake, "silver.device_telemetry"):
        found = labels(look(lake, moment).text())

    used = {name for each in queries() for name in NAME.findall(each.expr)}

    assert used - {*found} <= {ON_STORE}
