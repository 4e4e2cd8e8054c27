"""A change of code changes the hash of every table whose rows it may change, and of no other."""

import ast
import gc
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from strandline import catalog

from fleet.gold import site_traffic_1h
from strandline.engine.runtime import code_files
from strandline.engine.runtime.code_files import files_of
from strandline.engine.runtime.statements import Reading, digest, parsed
from strandline.engine.runtime.statements import hashes as hashes_of
from tests.architecture.tree import ROOT, copied, search_path
from tests.support import own_model

PROGRAM = """
import json, sys
from pathlib import Path
from strandline.catalog import tables
from strandline.engine.runtime import code_files

def hashes():
    for each in (f for f in vars(code_files).values() if hasattr(f, "cache_clear")):
        each.cache_clear()
    return {table.id: code_files.code_version(table) for table in tables()}

before = hashes()
for name in sys.argv[1:]:
    file = Path(name)
    text = file.read_text()
    file.write_text(text + "CHANGED = True\\n")
    after = hashes()
    file.write_text(text)
    print(json.dumps(sorted(name for name in before if before[name] != after[name])))
"""
ABOVE_HOLDS = ["gold.attributed_connections", "gold.ip_holds", "gold.site_traffic_1h"]
OF_DEVICES = ["gold.device_daily", "gold.device_signal_10m", "gold.site_traffic_1h"]
CHANGES = {
    "jobs/fleet/gold/ip_holds.py": ABOVE_HOLDS,
    "jobs/fleet/silver/dhcp_events.py": [*ABOVE_HOLDS, "silver.dhcp_events"],
    "jobs/fleet/silver/devices.py": [*OF_DEVICES, "silver.devices"],
    "jobs/fleet/silver/user_actions.py": ["gold.confirmed_logins", "silver.user_actions"],
    "jobs/fleet/gold/device_daily.py": ["gold.device_daily"],
    "jobs/strandline/engine/service/stream_health.py": [],
    "jobs/strandline/operate/run.py": [],
}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the tables whose hash changed, by the file that was changed in a copy of the project."""
    copy = copied(tmp_path_factory.mktemp("copy"))
    command = [sys.executable, "-c", PROGRAM, *CHANGES]
    env = {**os.environ, "PYTHONPATH": search_path(copy)}
    done = subprocess.run(command, cwd=copy, check=True, capture_output=True, text=True, env=env)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(CHANGES, lines, strict=True))


@pytest.mark.parametrize("file", CHANGES)
def test_a_change_counts_for_the_tables_that_depend_on_it(
    file: str, changed: dict[str, list[str]]
) -> None:
    """Certificates, shadows and lineage carry this hash."""
    assert changed[file] == CHANGES[file]


def test_the_engine_is_no_part_of_a_table() -> None:
    """A new verb must not invalidate every certificate."""
    found = {file.relative_to(ROOT).parts[1:3] for file in files_of(site_traffic_1h.TABLE)}

    assert {("fleet", each) for each in ("gold", "silver", "bronze")} <= found
    assert ("strandline", "core") in found
    assert not {("strandline", each) for each in ("engine", "operate", "cli")} & found
    assert ("fleet", "play") not in found


OWN = """
import json
from strandline.catalog import models, tables
from strandline.engine.runtime import code_files

found = {table.id: code_files.code_version(table) for table in tables()}
print(json.dumps(found | {model.name: code_files.model_version(model) for model in models()}))
"""


def hashes(project: Path, seed: int) -> dict[str, str]:
    """Return the hash of each table and each model of a project, as a process of its own computes it."""
    environment = {**os.environ, "PYTHONPATH": search_path(ROOT), "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        [sys.executable, "-c", OWN],
        cwd=project,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout))


def test_a_model_of_a_project_of_ones_own_has_one_hash_until_its_code_changes(
    tmp_path: Path,
) -> None:
    """In every process; and its module and what this imports are no part of the table that it scores."""
    project = own_model.made(tmp_path)
    first, again = hashes(project, 1), hashes(project, 2)
    (project / "house" / "thresholds.py").write_text("LEAST = 11\n")
    imported = hashes(project, 3)
    file = project / "house" / "models" / "forced.py"
    file.write_text(file.read_text() + "CHANGED = True\n")
    own = hashes(project, 4)

    assert first == again
    assert {name for name in first if imported[name] != first[name]} == {"forced"}
    assert {name for name in first if own[name] != imported[name]} == {"forced"}


def version(folder: Path, texts: dict[str, str], *, engine: Path | None = None) -> str:
    """Return the hash of what `house/gold/sums.py` reaches, with the packages in some folders."""
    for name, text in texts.items():
        root = engine if engine and name.startswith("strandline/") else folder
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = code_files.Tree(roots={"house": folder, "strandline": engine or folder})
    return found.version(found.reached([folder / "house/gold/sums.py"]))


SUMS = '''"""Sums."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from house.rates import RATE, rounded
from strandline.core.kinds import Kind


