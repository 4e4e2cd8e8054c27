"""What works without each extra of the wheel, and what is answered with the command that installs it."""

import json
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from strandline.cli.groups import ABOUT
from strandline.cli.main import VERBS
from strandline.core.errors import DefinitionError
from strandline.operate import listener
from strandline.operate.drafts.scaffold import make
from strandline_infra.installation import EXTRAS, IMAGE, command
from tests.architecture.tree import ROOT
from tests.cli import inside
from tests.cli.typed import Answer, strandline
from tests.engine.written import small_lake
from tests.support.absent import without

LISTED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
CORE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
READING = (
    ("tables",),
    ("ledger",),
    ("ledger", "--audit"),
    ("status",),
    ("logs",),
    ("metrics", "--once"),
    ("gate",),
    ("preflight",),
    ("radar",),
    ("history",),
    ("explain", "run"),
    ("query", "SELECT count(*) FROM silver.device_telemetry"),
    ("models", "list"),
    ("serve", "users"),
)
"""Questions that need no Spark."""

NOT_OF_A_LAKE = ("explain",)


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements} - {"strandline"}


def python(*words: object, env: dict[str, str]) -> Answer:
    """Type a command; a program of its own, because a package that was imported is there."""
    return strandline("-m", "strandline.cli", *words, env=env, program=sys.executable)


# ---- one list --------------------------------------------------------------------------------------------


def test_the_extras_are_those_of_the_wheel() -> None:
    """The developers' has all, and an image what it had when there were none."""
    (all_of_them,) = (each for each in LISTED["dev"] if each.startswith("strandline["))

    assert {*EXTRAS} == {*LISTED} - {"dev"} == Requirement(all_of_them).extras
    assert {*IMAGE} == {*EXTRAS} - {"connect", "notebook", "polars", "registry"}


@pytest.mark.whole
@pytest.mark.parametrize("extra", EXTRAS)
def test_a_module_of_an_extra_is_brought_by_its_packages_and_by_none_of_the_core(
    extra: str,
) -> None:
    """Otherwise the command in the hint would install nothing of it."""
    brought = packages_distributions()
    for module in EXTRAS[extra].modules:
        packages = {canonicalize_name(each) for each in brought[module]}
        assert packages & names(LISTED[extra]), module
        assert not packages & names(CORE), module


# ---- without -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small lake."""
    return small_lake(tmp_path_factory.mktemp("extras") / "lake").root.local


@pytest.mark.whole
def test_without_any_extra_every_verb_is_in_the_help_and_has_its_own(tmp_path: Path) -> None:
    """The help imports the module of every verb, and a verb that needs an extra explains itself without it."""
    env = without(tmp_path, EXTRAS)
    code = (
        "import json, sys; from tests.cli.inside import strandline; from strandline.cli.main import VERBS;"
        "print(json.dumps({verb: strandline(verb, '--help').code for verb in VERBS}))"
    )

    listed = python("--help", env=dict(env)).succeeded().out
    helped = strandline("-c", code, env=env, program=sys.executable).succeeded().out

    assert {verb for verb in VERBS if f"\n  {verb} " in listed} == {*VERBS}
    assert json.loads(helped.splitlines()[-1]) == dict.fromkeys(VERBS, 0)


def test_without_any_extra_a_lake_is_read(lake: Path, tmp_path: Path) -> None:
    """Each question is answered as it is with all of them."""
    typed = [
        [*words, *([] if words[0] in NOT_OF_A_LAKE else ["--lake", str(lake)])] for words in READING
    ]
    code = (
        "import json, sys; from tests.cli.inside import strandline;"
        "print(json.dumps([(a.code, a.printed) for a in (strandline(*each) for each in json.loads(sys.argv[1]))]))"
    )

    asked = strandline(
        "-c", code, json.dumps(typed), env=without(tmp_path, EXTRAS), program=sys.executable
    )

    bare = json.loads(asked.succeeded().out.splitlines()[-1])
    for words, (ended, printed) in zip(typed, bare, strict=True):
        assert ended == inside.strandline(*words).code, (words, printed)
        assert ended != listener.UNFORESEEN, printed
        assert "the extra" not in printed


@pytest.mark.whole
@pytest.mark.parametrize("extra", sorted({verb.extra for verb in ABOUT.values()} - {""}))
def test_a_verb_without_its_extra_answers_with_the_command_that_installs_it(
    extra: str, lake: Path, tmp_path: Path
) -> None:
    """And so does `explain`."""
    env = dict(without(tmp_path, [extra]))
    for verb, about in ABOUT.items():
        if about.extra == extra:
            answer = python(verb, "--lake", lake, env=env)
            assert answer.code == DefinitionError.exit_code, answer.printed
            assert f"error: the extra {extra} is not installed" in answer.err
            assert f"hint: install the extra: {command(extra)}." in answer.err
            explained = python("explain", verb, env=env).succeeded().out
            assert f"needs    the extra {extra}: {command(extra)}" in explained


