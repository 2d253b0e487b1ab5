"""The processor's own counters (RAPL), which Linux shows under /sys/class/powercap.

They are of whole processor packages. Memory outside the package is not in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zoolens.findings.measure.meters.meter import Meter, MeterSource, NoEnergy

POWERCAP: Final = Path("/sys/class/powercap")
# Zones inside a package (intel-rapl:0:1) are parts of it, and intel-rapl-mmio:0 is the same package once more.
_ZONE: Final = re.compile(r"intel-rapl:\d+")


@dataclass(frozen=True)
class Package(Meter):
    """One processor package. `span`: where its counter starts again from 0, in microjoules."""

    name: str
    counter: Path
    span: int

    def read(self) -> int:
        return _number(self.counter)

    def joules(self, before: int, after: int) -> float:
        """Energy between two readings that are less than one turn of the counter apart, which is minutes."""
        if after < before and self.span <= before:
            raise NoEnergy(f"the counter of {self.name} went back, and its range is unknown")
        return (after - before if after >= before else after - before + self.span) / 1e6


class Rapl(MeterSource):
    name = "rapl"
    counts = "whole processor packages"
    devices = ("cpu",)

    def __init__(self, root: Path = POWERCAP) -> None:
        self._root = root

    def probe(self, device: str) -> list[Package]:
        """The packages whose counters can be read."""
        readable = [package for zone in _zones(self._root) if (package := _package(zone)) is not None]
        if not readable:
            raise NoEnergy(f"this machine shows no energy counters under {self._root}")
        return readable


def _zones(root: Path) -> Iterator[Path]:
    try:
        yield from sorted(zone for zone in root.iterdir() if _ZONE.fullmatch(zone.name))
    except OSError:
        return


def _package(zone: Path) -> Package | None:
    name = _text(zone / "name")
    # psys is the whole board, and the packages with it.
    if not name.startswith("package"):
        return None
    span = zone / "max_energy_range_uj"
    package = Package(name, zone / "energy_uj", _number(span) if span.exists() else 0)
    package.read()
    return package


def _number(path: Path) -> int:
    try:
        return int(_text(path))
    except ValueError:
        raise NoEnergy(f"{path} holds no number") from None


def _text(path: Path) -> str:
    try:
        with path.open() as file:
            return file.read(100).strip()
    except PermissionError:
        raise NoEnergy(f"{path} may be read by root only; run `sudo chmod o+r {path}` to allow it") from None
    except OSError as error:
        raise NoEnergy(f"{path} cannot be read: {error.strerror or error}") from None
