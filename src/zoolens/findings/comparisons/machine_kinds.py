"""Kinds of machine as runs tell them: the hardware, and the software in which a runtime ran there.

An agent tells the same of a machine on which nobody has run anything yet. What belongs to a model or to what was asked
for (threads, precision, the decoder of its inputs) makes no other kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from packaging.utils import canonicalize_name

from zoolens.base.engine.environments import parse_env
from zoolens.base.engine.machine import Machine
from zoolens.base.errors import ZoolensError
from zoolens.base.phrases import first_few
from zoolens.base.store.records import fingerprint
from zoolens.findings.comparisons.machine_share import DRIVEN_BY
from zoolens.findings.measure.lock import OURS, machine_identity
from zoolens.inventory.fleet.agent_facts import KIND_DIGITS, AgentFacts

_SOFTWARE: Final = ("version", "packages", "environment", "python", "plugin", "address")  # of a stack's identity
_NAMES: Final = {
    "cpu": "processor",
    "flags": "CPU features",
    "cores": "cores",
    "architecture": "architecture",
    "python": "Python",
    "environment": "environment",
    "plugin": "code of the plug-in",
    "address": "server",
}
_MOST_DIFFERENCES: Final = 4  # that one sentence names


@dataclass(frozen=True)
class MachineKind:
    """Runs of one model and dataset in one runtime on one kind should not differ. `hardware` is empty where a server
    answered, of which nobody knows it."""

    runtime: str
    hardware: Mapping[str, Any]  # "machine" and "accelerator"
    software: Mapping[str, Any]

    @cached_property
    def id(self) -> str:
        return fingerprint([self.runtime, self.hardware, self.software])[:KIND_DIGITS]

    @cached_property
    def facts(self) -> dict[str, str]:
        """Everything that is known of it, by the names that people have for it."""
        return dict(_facts(self))

    @property
    def version(self) -> str:
        return str(self.software.get("version") or "")

    @property
    def machine_name(self) -> str:
        machine, gpu = self.hardware["machine"], self.hardware["accelerator"].get("name")
        if not machine:
            return f"behind {self.software.get('address') or 'a server'}"
        known = machine.get("cpu") if machine.get("cpu") != "unknown" else None
        processor = known or machine.get("architecture") or "unknown processor"
        cores = machine.get("cores")
        parts = [str(processor), "" if cores is None else f"{cores} core{'s' * (cores != 1)}", str(gpu or "")]
        return ", ".join(part for part in parts if part)

    @property
    def software_name(self) -> str:
        apart = " (own environment)" if self.software.get("environment") else ""
        return f"{self.runtime} {self.version}".rstrip() + apart

    def same_hardware(self, other: MachineKind) -> bool:
        """Whether both are known to run on equal hardware."""
        return bool(self.hardware["machine"]) and self.hardware == other.hardware


def kind_of_stack(runtime: str, identity: Mapping[str, Any]) -> MachineKind:
    """The kind of machine that a run's environment tells."""
    accelerator = _mapping(identity.get("accelerator"))
    hardware = {name: value for name, value in accelerator.items() if name not in DRIVEN_BY}
    driven_by = {name: value for name, value in accelerator.items() if name in DRIVEN_BY and value}
    software = {name: identity[name] for name in _SOFTWARE if identity.get(name)}
    if driven_by:
        software["accelerator"] = driven_by
    return MachineKind(runtime, {"machine": _mapping(identity.get("machine")), "accelerator": hardware}, software)


def kind_of_machine(machine: Machine, environment: str = "") -> MachineKind:
    """A machine without what is installed there but for an environment, whose requirements can be read."""
    software = {"environment": list(parse_env(environment).requirements)} if environment else {}
    return MachineKind("", {"machine": machine_identity(machine), "accelerator": {}}, software)


def kind_of_agent(runtime: str, facts: AgentFacts) -> MachineKind | None:
    """The kind on which an agent would run this runtime on its processor; None: it does not have the runtime."""
    if runtime not in facts.runtimes:
        return None
    software: dict[str, Any] = {"version": facts.runtimes[runtime], "python": facts.machine.python}
    if facts.environment:
        try:
            software["environment"] = list(parse_env(facts.environment).requirements)
        except ZoolensError:
            return None  # whoever may write rows of agents wrote this one
    return MachineKind(runtime, {"machine": machine_identity(facts.machine), "accelerator": {}}, software)


