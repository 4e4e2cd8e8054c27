"""The archive of the project's code is complete, and its name says which code it is."""

import subprocess
import sys
from pathlib import Path

import pytest

from strandline.engine.runtime import spark_on_cluster
from strandline.engine.runtime.spark_on_cluster import archive


@pytest.mark.whole
def test_another_python_imports_the_project_from_the_archive_alone(tmp_path: Path) -> None:
    """With the interface that its tables import. It is compiled, and it is made once."""
    file = archive(tmp_path)
    made_at = file.stat().st_mtime_ns
    words = (
        "import sys; sys.path[:0] = [sys.argv[1]]; import fleet.gold.ip_holds as table, strandline;"
        "print(table.__file__, strandline.__file__)"
    )

    done = subprocess.run(
        [sys.executable, "-c", words, str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    expected = [f"{file}/fleet/gold/ip_holds.pyc", f"{file}/strandline/__init__.pyc"]
    assert done.stdout.split() == expected
    assert archive(tmp_path).stat().st_mtime_ns == made_at
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_the_package_of_a_project_of_ones_own_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the name that its modules import; an executor elsewhere has neither."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("from strandline import Topic\n")
    (tmp_path / "made").mkdir()
    monkeypatch.setattr(
        spark_on_cluster, "roots", lambda: {"shop": tmp_path, "strandline": tmp_path}
    )
    file = archive(tmp_path / "made")
    words = (
        "import sys; sys.path[:0] = [sys.argv[1]]; import shop, strandline;"
        "print(shop.Topic is strandline.Topic, shop.__file__, strandline.__file__)"
    )

    done = subprocess.run(
        [sys.executable, "-c", words, str(file)],
        cwd=tmp_path / "made",
        capture_output=True,
        text=True,
        check=True,
    )

    expected = ["True", f"{file}/shop/__init__.pyc", f"{file}/strandline/__init__.pyc"]
    assert done.stdout.split() == expected


def test_a_table_in_sql_is_in_it_for_a_module_in_python_that_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What executors run is pickled by the name of its module, and they import that; an edit of the SQL is other code."""
    shop = tmp_path / "shop"
    for layer in ("", "bronze", "silver", "gold"):
        (shop / layer).mkdir()
        (shop / layer / "__init__.py").touch()
    (tmp_path / "made").mkdir()
    (shop / "bronze" / "pings.py").write_text(
        "from strandline import Ingested, Topic\nTABLE = Ingested(name='pings', reads=(Topic(name='pings'),))\n"
    )
    in_sql = shop / "silver" / "pings.sql"
    in_sql.write_text(
        "-- Pings.\n-- kind: Judged\n-- reads: bronze.pings\n-- fields: id string, at timestamp\n-- key: id\n-- event_at: at\n"
        "SELECT id, at FROM {pings} WHERE id <> 'ä'\n"
    )
    (shop / "gold" / "folded.py").write_text(
        "from shop.silver import pings\n\ndef fold() -> str:\n    return pings.TABLE.skipping[0].name\n"
    )
    monkeypatch.setattr(spark_on_cluster, "roots", lambda: {"shop": tmp_path})
    file = archive(tmp_path / "made")
    words = (
        "import sys; sys.path[:0] = [sys.argv[1]]; from shop.gold import folded;"
        "print(ascii(folded.fold()), folded.pings.__doc__, folded.pings.__file__)"
    )

    done = subprocess.run(
        [sys.executable, "-c", words, str(file)],
        cwd=tmp_path / "made",
        capture_output=True,
        text=True,
        check=True,
    )

    place = f"{file}/shop/silver/pings.py"
    assert done.stdout.strip() == rf""""WHERE id <> '\xe4'" Pings. {place}"""
    in_sql.write_text(in_sql.read_text().replace("WHERE", "WHERE NOT"))
    assert archive(tmp_path / "made") != file
