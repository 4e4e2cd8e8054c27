"""A stranger installs the wheel, makes a project of their own, and upgrades the engine under it."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.architecture import tree

HERE = Path(__file__).parent
NEWER = "1.1.0"
NOTED = """
import atexit, json, pathlib, sys
atexit.register(lambda: pathlib.Path("modules.json").write_text(json.dumps([*sys.modules])))
from strandline.cli.main import main
main()
"""
"""The program, which writes down at its end what it has imported."""
UNUSED = ("strandline.alerting", "strandline.engine.learning", "sigma")
"""What a run in a project without rules and models imports nothing of."""
HALF = 127 // 2
"""Of the packages that an environment had with the wheel when it had no extras, pip and setuptools among them."""
STRANGER = HERE / "stranger"
"""What a stranger adds by hand to a project of the name shop: a topic of a schema registry, a fold, a scored table, its model."""

PYTHON = Path(sys.base_prefix) / "bin" / "python3"


def built(source: Path, folder: Path) -> Path:
    """Build the wheel of a tree, as `make wheel` does, and return it."""
    words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    typed([sys.executable, "-m", "pip", "wheel", *words, "-w", str(folder), str(source)], folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def typed(words: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a program as a stranger does, who has none of our settings, and return what it printed."""
    own = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    own |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    done = subprocess.run(
        words,
        cwd=folder,
        env={**own, "TZ": "UTC", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def ended(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, however that is."""
    own = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return subprocess.run(words, cwd=folder, env=own, capture_output=True, text=True, check=False)


class Unpacked:
    """What a wheel holds, unpacked beside the packages of this environment; nothing of the clone is on its path."""

    def __init__(self, folder: Path) -> None:
        """Build the wheel and unpack it."""
        folder.mkdir()
        self.site = folder / "site"
        with zipfile.ZipFile(built(tree.ROOT, folder)) as wheel:
            wheel.extractall(self.site)
            self.names = wheel.namelist()

    def __call__(self, folder: Path, *words: str, profile: str | None = None) -> str:
        """Run Python in a folder."""
        chosen = {"STRANDLINE_PROFILE": profile} if profile else {}
        return typed([sys.executable, *words], folder, {"PYTHONPATH": str(self.site), **chosen})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """Return the wheel of this clone."""
    return Unpacked(tmp_path_factory.mktemp("wheel") / "dist")


@pytest.fixture(scope="module")
def shop(wheel: Unpacked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project that the wheel's command has made, with own tables and a model beside those of the drafts."""
    folder = tmp_path_factory.mktemp("stranger")
    wheel(folder, "-m", "strandline.cli", "init", "shop")
    root = folder / "shop"
    for words in (
        ("topic", "refunds"),
        ("silver", "refunds", "--reads", "bronze.refunds"),
        ("gold", "refunds_10m", "--reads", "silver.refunds"),
    ):
        wheel(root, "-m", "strandline.cli", "new", *words)
    for draft in STRANGER.rglob("*.txt"):
        place = root / draft.relative_to(STRANGER).with_suffix("")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(draft, place)
    return root


@pytest.mark.whole
def test_the_wheel_has_all_that_the_engine_reads(wheel: Unpacked) -> None:
    """Files that are no modules are forgotten first."""
    tracked = {str(path.relative_to(tree.ROOT)) for path in tree.tracked()}
    ours = {name for name in tracked if name.split("/")[0] in tree.PACKAGES}
    own = ("infra/image/", "infra/compose/", "infra/LICENSE", "infra/NOTICE")
    left_out = {name for name in ours if name.startswith(own)}

    missing = {_in_wheel(name) for name in ours - left_out} - {*wheel.names}

    assert missing == set()


def test_the_wheel_adds_names_of_ours_alone(wheel: Unpacked) -> None:
    """A user has folders called jobs, quality and infra, and the example is no package of theirs."""
    tops = {name.partition("/")[0] for name in wheel.names}

    assert {re.sub(r"-[\d.]+\.dist-info$", "", each) for each in tops} == {
        "strandline",
        "strandline_dagster",
        "strandline_infra",
        "strandline_quality",
    }


def _in_wheel(name: str) -> str:
    """Return where the wheel has a file of the clone."""
    if name.startswith("jobs/fleet/"):
        return name.replace("jobs/", "strandline_infra/example/")
    inside = name.partition("/")[2]
    return inside if inside.startswith("strandline") else f"strandline_infra/{inside}"


def test_the_wheel_carries_its_licence_and_the_notices(wheel: Unpacked) -> None:
    """Where every wheel has them, so that whatever lists licences finds it."""
    (facts,) = wheel.site.glob("strandline-*.dist-info/METADATA")
    shown = facts.read_text()

    for name in ("LICENSE", "NOTICE"):
        kept = facts.parent / "licenses" / "infra" / name
        assert kept.read_bytes() == (tree.ROOT / "infra" / name).read_bytes()
        assert f"License-File: infra/{name}\n" in shown
    assert "License-Expression: Apache-2.0\n" in shown


@pytest.mark.whole
@pytest.mark.slow
def test_the_project_passes_its_own_tests(wheel: Unpacked, shop: Path) -> None:
    """Its lint and its tests are what its `make test` runs; Spark's workers find its modules too.

    The tour of `strandline notebook` keeps its lint as it was. Among the tests are a fold, a model and a topic of a schema registry, with nothing imported but `strandline`.
    """
    shutil.copytree(tree.ROOT / "jobs/strandline/operate/notebooks", shop / "notebooks")
    wheel(shop, "-m", "ruff", "check", "--no-cache")
    wheel(shop, "-m", "ruff", "check", "--no-cache", "--select", "I")
    words = ["-p", "no:randomly", "-p", "no:cacheprovider"]

    assert "21 passed" in wheel(shop, "-m", "pytest", "-q", *words)


@pytest.mark.whole
def test_its_tables_are_its_own(wheel: Unpacked, shop: Path) -> None:
    """In the verbs, in Dagster's definitions, and in what decides a table's rows."""
    script = (
        "import json, strandline, sys;"
        "from strandline_dagster.definitions import DEFINITIONS as defs;"
        "from strandline import catalog; from strandline.engine.runtime.code_files import files_of;"
        "keys = sorted(key.to_user_string() for key in defs.resolve_all_asset_keys());"
        "files = [str(file) for file in files_of(catalog.find('gold.sales_10m'))];"
        "running = [each.name for each in defs.schedules if each.default_status.value == 'RUNNING'];"
        "print(json.dumps([keys, files, strandline.__file__, running]))"
    )

    answer = wheel(shop, "-c", script, profile="dev")

    keys, files, engine, running = json.loads(answer.splitlines()[-1])
    assert running == []  # as the drafts' profile of developers says

    assert engine.startswith(str(wheel.site))
    assert {"gold/sales_10m", "gold/refunds_10m", "silver/orders"} <= {*keys}
    assert not [key for key in keys if "device" in key or "alert" in key]
    own = {str(Path(file).relative_to(shop)) for file in files if Path(file).is_relative_to(shop)}
    assert {
        f"shop/{name}.py" for name in ("bronze/orders", "silver/orders", "gold/sales_10m")
    } <= own
    assert not [file for file in own if "refunds" in file]


@pytest.mark.whole
def test_its_models_are_its_own(wheel: Unpacked, shop: Path, tmp_path: Path) -> None:
    """`strandline models` lists them, before anything was trained."""
    (tmp_path / "lake").mkdir()

    listed = wheel(
        shop, "-m", "strandline.cli", "models", "list", "--json", "--lake", f"{tmp_path}/lake"
    )

    assert [(each["model"], each["check"]) for each in json.loads(listed)] == [
        ("large_orders", "no version yet")
    ]


@pytest.mark.whole
def test_a_verb_of_the_example_says_why_it_is_not_here(wheel: Unpacked, shop: Path) -> None:
    """And the help has the others."""
    code = "import sys; sys.argv[1:] = ['alerts']; from strandline.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=shop,
        env={"PATH": os.defpath, "PYTHONPATH": str(wheel.site)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "does not say what alert rules look at" in done.stderr
    listed = wheel(shop, "-m", "strandline.cli", "--help")
    assert re.search(r"^ +demo ", listed, re.MULTILINE)
    assert not re.search(r"^ +alerts ", listed, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.prove(alone="a broker, and all tables of the example")
def test_the_example_is_written_and_run_from_the_wheel(wheel: Unpacked, tmp_path: Path) -> None:
    """Each event is in exactly one place, as its play says; nothing of the clone is on the path."""
    wheel(tmp_path, "-m", "strandline.cli", "init", "--demo", "fleet")
    root = tmp_path / "fleet"

    shown = wheel(root, "-m", "strandline.cli", "demo", "--events", "3000")

    assert "balanced: 3,000 events, each in exactly one place" in shown
    sheets = json.loads(
        wheel(root, "-m", "strandline.cli", "ledger", "--lake", ".lake/demo", "--json")
    )
    assert {"silver.device_telemetry", "gold.site_traffic_1h"} <= {each["table"] for each in sheets}
    assert all(each["balanced"] for each in sheets)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.prove(alone="ten minutes: the wheel is installed anew, without extras and with some")
def test_a_wheel_without_extras_fills_and_reads_tables_and_names_what_is_missing(
    tmp_path: Path,
) -> None:
    """Half of the packages, all that a lake needs; then set-up brings what the project asks for."""
    (tmp_path / "dist").mkdir()
    wheel = built(tree.ROOT, tmp_path / "dist")
    typed([str(PYTHON), "-m", "venv", "bare"], tmp_path)
    program, pip = (str(tmp_path / "bare/bin" / name) for name in ("strandline", "pip"))
    pins = str(tree.ROOT / "infra/constraints.txt")
    began = time.monotonic()
    typed(
        [pip, "install", "--quiet", "--disable-pip-version-check", "-c", pins, str(wheel)], tmp_path
    )
    print(f"installed in {time.monotonic() - began:.0f} s")  # noqa: T201  # the figure is for who reads the run
    packages = {
        each["name"] for each in json.loads(typed([pip, "list", "--format=json"], tmp_path))
    }
    assert len(packages - {"pip", "setuptools"}) <= HALF
    assert not packages & {"dagster", "great-expectations", "pySigma", "openlineage-python"}

    listed = typed([program, "--help"], tmp_path)
    typed([program, "init", "shop"], tmp_path)
    shop, asks = tmp_path / "shop", tmp_path / "shop" / "pyproject.toml"
    with_extras = asks.read_text()
    asks.write_text(with_extras.replace("[dagster,quality]>=", ">="))
    for words in (
        ("setup",),
        ("up",),
        ("produce", "--events", "2000"),
    ):
        typed([program, *words], shop)
    typed([str(tmp_path / "bare/bin/python"), "-c", NOTED, "run"], shop)
    audited = ended([program, "check", "--docs"], shop)
    asked = {
        words[0]: typed([program, *words, "--json"], shop)
        for words in (
            ("query", "SELECT count(*) AS orders FROM silver.orders"),
            ("status",),
            ("ledger",),
            ("why", "orders/0/0", "--in", "silver.orders"),
        )
    }
    report = ended([program, "report", "--to", str(tmp_path / "report.html")], shop)
    page = ended([program, "ui"], shop)
    explained = typed([program, "explain", "ui"], shop)
    typed([program, "down"], shop)

    assert re.search(r"^  ui +Operate", listed, re.MULTILINE)
    loaded = json.loads((shop / "modules.json").read_text())
    assert not [name for name in loaded if name.startswith(UNUSED)]
    assert audited.returncode == 0, audited.stderr
    assert (
        "Data Docs: none without their extra: pip install 'strandline[quality]'" in audited.stderr
    )
    assert json.loads(asked["query"])[0]["orders"] > 1000
    assert all(each["balanced"] for each in json.loads(asked["ledger"]))
    assert json.loads(asked["why"])["verdict"] in {"in the table", "quarantined", "duplicate"}
    assert report.returncode in {0, 4}, report.stderr  # 4: the play has dirty orders of old days
    assert "<html" in (tmp_path / "report.html").read_text()
    assert page.returncode == 2
    assert "hint: install the extra: pip install 'strandline[dagster]'." in page.stderr
    assert "the extra dagster: pip install 'strandline[dagster]'" in explained

    asks.write_text(with_extras)
    lacks = ended([program, "doctor"], shop)
    typed([program, "setup"], shop)
    assert "dagster is not installed: pyproject.toml asks for it" in lacks.stdout
    assert "the project uses dagster, quality" in ended([program, "doctor"], shop).stdout
    typed([program, "check", "--docs"], shop)
    assert [*(shop / ".lake").rglob("data_docs/local_site/index.html")]


@pytest.mark.prove(alone="ten minutes: everything is installed anew")
def test_from_a_bare_machine_to_an_answer_and_to_a_newer_engine(tmp_path: Path) -> None:
    """The commands are in bare_machine.sh; here is what must have come of them."""
    (tmp_path / "first").mkdir()
    first = built(tree.ROOT, tmp_path / "first")
    source = tree.copied(tmp_path / "source")
    project = (source / "pyproject.toml").read_text()
    (source / "pyproject.toml").write_text(
        re.sub(r'(?m)^version = ".*"$', f'version = "{NEWER}"', project)
    )
    # An engine that differs in what decides every table's rows, and not only in its number.
    with (source / "jobs/strandline/core/verdict.py").open("a") as file:
        file.write("\n# A newer engine.\n")
    (tmp_path / "second").mkdir()
    second = built(source, tmp_path / "second")
    machine = tmp_path / "machine"
    machine.mkdir()
    shutil.copy(HERE / "own_events.py", machine)

    script = str(HERE / "bare_machine.sh")
    typed(["sh", script, str(PYTHON), str(first), str(second), str(machine)], machine)

    found = {file.stem: file.read_text() for file in machine.glob("*.*") if file.suffix != ".py"}
    assert "12 passed" in found["first_tests"]
    assert "17 passed" in found["second_tests"]
    assert found["second_version"].split() == ["strandline", NEWER]
    assert found["first_version"] != found["second_version"]
    assert json.loads(found["first_answer"]) == [{"events": 1, "windows": 60}]
    assert found["dashboard_answer"].split()[-2:] == ["events,windows", "1,60"]  # behind a prompt
    assert json.loads(found["at_version"])[0]["windows"] > 0
    assert json.loads(found["why"])["verdict"] in {"in the table", "quarantined", "duplicate"}
    assert "No broken requirements found" in found["pip_check"]
    assert "<html" in (machine / "report.html").read_text()
    assert json.loads(found["second_answer"]) == [{"events": 1, "windows": 121}]
    for name, often in (("first_ledger", 1), ("second_ledger", 2)):
        sheets = {sheet["table"]: sheet for sheet in json.loads(found[name])}
        assert all(sheet["balanced"] for sheet in sheets.values())
        refunds = sheets["silver.refunds"]
        counted = refunds["good"], refunds["duplicates"], sum(refunds["quarantined"].values())
        assert counted == (61 * often, 5 * often, 3 * often)
    assert found["files_before"] == found["files_after"]
    assert found["checkpoints_before"] == found["checkpoints_after"]
    assert len(found["checkpoints_before"].splitlines()) >= 4
