"""Small files are put together in steps, so that a table of any age has few and no row is written often."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.engine.lake.commit.compact import LARGE, MANY, MOST, SMALL, Choice, bins

LATER = Choice(at="at", before_ms=1_000)


def file(number: int, size: int, *, day: str = "1", written: int = 0) -> dict[str, object]:
    return {
        "path": f"{number}.parquet",
        "partitionValues": {"day": day},
        "size": size,
        "modificationTime": written,
        "stats": f'{{"minValues": {{"at": "{number:06d}"}}}}',
    }


def chosen(files: list[dict[str, object]], choice: Choice = LATER) -> list[list[str]]:
    found = bins({str(each["path"]): each for each in files}, choice)
    return [[str(each["path"]).removesuffix(".parquet") for each in one.files] for one in found]


def test_files_of_a_size_become_one_when_there_are_enough() -> None:
    few = [file(n, 10) for n in range(MANY - 1)]
    assert chosen(few) == []
    assert chosen([*few, file(99, 10)]) == [[*map(str, range(MANY - 1)), "99"]]


def test_they_are_in_the_order_of_their_times() -> None:
    assert chosen([file(n, 10) for n in (5, 3, 7, 1, 0, 2, 6, 4)]) == [[*map(str, range(8))]]


@pytest.mark.whole
def test_files_of_other_partitions_and_of_other_sizes_are_not_mixed() -> None:
    apart = [file(n, 10, day=str(n % 2)) for n in range(14)]
    assert chosen(apart) == []
    assert (
        chosen([*(file(n, 10) for n in range(7)), *(file(n, SMALL * 3) for n in range(7, 14))])
        == []
    )


def test_new_files_large_ones_and_those_a_reader_has_not_read_are_left() -> None:
    files = [file(n, 10) for n in range(8)]
    assert chosen([*files[:7], file(8, 10, written=2_000)]) == []
    assert chosen([*files[:7], file(8, LARGE)]) == []
    assert chosen(files, Choice(at="at", before_ms=1_000, apart={"3.parquet"})) == []


def test_a_result_is_no_larger_than_a_large_file_and_no_longer_than_a_process_can_open() -> None:
    many = [file(n, 100) for n in range(MOST * 2 + 3)]
    assert [len(each) for each in chosen(many)] == [MOST, MOST]
    big = [file(n, LARGE // 4) for n in range(16)]
    assert [len(each) for each in chosen(big)] == [4, 4, 4, 4]


@pytest.mark.whole
@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32))
def test_a_table_of_any_age_has_few_small_files(seed: int) -> None:
    random = Random(seed)  # noqa: S311  # sizes, not secrets
    files: dict[str, dict[str, object]] = {}
    written = rewritten = 0
    for number in range(1_500):
        size = random.randint(4_096, SMALL)
        each = file(number, size)
        files[str(each["path"])] = each
        written += size
        if number % 20 == 0:
            for one in list(bins(files, LATER)):
                for gone in one.files:
                    files.pop(gone["path"])
                result = {
                    **one.files[0],
                    "path": f"m{number}-{one.files[0]['path']}",
                    "size": one.size,
                }
                files[str(result["path"])] = result
                rewritten += one.size
    small = [each for each in files.values() if int(str(each["size"])) < LARGE // 2]
    assert len(small) < 60
    assert rewritten < 8 * written
