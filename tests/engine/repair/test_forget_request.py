"""What a condition says about whom to forget: columns for rows, texts for bytes that cannot be parsed."""

import re

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.repair import forget_request as module
from strandline.engine.repair.forget_request import Request


@pytest.mark.whole
@pytest.mark.parametrize(
    ("payload", "is_in"),
    [
        (b'{"device_id":"d-17","va', True),
        (b"device_id=d-17;", True),
        (b"\x08d-17\x02t", True),
        (b"\x08d-17temperature", True),
        (b'{"device_id":"d-170"', False),
        (b'{"device_id":"xd-17"', False),
        (b'{"device_id":"d-17-b"', False),
    ],
    ids=str,
)
def test_a_text_is_a_word_in_bytes(payload: bytes, is_in: bool) -> None:  # noqa: FBT001  # a parameter
    """Avro writes the length before it, and nothing after it; this is the pattern that Spark gets."""
    pattern = module._pattern("d-17")

    assert bool(re.search(pattern, payload.decode("latin-1"))) == is_in


def test_an_empty_condition_is_refused() -> None:
    """It would mean everybody."""
    with pytest.raises(DefinitionError, match="needs a condition"):
        Request.of("  ")
