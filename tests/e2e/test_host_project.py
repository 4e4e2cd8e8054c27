"""A stranger's Dagster: a project that ``create-dagster`` made, with two assets of its own, and a lake that joins it by a component.

Real programs throughout: ``create-dagster``, ``dg``, ``dagster dev``, runs, a broker, Spark, and a browser that shows what a
person would see. The lake is of another project beside it, and was filled from a terminal before Dagster saw it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from strandline.engine.runtime import processes
from tests.cli.typed import ENVIRONMENT, strandline
from tests.support.console import ENDED, LAUNCH, STATUS, Console
from tests.support.tab import Tab, opened_tab

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.whole,
    pytest.mark.prove(alone="four minutes"),
    pytest.mark.timeout(1500),
]

BIN = Path(sys.executable).parent
EVENTS = 2_000
COMPONENT = "strandline_dagster.StrandlineComponent"
PATIENCE = 300
TABLE = "gold.sales_10m"
TABLES = ("bronze/orders", "silver/orders", "gold/sales_10m")
SAID = {"orders": "how many were placed", "amount": "what they cost together"}
"""Comments of columns, as the table's author would write them."""

ASSETS = '''\
import dagster as dg
import polars as pl


@dg.asset(
    ins={"sales": dg.AssetIn(key=["shop", "gold", "sales_10m"], input_manager_key="strandline_tables")},
    group_name="finance",
    owners=["team:finance"],
)
def takings(sales: pl.DataFrame) -> float:
    """What was taken in, of windows that are closed."""
    return float(sales["amount"].sum())


@dg.asset(group_name="finance")
def headline(context: dg.AssetExecutionContext, takings: float) -> str:
    """One line for the board."""
    context.add_output_metadata({"takings": takings})
    return f"{takings:,.2f} taken in"
'''
ELSEWHERE = '''\
import dagster as dg
import duckdb

from strandline_dagster import TableIOManager


@dg.asset(ins={{"sales": dg.AssetIn(key=["shop", "gold", "sales_10m"], input_manager_key="tables")}})
def busiest(sales: duckdb.DuckDBPyRelation) -> dg.MaterializeResult:
    """The most orders of a window, of a team that has a code location of its own."""
    return dg.MaterializeResult(metadata={{"orders": sales.max("orders").fetchone()[0]}})


defs = dg.Definitions(
    assets=[busiest, dg.AssetSpec(["shop", "gold", "sales_10m"])],
    resources={{"tables": TableIOManager(project={project!r}, lake={lake!r})}},
)
'''
WORKSPACE = """\
load_from:
  - python_module:
      module_name: weather.definitions
      location_name: weather
  - python_file:
      relative_path: elsewhere.py
      location_name: elsewhere
"""
GROUPS = tuple(
    f"global@global:{each}"
    for each in ("shop_kafka", "shop_bronze", "shop_silver", "shop_gold", "finance", "default")
)
"""As the page names groups in its address."""
INSTANCE = "telemetry: {enabled: false}\nnux: {enabled: false}\n"
MADE = """
query ($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) { ... on AssetNode {
    groupName
    kinds
    assetMaterializations(limit: 20) {
      runId
      partition
      metadataEntries { label ... on IntMetadataEntry { intValue } ... on FloatMetadataEntry { floatValue } __typename }
    }
    partitionStats { numPartitions numMaterialized }
    dependedByKeys { path }
  } }
}
"""
COUNTED = """
query ($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) { ... on AssetNode { assetChecksOrError { ... on AssetChecks { checks {
    name executionForLatestMaterialization { status }
  } } } } }
}
"""
JOBS = "{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } jobs { name } } } } }"


