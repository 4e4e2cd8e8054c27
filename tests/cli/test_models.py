"""A person sees which versions there are, why one is refused, and from when on the others hold."""

from collections.abc import Mapping

import pytest

from fleet.models.unusual_traffic import MODEL
from strandline.core.model import Linear, as_words
from strandline.engine.lake import shelves
from strandline.engine.lake.lake import Lake
from tests.cli.inside import strandline, succeeded

GOOD = {"rows": 900, "flagged": 0.02, "positives": 20, "precision": 0.9, "recall": 0.7, "f1": 0.8}
DAY = {
    "since": "2026-11-01T00:00:00",
    "held_out_from": "2026-11-06T00:00:00",
    "until": "2026-11-08",
}


def keep(
    lake: Lake, version: str, metrics: Mapping[str, float], label: str | None = MODEL.label
) -> None:
    """Keep a version as a training does."""
    made = {"metrics": metrics, "table": MODEL.of.id, "versions": {MODEL.of.id: 7}, **DAY}
    words = {
        "version": version,
        "features": [{"name": "f", "sql": "1"}],
        "form": as_words(Linear(intercept="0", weights=("1",))),
        "threshold": "0",
        "certificate": {
            **made,
            "code": "abc",
            "label": label,
            "at": "2026-11-08T06:00:00",
            "distributions": {},
        },
    }
    shelves.keep(lake, MODEL.name, version, words)


@pytest.fixture
def versions(lake: Lake) -> Lake:
    """Return a lake with a version that passes the check and one that does not."""
    keep(lake, "aaaa00000000", GOOD)
    keep(lake, "bbbb00000000", {**GOOD, "recall": 0.1, "rows": 12})
    return lake


def test_a_version_that_misses_the_check_is_refused_and_the_refusal_is_kept(versions: Lake) -> None:
    words = ("--lake", versions.root)

    refused = strandline("models", "promote", MODEL.name, "bbbb", *words)
    shown = succeeded("models", "show", MODEL.name, *words).out

    assert refused.code == 2
    assert "recall is 0.1, and the check demands 0.4 or more" in refused.err
    assert "rows is 12, and the check demands 500 or more" in refused.err
    assert "refused" in shown
    assert shelves.terms(versions, MODEL.name).every == ()


@pytest.mark.parametrize(
    ("label", "metrics"),
    [(None, {"rows": 900, "flagged": 0.02}), ("dst_port = 22", GOOD)],
    ids=["without a label", "of another label"],
)
def test_a_version_without_a_metric_that_the_check_now_demands_is_listed_and_refused(
    lake: Lake, label: str | None, metrics: Mapping[str, float]
) -> None:
    """The module of a model may get a label, or another check, after versions were trained."""
    keep(lake, "cccc00000000", metrics, label)
    words = ("--lake", lake.root)

    listed = succeeded("models", "list", *words).out
    certificate = succeeded("models", "show", MODEL.name, "cccc", *words).out
    refused = strandline("models", "promote", MODEL.name, "cccc", *words)

    assert "fails" in listed
    assert "precision was not measured of it; train again" in certificate
    assert refused.code == 2
    assert "precision was not measured of it; train again" in refused.err
    assert "rows is" not in refused.err


def test_a_version_holds_from_a_moment_on_until_it_is_rolled_back(versions: Lake) -> None:
    words = ("--lake", versions.root)

    promoted = succeeded(
        "models", "promote", MODEL.name, "aaaa", "--from", "2026-11-09", *words
    ).out
    listed = succeeded("models", "list", *words).out
    back = succeeded("models", "rollback", MODEL.name, "--json", *words).json
    certificate = succeeded("models", "show", MODEL.name, "aaaa", *words).out
    again = strandline("models", "rollback", MODEL.name, *words)

    assert (
        promoted
        == "promoted: version aaaa00000000 scores gold.traffic_scores from 2026-11-09T00:00:00+00:00 on\n"
    )
    assert "passes  from 2026-11-09T00:00:00" in listed
    assert (back["what"], back["version"]) == ("rolled back", None)
    assert "trained on gold.traffic_scores version 7" in certificate
    assert again.code == 2
    assert "no version of unusual_traffic is promoted" in again.err


def test_history_is_scored_from_a_moment_before_the_first_promotion(versions: Lake) -> None:
    """Which a rebuild does, and only once something is promoted."""
    words = ("--lake", versions.root)
    rescore = ("models", "rescore", MODEL.name)

    early = strandline(*rescore, "aaaa", "--from", "2026-01-01", *words)
    succeeded("models", "promote", MODEL.name, "aaaa", "--from", "2026-11-09", *words)
    unfit = strandline(*rescore, "bbbb", "--from", "2026-01-01", *words)
    late = strandline(*rescore, "aaaa", "--from", "2026-11-09", *words)
    rescored = succeeded(*rescore, "aaaa", "--from", "2026-01-01", *words).out
    held = [each.since[:10] for each in shelves.terms(versions, MODEL.name).every]
    shown = succeeded("models", "show", MODEL.name, *words).out

    assert [early.code, unfit.code, late.code] == [2, 2, 2]
    assert "no version of unusual_traffic is promoted" in early.err
    assert "recall is 0.1" in unfit.err
    assert "from 2026-11-09T00:00:00+00:00 on have the score of their time" in late.err
    assert "strandline rebuild gold.traffic_scores; strandline promote" in rescored
    assert held == ["2026-01-01", "2026-11-09"]
    assert "refused" in shown.partition("not in force")[2]
    assert "rescored" not in shown.partition("not in force")[2]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("promote", MODEL.name, ""), "no version begins with nothing"),
        (("train", "other", "--since", "2026-11-01", "--until", "2026-11-02"), "no model other"),
        (("promote", MODEL.name, "cccc"), "no version begins with cccc"),
        (("promote", MODEL.name, "aaaa", "--from", "noon"), "--from"),
        (
            ("train", MODEL.name, "--since", "2026-11-01", "--until", "2026-11-02"),
            "gold.traffic_scores does not exist",
        ),
    ],
)
def test_what_is_not_there_is_said(versions: Lake, words: tuple[str, ...], reason: str) -> None:
    answer = strandline("models", *words, "--lake", versions.root)

    assert answer.code == 2
    assert reason in answer.err
