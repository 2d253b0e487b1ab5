"""Parts of a prediction on an accelerator become observations; a runtime that does not tell them is said to be so."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from zoolens.base.store.records import Provenance
from zoolens.findings.measure.device_time import device_observations
from zoolens.findings.measure.energy import energy_observations
from zoolens.findings.measure.lock import accelerator_identity, resolve_stack
from zoolens.findings.measure.meters.nvml import Nvml
from zoolens.findings.measure.meters.rapl import Rapl
from zoolens.inventory.runtimes.devices import DeviceTimes, device_index, device_kind, read_device_times
from zoolens.inventory.runtimes.fake import Fake
from zoolens.inventory.runtimes.runtime import Effective, Options, Session


class Accelerated(Session):
    """Moves for 1 µs, computes for 5 to 9, moves back for 2, and took 3 to launch."""

    def predict(self, feeds):
        return {}

    def effective(self):
        return Effective("accelerator")

    def device_times(self, feeds, repeats=1):
        return [DeviceTimes(20_000, 3_000, 1_000, 5_000 + 1000 * (i % 5), 2_000, 64 + i, True) for i in range(repeats)]


class Plain(Accelerated):
    def device_times(self, feeds, repeats=1):
        raise NotImplementedError


def test_parts_have_medians_and_intervals():
    observations = {found.metric: found for found in device_observations(Accelerated(), {}, 4, repeats=25)}
    compute = observations["device_compute_p50"]
    assert compute.value == pytest.approx(7e-6)
    assert compute.low <= compute.value <= compute.high
    assert (compute.scope, compute.n) == ("batch=4", 25)
    assert compute.details["clock"] == "events on the device"
    assert observations["device_launch_p50"].details["clock"] == "host"
    assert observations["device_inputs_p50"].value == pytest.approx(1e-6)
    assert observations["device_outputs_p50"].value == pytest.approx(2e-6)
    assert observations["peak_device_memory"].value == 88


def test_a_runtime_that_does_not_tell():
    observations = device_observations(Plain(), {}, 1)
    assert {found.provenance for found in observations} == {Provenance.UNAVAILABLE}
    assert "does not time what its device does" in observations[0].details["reason"]


def test_energy_of_a_gpu_that_does_not_answer(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    (found,) = energy_observations(lambda: None, 1, device="cuda")
    assert found.provenance == Provenance.UNAVAILABLE
    assert "nvidia-ml-py" in found.details["reason"]


def test_energy_of_a_gpu(monkeypatch, tmp_path):
    library, spent = ModuleType("pynvml"), [0]
    library.NVMLError = OSError
    for name in ("NVML_CLOCK_SM", "NVML_CLOCK_MEM", "NVML_TEMPERATURE_GPU"):
        setattr(library, name, 0)
    library.nvmlInit = lambda: None
    library.nvmlSystemGetDriverVersion = lambda: "580.1"
    library.nvmlDeviceGetHandleByIndex = lambda index: index
    library.nvmlDeviceGetName = lambda handle: "GPU"
    library.nvmlDeviceGetTotalEnergyConsumption = lambda handle: spent[0]
    for name in ("PowerUsage", "ClockInfo", "Temperature"):
        setattr(library, f"nvmlDeviceGet{name}", lambda *_: 1000)
    monkeypatch.setitem(sys.modules, "pynvml", library)

    def call():
        spent[0] += 8

    (found,) = energy_observations(call, 4, seconds=0.01, sources=[Nvml(), Rapl(tmp_path)], device="cuda:0")
    assert found.value == pytest.approx(8e-3)
    assert found.details["joules_per_input"] == pytest.approx(2e-3)
    assert found.details["meters"] == {"nvml": ["GPU (cuda:0)"]}
    assert found.details["what"].startswith("the whole GPU while")
    assert found.details["state"]["GPU (cuda:0)"]["watts"] == 1


def test_the_accelerator_is_part_of_the_key(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    here, there = (resolve_stack(Fake(), Options(device=device), None).identity for device in ("cpu", "cuda"))
    assert "accelerator" not in here
    assert there["accelerator"]["unknown"].startswith("driver, clocks")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert accelerator_identity("cuda")["settings"] == {"NVIDIA_TF32_OVERRIDE": "0"}


def test_names_of_devices():
    assert [device_kind(name) for name in ("cpu", "cuda", "cuda:1", "cuda:x")] == ["cpu", "cuda", "cuda", "cuda:x"]
    assert [device_index(name) for name in ("cuda", "cuda:1")] == [0, 1]


def test_what_a_worker_tells_is_checked():
    message = {"total": 6, "launch": 1, "inputs": 1, "compute": 2, "outputs": 1, "peak_memory": None, "events": True}
    assert read_device_times([message], 1) == [DeviceTimes(6, 1, 1, 2, 1, None, True)]
    for wrong in ({**message, "total": -1}, {**message, "compute": "2"}):
        with pytest.raises(ValueError, match="not an integer"):
            read_device_times([wrong], 1)
    with pytest.raises(ValueError, match="calls that were not"):
        read_device_times([message], 2)
