"""A log is read from its end, whatever its length, and followed through its rotations without a lost line."""

import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.runtime.log_files import (
    BLOCK,
    LONGEST,
    LogReader,
    backwards,
    bound,
    forwards,
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "stream.log"


def anything(_: str) -> bool:
    return True


def nothing(_: str) -> bool:
    return False


def newest(
    log: Path,
    most: int | None = None,
    wanted: Callable[[str], bool] = anything,
    old: Callable[[str], bool] = nothing,
) -> list[str]:
    with closing(LogReader(log)) as reader:
        return list(reader.newest(wanted, old, most))


def write(log: Path, *lines: str, end: str = "\n") -> None:
    with log.open("a") as file:
        file.write("\n".join(lines) + end)


@pytest.mark.whole
@given(st.lists(st.text("ab", max_size=5)), st.integers(1, 3))
def test_lines_are_the_same_backwards_and_forwards(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], wide: int
) -> None:
    """Wherever a block of the file ends; wide lines are longer than a block."""
    data = [
        (line * wide * (BLOCK // 4)).encode() if line == "ab" else line.encode() for line in lines
    ]
    file = tmp_path_factory.mktemp("logs") / "x.log"
    file.write_bytes(b"".join(line + b"\n" for line in data))

    with file.open("rb") as opened:
        found = list(backwards(opened, file.stat().st_size))
        again = list(forwards(opened, 0, file.stat().st_size))

    assert [line for _, line in reversed(found)] == data
    assert again == data
    begins = [sum(len(line) + 1 for line in data[:n]) for n in range(len(data))]
    assert [at for at, _ in reversed(found)] == begins


def test_the_newest_lines_are_found_without_the_rest(log: Path) -> None:
    """The file has a terabyte, which is mostly a hole."""
    with log.open("wb") as file:
        file.seek(2**40)
        file.write(b"\nfirst\nsecond\nthird\n")

    assert newest(log, 2) == ["second", "third"]


def test_what_is_wanted_is_searched_in_the_earlier_file_too(log: Path) -> None:
    write(log, *(f"a{n}" if n % 1_000 == 0 else f"b{n}" for n in range(10_000)))
    bound(log, most=1)
    write(log, "a10000", "b")

    found = newest(log, 3, lambda line: line.startswith("a"))

    assert found == ["a8000", "a9000", "a10000"]


def test_the_search_ends_at_the_first_line_that_is_too_old(log: Path) -> None:
    write(log, "new, and not seen", "old", "new 1", "new 2")

    assert newest(log, old=lambda line: line == "old") == ["new 1", "new 2"]


@pytest.mark.whole
def test_all_lines_are_read_without_holding_them(log: Path) -> None:
    size = 40 * BLOCK
    log.write_bytes(b"a line of the log\n" * (size // 18))

    tracemalloc.start()
    try:
        with closing(LogReader(log)) as reader:
            found = sum(1 for _ in reader.newest(anything, nothing))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found == size // 18
    assert peak < 10 * BLOCK


def test_a_line_without_an_end_does_no_harm_and_is_not_lost(log: Path) -> None:
    write(log, "whole", "par", end="")

    with closing(LogReader(log)) as reader:
        assert list(reader.newest(anything, nothing)) == ["whole"]
        assert reader.unfinished() == "par"
        write(log, "t", "next", end="")
        assert list(reader.more()) == ["part"]
        assert reader.unfinished() == "next"


def test_a_line_longer_than_any_is_read_in_pieces(log: Path) -> None:
    log.write_bytes(b"x" * 3 * LONGEST + b"\nlast\n")

    found = newest(log)

    assert found[-1] == "last"
    assert "".join(found[:-1]) == "x" * 3 * LONGEST
    assert max(map(len, found)) <= LONGEST + BLOCK


def test_no_line_is_lost_when_a_followed_log_is_copied_and_truncated(log: Path) -> None:
    write(log, *map(str, range(100)))
    with closing(LogReader(log)) as reader:
        read = list(reader.newest(anything, nothing))
        for number in range(100, 1_000):
            write(log, str(number))
            bound(log, most=200)
            if number % 7 == 0:
                read += reader.more()
        read += reader.more()

    assert read == list(map(str, range(1_000)))


def test_no_line_is_lost_when_a_followed_log_is_renamed(log: Path) -> None:
    """As Spark does with its own."""
    write(log, "1")
    with closing(LogReader(log)) as reader:
        write(log, "2")
        log.replace(log.with_name("stream.log.1"))
        write(log, "3")

        assert list(reader.more()) == ["2", "3"]


def test_a_log_that_was_deleted_has_nothing_more(log: Path) -> None:
    write(log, "1")
    with closing(LogReader(log)) as reader:
        write(log, "2")
        log.unlink()

        assert list(reader.more()) == ["2"]
        assert list(reader.more()) == []
