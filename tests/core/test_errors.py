"""The text of an error is what is wrong, then what to do."""

import pytest

from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError


@pytest.mark.whole
def test_an_error_reads_as_a_sentence_and_a_hint() -> None:
    """The command line prints exactly this."""
    error = DataError("the table is gone", hint="look at the disk.", table="silver.x")

    assert str(error) == "the table is gone\n\nhint: look at the disk."
    assert error.fields == {"table": "silver.x"}


@pytest.mark.parametrize("kind", [DefinitionError, TransientError, DataError])
def test_each_kind_has_an_exit_code_of_its_own(kind: type[LakeError]) -> None:
    """A scheduler decides by it whether to try again."""
    assert issubclass(kind, LakeError)
    assert kind.exit_code not in {0, LakeError.exit_code}
    kinds = {other.exit_code for other in (DefinitionError, TransientError, DataError)}
    assert len(kinds) == 3
