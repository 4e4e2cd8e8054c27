"""The specification's table of modifiers, whole."""

from tests.rules.event_cases import EVENT_CASES
from tests.rules.regex_cases import REGEX_CASES
from tests.rules.text_cases import TEXT_CASES

CASES = (*TEXT_CASES, *REGEX_CASES, *EVENT_CASES)
