"""The energy counter of an NVIDIA GPU, through its management library (NVML)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from zoolens.base.engine.nvml import GpuProbe, NoNvml
from zoolens.findings.measure.meters.meter import Meter, MeterSource, NoEnergy
from zoolens.inventory.runtimes.devices import device_index


@dataclass(frozen=True)
class GpuMeter(Meter):
    """The energy counter of a GPU, in millijoules since its driver was loaded."""

    name: str
    gpu: GpuProbe

    def read(self) -> int:
        try:
            return self.gpu.millijoules()
        except NoNvml as error:
            raise NoEnergy(str(error)) from error

    def joules(self, before: int, after: int) -> float:
        if after < before:
            raise NoEnergy(f"the counter of {self.name} went back: its driver was reloaded")
        return (after - before) / 1e3

    def state(self) -> Mapping[str, Any]:
        return asdict(self.gpu.state())


class Nvml(MeterSource):
    name = "nvml"
    counts = "the whole GPU"
    devices = ("cuda",)

    def probe(self, device: str) -> list[GpuMeter]:
        try:
            gpu = GpuProbe(device_index(device))
            gpu.millijoules()
        except NoNvml as error:
            raise NoEnergy(str(error)) from error
        return [GpuMeter(f"{gpu.name} ({device})", gpu)]
