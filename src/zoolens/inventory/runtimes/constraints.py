"""What a user (`--require`) or a manifest (`requires`) demands of runtime and machine, and why it is not met.

    onnxruntime>=1.20, avx512, memory>=8GB, cores>=2, python>=3.11, device==cpu

A package with versions that is a runtime's own selects that runtime: the others do not satisfy it. Any other
package must be installed in a fitting version. A bare word is a CPU feature and matches by its beginning:
avx512 is satisfied by avx512f.
"""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from zoolens.base import plugins
from zoolens.base.engine.environments import split_requirements
from zoolens.base.engine.machine import Machine
from zoolens.base.errors import ConstraintError, ZoolensError
from zoolens.inventory.runtimes.runtime import Runtime

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_UNITS = {"B": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("KMGT", start=1)
    for suffix, base in (("B", 1000), ("IB", 1024))
}
_CLAUSE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True)
class Clause(ABC):
    """One demand. `text` is what the user wrote."""

    text: str

    @abstractmethod
    def failure(self, runtime: Runtime, machine: Machine, installed: Mapping[str, str]) -> str | None:
        """One sentence saying why it is not met, or None. `installed` has normalised names."""


@dataclass(frozen=True)
class Package(Clause):
    name: str
    versions: str

    def failure(self, runtime: Runtime, machine: Machine, installed: Mapping[str, str]) -> str | None:
        version = installed.get(self.name)
        # tensorflow may come from the package tensorflow-cpu.
        if self.name == runtime.name and version is None:
            version = next((installed[name] for name in _own(runtime) if name in installed), None)
        elif self.name not in (runtime.name, *_own(runtime)) and self.name in _runtime_packages():
            return f"{self.text} asks for another runtime than {runtime.name}"
        if version is None:
            return f"{self.text} is required but {self.name} is not installed"
        return None if _contains(self.versions, version) else f"{self.text} is required but {version} is installed"


@dataclass(frozen=True)
class Feature(Clause):
    name: str

    def failure(self, runtime: Runtime, machine: Machine, installed: Mapping[str, str]) -> str | None:
        if any(flag.startswith(self.name) for flag in machine.flags):
            return None
        return (
            f"{self.text} is required but this CPU has no such feature "
            "(a package is written with a version, such as onnxruntime>=1)"
        )


@dataclass(frozen=True)
class Amount(Clause):
    """An amount of memory in bytes, or a number of cores."""

    comparison: str
    wanted: int
    of_memory: bool

    def failure(self, runtime: Runtime, machine: Machine, installed: Mapping[str, str]) -> str | None:
        if _COMPARISONS[self.comparison](machine.memory_bytes if self.of_memory else machine.cores, self.wanted):
            return None
        offered = f"{machine.memory_bytes / 1e9:.1f} GB" if self.of_memory else str(machine.cores)
        return f"{self.text} is required but this machine offers {offered}"


@dataclass(frozen=True)
class Python(Clause):
    versions: str

    def failure(self, runtime: Runtime, machine: Machine, installed: Mapping[str, str]) -> str | None:
        if _contains(self.versions, machine.python):
            return None
        return f"{self.text} is required but this is Python {machine.python}"


@dataclass(frozen=True)
class Device(Clause):
    wanted: str

    def failure(self, runtime: Runtime, machine: Machine, installed: Mapping[str, str]) -> str | None:
        if self.wanted in runtime.devices:
            return None
        return f"{self.text} is required but {runtime.name} runs on {', '.join(runtime.devices)}"


_REQUIRED: Final = " is required but "
_ELSEWHERE: Final = " asks for another runtime than "


def said_once(reasons: Iterable[str]) -> list[str]:
    """Returns reasons in which a requirement that several runtimes fail is named once, with each runtime's cause."""
    grouped: dict[tuple[str, str], dict[str, None]] = {}
    for reason in reasons:
        words = next((phrase for phrase in (_REQUIRED, _ELSEWHERE) if phrase in reason), "")
        demand, why = reason, ""
        if words:
            demand, _, why = reason.partition(words)
        grouped.setdefault((demand, words), {})[why] = None
    return [f"{demand}{words}{', '.join(whys)}" for (demand, words), whys in grouped.items()]


def parse_requirements_text(text: str) -> tuple[Clause, ...]:
    """Read a comma-separated line of demands; a ConstraintError names the piece that cannot be read."""
    return tuple(_clause(piece) for piece in split_requirements(text))


def check(clauses: Sequence[Clause], runtime: Runtime, machine: Machine, installed: Mapping[str, str]) -> list[str]:
    """Why the demands are not met, one sentence each; empty: they are. `installed`: distributions by name."""
    from packaging.utils import canonicalize_name

    normal = {str(canonicalize_name(name)): version for name, version in installed.items()}
    failures = (clause.failure(runtime, machine, normal) for clause in clauses)
    return [failure for failure in failures if failure]


def _clause(piece: str) -> Clause:
    match = _CLAUSE.fullmatch(piece)
    if match is None:
        raise _unreadable(piece, "it does not begin with a name")
    name, rest = match["name"].lower(), match["rest"].strip()
    if not rest:
        return Feature(piece, name.replace(".", "_").replace("-", "_"))
    if name in ("memory", "cores"):
        of_memory = name == "memory"
        return Amount(piece, *_quantity(piece, rest, _bytes if of_memory else _count), of_memory)
    if name == "device":
        if not re.fullmatch(r"==\s*[\w:.-]+", rest):
            raise _unreadable(piece, "a device is given as in device==cpu")
        return Device(piece, rest[2:].strip().lower())
    versions = _versions(piece, rest)
    return Python(piece, versions) if name == "python" else Package(piece, _canonical(name), versions)


def _quantity(piece: str, rest: str, parse: Callable[[str], int | None]) -> tuple[str, int]:
    match = re.fullmatch(r"(>=|<=|==|!=|>|<)\s*(\S+(?: \S+)?)", rest)
    wanted = parse(match[2]) if match else None
    if match is None or wanted is None:
        raise _unreadable(piece, "it needs a comparison and an amount, as in memory>=8GB or cores>=2")
    return match[1], wanted


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else None


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]+)", text)
    unit = _UNITS.get(match[2].upper()) if match else None
    return int(float(match[1]) * unit) if match and unit else None


def _versions(piece: str, text: str) -> str:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return str(SpecifierSet(text))
    except InvalidSpecifier as error:
        raise _unreadable(piece, f"{text[:80]!r} is not a version constraint such as '>=1.20,<2'") from error


def _contains(versions: str, version: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(versions).contains(version, prereleases=True)


def _canonical(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def _own(runtime: Runtime) -> list[str]:
    return [_canonical(name) for name in runtime.distributions]


@cache
def _runtime_packages() -> frozenset[str]:
    """The names that stand for a runtime: its own, and that of its main package."""
    packages: set[str] = set()
    for name in plugins.names(plugins.RUNTIMES):
        try:
            packages |= {name, *_own(plugins.load(plugins.RUNTIMES, name)())[:1]}
        except ZoolensError:
            # A broken plug-in concerns us only when it is used.
            packages.add(name)
    return frozenset(packages)


def _unreadable(piece: str, why: str) -> ConstraintError:
    return ConstraintError(
        f"The requirement {piece[:80]!r} cannot be read: {why}.",
        hint="Write for instance 'onnxruntime>=1.20, avx512, memory>=8GB, cores>=2, python>=3.11, device==cpu'.",
    )
