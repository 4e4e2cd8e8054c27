"""What a table rests on is walked once, however many ways lead there."""

from collections import Counter
from collections.abc import Iterable

from strandline import catalog

from strandline.core.table import Table
from strandline.engine.lake.completeness import every_need, with_below


def test_each_is_there_once_and_before_what_it_needs() -> None:
    asked = Counter[str]()

    def needs(table: Table) -> Iterable[Table]:
        asked[table.id] += 1
        return every_need(table)

    found = [each.id for each in with_below(*catalog.tables(), *catalog.tables(), sources=needs)]

    assert sorted(found) == sorted(each.id for each in catalog.tables())
    assert set(asked.values()) == {1}
    for table in catalog.tables():
        for source in table.needs:
            assert found.index(table.id) < found.index(source.id)


def test_what_is_only_joined_is_no_part_unless_it_is_asked_for() -> None:
    table = catalog.find("gold.device_signal_10m")
    joined = next(each for each in table.needs if each not in table.upstream)

    assert joined not in with_below(table)
    assert joined in with_below(table, sources=every_need)
    assert with_below(table)[0] is table
