"""The resolved lock of an evaluation: everything about software and machine that made the numbers.

`identity` is what can change an answer or a time; its fingerprint is part of every run's key, so an upgrade of the
runtime is a new run and an unrelated package is not. `lock` adds what is needed to build the environment again.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from packaging.utils import canonicalize_name

from zoolens.base import plugins
from zoolens.base.engine.environments import Environment
from zoolens.base.engine.machine import Machine, describe_machine, gpu_names
from zoolens.base.engine.nvml import GpuProbe, NoNvml
from zoolens.base.store.records import StackRecord, fingerprint
from zoolens.inventory.catalog.packages import installed_packages
from zoolens.inventory.datasets.decoders.decoder import packages_of
from zoolens.inventory.manifests.schema import DEFAULT_DECODER, Input
from zoolens.inventory.preprocess.tokenizer_client import LIBRARY as TOKENIZERS
from zoolens.inventory.runtimes.devices import device_index
from zoolens.inventory.runtimes.runtime import Options, Runtime

PROTOCOL = 1  # raised when our own way of measuring changes what the numbers mean
# 2: latency is sampled in a loop inside the worker, and means what it means in our own process. Before, each call
# followed on a wake-up of the worker. Models that need no process of their own were timed without one, so that their
# figures, which now come from a sandboxed worker, stay comparable and keep their keys.
WORKER_PROTOCOL = 2
_SETTINGS: Final = (
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "XLA_FLAGS",
)
OURS = ("numpy", "Pillow")  # of our own dependencies, those that touch every input


def resolve_stack(
    runtime: Runtime,
    options: Options,
    environment: Environment | None,
    isolated: bool = False,
    decoder: str = DEFAULT_DECODER,
    tasks: Iterable[str] = (),
    *,
    inputs: Input | None = None,
) -> StackRecord:
    ours = installed_packages()
    theirs = environment.freeze if environment else ours
    identity: dict[str, Any] = {
        "protocol": WORKER_PROTOCOL if isolated else PROTOCOL,
        "runtime": runtime.name,
        "version": _version(runtime, environment),
        # Inputs are decoded and resized in our own process, whatever the model runs in.
        "packages": {name: theirs.get(canonicalize_name(name)) for name in runtime.distributions}
        | {name: ours.get(canonicalize_name(name)) for name in OURS},
        "environment": list(environment.spec.requirements) if environment else None,
        "isolated": isolated,
        "python": platform.python_version(),
        "machine": machine_identity(describe_machine()),
        "options": asdict(options),
    }
    if options.device != "cpu":
        identity["accelerator"] = accelerator_identity(options.device)
    # This machine prepares the inputs and waits; what computes is not known.
    if not runtime.can("run_here"):
        client = machine_identity(describe_machine())
        identity |= {"machine": {}, "client": client, **runtime.identity()}
    # Runs of runtimes that are called as they always were keep their key.
    if runtime.protocol > 1:
        identity["runtime_protocol"] = runtime.protocol
    if (code := plugins.code_of(plugins.RUNTIMES, runtime.name)) is not None:
        identity["plugin"] = code
    if codes := {task: code for task in tasks if (code := plugins.code_of(plugins.TASKS, task)) is not None}:
        # What is kept of an answer and how it is judged is the plug-in's own.
        identity["tasks"] = codes
    # Pillow is among the packages already, and runs that are stored keep their key.
    if decoder != DEFAULT_DECODER:
        identity["decoder"] = {name: ours[name] for name in packages_of(decoder) if name in ours}
    # What makes every input.
    if inputs is not None and inputs.tokenizer is not None:
        identity["tokenizer"] = {TOKENIZERS: ours.get(TOKENIZERS)}
    if inputs is not None and inputs.sound is not None:
        resamplers = ("soxr",) if inputs.sound.resample == "soxr" else ()
        identity["sound"] = {name: ours.get(name) for name in ("soundfile", *resamplers)}
    lock = {
        **identity,
        "all_packages": ours,
        "environment_packages": dict(environment.freeze) if environment else None,
        "machine": asdict(describe_machine()),
    }
    return StackRecord(fingerprint(identity), runtime.name, identity, lock)


def measured_alike(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two environments' figures mean the same: by the identities of their stacks. The present way of measuring
    has one number in our own process and another in a worker."""
    own, others = ((_way_of_measuring(one), one.get("runtime_protocol", 1)) for one in (a, b))
    return own == others


def _way_of_measuring(identity: Mapping[str, Any]) -> Any:
    isolated, protocol = bool(identity.get("isolated")), identity.get("protocol")
    if protocol is None:
        return None
    return "present" if protocol == (WORKER_PROTOCOL if isolated else PROTOCOL) else (protocol, isolated)


def accelerator_identity(device: str) -> dict[str, Any]:
    """What of an accelerator, and of the settings around us that its libraries read, can change an answer or a time."""
    settings = {name: os.environ[name] for name in _SETTINGS if name in os.environ}
    try:
        return {**asdict(GpuProbe(device_index(device)).describe()), "settings": settings}
    except NoNvml as error:
        names = gpu_names()
        index = device_index(device)
        return {
            "name": names[index] if index < len(names) else None,
            "unknown": f"driver, clocks and power limit: {error}",
            "settings": settings,
        }


def _version(runtime: Runtime, environment: Environment | None) -> str | None:
    if environment is None:
        return runtime.version()
    return environment.freeze.get(canonicalize_name(runtime.distributions[0])) if runtime.distributions else None


def machine_identity(machine: Machine) -> dict[str, Any]:
    """What of a machine can change an answer or a time."""
    return {
        "cpu": machine.cpu,
        "flags": fingerprint(machine.flags)[:12],
        "cores": machine.cores,
        "architecture": machine.architecture,
    }
