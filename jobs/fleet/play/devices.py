r"""What devices send: their readings, in today's shape and in that of devices that were not updated, inventory, and programs.

Clean payloads are, as bytes, in the order of their arrival::

    {"event_id": "9f…32 hex digits", "device_id": "dev-00042", "signal": "temperature", "value": 21.37,
     "event_at": "2026-11-20T08:15:30.123Z", "meta": {"firmware": "1.4.2", "seq": 17}}
    9f…32 hex digits,dev-00207,temp,70.43,1763626530123,1.1.0,17
    {"change_id": "9f…", "device_id": "dev-00042", "site": "berlin", "model": "th-200", "owner": "facilities",
     "event_at": "2026-11-20T08:15:30.123Z"}
    {"ProcessGuid": "1a…", "UtcTime": "2026-11-20T08:15:30.123Z", "Computer": "dev-00042",
     "User": "CORP\\user-00007", "Image": "C:\\Windows\\System32\\cmd.exe", "CommandLine": "cmd.exe /c dir",
     "ParentImage": "C:\\Windows\\explorer.exe", "ParentCommandLine": "explorer.exe", "ProcessId": 4242,
     "Hashes": "SHA256=…", "OriginalFileName": "Cmd.Exe", …, "ParentUser": "CORP\\user-00007"}

``seq`` is the number of the event in its run, so any row of the lake can be traced to its event.
Values wander between whole hours around a level of their own for each device and signal. They are whole
numbers of the signal's last digit until the end, because the last bit of a sine is the C library's choice. In the older shape
names and units are others: temperatures are in Fahrenheit, pressures in kilopascals. A device's first change gives its site;
later ones move it or give it another owner.

Why payloads are formatted one by one while all else is done in columns: numpy has no faster way to join texts
of different lengths. Measured with a million events on one of two cores: 500,000 to 600,000 events a second,
1.7 µs of CPU an event; the template takes 0.6 µs of them, where an f-string took 0.7, and text and encode 0.8.
"""

from dataclasses import dataclass

import numpy as np

from fleet.play.plan import (
    IMPLAUSIBLE,
    MALFORMED,
    MISSING,
    UNKNOWN_FIELD,
    WRONG_TYPE,
    Kind,
    Numbers,
    Plan,
    Player,
    Spoil,
    Variant,
    moments,
    objects,
    shares_by_rank,
    texts,
)

