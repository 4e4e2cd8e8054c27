"""Rules about each field of Sysmon's event 1 that Sigma's process creation has load, and fire on the event that they mean."""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from fleet.alerts import SOURCES
from fleet.silver import process_events
from strandline.alerting.compile import holds
from strandline.alerting.sigma import read_folder
from strandline.alerting.sigma_tree import UnsupportedError
from strandline.operate.alerts.examples import contradictions
from tests.rules.case import Case

ASKED = {
    "Image": ("|endswith", r"\tool.exe", r"C:\Temp\tool.exe"),
    "CommandLine": ("|contains|all", ["--out", "--quiet"], "tool --quiet --out x"),
    "ParentImage": ("|endswith", r"\shell.exe", r"C:\shell.exe"),
    "ParentCommandLine": ("|startswith", "shell -", "shell -c tool"),
    "OriginalFileName": ("", "TOOL.EXE", "tool.exe"),
    "CurrentDirectory": ("|contains", r"\Public" + "\\", r"C:\Users\Public" + "\\"),
    "User": ("|contains", ["AUTHORI", "AUTORI"], r"NT AUTHORITY\SYSTEM"),
    "ParentUser": ("|endswith", r"\svc", r"CORP\svc"),
    "IntegrityLevel": ("", ["System", "S-1-16-16384"], "system"),
    "Hashes": ("|contains", "IMPHASH=00ff", "SHA256=11,IMPHASH=00FF"),
    "Product": ("|contains", "Desktop", "My Desktop"),
    "Company": ("", "Example", "example"),
    "Description": ("|startswith", "Runs", "Runs a library"),
    "FileVersion": ("|re", r"^10\.\d+$", "10.42"),
    "LogonId": ("", "0x3e7", "0x3E7"),
    "LogonGuid": ("|contains", "0000", "a-0000-b"),
    "TerminalSessionId": ("|lt", 2, 1),
    "ProcessGuid": ("", "{a}", "{A}"),
    "ProcessId": ("", 4, 4),
    "ParentProcessGuid": ("", "{b}", "{b}"),
    "ParentProcessId": ("|gte", 4, 8),
    "Computer": ("|endswith", ".example", "d1.example"),
    "UtcTime": ("|hour", 3, "2026-11-20T03:15:30Z"),
}
"""For each field what a rule asks of it, and a value of which that is so."""


@pytest.mark.parametrize("name", ASKED)
def test_a_rule_about_a_field_loads_and_fires(name: str) -> None:
    """And stays quiet where an agent did not send the field."""
    modifiers, asked, value = ASKED[name]
    rule = Case(name, {"a": {f"{name}{modifiers}": asked}}, [{name: value}], [{}]).rule()

    assert [event for event in rule.fires_on if not holds(rule.when, event)] == []
    assert [event for event in rule.quiet_on if holds(rule.when, event)] == []


def test_every_column_of_the_table_is_asked_for() -> None:
    """A field that is added comes with its rule."""
    assert {*ASKED} == {*process_events.FIELDS.names}
    assert SOURCES[0].fields is process_events.FIELDS


@pytest.mark.slow
def test_the_plan_that_raises_alerts_finds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """All rules at once, over rows with the columns of the table."""
    for name, (modifiers, asked, value) in ASKED.items():
        document = {
            "title": name,
            "logsource": {"category": "process_creation", "product": "windows"},
            "detection": {"a": {f"{name}{modifiers}": asked}, "condition": "a"},
            "strandline": {"fires_on": [{name: value}], "quiet_on": [{}]},
        }
        (tmp_path / f"{name}.yml").write_text(yaml.safe_dump(document))
    found = read_folder(tmp_path)

    assert [each.reason for each in found.refused] == []
    assert len(found.every) == len(ASKED)
    assert contradictions(found, spark) == []


def test_a_single_hash_is_refused_and_not_taken_for_all() -> None:
    """The rule would be loaded and never fire."""
    with pytest.raises(UnsupportedError, match="Imphash"):
        Case("one hash", {"a": {"Imphash": "00"}}, [{}], [{}]).rule()
