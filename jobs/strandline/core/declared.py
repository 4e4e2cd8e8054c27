"""What is checked when a table is declared: each mistake has a sentence, and a hint that says what to change.

Nothing here starts Spark, so whether a function returns the declared columns is seen by the table's test.
The catalog adds file and line (jobs/strandline/catalog.py).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from math import inf, isfinite
from typing import TypeAlias

from strandline.core.errors import DefinitionError
from strandline.core.kind import AGES, Emit, Fresh, Kind, Layer, Window, length_of, length_of_window
from strandline.core.parse import ON_NEW_FIELD, ON_WRONG_TYPE
from strandline.core.routes import Takes, odd_kinds, shared
from strandline.core.static import Static
from strandline.core.topic import ITEM, NO_ITEMS, Skip, Topic, skips_of
from strandline_quality.expectations import FIGURES, Within
from strandline_quality.rules import Rule, hazards

SHORTEST = timedelta(hours=1)
"""The shortest retention; rows expire in steps of an hour."""

OFTENEST = timedelta(seconds=1)
"""The shortest time between two computations of provisional rows."""

TUPLES = (
    "reads",
    "key",
    "key_null_ok",
    "sensitive",
    "unmasked",
    "rules",
    "expects",
    "references",
    "static",
)


def check(table: Kind) -> None:
    """Check what every kind needs: tuples, a source, and rules of different names.

    A text in place of a tuple is a common mistake, because ``("id")`` is a text; and a list has no hash.
    """
    for name in TUPLES:
        value = getattr(table, name, ())
        if not isinstance(value, tuple):
            raise _refused(
                table,
                f"declares {name}={value}, which is no tuple",
                f"write {name}=(…,): the comma makes the tuple.",
            )
    refuse_empty(table, "reads")
    _refuse_wrong_items(table)
    refuse_short(table, "keeps", table.keeps)
    _refuse_promise(table, table.fresh)
    both = sorted({*table.sensitive} & {*table.unmasked})
    if both:
        raise _refused(
            table,
            f"declares {' and '.join(both)} both sensitive and unmasked",
            "name it in one of the two; what is sensitive is masked.",
        )
    names = Counter([each.name for each in table.rules] + [each.name for each in table.expects])
    twice = [name for name, times in names.items() if times > 1]
    if twice:
        raise _refused(
            table,
            f"has two rules of the name {' and '.join(twice)}",
            "give each a name of its own; the quarantine and the ledger count them by name.",
        )


def bound(table: Kind, function: object) -> Mapping[str, object]:
    """Return what a declaration gets for a function that knows its sources by name, as SQL does; nothing for one of Python."""
    bind = getattr(function, "bound", None)
    return bind(table) if callable(bind) else {}


def refuse_empty(table: Kind, name: str) -> None:
    """Refuse a table without sources, or without a key."""
    if not getattr(table, name):
        raise _refused(table, f"does not declare its {name}", f"add {name}=(…,) to its TABLE.")


def _refuse_wrong_items(table: Kind) -> None:
    """Refuse, among rules and expectations, what is neither."""
    wanted = {"rules": Rule, "expects": Within}
    for name, kind in wanted.items():
        for each in getattr(table, name):
            if not isinstance(each, kind):
                raise _refused(
                    table,
                    f"has {type(each).__name__} among its {name}, where each is a {kind.__name__}",
                    "`required` returns several rules: write rules=required(…), or (*required(…), …) beside others.",
                )


def refuse_other_than_static(table: Kind, found: Sequence[object]) -> None:
    """Refuse, among the static tables, what is none, and two of one name."""
    for each in found:
        if not isinstance(each, Static):
            raise _refused(
                table,
                f"has {each!r} among its static tables",
                "let `static` be (Static(…),): a table of the lake is read, or joined as a dimension.",
            )
    if twice := [each.id for each in found if isinstance(each, Static) and found.count(each) > 1]:
        raise _refused(table, f"names {twice[0]} twice", "name it once.")


def refuse_tables(table: Kind, reads: Sequence[object]) -> None:
    """Refuse to ingest anything but topics."""
    for source in reads:
        if not isinstance(source, Topic):
            raise _refused(
                table,
                f"ingests {source}, which is no topic",
                "let `reads` be Topic(name=…); a table that reads tables is of another kind.",
            )


def refuse_other_than_bronze(table: Kind, reads: Sequence[object]) -> None:
    """Refuse to judge anything but the rows of one table of bronze."""
    if len(reads) != 1 or not _is_bronze(reads[0]):
        raise _refused(
            table,
            f"judges the rows of {' and '.join(map(str, reads))}; a judged table reads one table of bronze",
            "let `reads` be the TABLE of one module of bronze, which may read several topics; "
            "a table that reads silver is Windowed, Appended, Upserted or Recomputed.",
        )


def refuse_raw_sources(table: Kind, reads: Sequence[object]) -> None:
    """Refuse rows that were not judged."""
    if table.layer is Layer.BRONZE:
        raise _refused(
            table,
            "is computed from other tables, so it is not bronze",
            "leave `layer` out for gold, or set layer=Layer.SILVER.",
        )
    for source in reads:
        if isinstance(source, Topic) or _is_bronze(source):
            raise _refused(
                table,
                f"reads {source}, whose rows are not judged",
                "declare a Judged table over it in silver, and read that.",
            )


def refuse_updated_sources(table: Kind, reads: Sequence[Kind]) -> None:
    """Refuse rows that are replaced: a stream reads appended rows only, and would fail at the first update."""
    for source in reads:
        if source.replaces_rows:
            raise _refused(
                table,
                f"reads {source.id}, whose rows are updated; a stream reads appended rows only",
                f"declare {table.id} as Recomputed, or read what {source.id} reads.",
            )


def refuse_several(table: Kind, reads: Sequence[Kind], source_count: str | None) -> None:
    """Refuse to count the rows of several sources in one column."""
    if source_count and len(reads) > 1:
        raise _refused(
            table,
            f"counts source rows, but reads {' and '.join(map(str, reads))}",
            "leave `source_count` out: the audit can compare a sum with one source only.",
        )


def refuse_null_keys(table: Kind, key: Sequence[str], may_be_null: Sequence[str]) -> None:
    """Refuse in ``key_null_ok`` a column that is not part of the key."""
    odd = [name for name in may_be_null if name not in key]
    if odd:
        raise _refused(
            table,
            f"declares that {' and '.join(odd)} may be NULL in its key, which has no such column",
            f"name columns of its `key`: {', '.join(key)}.",
        )


def refuse_window(table: Kind, window: Window) -> None:
    """Refuse a length that cannot be read."""
    try:
        length_of_window(window)
    except (ValueError, AttributeError) as error:
        raise _refused(
            table,
            f"has windows of {window!r}, which is no length of time",
            "write it as Spark reads it, such as '10 minutes' or '1 hour 30 minutes'; the days of a time zone are "
            'Day("Europe/Helsinki").',
        ) from error


def refuse_short(table: Kind, name: str, length: str | None) -> None:
    """Refuse a retention that cannot be read, or is shorter than the steps in which rows expire."""
    if length is None:
        return
    try:
        is_short = length_of(length) < SHORTEST
    except ValueError:
        is_short = True
    if is_short:
        raise _refused(
            table,
            f"declares {name}={length!r}, which is no length of time of an hour or more",
            f"write it as Spark reads it, such as {name}='400 days'; leave it out to keep rows for ever.",
        )


def _refuse_promise(table: Kind, fresh: object) -> None:
    """Refuse a promise of which no length or no kind of age can be read."""
    if fresh is None:
        return
    found = table.promise if isinstance(fresh, str) else fresh
    try:
        is_fit = isinstance(found, Fresh) and found.by in AGES and bool(found.length)
    except (ValueError, AttributeError):
        is_fit = False
    if not is_fit:
        raise _refused(
            table,
            f"promises fresh={fresh!r}, which is no age of a row",
            "write fresh='5 minutes', or fresh=Fresh('5 minutes', by='arrival').",
        )
    if table.layer is Layer.BRONZE and isinstance(found, Fresh) and found.by == "event":
        raise _refused(
            table,
            "promises an age by event, and bronze knows no time but the arrival",
            "write fresh='5 minutes', which is by arrival there; or promise it of the silver table.",
        )


def refuse_reach(table: Kind, reach: str | None) -> None:
    """Refuse a reach that cannot be read."""
    if reach is None:
        return
    try:
        length_of(reach)
    except (ValueError, AttributeError) as error:
        raise _refused(
            table,
            f"declares reach={reach!r}, which is no length of time",
            "write it as Spark reads it, such as reach='4 hours': as far as rows that meet may lie apart.",
        ) from error


def refuse_endless(table: Kind, window: Window | None, closes_at: str | None) -> None:
    """Refuse windows without an end: a backfill would not know which of them are closed."""
    if window is None:
        return
    refuse_window(table, window)
    if closes_at is None:
        raise _refused(
            table,
            "has windows, but does not declare where one ends",
            "add closes_at=…, the column with the end of a row's window.",
        )


def refuse_provisional(table: Kind, length: str | None, *, waits: bool = True) -> None:
    """Refuse provisional rows of a table that has its open windows among its rows, and an interval that cannot be read."""
    if length is None:
        return
    try:
        is_short = length_of(length) < OFTENEST
    except (ValueError, AttributeError):
        is_short = True
    if is_short:
        raise _refused(
            table,
            f"declares provisional={length!r}, which is no length of time of a second or more",
            "write it as Spark reads it, such as provisional='1 minute': how often they are computed.",
        )
    if not waits:
        raise _refused(
            table,
            "declares provisional rows, and has the windows that are not over among its rows",
            "leave `provisional` out, or add emits=Emit.ON_WATERMARK.",
        )
    if table.layer is not Layer.GOLD:
        raise _refused(
            table,
            f"declares provisional rows, and is of {table.layer}",
            "leave `provisional` out; a table of gold may have them.",
        )


def refuse_emission(
    table: Kind, emits: Emit, every: str | None, closes_at: str | None, timed: Sequence[object]
) -> None:
    """Refuse windows that would never be over, and ends of windows that cannot be read."""
    if not isinstance(emits, Emit):
        raise _refused(
            table,
            f"declares emits={emits!r}, which is no Emit",
            "write emits=Emit.ON_WATERMARK, or leave it out for on change.",
        )
    if emits is Emit.ON_CHANGE:
        if every is not None:
            raise _refused(
                table,
                f"declares every={every!r}, and computes a window at its first row",
                "add emits=Emit.ON_WATERMARK, or leave `every` out.",
            )
        return
    if closes_at is None:
        raise _refused(
            table,
            "emits a window when it is over, but does not declare where one ends",
            "add closes_at=…, the column with the end of a row's window.",
        )
    if not timed:
        raise _refused(
            table,
            "emits a window when it is over, but reads intervals alone, by which no time is over",
            "read the table whose rows are counted, or let it emit on change.",
        )
    if every is None:
        return
    try:
        is_fit = not table.local_day and timedelta(0) < length_of(every) <= table.window_length
    except (ValueError, AttributeError):
        is_fit = False
    if not is_fit:
        raise _refused(
            table,
            f"declares every={every!r}, which is no length of time up to that of a window",
            "write it as Spark reads it, such as every='10 minutes': the slide of its windows; days of a zone need none.",
        )


def refuse_rules(table: Kind, rules: Sequence[Rule]) -> None:
    """Refuse a rule that fails on some row, or does not always answer the same."""
    for rule in rules:
        for hazard in hazards(rule.holds):
            raise _refused(
                table,
                f"has the rule {rule.name}, which says {rule.holds!r}: {hazard}",
                "a rule is evaluated on rows that are not checked yet: it must answer for every row, and always the same.",
            )


def refuse_unsearchable(table: Kind, rules: Sequence[Rule]) -> None:
    """Refuse to compute a table of which a rule cannot be asked; that is its own matter, so it is no fault of a declaration.

    Raises:
        DefinitionError: A rule cannot be asked.
    """
    for rule in rules:
        if rule.refused:
            raise _refused(
                table,
                f"does not run, because of its rule {rule.name}: {rule.refused}",
                "write the expression in another way; infra/docs/linear.md has what to write instead of each sign.",
            )


def refuse_routes(table: Kind, taken: tuple[Takes, Takes], *, has_kinds: bool) -> None:
    """Refuse kinds where none are declared, and a table that takes none where they are."""
    takes, also = taken
    for name, value in (("takes", takes), ("also", also)):
        if mistake := odd_kinds(name, value):
            raise _refused(
                table,
                mistake,
                f'write {name}="order_created", several in a tuple, or all_but("order_created") for the rest.',
            )
    if not has_kinds and (takes or also):
        raise _refused(
            table,
            "takes kinds of records, but its topic does not say how kinds differ",
            'add kind=field("type") to the Topic, or leave `takes` and `also` out: the table then takes every record.',
        )
    if has_kinds and not takes and not also:
        raise _refused(
            table,
            "does not say which kinds it takes, and its topic has several",
            'add takes="order_created", several in a tuple, or takes=all_but() for every kind that no other table takes.',
        )
    if takes and also and (both := shared(takes, also)) is not None:
        raise _refused(
            table,
            f"names {repr(both) if both else 'all kinds but some'} in `takes` and in `also`",
            "name it in `takes` where the table accounts for it, in `also` where another one does.",
        )


def refuse_list(table: Kind, rows: object, names: Sequence[str]) -> None:
    """Refuse what is no name of a list, and a record that is known by it."""
    if rows is None:
        return
    if not isinstance(rows, str) or not rows or "`" in rows or "." in rows:
        raise _refused(
            table,
            f"declares rows={rows!r}, which is no column",
            'write rows="items", the column that has the list; a nested list is selected under a name, in the function that makes it.',
        )
    if rows in names:
        raise _refused(
            table,
            f"makes rows of the list {rows}, by which it knows a record or its time",
            "let `key` and `event_at` be columns of the record; a row is known by its place in the list beside them.",
        )


def refuse_list_above(table: Kind, reads: Sequence[Kind], key: Sequence[str], later: str) -> None:
    """Refuse a list of several sources, rows that are not known by their place in it, and those that wait or change later."""
    if len(reads) > 1:
        raise _refused(
            table,
            f"makes rows of a list, and reads {len(reads)} tables",
            "let a table that reads one of them make the rows, and this one read that.",
        )
    if later:
        raise _refused(
            table,
            f"makes rows of a list, and declares {later}",
            "declare that in a table above this one, which reads its rows.",
        )
    if ITEM not in key:
        raise _refused(
            table,
            f"makes rows of a list, and its key has no {ITEM}, the place of an item in the list",
            f'write key=(…, "{ITEM}") with what identifies a record, and let the function keep the column.',
        )


def refuse_bad_items(
    table: Kind, bad_items: object, rows: object, *, believes_history: bool
) -> None:
    """Refuse what is no way to treat a bad item, and one of a table whose records are rows."""
    if bad_items is None:
        return
    if bad_items != "hold":
        raise _refused(
            table,
            f"declares bad_items={bad_items!r}, which is no way to treat an item",
            'write bad_items="hold", so that a bad item is held and its record is not; without it the record is held.',
        )
    if rows is None:
        raise _refused(
            table,
            'declares bad_items="hold", and makes no rows of a list',
            'name the list: rows="items".',
        )
    if believes_history:
        raise _refused(
            table,
            'declares bad_items="hold", and believes history: whether a record of history is a copy is known only when it is '
            "written, after its items were held",
            "leave one of the two out.",
        )


def refuse_skips(table: Kind, skips: object) -> None:
    """Refuse what is no rule by which records are passed over."""
    several = skips if isinstance(skips, tuple) else (skips,)
    for each in several:
        if not isinstance(each, str | Skip) or (isinstance(each, Skip) and not each.where):
            raise _refused(
                table,
                f"has {each!r} among its skips",
                'write skips="is_test", or skips=(Skip("is_test", name="test orders"), …).',
            )
    for skip in skips_of(skips):  # type: ignore[arg-type]  # checked above
        for hazard in hazards(skip.where):
            raise _refused(
                table,
                f"passes records over where {skip.where!r}: {hazard}",
                "it is asked of rows that are not checked yet: it must answer for every row, and always the same.",
            )
    names = Counter(map(str, skips_of(skips)))  # type: ignore[arg-type]  # as above
    if twice := [name for name, times in names.items() if times > 1 or name == NO_ITEMS]:
        raise _refused(
            table,
            f"passes records over under the name {' and '.join(twice)} twice",
            f"give each rule a name of its own; {NO_ITEMS} is that of records with an empty list.",
        )


def refuse_drift(table: Kind, on_new_field: str, on_wrong_type: str, leaves: object) -> None:
    """Refuse what is no choice about fields that a payload has beside its declaration, and no path of one."""
    for name, value, words in (
        ("on_new_field", on_new_field, ON_NEW_FIELD),
        ("on_wrong_type", on_wrong_type, ON_WRONG_TYPE),
    ):
        if value not in words:
            raise _refused(
                table,
                f"declares {name}={value!r}, which is no choice",
                f"it is one of {', '.join(map(repr, words))}.",
            )
    paths = leaves if isinstance(leaves, tuple) else (leaves,)
    if not all(isinstance(each, str) for each in paths) or ("" in paths and paths != ("",)):
        raise _refused(
            table,
            f"declares leaves={leaves!r}, which is no field's path",
            'write leaves="debug", or leaves=("debug", "meta.trace", "items[].note").',
        )


def refuse_leaves(table: Kind, leaves: object, *, has_kinds: bool) -> None:
    """Refuse kinds that are left on purpose where none are declared."""
    named = (
        tuple(each for each in leaves if each is not None) if isinstance(leaves, tuple) else leaves
    )
    if mistake := odd_kinds("leaves", named):
        raise _refused(
            table,
            mistake,
            'write leaves="heartbeat", several in a tuple, or all_but(); None is what has no kind.',
        )
    if leaves and not has_kinds:
        raise _refused(
            table,
            "leaves kinds of records, but its topic does not say how kinds differ",
            'add kind=field("type") to the Topic, or leave `leaves` out.',
        )


def refuse_expectations(table: Kind, expects: Sequence[Within], *, is_judged: bool) -> None:
    """Refuse an expectation of a figure that is not measured for the table."""
    for each in expects:
        if each.aggregate is None and (each.name not in FIGURES or not is_judged):
            raise _refused(
                table,
                f"has an expectation of {each.name}, which is not measured",
                "give it an aggregate as SQL over the rows; without one, judged tables have "
                f"{', '.join(sorted(FIGURES))}.",
            )


def _is_bronze(source: object) -> bool:
    return isinstance(source, Kind) and source.layer is Layer.BRONZE


def _refused(table: Kind, sentence: str, hint: str) -> DefinitionError:
    """Return the error of a declaration; its sentence begins with the table's name."""
    return DefinitionError(f"{table.id} {sentence}", hint=hint, table=table.id)