HOUR = 3_600_000
WEIGHT_BITS = 16
TEMPLATE = (
    b'{"event_id": "%b", "device_id": "%b", "signal": "%b", "value": %a, '
    b'"event_at": "%b%b", "meta": {"firmware": "%b", "seq": %d}}'
)
FIRMWARE = (b"1.3.9", b"1.4.0", b"1.4.2", b"2.0.0")
VARIANTS: dict[Kind, tuple[Variant, ...]] = {
    Kind.MALFORMED: MALFORMED,
    Kind.WRONG_TYPE: WRONG_TYPE,
    Kind.MISSING: MISSING,
    Kind.IMPLAUSIBLE: IMPLAUSIBLE,
    Kind.UNKNOWN_FIELD: UNKNOWN_FIELD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A quantity that devices measure.

    Args:
        name: Its name in the payload.
        low: The lowest value that occurs.
        high: Just above the highest value.
        digits: The number of decimals that a device sends.
    """

    name: str
    low: int
    high: int
    digits: int


SIGNALS = (
    Signal(name="temperature", low=-20, high=45, digits=2),
    Signal(name="humidity", low=15, high=98, digits=1),
    Signal(name="battery", low=5, high=101, digits=0),
    Signal(name="pressure", low=960, high=1045, digits=3),
    Signal(name="vibration", low=0, high=4, digits=4),
)


class Fleet(Player):
    """The devices of a plan."""

    variants = VARIANTS

    def __init__(self, plan: Plan) -> None:
        """Name the devices and prepare the arrays that rows are made from."""
        super().__init__(plan)
        self._devices = texts([b"dev-%05d" % n for n in range(plan.devices)])
        self._shares = shares_by_rank(plan.devices, plan.key_skew)
        self._signals = texts([signal.name.encode() for signal in SIGNALS])
        self._low = np.array([s.low * 10**s.digits for s in SIGNALS])
        self._width = np.array([(s.high - s.low) * 10**s.digits for s in SIGNALS])
        self._unit = np.array([10**s.digits for s in SIGNALS])
        self._firmware = texts(list(FIRMWARE))

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the device of each event."""
        devices: list[bytes] = self._devices[self._device(numbers)].tolist()
        return devices

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a reading for each event."""
        devices = self._device(numbers)
        signals = self.chance.below(len(SIGNALS), "signal", numbers)
        firmware = self.chance.below(len(FIRMWARE), "firmware", devices)
        columns = (
            self.ids(numbers),
            self._devices[devices].tolist(),
            self._signals[signals].tolist(),
            self._values(devices, signals, happened_at, numbers),
            *moments(happened_at),
            self._firmware[firmware].tolist(),
            numbers.tolist(),
        )
        return list(map(TEMPLATE.__mod__, zip(*columns, strict=True)))

    def _device(self, numbers: Numbers) -> Numbers:
        return self.chance.pick(self._shares, "device", numbers)

    def _values(
        self, devices: Numbers, signals: Numbers, happened_at: Numbers, numbers: Numbers
    ) -> list[float]:
        pairs = devices * len(SIGNALS) + signals
        hours, within = np.divmod(happened_at, HOUR)
        # Each pair has its own sequence of hours; 2**32 hours apart they cannot meet.
        places = (pairs << 32) + hours
        here = self._weight("wander", places)
        wandered = here + (self._weight("wander", places + 1) - here) * within // HOUR
        weights = 4 * self._weight("level", pairs) + 3 * wandered + self._weight("noise", numbers)
        # The three weights make eight parts, hence three more bits.
        units = self._low[signals] + (self._width[signals] * weights >> (WEIGHT_BITS + 3))
        values: list[float] = (units / self._unit[signals]).tolist()
        return values

    def _weight(self, question: str, numbers: Numbers) -> Numbers:
        return self.chance.below(1 << WEIGHT_BITS, question, numbers)


LINE = b"%b,%b,%b,%b,%d,%b,%d"
CELLS = 7
OLD_SIGNALS = (
    # Name in the line, lowest and highest value in units of the last digit, digits.
    (b"temp", -400, 11_300, 2),
    (b"hum", 150, 980, 1),
    (b"batt", 5, 101, 0),
    (b"press", 960_000, 1_045_000, 4),
    (b"vibr", 0, 40_000, 4),
)
OLD_FIRMWARE = (b"1.0.7", b"1.1.0")
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


OLD_VARIANTS = {
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

    variants = OLD_VARIANTS

    def __init__(self, plan: Plan) -> None:
        """Name the devices."""
        super().__init__(plan)
        count = max(plan.devices // SHARE_OF_DEVICES, 1)
        self._devices = texts([b"dev-%05d" % (plan.devices + n) for n in range(count)])
        self._signals = texts([name for name, _, _, _ in OLD_SIGNALS])
        self._low = np.array([low for _, low, _, _ in OLD_SIGNALS])
        self._width = np.array([high - low for _, low, high, _ in OLD_SIGNALS])

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the device of each event."""
        devices: list[bytes] = self._devices[self._device(numbers)].tolist()
        return devices

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a line for each event."""
        devices = self._device(numbers)
        signals = self.chance.below(len(OLD_SIGNALS), "signal", numbers)
        units = self._low[signals] + (
            self._width[signals] * self.chance.below(1 << 16, "value", numbers) >> 16
        )
        values = [
            _decimal(unit, OLD_SIGNALS[signal][3])
            for unit, signal in zip(units.tolist(), signals.tolist(), strict=True)
        ]
        columns = (
            self.ids(numbers),
            self._devices[devices].tolist(),
            self._signals[signals].tolist(),
            values,
            happened_at.tolist(),
            self.one_of(OLD_FIRMWARE, "firmware", devices),
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


CHANGE = (
    b'{"change_id": "%b", "device_id": "%b", "site": "%b", "model": "%b", "owner": "%b", '
    b'"event_at": "%b%b"}'
)
SITES = (b"berlin", b"boston", b"nairobi", b"osaka", b"lima")
MODELS = (b"th-100", b"th-200", b"px-7")
OWNERS = (b"facilities", b"logistics", b"research", b"security")

PROCESS = (
    b'{"ProcessGuid": "%b", "UtcTime": "%b%b", "Computer": "%b", "User": "CORP\\\\user-%05d", '
    b'"Image": "%b", "CommandLine": "%b", "ParentImage": "%b", "ParentCommandLine": "%b", '
    b'"ProcessId": %d, "Hashes": "SHA256=%b", '
    b'"OriginalFileName": "%b", "Description": "%b", "Product": "%b", "Company": "%b", "FileVersion": "%b", '
    b'"CurrentDirectory": "C:\\\\Users\\\\user-%05d\\\\", "IntegrityLevel": "%b", "LogonId": "0x%x", '
    b'"LogonGuid": "%b", "TerminalSessionId": %d, "ParentProcessGuid": "%b", "ParentProcessId": %d, '
    b'"ParentUser": "CORP\\\\user-%05d"}'
)
SYSTEM = b"C:\\\\Windows\\\\System32\\\\"
PROGRAMS = (
    # Image and command line, escaped as in JSON; the parent is the entry before.
    (b"C:\\\\Windows\\\\explorer.exe", b"explorer.exe"),
    (SYSTEM + b"cmd.exe", b"cmd.exe /c dir"),
    (SYSTEM + b"svchost.exe", b"svchost.exe -k netsvcs"),
    (b"C:\\\\Program Files\\\\Mail\\\\mail.exe", b"mail.exe --tray"),
    (
        SYSTEM + b"WindowsPowerShell\\\\v1.0\\\\powershell.exe",
        b"powershell.exe -NoProfile -File backup.ps1",
    ),
    (
        SYSTEM + b"WindowsPowerShell\\\\v1.0\\\\powershell.exe",
        b"powershell.exe -nop -w hidden -enc SQBFAFgA",
    ),
    (SYSTEM + b"certutil.exe", b"certutil.exe -decode report.txt report.bin"),
    (SYSTEM + b"rundll32.exe", b"rundll32.exe shell32.dll,Control_RunDLL"),
)
MAKERS = (
    # What is written in each of these files: its first name, what it is, and of which product and maker in which version.
    (b"EXPLORER.EXE", b"File manager", b"Desktop", b"Example Systems", b"10.0.1"),
    (b"Cmd.Exe", b"Command line", b"Desktop", b"Example Systems", b"10.0.1"),
    (b"svchost.exe", b"Host of services", b"Desktop", b"Example Systems", b"10.0.1"),
    (b"mail.exe", b"Mail", b"Mail", b"Example Mail", b"7.2.0"),
    (b"PowerShell.EXE", b"Shell", b"Desktop", b"Example Systems", b"10.0.1"),
    (b"PowerShell.EXE", b"Shell", b"Desktop", b"Example Systems", b"10.0.1"),
    (b"CertUtil.exe", b"Certificates", b"Desktop", b"Example Systems", b"10.0.1"),
    (b"RUNDLL32.EXE", b"Runs a library", b"Desktop", b"Example Systems", b"10.0.1"),
)
LEVELS = (b"Low", b"Medium", b"Medium", b"Medium", b"High", b"System")
USUAL = 4
"""The number of programs that run all day; the others run now and then."""


class Inventory(Player):
    """Changes of the inventory."""

    variants = objects("change_id", "device_id")

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the device of each change."""
        return [b"dev-%05d" % device for device in self._devices(numbers).tolist()]

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a change for each event."""
        devices = self._devices(numbers)
        columns = (
            self.ids(numbers),
            self.keys(numbers),
            self.one_of(SITES, "site", numbers),
            self.one_of(MODELS, "model", devices),
            self.one_of(OWNERS, "owner", numbers),
            *moments(happened_at),
        )
        return list(map(CHANGE.__mod__, zip(*columns, strict=True)))

    def _devices(self, numbers: Numbers) -> Numbers:
        # First each device once, when it is set up, and then any device.
        later = self.chance.below(self.plan.devices, "device", numbers)
        return np.where(numbers < self.plan.devices, numbers, later)


class Processes(Player):
    """Starts of programs."""

    variants = objects("ProcessGuid", "Image", "Computer", time="UtcTime")

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the computer of each start."""
        computers = self.chance.below(self.plan.devices, "computer", numbers)
        return [b"dev-%05d" % computer for computer in computers.tolist()]

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return the start of a program for each event."""
        below = self.chance.below
        is_odd = below(50, "odd", numbers) == 0
        usual = below(USUAL, "program", numbers)
        odd = USUAL + below(len(PROGRAMS) - USUAL, "odd program", numbers)
        program = np.where(is_odd, odd, usual)
        images = texts([image for image, _ in PROGRAMS])
        lines = texts([line for _, line in PROGRAMS])
        parent = np.maximum(program - 1, 0)
        users = below(self.plan.devices, "user", numbers).tolist()
        makers = [texts(list(each))[program].tolist() for each in zip(*MAKERS, strict=True)]
        columns = (
            self.ids(numbers),
            *moments(happened_at),
            self.keys(numbers),
            users,
            images[program].tolist(),
            lines[program].tolist(),
            images[parent].tolist(),
            lines[parent].tolist(),
            (4 + 4 * below(16_000, "process", numbers)).tolist(),
            self.ids(program + (1 << 40)),
            *makers,
            users,
            self.one_of(LEVELS, "integrity", numbers),
            below(1 << 24, "logon", numbers).tolist(),
            self.ids(numbers + (1 << 41)),
            below(4, "session", numbers).tolist(),
            self.ids(numbers + (1 << 42)),
            (4 + 4 * below(16_000, "parent process", numbers)).tolist(),
            users,
        )
        return list(map(PROCESS.__mod__, zip(*columns, strict=True)))
