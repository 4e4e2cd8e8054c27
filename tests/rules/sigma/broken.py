"""Fifty files that are no rules, each with a word of the reason that must be given for it; written by tests."""

import os
from pathlib import Path

GOOD = """
title: {title}
id: 929a690e-bef0-4204-a928-{number:012d}
logsource: {{category: process_creation}}
detection:
    a:
        Image|endswith: '\\{number}.exe'
    condition: a
"""


def rule(
    detection: str, *, head: str = "title: x", source: str = "category: process_creation"
) -> str:
    """Return a rule with a detection as YAML in one line."""
    return f"{head}\nlogsource: {{{source}}}\ndetection: {detection}\n"


def about(key: str, value: str) -> str:
    """Return a rule with one field."""
    return rule(f"{{a: {{{key}: {value}}}, condition: a}}")


def conditioned(condition: str) -> str:
    """Return a rule with a condition."""
    return rule(f"{{a: {{Image: x}}, b: {{User: y}}, condition: {condition}}}")


DEEP = "[" * 10_000 + "]" * 10_000
BOMB = "a: &a [x, x]\n" + "\n".join(
    f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, *{'a' if n == 0 else f'b{n - 1}'}]"
    for n in range(40)
)

TEXTS: dict[str, tuple[str | bytes, str]] = {
    # Files.
    "empty.yml": ("", "empty"),
    "blank.yml": ("\n---\n---\n", "empty"),
    "comment.yml": ("# nothing\n", "empty"),
    "binary.yml": (bytes(range(256)), "UTF-8"),
    "elf.yml": (b"\x7fELF" + b"\x00" * 512, "no YAML"),
    "utf16.yml": ("title: x".encode("utf-16"), "UTF-8"),
    "ten_megabytes.yml": (b"title: x\n" + b"#" * 10_000_000, "larger than"),
    "text.yml": ("just a sentence", "no mapping"),
    "list.yml": ("- a\n- b", "no mapping"),
    "numbers_as_keys.yml": ("1: 2", "no mapping"),
    "tab.yml": ("title: x\n\tlogsource: y", "no YAML"),
    "open_bracket.yml": ("title: [x", "no YAML"),
    "open_quote.yml": ("title: 'x", "no YAML"),
    "twice.yml": ("title: x\ntitle: y", "Duplicate key"),
    "python.yml": ("title: !!python/object/apply:os.system ['true']", "no YAML"),
    "key_is_a_list.yml": ("? [a, b]\n: c", "no YAML"),
    "impossible_date.yml": ("date: 2026-13-45\ntitle: x", "no YAML"),
    "bomb.yml": (BOMB, "alias"),
    "circle.yml": ("a: &a [*a]", "alias"),
    "deep.yml": (f"title: {DEEP}", "deep"),
    "endless.yml": ("x: [" + "a, " * 30_000 + "]", "more than"),
    # Rules.
    "no_title.yml": (rule("{a: {Image: x}, condition: a}", head="author: x"), "title"),
    "long_title.yml": (rule("{a: {Image: x}, condition: a}", head=f"title: {'x' * 300}"), "title"),
    "no_source.yml": ("title: x\ndetection: {a: {Image: x}, condition: a}", "log source"),
    "other_source.yml": (rule("{a: {x: y}, condition: a}", source="product: aws"), "no table"),
    "source_is_text.yml": (
        "title: x\nlogsource: y\ndetection: {a: {Image: x}, condition: a}",
        "log ?source",
    ),
    "no_detection.yml": ("title: x\nlogsource: {category: process_creation}", "detection"),
    "detection_is_text.yml": (rule("x"), "etection|no mapping|cannot read"),
    "empty_detection.yml": (rule("{a: {}, condition: a}"), "empty"),
    "no_condition.yml": (rule("{a: {Image: x}}"), "condition"),
    "condition_of_nothing.yml": (conditioned("c"), "not defined"),
    "pattern_of_nothing.yml": (conditioned("1 of c*"), "match any"),
    "condition_is_broken.yml": (conditioned("a and"), "xpected"),
    "condition_is_a_number.yml": (conditioned("5"), "no text"),
    "condition_with_a_pipe.yml": (conditioned("a | count() > 5"), "pipe"),
    "condition_is_long.yml": (conditioned("'" + "a or " * 2_000 + "a'"), "characters"),
    "condition_is_deep.yml": (conditioned("'" + "(" * 200 + "a" + ")" * 200 + "'"), "nested"),
    "bad_id.yml": (rule("{a: {Image: x}, condition: a}", head="title: x\nid: seven"), "UUID"),
    "bad_level.yml": (
        rule("{a: {Image: x}, condition: a}", head="title: x\nlevel: terrible"),
        "level",
    ),
    "bad_tag.yml": (rule("{a: {Image: x}, condition: a}", head="title: x\ntags: [nodot]"), "tag"),
    "bad_date.yml": (rule("{a: {Image: x}, condition: a}", head="title: x\ndate: soon"), "date"),
    "correlation.yml": ("title: x\ncorrelation: {type: event_count}", "without rule references"),
    "filter.yml": (
        "title: x\nlogsource: {category: process_creation}\nfilter: {rules: any}",
        "filter",
    ),
    "global.yml": ("action: global\ntitle: x", "action"),
    # Fields, modifiers and values.
    "unknown_field.yml": (about("Colour", "red"), "unknown field Colour"),
    "unknown_reference.yml": (about("Image|fieldref", "Colour"), "unknown field Colour"),
    "unknown_modifier.yml": (about("Image|sounds_like", "x"), "[Uu]nknown modifier"),
    "placeholder.yml": (about("User|expand", "'%Administrators%'"), "placeholder"),
    "cidr.yml": (about("Image|cidr", "10.0.0.0/99"), "CIDR"),
    "gt_of_a_text.yml": (about("ProcessId|gt", "many"), "incompatible|Compare|number"),
    "exists_perhaps.yml": (about("Image|exists", "perhaps"), "incompatible|xists"),
    "base64_of_a_wildcard.yml": (about("Image|base64", "'a*'"), "wildcards"),
    "five_dashes.yml": (about("Image|windash", "'-a -b -c -d -e'"), "windash"),
    "text_of_a_time.yml": (about("UtcTime|startswith", "'2026'"), "is a time"),
    "hour_of_a_text.yml": (about("Image|hour", "5"), "no time"),
    "huge_number.yml": (about("ProcessId|gt", "1" + "0" * 40), "digits"),
    "reference_to_time.yml": (about("Image|fieldref", "UtcTime"), "time"),
    # Regular expressions.
    "expression_open.yml": (about("Image|re", "'(a'"), "regular expression|Regular expression"),
    "expression_written_out.yml": (about("Image|re", "'((a{1000}){1000}){9}'"), "expression"),
    "expression_looks_ahead.yml": (about("Image|re", "'a(?=b)'"), "expression"),
    "expression_possessive.yml": (about("Image|re", "'a++'"), "expression"),
    "expression_reference.yml": (about("Image|re", r"'(a)\1'"), "expression"),
    "expression_property.yml": (about("Image|re", r"'\p{Greek}'"), "expression"),
    "expression_flags_inside.yml": (about("Image|re", "'a(?i)b'"), "expression"),
    # Examples.
    "example_of_nothing.yml": (
        about("Image", "x") + "strandline: {fires_on: [{Colour: red}]}",
        "no column",
    ),
    "example_of_another_type.yml": (
        about("Image", "x") + "strandline: {fires_on: [{ProcessId: red}]}",
        "bigint",
    ),
    "example_is_text.yml": (about("Image", "x") + "strandline: {fires_on: red}", "list of events"),
    "own_key.yml": (about("Image", "x") + "strandline: {colour: red}", "mapping of"),
}
"""Name of the file, its content, and a pattern of the reason."""