@dataclass(frozen=True, slots=True)
class Stranger:
    """The project, the lake beside it, and how its programs are started."""

    root: Path
    lake: Path

    @property
    def home(self) -> Path:
        """Return where its Dagster keeps what it knows."""
        return self.root.with_name("home")

    @property
    def environment(self) -> dict[str, str]:
        """Return what its shell has: its own sources, which an editable install would have put there."""
        return {
            **ENVIRONMENT,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(
                [str(self.root / "src"), os.environ.get("PYTHONPATH", "")]
            ),
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_DG_UPDATE_CHECK_ENABLED": "0",
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "PYTHONWARNINGS": "ignore",
        }

    def types(self, *words: str, cwd: Path | None = None) -> str:
        """Type a command of Dagster's, and return what it answers."""
        done = subprocess.run(
            [str(BIN / words[0]), *words[1:]],
            cwd=cwd or self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a project of tables, and fill its lake from a terminal with the orders of the last day."""
    folder = tmp_path_factory.mktemp("lake")
    strandline("init", folder / "shop").succeeded()
    shop, here = folder / "shop", folder / "lake"
    module = shop / "shop/gold/sales_10m.py"
    text = module.read_text()
    for name, said in SAID.items():
        assert text.count(f'        "{name}",\n') == 1
        commented = f'F.col("{name}").alias("{name}", metadata={{"comment": "{said}"}})'
        text = text.replace(f'        "{name}",\n', f"        {commented},\n")
    module.write_text(text)
    # Two days: in the hour after midnight the last one is not closed yet.
    play = shop / "shop/play.py"
    assert play.read_text().count("SPAN = timedelta(days=1)") == 1
    play.write_text(
        play.read_text().replace("SPAN = timedelta(days=1)", "SPAN = timedelta(days=2)")
    )

    def typed(*words: object) -> None:
        strandline(*words, "--lake", here, cwd=shop).succeeded()

    typed("up")
    try:
        typed("produce", "--events", EVENTS)
        typed("run")
        yield here
    finally:
        typed("down")


@pytest.fixture(scope="module")
def stranger(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    """Let Dagster's own program make a project, write two assets into it, and let ``dg`` write the component's YAML."""
    folder = tmp_path_factory.mktemp("stranger")
    found = Stranger(folder / "weather", lake)
    found.home.mkdir()
    (found.home / "dagster.yaml").write_text(INSTANCE)
    found.types("create-dagster", "project", "weather", "--no-uv-sync", cwd=folder)
    (found.root / "src/weather/defs/finance.py").write_text(ASSETS)
    found.types(
        *("dg", "scaffold", "defs", COMPONENT, "shop"),
        *("--project", str(lake.with_name("shop"))),
        *("--lake", str(lake)),
        *("--key-prefix", "shop"),
    )
    (found.root / "workspace.yaml").write_text(WORKSPACE)
    elsewhere = ELSEWHERE.format(project=str(lake.with_name("shop")), lake=str(lake))
    (found.root / "elsewhere.py").write_text(elsewhere)
    return found


@contextmanager
def served(stranger: Stranger, log: Path) -> Iterator[Console]:
    """Serve the project's pages, with its daemon, as its people do."""
    port = processes.bind(0)
    command = [
        str(BIN / "dagster"),
        "dev",
        "-w",
        "workspace.yaml",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    with log.open("wb") as written:
        program = subprocess.Popen(
            command,
            cwd=stranger.root,
            env=stranger.environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    console = Console(program, stranger.lake, f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(console):
            assert program.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        yield console
    finally:
        # Not by SIGINT, which a program that a shell put into the background never gets, nor what it started.
        family = [
            psutil.Process(program.pid),
            *psutil.Process(program.pid).children(recursive=True),
        ]
        for ends in (psutil.Process.terminate, psutil.Process.kill):
            for each in family:
                with suppress(psutil.NoSuchProcess):
                    ends(each)
            _, family = psutil.wait_procs(family, timeout=30)
        program.wait()


def _answers(console: Console) -> bool:
    try:
        found = console.ask(
            "{ workspaceOrError { ... on Workspace { locationEntries { loadStatus } } } }"
        )
    except OSError:
        return False
    entries = found["workspaceOrError"]["locationEntries"]
    return len(entries) == 2 and all(each["loadStatus"] == "LOADED" for each in entries)


@pytest.fixture(scope="module")
def console(stranger: Stranger, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with served(stranger, tmp_path_factory.mktemp("log") / "dagster.log") as here:
        yield here


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Tab]:
    """Open this machine's browser."""
    with opened_tab(tmp_path) as here:
        yield here


def node(console: Console, key: str, question: str = MADE) -> Any:  # noqa: ANN401  # Dagster's answer
    return console.ask(question, key={"path": key.split("/")})["assetNodeOrError"]


def not_counted(console: Console, key: str) -> list[str]:
    """Return the checks of an asset that the page calls not evaluated, or not passed."""
    found = node(console, key, COUNTED)["assetChecksOrError"]["checks"]
    assert found
    last = {each["name"]: each["executionForLatestMaterialization"] for each in found}
    return [name for name, each in last.items() if not each or each["status"] != "SUCCEEDED"]


def launched(console: Console, location: str, job: str, *keys: str) -> str:
    """Launch a job, or the assets of some keys, and return the run's name after it has succeeded."""
    selector = {
        "repositoryLocationName": location,
        "repositoryName": "__repository__",
        "jobName": job,
        **({"assetSelection": [{"path": key.split("/")} for key in keys]} if keys else {}),
    }
    params = {"selector": selector, "mode": "default", "runConfigData": {}}
    found = console.ask(LAUNCH, params=params)["launchRun"]
    assert found["__typename"] == "LaunchRunSuccess", found
    run = str(found["run"]["runId"])
    deadline = time.monotonic() + PATIENCE
    while (status := console.ask(STATUS, id=run)["runOrError"]["status"]) not in ENDED:
        assert time.monotonic() < deadline, status
        time.sleep(1)
    assert status == "SUCCESS", (job, keys, run)
    return run


def facts(made: Mapping[str, Any]) -> dict[str, float | int | None]:
    """Return the numbers of a materialisation."""
    return {
        each["label"]: each.get("intValue", each.get("floatValue"))
        for each in made["metadataEntries"]
    }


def drawn(page: Tab, edges: int) -> None:
    """Wait until a graph has its edges, which Dagster draws after the boxes."""
    deadline = time.monotonic() + 60
    while int(page.ask("document.querySelectorAll('path[marker-end]').length") or 0) < edges:
        assert time.monotonic() < deadline, page.words
        time.sleep(0.2)


def sized(page: Tab, width: int) -> None:
    """Make the page so wide."""
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.browser.send("Emulation.setDeviceMetricsOverride", page.session, **size)


def newest(lake: Path, table: str) -> int:
    """Return the newest version of a table of the lake, of which the log is read and nothing of ours asked."""
    names = (lake / table.replace(".", "/") / "_delta_log").glob("*.json")
    return max(int(each.stem) for each in names if each.stem.isdigit())


def test_dg_finds_the_component_and_writes_its_yaml(stranger: Stranger) -> None:
    """And the definitions that come of it are checked by Dagster's own commands."""
    listed = json.loads(stranger.types("dg", "list", "components", "--json"))
    written = (stranger.root / "src/weather/defs/shop/defs.yaml").read_text()

    assert COMPONENT in [each["key"] for each in listed["items"]]
    assert written.startswith(f"type: {COMPONENT}\n")
    assert "key_prefix: shop" in written
    stranger.types("dg", "check", "yaml")
    stranger.types("dg", "check", "defs")
    stranger.types("dagster", "definitions", "validate", "-m", "weather.definitions")
    found = json.loads(stranger.types("dg", "list", "defs", "--json"))
    keys = {each["asset_key"] for each in found["assets"]}
    assert {"takings", "headline", *(f"shop/{table}" for table in TABLES)} <= keys


def test_what_a_terminal_filled_is_shown_as_filled(console: Console, page: Tab) -> None:
    """Without a run: rows, columns and the version of each table, and the days that are closed."""
    deadline = time.monotonic() + PATIENCE
    while not all(node(console, f"shop/{each}")["assetMaterializations"] for each in TABLES):
        assert time.monotonic() < deadline
        time.sleep(1)

    for table in TABLES:
        made = [
            e for e in node(console, f"shop/{table}")["assetMaterializations"] if not e["partition"]
        ]
        assert made[-1]["runId"] == ""
        assert facts(made[-1])["dagster/row_count"]
    days = node(console, "shop/silver/orders")["partitionStats"]
    left = days["numPartitions"] - days["numMaterialized"]
    assert days["numPartitions"] >= 3
    assert left in {1, 2}, "today, and yesterday while rows of it may come late"
    first = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 2 * 86_400))
    page.go(f"{console.address}/assets/shop/silver/orders?view=partitions&partition={first}")
    page.sees(rf"Materialized \({days['numMaterialized']}\)", rf"Missing \({left}\)")
    page.shot("days that a terminal filled")
    page.go(f"{console.address}/assets/shop/gold/sales_10m?view=overview")
    page.sees("window_from", "decimal|double", "What was sold", "(?s)Upstream assets.*orders")
    page.sees(*SAID.values())
    page.shot("columns of a table that no run made")


def test_a_run_of_theirs_after_ours_reads_the_version_that_ours_made(
    console: Console, page: Tab, stranger: Stranger
) -> None:
    """In one graph: their assets hang on a table by its key, across the code locations as well."""
    strandline(
        "produce", "--events", EVENTS, "--lake", stranger.lake, cwd=stranger.lake.with_name("shop")
    ).succeeded()
    ours = launched(console, "weather", "catch_up")
    (made,) = [
        e
        for e in node(console, f"shop/{TABLE.replace('.', '/')}")["assetMaterializations"]
        if e["runId"] == ours
    ]
    assert facts(made)["version"] == newest(stranger.lake, TABLE)
    assert {each: not_counted(console, f"shop/{each}") for each in TABLES} == {
        each: [] for each in TABLES
    }, "as soon as the run is over"

    page.go(f"{console.address}/assets/takings")
    page.click("Materialize", exact=False)
    deadline = time.monotonic() + PATIENCE
    while not (theirs := node(console, "takings")["assetMaterializations"]):
        assert time.monotonic() < deadline, page.words
        time.sleep(1)
    seen = facts(theirs[0])
    assert seen[f"{TABLE} version"] == facts(made)["version"]
    assert (stranger.home / "storage/takings").is_file(), "where they keep such things"
    launched(console, "weather", "__ASSET_JOB", "headline")
    launched(console, "elsewhere", "__ASSET_JOB", "busiest")
    assert facts(node(console, "busiest")["assetMaterializations"][0])[f"{TABLE} version"]
    dependents = {
        each["path"][-1] for each in node(console, "shop/gold/sales_10m")["dependedByKeys"]
    }
    assert dependents == {"takings", "busiest"}

    sized(page, 3000)  # a graph of five tables beside each other is legible
    page.go(f"{console.address}/asset-groups/?expanded={','.join(GROUPS)}")
    page.sees("sales_10m", "takings", "headline", "busiest")
    drawn(page, 5)
    page.shot("one graph of two code locations")
    page.go(f"{console.address}/assets/takings?view=lineage")
    page.click("Upstream")
    page.click("All")
    page.sees("orders", "sales_10m", "takings", "3 / 3 Passed", "16 / 16 Passed", "5 / 5 Passed")
    page.ask("location.reload()")  # so that the graph is fitted into the page
    time.sleep(1)
    page.sees("takings", "3 / 3 Passed", "16 / 16 Passed", "5 / 5 Passed")
    drawn(page, 3)
    page.shot("what an asset of theirs rests on")
    sized(page, 1600)
    page.go(f"{console.address}/assets/shop/silver/orders?view=checks")
    page.sees(r"missing_order_id\s+Succeeded")
    page.click("missing_order_id", on="a, button, div", exact=True)
    page.sees("This is a", "Evaluation result")
    page.shot("checks of a table")
    page.go(f"{console.address}/runs/{theirs[0]['runId']}")
    page.sees("(?m)^Success$", "STEP_SUCCESS", "Materialized", r"Succeeded \(1\)")
    page.shot("a run of theirs")
    assert len(list(page.pictures.iterdir())) == 4


def test_their_history_stays_theirs(console: Console) -> None:
    """No job of ours deletes runs of theirs; ``takings``, which theirs has returned, is kept by their own storage above."""
    code = console.ask(JOBS)["repositoriesOrError"]["nodes"]
    jobs = {
        each["name"] for of in code if of["location"]["name"] == "weather" for each in of["jobs"]
    }

    assert {"catch_up", "maintenance"} <= jobs
    assert "purge" not in jobs
