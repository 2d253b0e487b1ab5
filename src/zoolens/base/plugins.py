"""Entry points: the only plug-in mechanism. The built-in zoos, runtimes, datasets and metrics use it too."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zoolens.base.errors import UnknownName, ZoolensError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

OURS: Final = "zoolens"  # the distribution of the built-in plug-ins

ZOOS: Final = "zoolens.zoos"
RUNTIMES: Final = "zoolens.runtimes"
DATASETS: Final = "zoolens.datasets"
METRICS: Final = "zoolens.metrics"
GRAPH_LIBRARIES: Final = "zoolens.graph.libraries"
GRAPH_FILES: Final = "zoolens.graph.files"
COUNTERS: Final = "zoolens.counters"
TRAINERS: Final = "zoolens.trainers"
RESOURCES: Final = "zoolens.resources"
TASKS: Final = "zoolens.tasks"
FUNCTIONS: Final = "zoolens.functions"
BOUNDS: Final = "zoolens.bounds"
TWIN_BOUNDS: Final = "zoolens.twin_bounds"
PUBLISHED_STUDIES: Final = "zoolens.published_studies"
EXECUTORS: Final = "zoolens.executors"
POLICIES: Final = "zoolens.policies"
METERS: Final = "zoolens.meters"

_KIND = {
    ZOOS: "zoo",
    RUNTIMES: "runtime",
    DATASETS: "dataset kind",
    METRICS: "metric",
    GRAPH_LIBRARIES: "library whose structure can be read",
    GRAPH_FILES: "format whose structure can be read",
    COUNTERS: "cost counter",
    TRAINERS: "trainer",
    RESOURCES: "resource metric",
    TASKS: "task",
    FUNCTIONS: "function for ORDER BY",
    BOUNDS: "bound on the error of a model",
    TWIN_BOUNDS: "bound on the outputs of a stitched model",
    PUBLISHED_STUDIES: "study that others published",
    EXECUTORS: "place to run work on",
    POLICIES: "policy for switching",
    METERS: "energy meter",
}


def registered(group: str) -> Mapping[str, EntryPoint]:
    """Returns all plug-ins of a group by name, without importing any of them."""
    return _registered(group, tuple(sys.path))


def forget() -> None:
    """Clears the cache of plug-ins, because a package was installed or removed."""
    _registered.cache_clear()
    _of_all_groups.cache_clear()


@cache
def _registered(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    return {point.name: point for point in _of_all_groups(path).select(group=group)}


@cache
def _of_all_groups(_path: tuple[str, ...]) -> Any:
    """Returns all entry points on the import path; asking for one group takes as long."""
    # A fifteenth of a second, which not every command needs.
    from importlib.metadata import entry_points

    return entry_points()


def names(group: str) -> list[str]:
    return sorted(registered(group))


def code_of(group: str, name: str) -> dict[str, str] | None:
    """Which code a plug-in of somebody else is: its distribution, version and a digest of its package's source.

    It belongs in the key of what the plug-in computes: edited code gives other results under the same version. None for
    our own, whose changes of meaning raise a protocol number instead, and for what is not registered.
    """
    point = registered(group).get(name)
    if point is None:
        return None
    distribution = _distribution(point)
    if distribution.get("distribution") == OURS:
        return None
    return {**distribution, "digest": _source_digest(point.module)}


@cache
def _distribution(point: EntryPoint) -> dict[str, str]:
    """Returns name and version of a plug-in's distribution; cached, since both are parsed from a file."""
    return {"distribution": point.dist.name, "version": point.dist.version} if point.dist is not None else {}


@cache
def _source_digest(module: str) -> str:
    """Returns the digest of all Python files of the module's top-level package, or of the module alone."""
    top = find_spec(module.partition(".")[0])
    folders = list(top.submodule_search_locations or ()) if top is not None else []
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    if not folders and top is not None and top.origin:
        files = [Path(top.origin)]
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def load(group: str, name: str) -> Any:
    """Import and return the object a plug-in registers (a class or a function)."""
    points = registered(group)
    if name not in points:
        raise UnknownName(_KIND.get(group, group), name, points)
    try:
        return points[name].load()
    except ZoolensError:
        raise
    except Exception as error:
        distribution = points[name].dist
        source = distribution.name if distribution else points[name].value
        raise ZoolensError(
            f"The {_KIND.get(group, group)} plug-in {name!r} from {source} cannot be imported: "
            f"{type(error).__name__}: {error}.",
            hint="Reinstall or remove that package.",
        ) from error


def installed_version(distribution: str) -> str | None:
    """Returns the version of an installed package without importing it; None if it is not installed."""
    from importlib import metadata

    try:
        found = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return None
    # The standard library parses all of a package's description for it, which takes three times as long.
    headers = (found.read_text("METADATA") or "").partition("\n\n")[0]
    version = next((line for line in headers.splitlines() if line.startswith("Version:")), None)
    return found.version if version is None else version.partition(":")[2].strip()
