r"""Changes of the device inventory, and starts of programs on the devices.

Clean payloads are::

    {"change_id": "9f…", "device_id": "dev-00042", "site": "berlin", "model": "th-200", "owner": "facilities",
     "event_at": "2026-11-20T08:15:30.123Z"}
    {"ProcessGuid": "1a…", "UtcTime": "2026-11-20T08:15:30.123Z", "Computer": "dev-00042",
     "User": "CORP\\user-00007", "Image": "C:\\Windows\\System32\\cmd.exe", "CommandLine": "cmd.exe /c dir",
     "ParentImage": "C:\\Windows\\explorer.exe", "ParentCommandLine": "explorer.exe", "ProcessId": 4242,
     "Hashes": "SHA256=…"}

A device's first change gives its site; later ones move it or give it another owner.
"""

import numpy as np

from fleet.play.kinds import Numbers, objects
from fleet.play.player import Player, moments, texts

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
    b'"ProcessId": %d, "Hashes": "SHA256=%b"}'
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
        columns = (
            self.ids(numbers),
            *moments(happened_at),
            self.keys(numbers),
            below(self.plan.devices, "user", numbers).tolist(),
            images[program].tolist(),
            lines[program].tolist(),
            images[parent].tolist(),
            lines[parent].tolist(),
            (4 + 4 * below(16_000, "process", numbers)).tolist(),
            self.ids(program + (1 << 40)),
        )
        return list(map(PROCESS.__mod__, zip(*columns, strict=True)))
