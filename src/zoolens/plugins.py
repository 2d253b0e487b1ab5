"""Entry points: the only plug-in mechanism. The built-in zoos, runtimes, datasets and metrics use it too."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from zoolens.errors import UnknownName, ZoolensError

ZOOS: Final = "zoolens.zoos"
RUNTIMES: Final = "zoolens.runtimes"
DATASETS: Final = "zoolens.datasets"
METRICS: Final = "zoolens.metrics"
GRAPH_LIBRARIES: Final = "zoolens.graph.libraries"
GRAPH_FILES: Final = "zoolens.graph.files"
COUNTERS: Final = "zoolens.counters"
TRAINERS: Final = "zoolens.trainers"
RESOURCES: Final = "zoolens.resources"
FUNCTIONS: Final = "zoolens.functions"

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
    FUNCTIONS: "function for ORDER BY",
}


@cache
def registered(group: str) -> dict[str, EntryPoint]:
    """All plug-ins of a group by name, without importing any of them."""
    return {point.name: point for point in entry_points(group=group)}


def names(group: str) -> list[str]:
    return sorted(registered(group))


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
