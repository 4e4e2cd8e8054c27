"""Clients that a broker knows by their certificates or their tokens: both of ours, the C client and Spark's, by one set of options."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from cryptography.hazmat.primitives.serialization import PrivateFormat
from pyspark.sql import SparkSession

from fleet.bronze import user_actions
from strandline.core.errors import DefinitionError, LakeError
from strandline.core.stateful import AvailableNow
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka.broker import check_reachable
from strandline.engine.kafka.slices import ends_of
from strandline.engine.kafka.topic_log import java_options, offsets_of
from strandline.engine.lake.lake import Lake
from strandline.engine.service.backlog import GroupOffsets, group_of
from tests.engine.records import make, put
from tests.support import secured_broker
from tests.support.secured_broker import SecuredBroker

pytestmark = pytest.mark.kafka
ROWS = 30


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker.running(tmp_path_factory.mktemp("secured")) as found:
        yield found


def address_of(secured: SecuredBroker, by: str) -> tuple[str, dict[str, str]]:
    known = {
        "certificate": (secured.mtls, secured.by_certificate),
        "token": (secured.token, secured.by_token),
    }
    return known[by]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["certificate", "token"])
def test_a_table_is_filled_counted_and_shown_by_who_it_is(  # noqa: PLR0913, PLR0917  # a broker, a way, a topic, a lake, Spark and a clock
    secured: SecuredBroker,
    by: str,
    topic: Topic,
    lake: Lake,
    spark: SparkSession,
    clock: Callable[[], datetime],
) -> None:
    """Spark reads the records, the C client finds their ends, and the consumer group is written."""
    address, options = address_of(secured, by)
    make(secured.plain, topic)
    put(secured.plain, topic, [(n % 2, n) for n in range(ROWS)])
    table = replace(user_actions.TABLE, reads=(topic,))
    said = list[str]()
    groups = GroupOffsets(
        lake, "{table}." + topic.name, address=lambda: address, options=options, says=said.append
    )
    site = Site(spark=spark, clock=clock, address=address, options=options, record=groups.record)

    run(table, AvailableNow(), lake, site=site)
    groups.drain(20)

    sheet = balance(table, lake)
    assert sheet.balanced
    assert sheet.rows == ROWS
    assert sum(each.lag for each in ends_of(table, lake, address, options).values()) == 0
    name = group_of("{table}." + topic.name, table.id, lake)
    shown = offsets_of(secured.plain, {}, name)
    assert (said, sum(shown.values())) == ([], ROWS)


@pytest.mark.parametrize(
    ("by", "change"),
    [
        (
            "certificate",
            {"ssl.certificate.location": "stranger.crt", "ssl.key.location": "stranger.key"},
        ),
        ("certificate", {"ssl.ca.location": "stranger.crt"}),
        ("token", {"sasl.oauthbearer.client.secret": "guessed"}),
    ],
    ids=["a client that it does not know", "a broker that we do not know", "a wrong secret"],
)
def test_who_is_not_known_gets_nothing(
    secured: SecuredBroker, by: str, change: Mapping[str, str]
) -> None:
    """Without it the tests above would prove nothing."""
    address, options = address_of(secured, by)
    files = {
        name: str(secured.folder / value) for name, value in change.items() if "location" in name
    }
    check_reachable(address, options)
    with pytest.raises(LakeError):
        check_reachable(address, {**options, **change, **files}, patience=3.0)


def test_a_client_without_a_certificate_gets_nothing(secured: SecuredBroker) -> None:
    options = {
        k: v
        for k, v in secured.by_certificate.items()
        if k in {"security.protocol", "ssl.ca.location"}
    }
    with pytest.raises(LakeError):
        check_reachable(secured.mtls, options, patience=3.0)


def test_a_key_that_java_cannot_read_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    secured_broker._signed(tmp_path, "old", PrivateFormat.TraditionalOpenSSL)
    files = {"ssl.certificate.location": "old.crt", "ssl.key.location": "old.key"}
    options = {name: str(tmp_path / file) for name, file in files.items()}
    with pytest.raises(DefinitionError, match="PKCS #8") as refused:
        java_options(options)
    assert "openssl pkcs8" in (refused.value.hint or "")
    with pytest.raises(DefinitionError, match=r"gone\.key"):
        java_options({**options, "ssl.key.location": str(tmp_path / "gone.key")})


def test_a_token_is_quoted_as_java_reads_it() -> None:
    options = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "lake",
        "sasl.oauthbearer.client.secret": 'quo"te\\d',
        "sasl.oauthbearer.token.endpoint.url": "https://localhost/token",
    }
    found = java_options(options)
    assert found["kafka.sasl.jaas.config"].endswith(
        'required clientId="lake" clientSecret="quo\\"te\\\\d";'
    )
    assert found["kafka.sasl.oauthbearer.token.endpoint.url"] == "https://localhost/token"
    assert not [name for name in found if "client" in name or "method" in name]


@pytest.mark.slow
def test_a_quota_makes_a_reader_slow_and_loses_nothing(
    secured: SecuredBroker,
    topic: Topic,
    lake: Lake,
    spark: SparkSession,
    clock: Callable[[], datetime],
) -> None:
    """A client is known by `client.id`, which Kafka's people set a quota for; both of our clients have it."""
    make(secured.plain, topic)
    producer = Producer({"bootstrap.servers": secured.plain, "log_level": 0})
    for number in range(60):
        producer.produce(topic.name, bytes([number]) * 50_000, partition=number % 2)
    producer.flush(20)
    options = {"client.id": "strandline-lake"}
    secured.throttle("strandline-lake", 230_000)  # it has eleven seconds of that at once
    table = replace(user_actions.TABLE, reads=(topic,))
    site = Site(spark=spark, clock=clock, address=secured.plain, options=options)

    begun = time.monotonic()
    run(table, AvailableNow(max_offsets=10), lake, site=site)
    took = time.monotonic() - begun

    sheet = balance(table, lake)
    assert (sheet.balanced, sheet.rows) == (True, 60)
    assert took > 3, f"{took:.1f} s: 3 MB, of which a quota gives 2.5 at once"
