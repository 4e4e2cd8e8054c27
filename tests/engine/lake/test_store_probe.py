"""A store that ignores conditions is refused before the first write; one that honours them is asked once."""

from collections.abc import Iterator

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.lake import lake
from strandline.engine.lake.lake import FOLDER, Lake
from strandline.engine.lake.place import Place
from tests.support.relay import relaying
from tests.support.s3_server import BUCKET, S3Server, running


@pytest.fixture(scope="module")
def lenient(
    s3: S3Server,  # noqa: ARG001  # skips where there is no such server
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[S3Server]:
    """Return a server that takes unsigned requests: a signature covers the header that a proxy would drop."""
    with running(tmp_path_factory.mktemp("lenient"), is_open=True) as found:
        yield found.server


@pytest.mark.parametrize("header", ["If-None-Match", "If-Match"])
def test_a_store_that_ignores_a_condition_is_refused_and_nothing_is_written(
    lenient: S3Server, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    """Here a proxy drops the header on its way to a server that honours it."""
    root = Place.of(f"s3a://{BUCKET}/{header}")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    with relaying(lenient.address, drops=header) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        with pytest.raises(DefinitionError, match="the second would overwrite") as refused:
            Lake(root).open_for_writing()
        assert "SeaweedFS" in refused.value.hint
        assert [*root.files()] == []

    monkeypatch.setenv("AWS_ENDPOINT_URL", lenient.address)
    Lake(root).open_for_writing()


def test_a_store_is_asked_once(bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has answered is in the lake; the probe is gone."""
    Lake(bucket).open_for_writing()
    (seen,) = (bucket / FOLDER).files()

    def fails(_: Place) -> bool:
        raise AssertionError

    monkeypatch.setattr(lake, "_honours_conditions", fails)
    Lake(bucket).open_for_writing()
    assert seen.name.endswith(".json")
    with pytest.raises(AssertionError):
        lake.refuse_unsafe(bucket, remembers=False)


def test_a_probe_that_does_not_remember_leaves_nothing(bucket: Place) -> None:
    """`strandline doctor` makes no lake of a place that has none."""
    lake.refuse_unsafe(bucket, remembers=False)

    assert [*bucket.files()] == []
