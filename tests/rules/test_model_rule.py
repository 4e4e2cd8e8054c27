"""The rule of a model runs beside others about its table, and a promotion changes its plan and not its identity."""

from dataclasses import replace
from datetime import timedelta

from fleet.models.unusual_traffic import MODEL
from strandline.alerting.alert_rule import AlertRule, model_rule, model_source
from strandline.alerting.live import feeds
from strandline.core.model import Linear, Term, Trained
from tests.support.rows import NOON

ONE = Trained(
    version="one",
    features=("CAST(bytes_out AS DECIMAL(18,6))",),
    form=Linear(intercept="0", weights=("1",)),
    threshold="5",
)


def ruled(*terms: Term) -> AlertRule:
    rule = model_rule(MODEL, terms)
    assert rule is not None
    return rule


def test_a_promotion_gives_the_feed_another_version_and_the_rule_the_same() -> None:
    """So it is handed over, and an event that has an alert gets no second one."""
    first = ruled((NOON, ONE))
    second = ruled((NOON, ONE), (NOON + timedelta(hours=1), None))

    assert (first.id, first.version) == (second.id, second.version)
    (before,), (after,) = feeds([first]), feeds([second])
    assert before.id == after.id == "live.unusual_traffic"
    assert before.version != after.version


def test_a_model_has_no_rule_before_its_first_promotion_or_without_a_table_of_events() -> None:
    assert model_rule(MODEL, ()) is None
    assert model_rule(replace(MODEL, alerts=False), ((NOON, ONE),)) is None
    assert model_source(MODEL) is not None