def offers(facts: AgentFacts, kind: MachineKind) -> bool:
    """Whether a run on this agent's machine would be of this kind, as far as the agent tells. What it does not tell of
    a GPU (driver, clocks) counts as the same."""
    own = kind_of_agent(kind.runtime, facts)
    if own is None or own.hardware["machine"] != kind.hardware["machine"]:
        return False
    gpu = kind.hardware["accelerator"].get("name")
    if gpu is not None and gpu not in facts.gpus:
        return False
    told = ("version", "python", "environment")
    if any(own.software.get(name) != kind.software.get(name) for name in told):
        return False
    # Inputs are prepared outside an environment, where an agent that offers one does not list packages.
    unknown = OURS if facts.environment else ()
    packages = _mapping(kind.software.get("packages"))
    return all(
        facts.packages.get(canonicalize_name(name)) == packages[name] for name in packages if name not in unknown
    )


# --- words


@dataclass(frozen=True)
class KindName:
    """What a kind is called among others."""

    machine: str
    software: str
    apart: tuple[str, ...]  # what else sets it apart from the other kinds

    def __str__(self) -> str:
        return ", ".join([self.software, *self.apart, self.machine])


def kind_names(kinds: Sequence[MachineKind]) -> dict[str, KindName]:
    """Names by the ids of the kinds, with as much as it takes to tell them apart."""
    alike: dict[tuple[str, str], list[MachineKind]] = {}
    for kind in kinds:
        alike.setdefault((kind.machine_name, kind.software_name), []).append(kind)
    return {
        kind.id: KindName(machine, software, tuple(_apart(kind, group)))
        for (machine, software), group in alike.items()
        for kind in group
    }


def _apart(kind: MachineKind, alike: Sequence[MachineKind]) -> Iterator[str]:
    """The facts of a kind that are others in one that has the same name. What nobody knows of the other is no
    difference, unless nothing else is one."""
    others = [other for other in alike if other is not kind]
    differing = [
        f"{name} {value}"
        for name, value in kind.facts.items()
        if any(other.facts.get(name, value) != value for other in others)
    ]
    yield from differing
    if others and not differing:
        yield f"kind {kind.id}"


def difference_words(kind: MachineKind, other: MachineKind, further: Iterable[str] = ()) -> str:
    """What differs: "onnxruntime 1.24.1 instead of 1.31.1". `further`: what is known of two runs on them besides."""
    names = dict.fromkeys((*kind.facts, *other.facts))
    said = [
        f"{name} {_said(kind, name)} instead of {_said(other, name)}"
        for name in names
        if kind.facts.get(name) != other.facts.get(name)
    ]
    said = [*further, *said]  # a precision that the runtime chose tells more than its version
    return first_few(said, _MOST_DIFFERENCES) if said else "nothing that was recorded"


def _said(kind: MachineKind, name: str) -> str:
    return kind.facts.get(name, "none" if name == _NAMES["environment"] else "unknown")


def _facts(kind: MachineKind) -> Iterator[tuple[str, str]]:
    software = dict(kind.software)
    if kind.version:
        yield kind.runtime, kind.version
    if (python := software.get("python")) is not None:
        yield _NAMES["python"], str(python)
    for name, version in sorted(_mapping(software.get("packages")).items()):
        # A package that has the runtime's own version says it once more.
        if version is not None and str(version) != kind.version:
            yield str(name), str(version)
    if environment := software.get("environment"):
        yield _NAMES["environment"], _joined(environment)
    for name in ("plugin", "address"):
        if software.get(name):
            yield _NAMES[name], str(software[name])
    for name, value in (software.get("accelerator") or {}).items():
        yield f"GPU {name}", str(value)
    for name, value in kind.hardware["machine"].items():
        yield _NAMES.get(name, name), str(value)
    for name, value in kind.hardware["accelerator"].items():
        yield f"GPU {name}", str(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    """A part of an identity, which may be of a plug-in or of a version that kept something else there."""
    return value if isinstance(value, Mapping) else {}


def _joined(values: Iterable[Any] | str) -> str:
    return values if isinstance(values, str) else " ".join(map(str, values))
