"""A topic that is to be made before a table starts is named by the pre-flight, while a broker answers."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from strandline.core.topic import Topic
from strandline.engine.lake.lake import Lake
from tests.cli.inside import strandline
from tests.engine.records import make

pytestmark = pytest.mark.kafka


def test_a_topic_that_is_to_be_made_first_is_named(kafka: str, lake: Lake, topic: Topic) -> None:
    """A table that was added with the release and whose topic was not."""
    added = replace(bronze.TABLE, reads=(topic,))
    env = {"STRANDLINE_KAFKA": kafka, "STRANDLINE_LAKE": str(lake.root)}
    with patch.object(catalog, "tables", return_value=(added,)):
        before = strandline("preflight", env=env)
        make(kafka, topic)
        after = strandline("preflight", env=env)

    assert before.code == 2, before.printed
    assert f"make {topic.name} first" in before.out
    assert "needs its topic first" in before.out
    assert after.code == 0, after.printed
