"""The readings of devices that were not updated yet: one line of cells, other names, other units.

A clean payload is::

    9f…32 hex digits,dev-00207,temp,70.43,1763626530123,1.1.0,17

Temperatures are in Fahrenheit, pressures in kilopascals.
"""

import numpy as np

from fleet.play.kinds import Kind, Numbers, Spoil, Variant
from fleet.play.plan import Plan
from fleet.play.player import Player, texts

LINE = b"%b,%b,%b,%b,%d,%b,%d"
CELLS = 7
SIGNALS = (
    # Name in the line, lowest and highest value in units of the last digit, digits.
    (b"temp", -400, 11_300, 2),
    (b"hum", 150, 980, 1),
    (b"batt", 5, 101, 0),
    (b"press", 960_000, 1_045_000, 4),
    (b"vibr", 0, 40_000, 4),
)
FIRMWARE = (b"1.0.7", b"1.1.0")
SHARE_OF_DEVICES = 10
"""The number of other devices for each such device."""


def _cell(number: int, text: bytes) -> Variant:
    return Variant(
        name=f"cell_{number}_{text.decode()}", reason="wrong_type", spoil=_putting(number, text)
    )


def _empty(number: int, field: str) -> Variant:
    return Variant(name=f"{field}_empty", reason=f"missing:{field}", spoil=_putting(number, b""))


def _putting(number: int, text: bytes) -> Spoil:
    def spoil(clean: bytes, _: int) -> bytes:
        cells = clean.split(b",")
        cells[number] = text
        return b",".join(cells)

    return spoil


VARIANTS = {
    Kind.MALFORMED: (
        Variant(
            name="cells_missing",
            reason="malformed",
            spoil=lambda clean, salt: b",".join(clean.split(b",")[: 1 + salt % (CELLS - 1)]),
        ),
        Variant(name="a_cell_more", reason="malformed", spoil=lambda clean, _: clean + b",1"),
        Variant(name="two_lines", reason="malformed", spoil=lambda clean, _: clean + b"\n" + clean),
        Variant(name="empty", reason="malformed", spoil=lambda _clean, _: b""),
        Variant(
            name="bad_utf8",
            reason="malformed",
            spoil=lambda clean, _: clean.replace(b"dev-", b"\xff\xfe-", 1),
        ),
    ),
    Kind.WRONG_TYPE: (
        _cell(3, b"warm"),
        _cell(3, b"NaN"),
        _cell(4, b"yesterday"),
        _cell(4, b"1.5"),
    ),
    Kind.IMPLAUSIBLE: (
        Variant(name="far_below", reason="implausible:value", spoil=_putting(3, b"-999")),
    ),
    Kind.MISSING: (
        _empty(0, "event_id"),
        _empty(1, "device_id"),
        _empty(2, "signal"),
        _empty(3, "value"),
        _empty(4, "event_at"),
    ),
    # A line of cells has no undeclared fields.
    Kind.UNKNOWN_FIELD: (Variant(name="none", reason=None, spoil=lambda clean, _: clean),),
}


class OldFleet(Player):
    """A tenth as many devices as in ``Fleet``, numbered after those."""

    variants = VARIANTS

    def __init__(self, plan: Plan) -> None:
        """Name the devices."""
        super().__init__(plan)
        count = max(plan.devices // SHARE_OF_DEVICES, 1)
        self._devices = texts([b"dev-%05d" % (plan.devices + n) for n in range(count)])
        self._signals = texts([name for name, _, _, _ in SIGNALS])
        self._low = np.array([low for _, low, _, _ in SIGNALS])
        self._width = np.array([high - low for _, low, high, _ in SIGNALS])

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the device of each event."""
        devices: list[bytes] = self._devices[self._device(numbers)].tolist()
        return devices

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a line for each event."""
        devices = self._device(numbers)
        signals = self.chance.below(len(SIGNALS), "signal", numbers)
        units = self._low[signals] + (
            self._width[signals] * self.chance.below(1 << 16, "value", numbers) >> 16
        )
        values = [
            _decimal(unit, SIGNALS[signal][3])
            for unit, signal in zip(units.tolist(), signals.tolist(), strict=True)
        ]
        columns = (
            self.ids(numbers),
            self._devices[devices].tolist(),
            self._signals[signals].tolist(),
            values,
            happened_at.tolist(),
            self.one_of(FIRMWARE, "firmware", devices),
            numbers.tolist(),
        )
        return list(map(LINE.__mod__, zip(*columns, strict=True)))

    def _device(self, numbers: Numbers) -> Numbers:
        return self.chance.below(len(self._devices), "device", numbers)


def _decimal(units: int, digits: int) -> bytes:
    sign, whole = (b"-", -units) if units < 0 else (b"", units)
    if not digits:
        return b"%b%d" % (sign, whole)
    before, after = divmod(whole, 10**digits)
    return b"%b%d.%0*d" % (sign, before, digits, after)
