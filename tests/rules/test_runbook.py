"""A rule's runbook is shown in its words, and a rule of a folder that is not trusted has no other file shown."""

from pathlib import Path

import pytest

from strandline.alerting.notice import is_address, words
from strandline_infra import installation

PAGE = "infra/docs/alert_rules.md"


def test_a_section_is_shown_with_its_heading_and_without_the_next() -> None:
    found = words(f"{PAGE}#when-a-rule-fires")

    assert found.startswith("## When a rule fires\n")
    assert "strandline why" in found
    assert found.count("\n## ") == 0


def test_a_comment_in_a_command_ends_no_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks as a heading does."""
    monkeypatch.setattr(installation, "top", lambda: tmp_path)
    monkeypatch.setattr(installation, "page", lambda name: tmp_path / name)
    (tmp_path / "a.md").write_text("# A\n\n## B\n\n```sh\n# first\nls\n```\nthen\n\n## C\n")

    assert words("a.md#b") == "## B\n\n```sh\n# first\nls\n```\nthen"


def test_a_page_without_a_section_or_with_an_unknown_one_is_shown_whole() -> None:
    assert words(PAGE) == (installation.ROOT / PAGE).read_text()
    assert words(f"{PAGE}#nowhere") == (installation.ROOT / PAGE).read_text()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../../../etc/passwd",
        "pyproject.toml",
        "infra/docs",
        "no/such.md",
        "a\0b",
        "x" * 9_000,
    ],
)
def test_what_is_no_page_of_the_project_is_shown_as_the_name_that_it_is(name: str) -> None:
    assert words(name) == name


def test_an_address_is_a_link() -> None:
    scheme = "https:"
    assert is_address(f"{scheme}//runbooks.example/a")
    assert not is_address(f"{scheme}//runbooks.example/a b")
    assert not is_address("javascript:alert(1)")
