"""Energy of a call, by the processor's own counters (RAPL), which Linux shows under /sys/class/powercap, and by those
of an NVIDIA GPU (NVML) where the model runs on one.

The counters are of whole processor packages and whole GPUs. Nothing is subtracted: idle power and all else that ran
meanwhile is in the figure, and the observation says so. Memory outside the package is not in it. On a GPU its own
energy must be known; that of the processor is added where it is, and the observation names what was counted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from zoolens.engine.nvml import GpuProbe, NoNvml
from zoolens.runtimes.devices import device_index, device_kind
from zoolens.store.records import Observation, unavailable
from zoolens.store.scopes import batch_scope

POWERCAP: Final = Path("/sys/class/powercap")
ROUNDS: Final = 5  # the spread of these is the interval
SECONDS: Final = 1.0  # of all rounds; the counters move about once in a millisecond
GPU_SECONDS: Final = 5.0  # those of a GPU move some ten times a second
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
        """Energy between two readings that are less than one turn of the counter apart, which is minutes."""
        if after < before and self.span <= before:
            raise NoEnergy(f"the counter of {self.name} went back, and its span is not known")
        return (after - before if after >= before else after - before + self.span) / 1e6


@dataclass(frozen=True)
class GpuMeter:
    """The energy counter of a GPU, in millijoules since its driver was loaded."""

    name: str
    probe: GpuProbe

    def read(self) -> int:
        try:
            return self.probe.millijoules()
        except NoNvml as error:
            raise NoEnergy(str(error)) from error

    def joules(self, before: int, after: int) -> float:
        return (after - before) / 1e3


Meter = Package | GpuMeter


def gpu_meter(device: str) -> GpuMeter:
    """The counter of a CUDA device; NoEnergy where it does not answer."""
    try:
        probe = GpuProbe(device_index(device))
        probe.millijoules()
    except NoNvml as error:
        raise NoEnergy(str(error)) from error
    return GpuMeter(f"{probe.name} ({device})", probe)


def meters_of(device: str, root: Path = POWERCAP) -> list[Meter]:
    """The counters of what a model on this device makes work. NoEnergy where that of the device itself is not known."""
    if device_kind(device) == "cpu":
        return list(packages(root))
    if device_kind(device) != "cuda":
        raise NoEnergy(f"there is no energy counter of {device}")
    meter = gpu_meter(device)
    try:
        return [meter, *packages(root)]
    except NoEnergy:
        return [meter]


def packages(root: Path = POWERCAP) -> list[Package]:
    """The packages whose counters can be read."""
    readable = [package for zone in _zones(root) if (package := _package(zone)) is not None]
    if not readable:
        raise NoEnergy(f"this machine shows no energy counters under {root}")
    return readable


def energy_observations(
    call: Callable[[], object],
    batch: int,
    *,
    seconds: float = SECONDS,
    root: Path = POWERCAP,
    device: str = "cpu",
) -> list[Observation]:
    """Joules of one call with `batch` inputs, from calls repeated for `seconds`; or why there are none."""
    scope = batch_scope(batch)
    try:
        meters = meters_of(device, root)
        rounds = [_round(call, meters, seconds / ROUNDS) for _ in range(ROUNDS)]
        return [_observation(rounds, meters, scope, batch)]
    except NoEnergy as error:
        return [unavailable("energy", str(error), scope=scope, unit="J")]


@dataclass(frozen=True)
class _Round:
    joules: float
    seconds: float
    calls: int


def _round(call: Callable[[], object], meters: Sequence[Meter], seconds: float) -> _Round:
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


def _observation(rounds: list[_Round], meters: Sequence[Meter], scope: str, batch: int) -> Observation:
    joules, calls = sum(lap.joules for lap in rounds), sum(lap.calls for lap in rounds)
    if not joules:
        raise NoEnergy("the energy counters did not move")
    each = [lap.joules / lap.calls for lap in rounds]
    details: dict[str, object] = {
        "interval": "range",
        "rounds": ROUNDS,
        "packages": [meter.name for meter in meters if isinstance(meter, Package)],
        "joules_per_input": joules / calls / batch,
        "watts": joules / sum(lap.seconds for lap in rounds),
        "what": f"{_counted(meters)} while the model ran: idle power and other processes included",
    }
    if gpus := [meter for meter in meters if isinstance(meter, GpuMeter)]:
        details |= {"gpus": [meter.name for meter in gpus], "state": asdict(gpus[0].probe.state())}
    return Observation(
        "energy", joules / calls, scope=scope, unit="J", low=min(each), high=max(each), n=calls, details=details
    )


def _counted(meters: Sequence[Meter]) -> str:
    kinds = {type(meter) for meter in meters}
    if kinds == {Package}:
        return "whole processor packages"
    return "the whole GPU" if kinds == {GpuMeter} else "the whole GPU and whole processor packages"


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
