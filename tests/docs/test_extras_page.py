"""The page of extras has each of them, with the verbs that need it."""

import re

from strandline.cli.groups import ABOUT
from strandline_infra.installation import EXTRAS, IMAGE
from tests.docs.pages import FOLDER

PAGE = (FOLDER / "package.md").read_text()


def test_every_extra_has_a_row_with_the_verbs_that_need_it() -> None:
    """A verb that lost its row would be refused without having been announced."""
    section = PAGE.partition("## Extras")[2].partition("## Play")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    rows = {row[0].strip(" `"): row[3] for row in lines}

    assert {*rows} == {*EXTRAS}
    for extra, needed in rows.items():
        named = {*re.findall(r"`([a-z-]+)`", needed)} & {*ABOUT}
        assert named == {verb for verb, about in ABOUT.items() if about.extra == extra}
    (image,) = re.findall(r"the image (.+)\.$", section, re.MULTILINE)
    assert re.findall(r"`(\w+)`", image) == [*IMAGE]
