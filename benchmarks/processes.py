"""CPU seconds and peak memory of a process and of all processes that it has started, from Linux's /proc.

It needs nothing but Python, so that the scripts of peers in other environments measure in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")  # clock ticks per second; CPU times have a resolution of 10 ms
HELPERS = ("resource_tracker", "semaphore_tracker", "forkserver")  # processes of Python itself, which do nothing here


def process_tree(root: int | None = None) -> list[int]:
    """The ids of a process, by default this one, and of all its descendants."""
    children: dict[int, list[int]] = {}
    for pid, fields in _all_stats():
        children.setdefault(int(fields[1]), []).append(pid)
    found = [root or os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(pids: list[int]) -> dict[int, float]:
    """CPU seconds of processes so far, in user and in system mode, over all of their threads."""
    seconds = {}
    for pid in pids:
        with suppress(OSError):
            fields = _stat(pid)
            seconds[pid] = (int(fields[11]) + int(fields[12])) / TICKS
    return seconds


def forget_peaks(pids: list[int]) -> None:
    """Reset the peak memory of processes to their present memory."""
    for pid in pids:
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def peaks(pids: list[int]) -> dict[int, float]:
    """The largest resident sets of processes since `forget_peaks`, in MB."""
    return _memory(pids, "VmHWM")


def resident(pids: list[int]) -> dict[int, float]:
    """The present resident sets of processes, in MB."""
    return _memory(pids, "VmRSS")


def _memory(pids: list[int], kind: str) -> dict[int, float]:
    found = {}
    for pid in pids:
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            found[pid] = next(int(line.split()[1]) * 1.024e-3 for line in lines if line.startswith(kind))
    return found


def without_helpers(pids: list[int]) -> list[int]:
    """The processes that are not helpers of Python itself."""
    found = []
    for pid in pids:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            if not any(name in command for name in HELPERS):
                found.append(pid)
    return found


def _all_stats() -> Iterator[tuple[int, list[str]]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):  # the process has ended
                yield int(entry), _stat(int(entry))


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; the second, a name in parentheses, may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