# What is checked of the values of a model's declaration: each within its bounds, when its module is read.
#
# Spark would report most of these too, but in the middle of a training and without the name of the field; and of some it
# would report nothing: where no row is held out, a check of the rows held out has nothing to judge.


Mistake: TypeAlias = tuple[str, str]
"""What the sentence about a model says of it, and the hint."""

NUMBER = re.compile(r"[+-]?\d{1,12}(\.\d{1,6})?", re.ASCII)
"""A feature's value, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The values that a number may have.

    Args:
        least: The lowest.
        most: The highest.
        is_whole: Whether it counts something.
        has_ends: Whether it may be one of the two.
    """

    least: float = 0
    most: float = inf
    is_whole: bool = False
    has_ends: bool = True

    def mistakes(self, name: str, value: object) -> list[Mistake]:
        """Return what is wrong with the number of a field."""
        return [] if self._has(value) else [(f"declares {name}={value!r}", f"{name} is {self}.")]

    def _has(self, value: object) -> bool:
        kinds = (int,) if self.is_whole else (int, float, Decimal)
        if not isinstance(value, kinds) or isinstance(value, bool) or not isfinite(value):
            return False
        is_end = value in {self.least, self.most}
        return self.least <= value <= self.most and (self.has_ends or not is_end)

    def __str__(self) -> str:
        """Return which numbers they are."""
        kind = "a whole number" if self.is_whole else "a number"
        if self.most == inf:
            return f"{kind} {'not below' if self.has_ends else 'above'} {self.least:,g}"
        between, and_ = ("from", "to") if self.has_ends else ("between", "and")
        return f"{kind} {between} {self.least:,g} {and_} {self.most:,g}"


SHARE = Bounds(most=1)
PART = Bounds(most=1, has_ends=False)
"""A share that is neither nothing nor all."""


def no_number(name: str, text: object) -> list[Mistake]:
    """Return what is wrong with the text of a feature's value."""
    if NUMBER.fullmatch(str(text)):
        return []
    hint = "write a number as text, with at most 12 digits before the point and 6 behind it."
    return [(f"declares otherwise={text!r} for {name}, which is no value of a feature", hint)]


def no_tuple(name: str, value: object, kind: type) -> list[Mistake]:
    """Return what is wrong with a field that has several values."""
    if isinstance(value, tuple) and all(isinstance(each, kind) for each in value):
        return []
    hint = f"write {name}=({kind.__name__}(…),): the comma makes the tuple."
    return [(f"declares {name}={value!r}, which is no tuple of {kind.__name__}", hint)]
