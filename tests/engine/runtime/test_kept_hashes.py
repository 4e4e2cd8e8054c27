"""A hash of code that was kept is the hash that is found without it, whatever happens to the files, the clock and what was kept."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from strandline.engine.runtime import code_files
from strandline.engine.runtime.code_files import Kept, Tree
from strandline.engine.runtime.statements import hash_of_bytes
from strandline_infra import installation
from tests.architecture.tree import ROOT, copied, search_path

TEXTS = {
    "house/gold/sums.py": "from house.rates import RATE\nfrom house import silver\n\nTABLE = (RATE, silver.a.TABLE)\n",
    "house/silver/__init__.py": "from house.silver import a\n",
    "house/silver/a.py": "from house.kinds import KIND\n\nTABLE = KIND + 1\n",
    "house/rates.py": "RATE = 3\n",
    "house/kinds.py": "KIND = 1\n",
    "strandline/core/base.py": "BASE = 1\n",
    "strandline_quality/rules.py": "RULE = 1\n",
}
LONG_AGO = (1_700_000_000, 1_700_000_000)


@dataclass(frozen=True, slots=True)
class House:
    """A project of a few modules."""

    root: Path

    def put(self, name: str, text: str | None) -> None:
        """Write a module as a tool does that keeps the times of files; None takes it away."""
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            file.unlink()
            return
        file.write_text(text)
        os.utime(file, LONG_AGO)

    def tree(self) -> Tree:
        """Return its modules as a process that begins now sees them."""
        roots = dict.fromkeys(("house", "strandline", "strandline_quality"), self.root)
        return Tree(roots=roots)

    def found(self, table: str = "house/gold/sums.py") -> str:
        """Return the hash of a table without what was kept."""
        tree = self.tree()
        return tree.version(tree.reached([*tree.vocabulary(), self.root / table]))

    def asked(self, table: str = "house/gold/sums.py", *, keeps: bool = True) -> tuple[str, bool]:
        """Return the same as a process does that asks and ends, and whether it had to make it."""
        tree, made = self.tree(), []

        def make() -> str:
            made.append(table)
            return tree.version(tree.reached([*tree.vocabulary(), self.root / table]))

        kept = Kept(tree)
        answer = kept.one("version", [self.root / table], make)
        if keeps:
            kept.keep()
        return answer, bool(made)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which hashes are kept; that of the suite stays as it is."""
    monkeypatch.setattr(installation, "home", lambda: tmp_path / "home")
    return tmp_path / "home" / code_files.FOLDER


@pytest.fixture
def house(tmp_path: Path, home: Path) -> House:  # noqa: ARG001  # it is kept there
    found = House(tmp_path / "project")
    for name, text in TEXTS.items():
        found.put(name, text)
    return found


def test_what_was_found_is_not_made_again(house: House) -> None:
    """One process makes it, the next ones read what it has kept."""
    first, again = house.asked(), house.asked()

    assert first == (house.found(), True)
    assert again == (first[0], False)


EDITS: dict[str, Callable[[House], None]] = {
    "as long as before": lambda house: house.put("house/rates.py", "RATE = 4\n"),
    "of what is imported by what it imports": lambda house: house.put(
        "house/kinds.py", "KIND = 2\n"
    ),
    "of the vocabulary": lambda house: house.put("strandline/core/base.py", "BASE = 2\n"),
    "a new module of the vocabulary": lambda house: house.put(
        "strandline/core/more.py", "MORE = 1\n"
    ),
    "a module of the vocabulary is gone": lambda house: house.put(
        "strandline_quality/rules.py", None
    ),
    "a module under the name of what was none": lambda house: house.put(
        "house/rates/RATE.py", "RATE = 5\n"
    ),
    "a package beside a module of its name": lambda house: house.put(
        "house/rates/__init__.py", "RATE = 6\n"
    ),
    "a module is SQL now": lambda house: (
        house.put("house/silver/a.py", None),
        house.put("house/silver/a.sql", "SELECT 1\n"),
    )[0],
    "a module is gone": lambda house: (
        house.put("house/silver/__init__.py", "a = 1\n"),
        house.put("house/silver/a.py", None),
    )[0],
}


@pytest.mark.parametrize("edit", EDITS)
def test_no_edit_is_overlooked(edit: str, house: House) -> None:
    """The times of all files are the same before and after, and so are their sizes where the edit leaves them."""
    before, _ = house.asked()
    EDITS[edit](house)

    assert house.found() != before
    assert house.asked() == (house.found(), True)
    assert house.asked() == (house.found(), False)


def test_comments_are_no_edit_of_a_hash_and_are_read_all_the_same(house: House) -> None:
    """That a file says other bytes is enough for its hash to be made again."""
    before, _ = house.asked()
    house.put("house/rates.py", "# of the year\nRATE = 3\n")

    assert house.asked() == (before, True)