@pytest.mark.whole
@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("polars", "lake.sql('SELECT 1 AS one').polars()"),
        ("connect", "lake['silver.device_telemetry'].spark()"),
        ("registry", "Registry('http://127.0.0.1:1', {})"),
        ("alerts", "strandline.wrong_rules"),
        ("lineage", "recorder(Lake(Path('there')), print)"),
        ("otel", "recorder(Lake(Path('there')), print)"),
        ("postgres", "Console(Lake(Path('there')), None, database=URL, note=print)"),
        ("dagster", "Console(Lake(Path('there')), None, database=None, note=print)"),
    ],
)
def test_a_program_of_ones_own_gets_the_same_sentence(
    extra: str, code: str, lake: Path, tmp_path: Path
) -> None:
    """What is reached by the interface, or by a setting alone, names its extra as well."""
    env = {**without(tmp_path, [extra]), "OPENLINEAGE_URL": "http://127.0.0.1:1"}
    env["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
    env["SPARK_REMOTE"] = "sc://127.0.0.1:1"
    script = (
        "import strandline; from pathlib import Path; "
        "from strandline.engine.runtime.profiles import SecretStr;"
        "from strandline.engine.kafka.schema_registry import Registry;"
        "from strandline.engine.service.dagster_process import Console;"
        "from strandline.engine.lake.lake import Lake;"
        "from strandline.operate.session import recorder;"
        f"URL = SecretStr('postgresql://a@127.0.0.1:1/a'); lake = strandline.lake({str(lake)!r})\n"
        "try:\n"
        f"    {code}\n"
        "except strandline.DefinitionError as error:\n"
        "    print(error)\n"
    )

    said = strandline("-c", script, env=env, cwd=tmp_path, program=sys.executable).succeeded().out

    assert said.rstrip().endswith(f"hint: install the extra: {command(extra)}.")


@pytest.mark.whole
def test_dagster_needs_no_other_extra_but_that_of_the_alerts_of_a_project(tmp_path: Path) -> None:
    """In a project with alerts their lack is said by its own name, and not by that of a module."""
    code = "from strandline_dagster.definitions import DEFINITIONS; DEFINITIONS.resolve_all_asset_keys()"
    others = [extra for extra in EXTRAS if extra not in {"alerts", "dagster"}]

    alone = strandline("-c", code, env=without(tmp_path, others), program=sys.executable)
    bare = strandline("-c", code, env=without(tmp_path, ["alerts"]), program=sys.executable)

    alone.succeeded()
    assert f"hint: install the extra: {command('alerts')}." in bare.err


# ---- what a project uses -----------------------------------------------------------------------------------


def test_doctor_names_the_extras_that_a_project_uses_and_has_not(tmp_path: Path) -> None:
    """By what its pyproject.toml asks for and by its settings; one that nothing uses is not missing."""
    make(tmp_path / "kiosk")
    env = {
        **without(tmp_path, ["dagster", "lineage", "postgres", "quality"]),
        "STRANDLINE_POSTGRES": "postgresql://a@127.0.0.1:1/a",
    }

    answer = strandline(
        "-m",
        "strandline.cli",
        "doctor",
        "--json",
        env=env,
        cwd=tmp_path / "kiosk",
        program=sys.executable,
    )

    (check,) = (each for each in json.loads(answer.out) if each["name"] == "extras")
    assert not check["ok"]
    assert "dagster is not installed: pyproject.toml asks for it" in check["detail"]
    assert "postgres is not installed: STRANDLINE_POSTGRES is set" in check["detail"]
    assert "lineage" not in check["detail"]
    assert command("dagster", "postgres", "quality") in check["hint"]


@pytest.mark.whole
def test_a_project_without_rules_and_models_imports_nothing_of_them(tmp_path: Path) -> None:
    """Neither for the help, nor for its definitions in Dagster, nor for a start of its tables."""
    make(tmp_path / "kiosk")
    script = (
        "import json, sys\n"
        "from strandline.cli import main\n"
        "main._load([])\n"
        "from strandline import catalog; catalog.tables(); catalog.models()\n"
        "main._load(['run']); import strandline.operate.run, strandline.engine.flow.runner\n"
        "from strandline_dagster.definitions import DEFINITIONS\n"
        "DEFINITIONS.resolve_all_asset_keys()\n"
        "print(json.dumps([name for name in sys.modules]))\n"
    )

    answer = strandline("-c", script, cwd=tmp_path / "kiosk", program=sys.executable).succeeded()

    loaded = json.loads(answer.out.splitlines()[-1])
    of_rules = [name for name in loaded if name.startswith(("strandline.alerting", "sigma"))]
    of_models = [name for name in loaded if name.startswith("strandline.engine.learning")]
    assert (of_rules, of_models) == ([], [])
