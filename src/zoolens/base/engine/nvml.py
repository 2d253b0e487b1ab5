"""NVIDIA GPUs as their management library (NVML) describes them: name, driver, clocks, power and energy.

The library comes with the driver; `pynvml` (the package nvidia-ml-py) calls it. Devices are numbered as CUDA numbers
them in this process, which is not as NVML does where CUDA_VISIBLE_DEVICES is set.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class NoNvml(Exception):
    """Why NVML reports nothing here, as the end of a sentence."""


@dataclass(frozen=True)
class Gpu:
    """What of a GPU can change an answer or a time; None is what this one does not report."""

    name: str
    driver: str
    memory_bytes: int | None
    power_limit_watts: float | None
    largest_graphics_mhz: int | None
    largest_memory_mhz: int | None


@dataclass(frozen=True)
class GpuState:
    """What a GPU does right now; None is what this one does not report."""

    watts: float | None
    graphics_mhz: int | None
    memory_mhz: int | None
    celsius: int | None


class GpuProbe:
    """One GPU, asked through NVML; NoNvml where that is not possible."""

    def __init__(self, index: int) -> None:
        self._nvml = _library()
        try:
            self._handle = _handle(self._nvml, index)
            self.driver = _text(self._nvml.nvmlSystemGetDriverVersion())
            self.name = _text(self._nvml.nvmlDeviceGetName(self._handle))
        except self._nvml.NVMLError as error:
            raise NoNvml(f"NVML does not know GPU {index} ({error})") from error

    def describe(self) -> Gpu:
        nvml, handle = self._nvml, self._handle
        milliwatts = self._told(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
        memory = self._told(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        return Gpu(
            self.name,
            self.driver,
            None if memory is None else int(memory.total),
            None if milliwatts is None else milliwatts / 1000,
            self._told(lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))),
            self._told(lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM))),
        )

    def state(self) -> GpuState:
        nvml, handle = self._nvml, self._handle
        milliwatts = self._told(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        return GpuState(
            None if milliwatts is None else milliwatts / 1000,
            self._told(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
            self._told(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM))),
            self._told(lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
        )

    def millijoules(self) -> int:
        """Energy since the driver was loaded."""
        try:
            return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        except self._nvml.NVMLError as error:
            raise NoNvml(f"{self.name} does not count its energy ({error})") from error

    def _told(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._nvml.NVMLError:
            return None


def _library() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NoNvml("the package nvidia-ml-py is not installed") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NoNvml(f"NVML does not answer ({error})") from error
    return pynvml


def _handle(nvml: Any, index: int) -> Any:
    visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    if not visible:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    if index >= len(visible):
        raise NoNvml(f"CUDA_VISIBLE_DEVICES shows {len(visible)} GPUs, and number {index} is not among them")
    if visible[index].isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(visible[index]))
    return nvml.nvmlDeviceGetHandleByUUID(visible[index])


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
