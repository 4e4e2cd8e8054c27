"""On what was measured, and how quiet it was; noise is written down, never a reason to leave a figure out."""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

from tests.support.commit import commit

PACKAGES = ("pyspark", "delta-spark", "confluent-kafka", "deltalake", "duckdb")


def facts() -> dict[str, object]:
    """Describe the code, the machine and the versions."""
    return {
        "commit": commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


@dataclass(frozen=True, slots=True)
class Noise:
    """How busy the machine was beside what was measured."""

    steal: float
    busy: float
    seconds: float

    @classmethod
    def now(cls) -> "Noise":
        """Read the counters."""
        times = psutil.cpu_times()
        steal = float(getattr(times, "steal", 0.0))
        idle = times.idle + float(getattr(times, "iowait", 0.0))
        every = sum(times)
        return cls(steal, every - idle - steal, every)

    def since(self, earlier: "Noise", *, own: float) -> dict[str, float]:
        """Return the percentages since another look; ``own`` is the CPU of what was measured."""
        span = max(self.seconds - earlier.seconds, 0.01)
        busy = self.busy - earlier.busy
        return {
            "load": os.getloadavg()[0],
            "steal": round(100 * (self.steal - earlier.steal) / span, 1),
            "others": round(100 * max(busy - own, 0.0) / span, 1),
        }


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work, with those of all processes that were started."""
    before = _used()
    work()
    return _used() - before


def _used() -> float:
    this = psutil.Process()
    times = [each.cpu_times() for each in (this, *this.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.processor()
