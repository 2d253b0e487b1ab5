"""What a network would take in a runtime that never ran it: the sum of its operators' times from the latency table.

Runtimes here execute one operator after the other (each with all threads), so the sum is the estimate and the
critical path, the slowest chain of dependent operators, is what an executor of parallel branches could reach. How
far to trust it is measured, not assumed: networks that were also run as a whole give a correction and an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import UnknownName
from zoolens.base.progress import Progress
from zoolens.base.store.records import Observation, Provenance, Run, Stage
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.store import Store
from zoolens.findings.graph.cost.fused_operators import longest_path, operators
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.serialisation import unpack
from zoolens.findings.graph.structures.structure import KIND
from zoolens.findings.index.sources.structures import known_structures, read_named_structures
from zoolens.findings.index.tables.row_table import RowTable
from zoolens.findings.index.tables.rows import Figure
from zoolens.findings.measure.operators import LatencyTable, latency_table

METRIC: Final = "operator_time"  # the raw sum, with the table's runtime and version as scope
LATENCY: Final = f"latency_p50@{batch_scope(1)}"
FLOAT32: Final = "float32"  # operators are timed so
LEAST: Final = 3  # networks measured as a whole that an error can be told from
COVERED: Final = 0.95  # share of a network's operators that must be in the table
REACH: Final = 4.0  # times larger or smaller than those measured as a whole: what they tell, they tell of such networks


@dataclass(frozen=True)
class Raw:
    """Times of a network straight from the table. `covered` is the share of its operators that could be timed."""

    seconds: float
    critical_path: float
    covered: float


_UNTIMED: Final = Raw(0.0, 0.0, 0.0)  # of a quantised network


@dataclass(frozen=True)
class Calibration:
    """How sums of operator times become latencies in one runtime."""

    factor: float  # measured latency over raw sum
    error: float | None  # relative, one standard deviation, leave-one-out; None: too few networks
    networks: int
    low: float = 0.0  # raw sums from `low` to `high` only: overhead of calls weighs much in tiny networks
    high: float = math.inf


@dataclass(frozen=True)
class Estimated:
    ref: str
    raw: Raw


def raw_estimate(graph: Graph, table: LatencyTable) -> Raw:
    operator_times = [(operator.nodes[0].name, table.seconds.get(operator.key)) for operator in operators(graph)]
    timed = {name: seconds for name, seconds in operator_times if seconds is not None}
    covered = len(timed) / len(operator_times) if operator_times else 1.0
    return Raw(table.call + math.fsum(timed.values()), table.call + longest_path(graph, timed), covered)


def calibrate(pairs: Sequence[tuple[float, float]]) -> Calibration:
    """Return the calibration from pairs of raw and measured seconds of the networks that have both."""
    sound = [(raw, measured) for raw, measured in pairs if raw > 0 and measured > 0]
    if not sound:
        return Calibration(1.0, None, 0)
    ratios = [math.log(measured / raw) for raw, measured in sound]
    factor = math.exp(median(ratios))
    sizes = [raw for raw, _ in sound]
    low, high = min(sizes) / REACH, max(sizes) * REACH
    if len(ratios) < LEAST:
        return Calibration(factor, None, len(ratios), low, high)
    squares = []
    for place, own in enumerate(ratios):  # leave-one-out: each network is predicted from the others
        others = ratios[:place] + ratios[place + 1 :]
        squares.append((own - median(others)) ** 2)
    spread = math.sqrt(math.fsum(squares) / len(squares))
    return Calibration(factor, math.expm1(spread), len(ratios), low, high)


def estimate_operators(
    store: Store, patterns: Sequence[str] = ("*",), *, runtime: str = "onnxruntime", progress: Progress | None = None
) -> list[Estimated]:
    """Raw estimates of the structures in the store that the patterns name, kept as observations of provenance
    ESTIMATED. Operators that the store has no time for are timed now; killed and called again, it goes on. A structure
    that the store does not have by such a name is read."""
    named = _named(store, patterns, progress)
    if not named:
        raise UnknownName("structure", ", ".join(patterns), hint="`zoolens index build` reads structures.")
    graphs = {run.id: unpack(store.table(run.id, KIND).column(KIND)[0].as_py()) for _, run in named}
    real = {key: graph for key, graph in graphs.items() if not graph.facts.get("quantised")}
    table = latency_table(real.values(), store, runtime=runtime, progress=progress)
    estimates = {key: raw_estimate(graph, table) for key, graph in real.items()}
    return [_kept(store, ref, run, estimates.get(run.id, _UNTIMED), table) for ref, run in named]


def _named(store: Store, patterns: Sequence[str], progress: Progress | None) -> list[tuple[str, Run]]:
    """The structures that the patterns name, each with its name."""
    structures = known_structures(store)
    missing = [pattern for pattern in patterns if pattern != "*" and not structures.named(pattern)]
    for pattern in missing:
        with suppress(UnknownName):
            read_named_structures(store, pattern, progress)
    if missing:
        structures = known_structures(store)
    found: dict[str, tuple[str, Run]] = {}
    for pattern in patterns:
        found |= structures.named(pattern)
    return list(found.values())


def _kept(store: Store, ref: str, run: Run, raw: Raw, table: LatencyTable) -> Estimated:
    if raw.covered >= COVERED:
        details = {"critical_path": raw.critical_path, "covered": raw.covered}
        observation = Observation(
            METRIC, raw.seconds, scope=table.stack, unit="s", provenance=Provenance.ESTIMATED, details=details
        )
        store.finish_stage(run.id, Stage.OPERATORS.of(table.stack), [observation])
    return Estimated(ref, raw)


def latency_estimates(rows: RowTable) -> dict[str, dict[str, Figure]]:
    """A latency for every row that has the sum of its operators' times and was never timed as a whole. A row of one
    runtime gets none from the table of another, nor a quantised network from operators in float32."""
    best: dict[str, dict[str, Figure]] = {}
    judged = [(calibrate(_both(rows, name)), name) for name in _sums(rows)]
    for calibration, name in sorted(judged, key=lambda pair: (pair[0].error is None, pair[0].error or 0.0, pair[1])):
        runtime = rows.attribute("runtime")
        fits = (runtime.codes < 0) | runtime.rows_among([_runtime(name)])
        fits &= _are_float32(rows) & rows.figures.known(name) & ~rows.figures.known(LATENCY)
        sums = rows.figures.values(name)
        for row in np.flatnonzero(fits).tolist():
            key = str(rows.columns["key"][row])
            best.setdefault(key, {LATENCY: _figure(sums.item(row), name, calibration)})
    return best


def _runtime(name: str) -> str:
    """The runtime of a table, from the name of its sums: operator_time@RUNTIME VERSION."""
    return name.partition("@")[2].partition(" ")[0]


def _are_float32(rows: RowTable) -> NDArray[np.bool_]:
    columns = [rows.attribute(name) for name in ("element_type", "precision")]
    element_type, precision = ((column.codes < 0) | column.rows_among([FLOAT32]) for column in columns)
    return element_type & precision


def _sums(rows: RowTable) -> list[str]:
    return sorted(name for name in rows.figures.names if name.startswith(f"{METRIC}@"))


def _both(rows: RowTable, name: str) -> list[tuple[float, float]]:
    """Raw sum and measured latency of the rows that have both in the runtime of this table, in its version."""
    version = rows.attribute("runtime_version")
    fits = (version.codes < 0) | version.rows_among([name.partition("@")[2].partition(" ")[2]])
    fits &= rows.attribute("runtime").rows_among([_runtime(name)]) & _are_float32(rows)
    fits &= rows.figures.known(name) & rows.figures.measured(LATENCY)
    return list(zip(rows.figures.values(name)[fits].tolist(), rows.figures.values(LATENCY)[fits].tolist(), strict=True))


def _figure(raw: float, name: str, calibration: Calibration) -> Figure:
    stack = name.partition("@")[2]
    if not calibration.low <= raw <= calibration.high:
        source = f"float32 operator times of {stack}; no network of about its size was measured as a whole"
        return Figure(raw, "s", Provenance.ESTIMATED, source=source)
    value, error = raw * calibration.factor, calibration.error
    source = f"float32 operator times of {stack}, corrected by {calibration.networks} measured networks"
    if error is None:
        return Figure(value, "s", Provenance.ESTIMATED, source=source)
    spread = 1 + 2 * error
    return Figure(value, "s", Provenance.ESTIMATED, value / spread, value * spread, error, source)
