"""A model that cannot be trained, checked or scored is refused when its module is read; a term holds from its moment on."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from jobs.core.errors import DefinitionError
from jobs.core.model import Clusters, Demand, Feature
from jobs.models.unusual_traffic import MODEL


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "other"}, "scores gold.traffic_scores, which does not say so"),
        ({"features": ()}, "has no feature"),
        ({"features": MODEL.features[:1] * 2}, "two of one name"),
        ({"features": (Feature(name="f", sql="bytes_out / bytes_in"),)}, "/ can throw on a row"),
        ({"features": (Feature(name="f", sql="rand()"),)}, "has another value tomorrow"),
        ({"check": ()}, "has no check, so any version could be promoted"),
        ({"check": (Demand(metric="accuracy"),)}, "checks accuracy"),
        ({"label": None}, "has no label, which is needed for its estimator and positives"),
        (
            {"estimator": Clusters(), "label": None, "check": (Demand(metric="recall"),)},
            "has no label, which is needed for recall",
        ),
        ({"estimator": Clusters()}, "has no natural threshold"),
    ],
)
def test_what_cannot_work_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(DefinitionError) as error:
        replace(MODEL, **change)

    assert reason in error.value.message


def test_a_model_without_a_label_needs_a_share_that_is_unusual() -> None:
    check = (Demand(metric="rows", least=1),)

    made = replace(
        MODEL, estimator=Clusters(), label=None, flags=Decimal("0.01"), check=check, owner=""
    )

    assert made.complaints({"rows": 0}) == ["rows is 0, and the check demands 1 or more"]
    assert made.complaints({"rows": 1}) == []
    assert made.owner == made.of.owner


def test_a_version_is_promoted_before_an_event_of_its_term_can_be_believed() -> None:
    """An event is believed up to five minutes ahead of its arrival, and clocks differ."""
    assert MODEL.margin == timedelta(minutes=6)
