"""A model that cannot be trained, checked or scored is refused when its module is read; a term holds from its moment on."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from fleet.models.unusual_traffic import MODEL
from fleet.silver import network_connections as silver
from strandline.core.errors import DefinitionError
from strandline.core.model import Clusters, Demand, Feature, Forest, Logistic


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
            {
                "estimator": Clusters(),
                "label": None,
                "check": (Demand(metric="recall", least=0.1),),
            },
            "has no label, which is needed for recall",
        ),
        ({"estimator": Clusters()}, "has no natural threshold"),
        ({"estimator": Clusters(count=0)}, "declares count=0"),
        ({"estimator": Clusters(count=True)}, "declares count=True"),
        ({"estimator": Forest(depth=99)}, "declares depth=99"),
        ({"estimator": Forest(trees=0)}, "declares trees=0"),
        ({"estimator": Forest(trees=50, depth=12)}, "has a forest of up to 204,800 leaves"),
        ({"estimator": Logistic(regularization=-1)}, "declares regularization=-1"),
        ({"estimator": "forest"}, "declares estimator=forest"),
        ({"of": silver.TABLE}, "declares of=silver.network_connections"),
        ({"held_out": 0}, "declares held_out=0"),
        ({"held_out": 1}, "declares held_out=1"),
        ({"held_out": -3}, "declares held_out=-3"),
        ({"held_out": "0.3"}, "declares held_out='0.3'"),
        ({"held_out": float("nan")}, "declares held_out=nan"),
        ({"flags": Decimal(5)}, "declares flags=Decimal('5')"),
        ({"flags": Decimal(0)}, "declares flags=Decimal('0')"),
        ({"drifts": 0}, "declares drifts=0"),
        ({"features": MODEL.features[0]}, "which is no tuple of Feature"),
        ({"features": (Feature(name="score", sql="1"),)}, "has a feature of the name 'score'"),
        ({"features": (Feature(name="f", sql=" "),)}, "has no SQL for f"),
        *(
            (
                {"features": (Feature(name="f", sql="1", otherwise=text),)},
                f"declares otherwise={text!r} for f",
            )
            for text in ("n/a", "", "1e3", "0.1234567", "1" * 13, "1_000", "NaN")
        ),
        ({"check": MODEL.check[0]}, "which is no tuple of Demand"),
        ({"check": (Demand(metric="rows"),)}, "demands nothing of rows"),
        ({"check": (Demand(metric="recall", least=60),)}, "declares a bound of recall=60"),
        ({"check": (Demand(metric="rows", least=float("nan")),)}, "a bound of rows=nan"),
        (
            {"check": (Demand(metric="recall", least=0.6, most=0.5),)},
            "demands recall from 0.6 to 0.5",
        ),
    ],
)
def test_what_cannot_work_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(DefinitionError) as error:
        replace(MODEL, **change)

    assert reason in error.value.message
    assert error.value.hint


@pytest.mark.whole
def test_a_model_without_a_label_needs_a_share_that_is_unusual() -> None:
    check = (Demand(metric="rows", least=1),)

    made = replace(
        MODEL, estimator=Clusters(), label=None, flags=Decimal("0.01"), check=check, owner=""
    )

    assert made.complaints({"rows": 1}) == []
    assert made.owner == made.of.owner


def test_a_check_of_no_row_is_never_passed() -> None:
    """Of no row, no share is flagged, which is below any bound."""
    made = replace(MODEL, check=(Demand(metric="flagged", most=0.05),))

    assert made.complaints({"rows": 0, "flagged": 0.0}) == [
        "no row was held out, so nothing was measured"
    ]
    assert made.complaints({"rows": 1, "flagged": 0.0}) == []


def test_a_version_is_promoted_before_an_event_of_its_term_can_be_believed() -> None:
    """An event is believed up to five minutes ahead of its arrival, and clocks differ."""
    assert MODEL.margin == timedelta(minutes=6)