def test_after_any_edits_it_is_what_is_found_without_it(house: House) -> None:
    """Files come, go and come back as they were, under the same times; some are asked for by processes that keep nothing."""
    some = random.Random(11)  # noqa: S311  # for edits
    tables = ["house/gold/sums.py", "house/silver/a.py", "house/gold/more.py"]
    house.put(
        tables[-1], "from house.rates import *\nfrom house.extra import MORE\n\nTABLE = MORE\n"
    )
    names = [name for name in TEXTS if "gold" not in name and "__init__" not in name]
    names += [
        "house/extra.py",
        "house/extra/__init__.py",
        "house/rates/RATE.py",
        "strandline/core/late.py",
    ]
    made = 0
    for _ in range(150):
        if some.random() < 0.4:
            name = some.choice(names)
            is_there = (house.root / name).exists()
            text = f"{some.choice(['RATE', 'KIND', 'MORE'])} = {some.randrange(3)}\n"
            if some.random() < 0.3 and is_there:
                house.put(name, None)
            elif not (house.root / name).is_dir():
                house.put(name, text)
        table = some.choice(tables)
        if (house.root / table).exists():
            answer, is_made = house.asked(table, keeps=some.random() < 0.8)
            assert answer == house.found(table)
            made += is_made
    assert 20 < made < 120


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-20]),
    "zeros": lambda file: file.write_bytes(bytes(len(file.read_bytes()))),
    "one byte": lambda file: file.write_bytes(file.read_bytes().replace(b"version", b"versiom", 1)),
    "no JSON": lambda file: file.write_bytes(b"nothing\n{}"),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "gone": lambda file: file.unlink(),
    "its folder is gone": lambda file: shutil.rmtree(file.parent),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_counts_for_nothing(damage: str, house: House, home: Path) -> None:
    """It is made again, and kept again where that can be."""
    answer, _ = house.asked()
    (file,) = home.iterdir()
    DAMAGES[damage](file)

    assert house.asked() == (answer, True)
    assert house.asked()[0] == answer


def test_a_hash_that_was_exchanged_with_its_mark_is_the_only_way_to_deceive(
    house: House, home: Path
) -> None:
    """So the tests above do compare what was kept with what is found: who writes there may write the code as well."""
    house.asked()
    (file,) = home.iterdir()
    _, _, text = file.read_bytes().partition(b"\n")
    record = json.loads(text)
    record["found"] = {name: ["forged"] for name in record["found"]}
    forged = json.dumps(record).encode()
    file.write_bytes(b"\n".join([hash_of_bytes(forged).encode(), forged]))

    assert house.asked() == ("forged", False)


def test_where_nothing_may_be_written_all_is_found_anew(house: House, home: Path) -> None:
    """A file in the way of the folder stops everybody, also who may write everywhere."""
    home.parent.mkdir()
    home.write_text("in the way")

    assert house.asked() == house.asked() == (house.found(), True)


