"""GPUs are described by NVML where it answers, and otherwise the reason is told. The library here is a stand-in."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from zoolens.base.engine.nvml import GpuProbe, GpuState, NoNvml


class NVMLError(Exception):
    pass


def _refuse(*_):
    raise NVMLError("Not Supported")


@pytest.fixture
def pynvml(monkeypatch):
    """Two GPUs; the second one counts no energy. Handles are numbers."""
    library = ModuleType("pynvml")
    library.NVMLError, library.NVML_CLOCK_SM, library.NVML_CLOCK_MEM, library.NVML_TEMPERATURE_GPU = NVMLError, 1, 2, 0
    library.nvmlInit = lambda: None
    library.nvmlSystemGetDriverVersion = lambda: b"580.1"
    library.nvmlDeviceGetHandleByIndex = lambda index: index if index < 2 else _refuse()
    library.nvmlDeviceGetHandleByUUID = lambda uuid: int(uuid[-1])
    library.nvmlDeviceGetName = lambda handle: f"GPU number {handle}"
    library.nvmlDeviceGetEnforcedPowerLimit = lambda handle: 700_000
    library.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=1 << 30)
    library.nvmlDeviceGetMaxClockInfo = lambda handle, clock: 1980 if clock == 1 else 3201
    library.nvmlDeviceGetClockInfo = _refuse
    library.nvmlDeviceGetPowerUsage = lambda handle: 123_400
    library.nvmlDeviceGetTemperature = lambda handle, sensor: 41
    library.nvmlDeviceGetTotalEnergyConsumption = lambda handle: 5_000 if handle == 0 else _refuse()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return library


def test_a_gpu_is_described(pynvml):
    gpu = GpuProbe(0).describe()
    assert (gpu.name, gpu.driver, gpu.memory_bytes) == ("GPU number 0", "580.1", 1 << 30)
    assert (gpu.power_limit_watts, gpu.largest_graphics_mhz, gpu.largest_memory_mhz) == (700, 1980, 3201)


def test_what_a_gpu_does_not_tell_is_left_out(pynvml):
    assert GpuProbe(0).state() == GpuState(123.4, None, None, 41)


def test_energy_or_the_reason(pynvml):
    assert GpuProbe(0).millijoules() == 5_000
    with pytest.raises(NoNvml, match=r"GPU number 1 does not count its energy \(Not Supported\)"):
        GpuProbe(1).millijoules()


@pytest.mark.parametrize(("visible", "name"), [("1,0", "GPU number 1"), ("GPU-1", "GPU number 1")])
def test_numbers_are_those_of_cuda(pynvml, monkeypatch, visible, name):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert GpuProbe(0).name == name


def test_a_gpu_that_is_not_there(pynvml, monkeypatch):
    with pytest.raises(NoNvml, match="does not know GPU 7"):
        GpuProbe(7)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(NoNvml, match="shows 1 GPUs"):
        GpuProbe(1)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NoNvml, match="nvidia-ml-py is not installed"):
        GpuProbe(0)


def test_a_library_that_does_not_start(pynvml):
    pynvml.nvmlInit = _refuse
    with pytest.raises(NoNvml, match="NVML does not answer"):
        GpuProbe(0)
