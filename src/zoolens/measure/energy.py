"""Energy of a call, by the processor's own counters (RAPL), which Linux shows under /sys/class/powercap.

The counters are of whole processor packages. Nothing is subtracted: idle power and all else that ran meanwhile is in
the figure, and the observation says so. Memory outside the package and accelerators are not in it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zoolens.store.records import Observation, unavailable
from zoolens.store.scopes import batch_scope

POWERCAP: Final = Path("/sys/class/powercap")
ROUNDS: Final = 5  # the spread of these is the interval
SECONDS: Final = 1.0  # of all rounds; the counters move about once in a millisecond
# Zones inside a package (intel-rapl:0:1) are parts of it, and intel-rapl-mmio:0 is the same package once more.
_ZONE: Final = re.compile(r"intel-rapl:\d+")


class NoEnergy(Exception):
    """Why the counters tell nothing here."""


@dataclass(frozen=True)
class Package:
    """One processor package. `span`: where its counter starts again from 0, in microjoules."""

    name: str
    counter: Path
    span: int

    def read(self) -> int:
        return _number(self.counter)

    def joules(self, before: int, after: int) -> float:
        """Between two readings less than one turn of the counter apart, which is minutes."""
        if after < before and self.span <= before:
            raise NoEnergy(f"the counter of {self.name} went back, and its span is not known")
        return (after - before if after >= before else after - before + self.span) / 1e6


def packages(root: Path = POWERCAP) -> list[Package]:
    """The packages whose counters can be read."""
    readable = [package for zone in _zones(root) if (package := _package(zone)) is not None]
    if not readable:
        raise NoEnergy(f"this machine shows no energy counters under {root}")
    return readable


def energy_observations(
    call: Callable[[], object], batch: int, *, seconds: float = SECONDS, root: Path = POWERCAP
) -> list[Observation]:
    """Joules of one call with `batch` inputs, from calls repeated for `seconds`; or why there are none."""
    scope = batch_scope(batch)
    try:
        meters = packages(root)
        rounds = [_round(call, meters, seconds / ROUNDS) for _ in range(ROUNDS)]
        return [_observation(rounds, meters, scope, batch)]
    except NoEnergy as error:
        return [unavailable("energy", str(error), scope=scope, unit="J")]


@dataclass(frozen=True)
class _Round:
    joules: float
    seconds: float
    calls: int


def _round(call: Callable[[], object], meters: list[Package], seconds: float) -> _Round:
    before, started, calls = [meter.read() for meter in meters], time.perf_counter(), 0
    while True:
        call()
        calls += 1
        elapsed = time.perf_counter() - started
        if elapsed >= seconds:
            break
    after = [meter.read() for meter in meters]
    joules = sum(meter.joules(*pair) for meter, *pair in zip(meters, before, after, strict=True))
    return _Round(joules, elapsed, calls)


def _observation(rounds: list[_Round], meters: list[Package], scope: str, batch: int) -> Observation:
    joules, calls = sum(lap.joules for lap in rounds), sum(lap.calls for lap in rounds)
    if not joules:
        raise NoEnergy("the energy counters did not move")
    each = [lap.joules / lap.calls for lap in rounds]
    details = {
        "interval": "range",
        "rounds": ROUNDS,
        "packages": [meter.name for meter in meters],
        "joules_per_input": joules / calls / batch,
        "watts": joules / sum(lap.seconds for lap in rounds),
        "what": "whole processor packages while the model ran: idle power and other processes included",
    }
    return Observation(
        "energy", joules / calls, scope=scope, unit="J", low=min(each), high=max(each), n=calls, details=details
    )


def _zones(root: Path) -> Iterator[Path]:
    try:
        yield from sorted(zone for zone in root.iterdir() if _ZONE.fullmatch(zone.name))
    except OSError:
        return


def _package(zone: Path) -> Package | None:
    name = _text(zone / "name")
    if not name.startswith("package"):  # psys is the whole board, and the packages with it
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