def sums(rows: DataFrame, least: int = 10) -> DataFrame:
    """Add."""
    # as the field does
    return rows.where(F.col("n") > least).select(rounded(F.col("n") * RATE))


TABLE = Kind(name=f"s{1}" "ums", transform=sums)
'''
RATES = '''"""Rates."""

from pyspark.sql import Column
from pyspark.sql import functions as F

RATE = 3
"""Of the year."""


def rounded(value: Column) -> Column:
    return F.round(value)
'''
KINDS = "class Kind:\n    pass\n"
TEXTS = {
    "house/gold/sums.py": SUMS,
    "house/rates.py": RATES,
    "strandline/core/kinds.py": KINDS,
}
RENAMED = SUMS.replace("house.rates", "house.money.rates").replace(
    "strandline.core.kinds", "strandline.kinds"
)
ONE = SUMS.replace("from house.rates import RATE, rounded\n", "").replace(
    "\n\ndef sums", "\nRATE = 3\n\n\ndef rounded(value):\n    return F.round(value)\n\n\ndef sums"
)
SAME = {
    "comments": {**TEXTS, "house/gold/sums.py": SUMS.replace("# as the field does", "# so")},
    "docstrings": {
        **TEXTS,
        "house/gold/sums.py": SUMS.replace('"""Add."""', '"""Add all of it."""'),
        "house/rates.py": RATES.replace('"""Of the year."""\n', ""),
    },
    "the order of imports": {
        **TEXTS,
        "house/rates.py": "from pyspark.sql import functions as F\n"
        + RATES.replace("from pyspark.sql import functions as F\n", ""),
    },
    "names of modules": {
        "house/gold/sums.py": RENAMED,
        "house/money/rates.py": RATES,
        "strandline/kinds.py": KINDS,
    },
    "two modules in one": {
        "house/gold/sums.py": ONE,
        "house/rates.py": "",
        "strandline/core/kinds.py": KINDS,
    },
    "a promise of freshness": {
        **TEXTS,
        "house/gold/sums.py": SUMS + '\n\nTABLE = Windowed(name="sums", fresh="5 minutes")\n',
    },
    "provisional rows beside it": {
        **TEXTS,
        "house/gold/sums.py": SUMS + '\n\nTABLE = Windowed(name="sums", provisional="1 minute")\n',
    },
    "how a text is written": {
        **TEXTS,
        "house/gold/sums.py": SUMS.replace('f"s{1}" "ums"', "f's{1}ums'"),
    },
}
OTHER = {
    "an argument of that name elsewhere": {
        **TEXTS,
        "house/rates.py": RATES.replace("F.round(value)", "F.round(value, fresh=1)"),
    },
    "a constant": {**TEXTS, "house/rates.py": RATES.replace("RATE = 3", "RATE = 4")},
    "an operator": {**TEXTS, "house/gold/sums.py": SUMS.replace("> least", ">= least")},
    "a default": {
        **TEXTS,
        "house/gold/sums.py": SUMS.replace("least: int = 10", "least: int = 11"),
    },
    "a function of another module": {
        **TEXTS,
        "house/rates.py": RATES.replace("F.round(value)", "F.floor(value)"),
    },
    "a library's module": {
        **TEXTS,
        "house/rates.py": RATES.replace(
            "from pyspark.sql import functions as F", "from house_of import others as F"
        ),
    },
    "a library's name": {
        **TEXTS,
        "house/gold/sums.py": SUMS.replace("import DataFrame\n", "import Row as DataFrame\n"),
    },
    "which of two functions a name is": {
        **TEXTS,
        "house/gold/sums.py": SUMS.replace(
            "import RATE, rounded", "import RATE, floored as rounded"
        ),
        "house/rates.py": RATES + "\n\ndef floored(value):\n    return F.floor(value)\n",
    },
}


def test_which_of_two_modules_a_name_is_decides_the_hash(tmp_path: Path) -> None:
    """Also where both are reached, and each line of code is there in either way."""
    both = "from house import a as first, b as second\n\nTABLES = (first.TABLE, second.TABLE)\n"
    texts = {"house/a.py": "TABLE = 'a'\n", "house/b.py": "TABLE = 'b'\n"}
    swapped = both.replace("a as first, b as second", "b as first, a as second")
    ways = {"one": both, "other": swapped}
    found = {
        name: version(tmp_path / name, {**texts, "house/gold/sums.py": text})
        for name, text in ways.items()
    }

    assert found["one"] != found["other"]


@pytest.mark.parametrize("what", SAME)
def test_what_decides_no_row_decides_no_hash(what: str, tmp_path: Path) -> None:
    """A certificate lapses when the function changes, not when a reader finds it elsewhere."""
    texts = SAME[what]
    if what == "two modules in one":
        texts = {
            name: text.replace("(value: Column) -> Column", "(value)")
            for name, text in texts.items()
        }
        former = {
            name: text.replace("(value: Column) -> Column", "(value)")
            for name, text in TEXTS.items()
        }
    elif what in {"a promise of freshness", "provisional rows beside it"}:
        plain = SUMS + '\n\nTABLE = Windowed(name="sums")\n'
        former = {**TEXTS, "house/gold/sums.py": plain}
    else:
        former = TEXTS

    assert version(tmp_path / "new", texts) == version(tmp_path / "old", former)


@pytest.mark.parametrize("what", OTHER)
def test_what_decides_rows_decides_the_hash(what: str, tmp_path: Path) -> None:
    """Also where only an import is another one."""
    assert version(tmp_path / "new", OTHER[what]) != version(tmp_path / "old", TEXTS)


def test_no_folder_is_part_of_a_hash(tmp_path: Path) -> None:
    """A project may be before the engine in the order of paths or behind it, and hold the engine's environment."""
    inside = tmp_path / "house" / ".venv" / "lib"
    places = [
        (tmp_path / "a", tmp_path / "b"),
        (tmp_path / "d", tmp_path / "c"),
        (tmp_path / "house", inside),
    ]

    assert len({version(own, TEXTS, engine=engine) for own, engine in places}) == 1


EDITED = {"silver.process_events"}
"""Tables of the example whose own rows were made otherwise since: of these a certificate lapses, and of no other."""


def test_what_a_program_of_before_kept_is_still_of_this_code() -> None:
    """Its hashes are of whole files; these are of the example as the last such program had it."""
    known = json.loads(Path(__file__).with_name("former_code.json").read_text())
    today = {table.id: table for table in catalog.tables()}

    assert set(known) == set(today)
    unknown = {name for name, code in known.items() if not code_files.is_code_of(today[name], code)}
    assert unknown == EDITED
    assert not [name for name, table in today.items() if code_files.is_code_of(table, "0" * 12)]


RELEASES = json.loads(Path(__file__).with_name("releases.json").read_text())
"""What the code of each release said of the tables of the example."""


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_that_makes_the_same_rows_is_known_by_its_own_hashes(release: str) -> None:
    """A module that is merged or a kind of table that is new changes the vocabulary of all, and no row of those that were there."""
    said, today = RELEASES[release], {table.id: table for table in catalog.tables()}

    unknown = {name for name, code in said.items() if not code_files.is_code_of(today[name], code)}
    assert unknown <= EDITED
    assert not code_files.is_code_of(today["silver.devices"], said["silver.dhcp_events"])


VERSIONS = Path(__file__).with_name("versions.json")
"""What this code says of them: every table of every user has another version when the vocabulary's is another."""


def versions() -> dict[str, str]:
    """Return the versions of the example's tables, of the vocabulary and of what queries rest on."""
    found = {table.id: code_files.code_version(table) for table in catalog.tables()}
    return {
        **found,
        "vocabulary": code_files.vocabulary_version(),
        "queries": code_files.query_version(),
    }


def test_no_version_changes_by_accident() -> None:
    """Where each row is made as before, the former vocabulary is kept first.

    ``python -m tests.support.kept_release COMMIT``, of the last commit that landed, does it. Then ``python -m tests.engine.runtime.test_code_files`` writes the versions down.
    """
    assert versions() == json.loads(VERSIONS.read_text())


def test_each_release_that_is_kept_is_one_whose_hashes_are_known() -> None:
    """An archive without them would be believed and never compared."""
    assert {file.stem for file in code_files.RELEASES.glob("*.zip")} == set(RELEASES)


def test_the_former_hash_of_one_table_is_not_that_of_another() -> None:
    """What is recognised is a table's own."""
    known = json.loads(Path(__file__).with_name("former_code.json").read_text())

    assert not code_files.is_code_of(catalog.find("silver.devices"), known["silver.dhcp_events"])


PROJECT = {
    "strandline.toml": '[project]\ntables = "clicks"\n',
    "clicks/__init__.py": "",
    "clicks/bronze/__init__.py": "",
    "clicks/bronze/visits.py": """from strandline import Ingested, Topic

TABLE = Ingested(name="visits", reads=(Topic(name="visits", partitions=1),))
""",
    "clicks/silver/__init__.py": "",
    "clicks/silver/visits.py": """from pyspark.sql.types import StringType, StructType, TimestampType
from strandline import CARRIED, Judged, required

from clicks.bronze import visits as bronze
from clicks.fields import FIELDS


def visits(events):
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="visits",
    reads=(bronze.TABLE,),
    transform=visits,
    key=("visit_id",),
    event_at="at",
    rules=required("visit_id"),
)
""",
    "clicks/fields.py": """from pyspark.sql.types import StringType, StructType, TimestampType

FIELDS = StructType().add("visit_id", StringType()).add("at", TimestampType())
""",
}
OF_PROJECT = {"bronze.visits": "cee2111f1501", "silver.visits": "1c2217a7b86f"}
"""What def3662 said of its tables."""
KNOWN = """
import json, sys
from strandline.catalog import tables
from strandline.engine.runtime import code_files

former = json.loads(sys.argv[1])
print(json.dumps([each.id for each in tables() if code_files.is_code_of(each, former[each.id])]))
"""


@pytest.mark.slow
def test_a_project_of_before_is_still_of_its_code(tmp_path: Path) -> None:
    """Its own files are as they were; the vocabulary of then is in the archive. One of its tables that changes is other code."""
    for name, text in PROJECT.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def known() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", KNOWN, json.dumps(OF_PROJECT)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": search_path(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        )
        return list(json.loads(done.stdout))

    assert known() == list(OF_PROJECT)
    (tmp_path / "clicks/fields.py").write_text(PROJECT["clicks/fields.py"] + "CHANGED = True\n")
    assert known() == ["bronze.visits"]


def test_code_of_today_opens_no_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So a start pays nothing for former lakes."""
    monkeypatch.setattr(code_files, "ARCHIVE", tmp_path / "none.zip")
    monkeypatch.setattr(code_files, "_packed", lambda _: pytest.fail("an archive was opened"))
    code_files._texts.cache_clear()
    code_files._releases.cache_clear()

    assert all(
        code_files.is_code_of(each, code_files.code_version(each)) for each in catalog.tables()
    )


ODD = """
def f(a, /, b=1, *c, d: int = 2, **e):
    x = f"{a:}" f"{b!r:>{d}.{d}}" "t" f"{{}}" f"{a=}" u"\xe9\U0001fae8" f""
    match a:
        case {"k": [1, *r], **s} | P(q=2) as z: pass
        case _: ...
    try: pass
    except* E as g: pass
    async def h(): return [await i async for i in c if i]
    return -1 if (n := x[*c, 1:2]) else lambda: (yield)
class C(B, metaclass=M): y: int
"""


def test_every_version_of_python_gives_the_same_hash() -> None:
    """3.11, 3.12 and 3.13 have given this one; their syntax trees differ in fields that are new or empty, and in f-strings."""
    assert digest(list(hashes_of(Reading(ODD.encode(), str), {}, {}))) == "014686852e35ec4472ed4835"


def test_threads_that_read_modules_at_once_disturb_each_other_in_nothing() -> None:
    """The parser of CPython 3.11 counts its depth for all threads together; a run and a stream read code in a thread a table.

    A collection of garbage lets another thread in, in the middle of a parse.
    """
    text, often = Path(ast.__file__).read_bytes(), gc.get_threshold()

    def lets(*_: object) -> None:
        time.sleep(0)

    gc.callbacks.append(lets)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = [*pool.map(lambda _: len(parsed(text).body), range(8))]
    finally:
        gc.callbacks.remove(lets)
        gc.set_threshold(*often)

    assert len({*found}) == 1


if __name__ == "__main__":
    VERSIONS.write_text(json.dumps(versions(), indent=1, sort_keys=True) + "\n")
