"""What a machine is and has, as its agent publishes it in the store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from packaging.utils import canonicalize_name
from pydantic import TypeAdapter, ValidationError

from zoolens.base.engine.environments import ensure_environment, list_environments, parse_env
from zoolens.base.engine.machine import Machine, describe_machine, gpu_names, this_host
from zoolens.base.errors import Lost, StoreError, ZoolensError
from zoolens.base.paths import data_dir
from zoolens.base.store.records import fingerprint
from zoolens.base.version import __version__
from zoolens.inventory.catalog.packages import installed_packages
from zoolens.inventory.runtimes.runtime_names import installed_runtimes, runtime_named

KIND_DIGITS: Final = 8


@dataclass(frozen=True)
class AgentFacts:
    """`runtimes` and `packages` are those of `environment`, where the agent offers its machine with one."""

    host: str  # the same for all agents of one machine
    machine: Machine
    gpus: tuple[str, ...]
    zoolens: str
    runtimes: Mapping[str, str]  # names and versions
    packages: Mapping[str, str]
    environment: str = ""  # requirements of the environment in which models run; empty: that of the agent itself
    environments: tuple[str, ...] = ()  # those that were built there already
    free_disk: int = 0  # bytes
    load: float = 0.0  # processes that want to run, as the operating system counts them
    node: str = ""  # its id in a Ray cluster; empty: it is in none
    peaks: Mapping[str, float] = field(default_factory=dict)  # FLOP/s by precision; empty: nobody measured them

    @property
    def kind(self) -> str:
        """The digest of everything by which keys of runs tell machines apart."""
        return self.kind_for()

    def kind_for(self, runtimes: Sequence[str] = (), *, gpu: bool = True, environment: bool = True) -> str:
        """The digest of what counts for an evaluation in these runtimes (default: all), on a GPU or not, in the agent's
        environment or in one that the user names. Two machines with one digest would make one run."""
        machine = self.machine
        counting = {name: own for name, own in self.runtimes.items() if not runtimes or name in runtimes}
        about: list[Any] = [machine.cpu, list(machine.flags), machine.cores, machine.architecture, machine.python]
        about += [sorted(self.gpus) if gpu else [], counting if environment else {}]
        return fingerprint(["kind of machine", *about, self.environment if environment else ""])[:KIND_DIGITS]

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = _FACTS.dump_python(self, mode="json")
        return data


_FACTS: Final = TypeAdapter(AgentFacts)


def read_facts(agent: str, data: Mapping[str, Any]) -> AgentFacts:
    """What an agent published. StoreError: it is of another version of zoolens, or was written by somebody else."""
    try:
        return _FACTS.validate_python(dict(data))
    except ValidationError as error:
        raise StoreError(
            f"What the agent {agent} published cannot be read ({error.error_count()} fields are wrong or missing).",
            hint="Start the agent again with the same version of zoolens as here.",
        ) from error


def describe_agent(environment: str = "", *, node: str = "", peaks: Mapping[str, float] | None = None) -> AgentFacts:
    """This machine as it is now. An `environment` that was not built yet is built first."""
    packages = ensure_environment(parse_env(environment)).freeze if environment else installed_packages()
    return AgentFacts(
        host=this_host(),
        machine=describe_machine(),
        gpus=gpu_names(),
        zoolens=__version__,
        runtimes=dict(_runtimes(packages, inside=bool(environment))),
        packages=packages,
        environment=str(parse_env(environment)) if environment else "",
        environments=tuple(str(built.spec) for built in list_environments()),
        node=node,
        peaks=dict(peaks or {}),
        **changing_facts(),
    )


def changing_facts() -> dict[str, Any]:
    """What is another value at every heartbeat."""
    place = data_dir()
    existing = next(folder for folder in (place, *place.parents) if folder.exists())
    return {"free_disk": shutil.disk_usage(existing).free, "load": round(os.getloadavg()[0], 2)}


def kind_here(inside: str, runtimes: Sequence[str] = (), *, gpu: bool, environment: bool) -> str:
    """The kind of this machine. An environment that is not here is not built: who asks may be anybody who can write
    into the store."""
    if inside and inside not in (str(built.spec) for built in list_environments()):
        raise Lost(f"This machine has no environment {inside}.", hint="Start its agent again, which builds it.")
    return describe_agent(inside).kind_for(runtimes, gpu=gpu, environment=environment)


def _runtimes(packages: Mapping[str, str], *, inside: bool) -> Iterator[tuple[str, str]]:
    """The runtimes that these packages hold, with their versions; built-in ones belong to no environment."""
    for name in installed_runtimes():
        try:
            runtime = runtime_named(name)
        except ZoolensError:
            continue  # A broken plug-in concerns who uses it.
        names = [canonicalize_name(distribution) for distribution in runtime.distributions]
        inside_version = next((packages[name] for name in names if name in packages), None)
        version = inside_version if inside else runtime.version()
        if version is not None:
            yield name, version
