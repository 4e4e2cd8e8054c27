"""Who holds a lease is seen without taking it, in a folder and on an object store."""

from pathlib import Path

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease_records
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import take
from strandline.engine.runtime.processes import own
from tests.support.watched_lake import lease_of_another

pytestmark = pytest.mark.whole


def test_in_a_folder_the_kernel_says_whether_it_is_held(tmp_path: Path) -> None:
    """Its file outlives the holder, and names the last one."""
    lake = Lake(tmp_path)
    with lease_of_another(lake, "silver.a.backfill") as pid:
        (held,) = lease_records(lake)
    (free,) = lease_records(lake)

    assert (held.table, held.role, held.is_held) == ("silver.a", "backfill", True)
    assert held.holder["pid"] == pid
    assert (free.is_held, free.holder) == (False, {})


def test_on_a_store_the_object_has_its_holder_and_their_number(bucket: Place) -> None:
    """Read while it is held, it stays with its holder."""
    lake = Lake(bucket)
    assert [*lease_records(lake)] == []
    first = take(lake.lease_of("silver.a"))
    assert first is not None
    first.release()
    second = take(lake.lease_of("silver.a"))
    assert second is not None

    (held,) = lease_records(lake)
    second.refuse_lost()
    second.release()
    (free,) = lease_records(lake)

    assert (held.table, held.role, held.epoch, held.is_held) == ("silver.a", "writer", 2, True)
    assert held.holder["pid"] == own()["pid"]
    assert held.changed_at is not None
    assert (free.is_held, free.epoch, free.holder) == (False, 2, {})