OTHERS = {
    "folder.yml": "opened|regular",
    "pipe.yml": "regular file",
    "link_in_a_circle.yml": "opened",
    "link_to_nothing.yml": "opened",
    "link_out.yml": "out of the folder",
    "link_to_parent.yml": "out of the folder|regular",
}
"""Files that have no content."""


def write(folder: Path) -> dict[str, str]:
    """Write all of them; return a pattern of the reason of each."""
    for name, (content, _) in TEXTS.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    os.mkfifo(folder / "pipe.yml")
    (folder / "link_in_a_circle.yml").symlink_to("link_in_a_circle.yml")
    (folder / "link_to_nothing.yml").symlink_to("nothing.yml")
    (folder / "link_out.yml").symlink_to("/etc/hostname")
    (folder / "link_to_parent.yml").symlink_to("..")
    (folder / "folder.yml").mkdir()
    (folder / "folder.yml" / "again").symlink_to(folder)
    (folder / "same_id_1.yml").write_text(GOOD.format(title="first", number=1))
    (folder / "same_id_2.yml").write_text(GOOD.format(title="second", number=1))
    reasons = {name: reason for name, (_, reason) in TEXTS.items()}
    others = {name: reason for name, reason in OTHERS.items() if name != "folder.yml"}
    return {**reasons, **others, "same_id_2.yml": "that of same_id_1.yml"}
