"""Facts about the machine that measures: part of every environment's record, and what constraints are checked on."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """`cores` and `memory_bytes` are what this process may use, not what the box has."""

    cpu: str
    flags: tuple[str, ...]
    cores: int
    memory_bytes: int
    os: str
    kernel: str
    python: str
    architecture: str
    hypervisor: bool
    steal_time: bool  # whether time taken by other guests can be read


def describe_machine() -> Machine:
    info = _cpu_info(_read("/proc/cpuinfo"))
    flags = tuple(sorted(set((info.get("flags") or info.get("Features") or "").split())))
    return Machine(
        cpu=info.get("model name") or _cpu_name(),
        flags=flags,
        cores=available_cores(),
        memory_bytes=memory_bytes(),
        os=_os_name(),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        architecture=platform.machine(),
        hypervisor="hypervisor" in flags,
        steal_time=_has_steal(_read("/proc/stat")),
    )


@cache
def gpu_names() -> tuple[str, ...]:
    """The GPUs as NVIDIA's own tool lists them, in the order of their numbers; nothing where it is absent."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in output.splitlines() if line.strip())


def this_host() -> str:
    """A short digest of this machine's name and id. Copies of one virtual machine have the same."""
    identity = _read("/etc/machine-id").strip()
    return hashlib.sha256(f"{platform.node()}\n{identity}".encode()).hexdigest()[:16]


def this_machine() -> dict[str, str]:
    """The name of this machine and its `this_host`, which tell it from others of its kind."""
    return {"name": platform.node(), "host": this_host()}


def _cpu_info(text: str) -> dict[str, str]:
    """The entries of the first core."""
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _cpu_name() -> str:
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    return platform.processor() or "unknown"


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """What this process may use: the machine's, or less where a control group says so."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_memory_limits(_read("/proc/self/cgroup"), Path("/sys/fs/cgroup"))])


def _memory_limits(membership: str, root: Path) -> list[int]:
    """Limits of our control group and of all above it. Both versions; "max" and absent files limit nothing."""
    limits = []
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0":
            top, name = root, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the group's path may not be visible: the top is then our own group.
        parts = [part for part in group.split("/") if part]
        for depth in range(len(parts) + 1):
            text = _read(str(top.joinpath(*parts[:depth], name))).strip()
            if text.isdigit():
                limits.append(int(text))
    return limits


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)


def _has_steal(stat: str) -> bool:
    # The columns: cpu user nice system idle iowait irq softirq steal.
    return len(stat.partition("\n")[0].split()) > 8


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
