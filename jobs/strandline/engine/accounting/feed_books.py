"""The books of a feed: each epoch begins where the one before ended, in the topics that it reads and in those it writes."""

from collections.abc import Iterator, Mapping
from typing import Any

from strandline.engine.accounting.plain_books import PlainBooks
from strandline.engine.storage.ledger import Entry, Offsets


class FeedBooks(PlainBooks):
    """Follows the ledger of a feed."""

    read: Mapping[str, int]
    """The offsets up to which its last epoch has read."""
    counted: Mapping[str, int]
    """Those up to which its records were counted."""

    def encoded(self) -> dict[str, Any]:
        """Return what is carried forward beside the sums, as JSON."""
        return {**super().encoded(), "read": self.read, "counted": self.counted}

    def _restore(self, sheet: Mapping[str, Any]) -> bool:
        self.read = sheet.get("read", {})
        self.counted = sheet.get("counted", {})
        return super()._restore(sheet)

    def _add(self, version: int, entry: Entry) -> None:  # noqa: ARG002  # epochs are known by their numbers
        self.find(_gaps(entry, "read", entry.offsets, self.read))
        self.find(_gaps(entry, "counted", entry.sent, self.counted))
        if entry.dropped_by_watermark:
            self.find([_dropped(entry)])
        self.read = {part: end for part, (_, end) in entry.offsets.items()}
        self.counted = {part: end for part, (_, end) in entry.sent.items()}


def _dropped(entry: Entry) -> str:
    ranges = ", ".join(f"{part} [{first}, {end})" for part, (first, end) in entry.offsets.items())
    return (
        f"epoch {entry.batch} dropped {entry.dropped_by_watermark:,} events below the watermark that rules had found, "
        f"among {ranges}; `strandline rules backtest` over their time raises what was missed"
    )


def _gaps(entry: Entry, what: str, ranges: Offsets, ends: Mapping[str, int]) -> Iterator[str]:
    """Yield the gaps and overlaps between an epoch and the one before."""
    for part, end in ends.items():
        if part in ranges and ranges[part][0] != end:
            yield f"epoch {entry.batch} {what} {part} from offset {ranges[part][0]}, where the one before ended at {end}"