def test_a_user_without_a_home_finds_all_anew(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a pod whose user is in no list of users."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(installation, "home", homeless)

    assert house.asked() == house.asked() == (house.found(), True)


@pytest.mark.parametrize("other", ["", "0" * 64])
def test_what_another_engine_or_python_has_kept_counts_for_nothing(
    other: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have made hashes in another way. An engine whose own files cannot be read keeps none."""
    monkeypatch.setattr(code_files, "BASIS", other)
    monkeypatch.setattr(code_files, "_basis", lambda: other)
    house.asked()
    assert house.asked()[1] is not bool(other)
    monkeypatch.undo()

    monkeypatch.setattr(installation, "home", lambda: house.root.parent / "home")
    assert house.asked()[1]


def test_a_process_whose_engine_was_exchanged_keeps_nothing(
    house: House, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes hashes by modules that it has loaded, and others are on the disk by now."""
    monkeypatch.setattr(code_files, "_basis", lambda: "another one by now")
    house.asked()

    assert not home.exists()


def test_a_file_that_changes_while_it_is_looked_at_leaves_nothing(house: House, home: Path) -> None:
    """What was made of two states of a project is a hash of none."""
    tree = house.tree()
    kept = Kept(tree)

    def make() -> str:
        tree.look.content(house.root / "house/rates.py")
        house.put("house/rates.py", "RATE = 4\n")
        return tree.version(tree.reached([house.root / "house/gold/sums.py"]))

    kept.one("version", ["x"], make)
    kept.keep()

    assert not home.exists()


def test_two_that_find_other_things_keep_both(house: House) -> None:
    """The one that ends last has what the other has written meanwhile."""
    trees = [house.tree(), house.tree()]
    both = [Kept(tree) for tree in trees]
    for kept, name in zip(both, ("one", "two"), strict=True):
        kept.one(name, (), house.found)
    for kept in both:
        kept.keep()

    later = Kept(house.tree())
    for name in ("one", "two"):
        assert later.one(name, (), lambda: "made again") == house.found()


def test_of_two_that_saw_other_files_the_last_one_counts(house: House) -> None:
    """What the first has kept is of files that are no more."""
    house.asked()
    tree = house.tree()
    former = Kept(tree)
    house.put("house/rates.py", "RATE = 4\n")
    now, _ = house.asked()
    former.one("other", (), lambda: "of then")
    former.keep()

    assert house.asked() == (now, True)


def test_no_more_projects_are_kept_than_are_asked_for(
    house: House, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of a project, such as those of tests, come and go."""
    monkeypatch.setattr(code_files, "MOST_PROJECTS", 3)
    for number in range(5):
        copy = House(house.root.with_name(f"copy{number}"))
        shutil.copytree(house.root, copy.root)
        copy.asked()
        for age, file in enumerate(
            sorted(home.iterdir(), key=lambda each: each.stat().st_mtime_ns)
        ):
            os.utime(file, (1_700_000_000 + age, 1_700_000_000 + age))

    assert len([*home.iterdir()]) == 3
    assert not copy.asked()[1]


def test_no_more_answers_are_kept_than_a_bound(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the last process's own stay."""
    monkeypatch.setattr(code_files, "MOST_KEPT", 3)
    for number in range(5):
        kept = Kept(house.tree())
        kept._found.clear()
        for name in ("first", f"{number}"):
            kept.one(name, (), lambda: "found")
        kept.keep()

    assert len(Kept(house.tree())._found) <= 3


MANY = """
import sys
from pathlib import Path
from strandline_infra import installation
installation.home = lambda: Path(sys.argv[1])
from tests.engine.runtime.test_kept_hashes import House
house = House(Path(sys.argv[2]))
for number in range(60):
    house.asked(f"house/gold/{sys.argv[3]}{number % 7}.py")
"""


@pytest.mark.whole
def test_processes_that_keep_at_once_leave_one_whole_file(house: House, home: Path) -> None:
    """A reader sees one of them, or none, and never a half."""
    for who in "ab":
        for number in range(7):
            house.put(
                f"house/gold/{who}{number}.py", f"from house.rates import RATE\nN = {number}\n"
            )
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{search_path(ROOT)}"}
    writers = [
        subprocess.Popen([sys.executable, "-c", MANY, home.parent, house.root, who], env=env)
        for who in "ab"
    ]
    seen = 0
    while any(each.poll() is None for each in writers):
        for file in home.glob("*.json") if home.exists() else ():
            mark, _, text = file.read_bytes().partition(b"\n")
            assert mark.decode() == hash_of_bytes(text)
            seen += 1

    assert [each.wait() for each in writers] == [0, 0]
    assert seen > 10
    for who in "ab":
        assert house.asked(f"house/gold/{who}3.py")[0] == house.found(f"house/gold/{who}3.py")


ASKED = """
import json, sys
from strandline_infra import installation
from pathlib import Path
installation.home = lambda: Path(sys.argv[1])
from strandline.catalog import models, tables
from strandline.engine.runtime import code_files, statements

if sys.argv[2] == "kept":
    statements.parsed = None  # a module that is parsed ends the process
found = {each.id: [code_files.code_version(each), *code_files.own_texts_of(each)] for each in tables()}
found |= {each.name: code_files.model_version(each) for each in models()}
found |= {"vocabulary": code_files.vocabulary_version(), "queries": code_files.query_version()}
former = json.loads(sys.argv[3])
found["former"] = [each.id for each in tables() if each.id in former and code_files.is_code_of(each, former[each.id])]
code_files.keep()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project."""
    return copied(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def asked(copy: Path, tmp_path: Path) -> Callable[..., dict[str, object]]:
    """Return what asks a copy of the project for all that is kept of its code, in a process of its own."""
    former = (Path(__file__).with_name("former_code.json")).read_text()

    def ask(how: str = "", where: str = "home") -> dict[str, object]:
        command = [sys.executable, "-c", ASKED, str(tmp_path / where), how, former]
        env = {**os.environ, "PYTHONPATH": search_path(copy)}
        done = subprocess.run(
            command, cwd=copy, check=True, capture_output=True, text=True, env=env
        )
        return dict(json.loads(done.stdout))

    return ask


@pytest.mark.whole
def test_of_all_tables_and_models_it_is_the_same_and_no_module_is_parsed(
    asked: Callable[..., dict[str, object]], copy: Path
) -> None:
    """Also what is known of former programs; after an edit it is what a process finds that has nothing."""
    first = asked()
    assert asked("kept") == first
    assert len(first["former"]) > 5  # type: ignore[arg-type]  # a list of names
    file = copy / "jobs/fleet/silver/devices.py"
    text, times = file.read_text(), file.stat()
    try:
        file.write_text(text.replace("import", "import", 1) + "CHANGED = 1\n")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        edited = asked()
        assert edited == asked(where="nothing is here")
        assert edited != first
    finally:
        file.write_text(text)
    assert asked() == first
