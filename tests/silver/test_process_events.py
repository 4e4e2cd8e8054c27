"""silver.process_events has the events that are whole, of the declared types, in time and no copies."""

import pytest
from pyspark.sql import SparkSession

from fleet.silver.process_events import TABLE
from tests.support.read import read
from tests.support.sources import judged_as_the_truth

CLEAN = b'{"ProcessGuid": "p1", "UtcTime": "2026-11-20T08:15:30Z", "Computer": "d1", "User": "CORP\\\\u1", "Image": "C:\\\\cmd.exe", "CommandLine": "cmd.exe /c \\"dir\\"", "ParentImage": "C:\\\\explorer.exe", "ParentCommandLine": "explorer.exe", "ProcessId": 4242, "Hashes": "SHA256=00", "OriginalFileName": "Cmd.Exe", "CurrentDirectory": "C:\\\\", "IntegrityLevel": "High", "Product": "Desktop", "Company": "Example", "Description": "Command line", "FileVersion": "10.0", "LogonId": "0x3e7", "LogonGuid": "l1", "TerminalSessionId": 1, "ParentProcessGuid": "p0", "ParentProcessId": 4, "ParentUser": "CORP\\\\u2"}'


@pytest.mark.whole
def test_a_clean_payload_is_a_row(spark: SparkSession) -> None:
    """Field by field, so that a name that was mixed up is seen."""
    (row,) = read(spark, TABLE, CLEAN)

    assert row == {
        "_problem": "-",
        "ProcessGuid": "p1",
        "Computer": "d1",
        "User": "CORP\\u1",
        "Image": "C:\\cmd.exe",
        "CommandLine": 'cmd.exe /c "dir"',
        "ParentImage": "C:\\explorer.exe",
        "ParentCommandLine": "explorer.exe",
        "ProcessId": "4242",
        "Hashes": "SHA256=00",
        "OriginalFileName": "Cmd.Exe",
        "CurrentDirectory": "C:\\",
        "IntegrityLevel": "High",
        "Product": "Desktop",
        "Company": "Example",
        "Description": "Command line",
        "FileVersion": "10.0",
        "LogonId": "0x3e7",
        "LogonGuid": "l1",
        "TerminalSessionId": "1",
        "ParentProcessGuid": "p0",
        "ParentProcessId": "4",
        "ParentUser": "CORP\\u2",
        "UtcTime": "08:15:30",
        "_rescued": "-",
    }


@pytest.mark.whole
def test_what_a_vendor_adds_is_kept_as_it_was_sent(spark: SparkSession) -> None:
    """In the order of the payload, whatever its type."""
    more = CLEAN[:-1] + b', "Signed": false, "Parents": [{"Image": "x"}], "Publisher": "\xc3\xa9"}'

    (row, broken) = read(spark, TABLE, more, more + b"}")

    assert (
        row["_rescued"] == '{"Signed":"false","Parents":"[{\\"Image\\":\\"x\\"}]","Publisher":"é"}'
    )
    assert row["_problem"] == "-"
    assert broken["_problem"] == "malformed"


def test_every_kind_of_dirt_gets_its_reason(spark: SparkSession) -> None:
    """To the last event, against code that shares nothing with the table."""
    assert judged_as_the_truth(spark, TABLE)
