"""Each variant of a payload is spoilt in the one way of its name."""

import json

import pytest

from fleet.play.plan import MALFORMED, MISSING, UNKNOWN_FIELD, WRONG_TYPE, Variant

CLEAN = (
    b'{"event_id": "0f", "device_id": "dev-00042", "signal": "temperature", "value": -21.37, '
    b'"event_at": "2026-11-20T08:15:30.123Z", "meta": {"firmware": "1.4.2", "seq": 17}}'
)
ALL = (*MALFORMED, *WRONG_TYPE, *MISSING, *UNKNOWN_FIELD)


def name(variant: Variant) -> str:
    return variant.name


def changed(variant: Variant) -> dict[str, tuple[object, object]]:
    before, after = json.loads(CLEAN), json.loads(variant.spoil(CLEAN, 3))
    return {
        field: (before.get(field, "absent"), after.get(field, "absent"))
        for field in before.keys() | after.keys()
        if before.get(field, "absent") != after.get(field, "absent")
    }


@pytest.mark.whole
@pytest.mark.parametrize("variant", MALFORMED, ids=name)
@pytest.mark.parametrize("salt", [0, 1, 57, 10**9])
def test_a_malformed_payload_is_not_one_json_object(variant: Variant, salt: int) -> None:
    """Python's parser takes NaN unless a hook refuses it, and an array is no object."""
    payload = variant.spoil(CLEAN, salt)

    try:
        found = json.loads(payload.decode("utf-8"), parse_constant=lambda text: [text])
    except ValueError:
        found = None
    assert not isinstance(found, dict) or "NaN" in payload.decode()
    assert variant.reason == "malformed"


def test_a_truncated_payload_is_cut_somewhere_and_never_whole() -> None:
    """A cut at the very end would be a good event, one at the start an empty one."""
    truncated = next(variant for variant in MALFORMED if variant.name == "truncated")

    lengths = {len(truncated.spoil(CLEAN, salt)) for salt in range(10 * len(CLEAN))}

    assert lengths == set(range(1, len(CLEAN)))


@pytest.mark.parametrize("variant", WRONG_TYPE, ids=name)
def test_a_wrong_type_touches_one_field_and_leaves_it_there(variant: Variant) -> None:
    """Two wrong fields would make the one reason ambiguous; an absent one would be another reason."""
    ((field, (_, after)),) = changed(variant).items()

    assert variant.name.startswith(field)
    assert after is not None
    assert after != "absent"
    assert variant.reason == "wrong_type"


@pytest.mark.whole
@pytest.mark.parametrize("variant", MISSING, ids=name)
def test_a_missing_field_is_absent_or_null(variant: Variant) -> None:
    """To a table both are the same; to a parser they are not."""
    ((field, (_, after)),) = changed(variant).items()

    assert variant.reason == f"missing:{field}"
    assert after in ("absent", None)


@pytest.mark.parametrize("variant", UNKNOWN_FIELD, ids=name)
def test_an_unknown_field_leaves_every_declared_one_alone(variant: Variant) -> None:
    """Such an event is as good as any."""
    before, after = json.loads(CLEAN), json.loads(variant.spoil(CLEAN, 3))

    assert variant.reason is None
    assert before != after
    assert {**after, **before} == {**after, **before, "meta": before["meta"]}
    assert all(after[field] == before[field] for field in before.keys() - {"meta"})
    assert before["meta"].items() <= after["meta"].items()


def test_each_variant_has_a_name_of_its_own() -> None:
    """A name that occurs twice could not be looked up."""
    assert len({variant.name for variant in ALL}) == len(ALL)
