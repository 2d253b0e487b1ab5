"""Scenarios of MLPerf Inference: its own load generator sends, and we only carry requests to the server.

The generator knows no failures: a request that a server refuses at once would count as a quick answer. So a run with
any failure is not valid here, whatever the generator says.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import MissingDependency, ZoolensError
from zoolens.base.protocol.errors import ServingError
from zoolens.faces.load.exchanges import Outcome
from zoolens.faces.load.run_load import Inputs, prepare, transport_to
from zoolens.faces.load.transport_base import Transport
from zoolens.faces.load.workload import Workload

SCENARIOS: Final = ("SingleStream", "MultiStream", "Offline", "Server")
_SUMMARY: Final = "mlperf_log_summary.txt"
_AT_ONCE: Final = 64  # requests under way, of the scenario that hands over all samples at once
_SECONDS: Final = 600.0  # for one answer
_QUICKEST_NS: Final = 20_000  # of an answer over a network connection
_QUICKEST_OF_EIGHT_NS: Final = 100_000  # of the eight answers of a query of MultiStream
# Queries from which on the generator takes the percentile of a scenario for known ("early stopping"): with fewer the
# run is invalid, however long it lasted.
_FEWEST: Final = {"SingleStream": 64, "MultiStream": 662, "Server": 662}
_ATTEMPTS: Final = 4  # at an Offline run that lasts long enough
_FASTER: Final = 1.3  # than the last attempt was, the next one expects the server to be


@dataclass(frozen=True)
class Scenario:
    """A scenario of MLPerf Inference and its settings."""

    name: str  # one of `SCENARIOS`, in any case
    duration: float = 10.0  # seconds
    rate: float = 10.0  # requests per second: the target of Server, and what Offline expects at first
    latency_bound: float | None = None  # seconds, of Server
    seed: int = 0  # of the inputs

    def checked(self) -> Scenario:
        """Return the scenario under the name that the load generator knows it by."""
        by_name = {name.lower(): name for name in SCENARIOS}
        known = by_name.get(self.name.lower())
        if known is None:
            raise ZoolensError(f"There is no MLPerf scenario {self.name!r} here.", hint=f"Use {', '.join(SCENARIOS)}.")
        if known == "Server" and self.latency_bound is None:
            raise ZoolensError("The scenario Server has a bound on latency.", hint="Give it with --deadline.")
        return replace(self, name=known)


@dataclass(frozen=True)
class ScenarioResult:
    """What the load generator and our own check found."""

    scenario: str
    valid: bool
    failures: dict[str, int]  # requests that got no answer, by kind
    notes: tuple[str, ...]
    summary: dict[str, str]  # what the load generator wrote, by name


def run_scenario(
    url: str, scenario: Scenario, *, model: str = "", inputs: Inputs | None = None, folder: Path | None = None
) -> ScenarioResult:
    """Run one scenario against a server. `folder`: where the load generator's own logs are kept.

    Offline hands over all samples at once, as many as the expected rate needs for the duration. A server that is
    quicker answers them too soon for a valid run: then it is run again with the throughput that was measured.
    """
    scenario = scenario.checked()
    loadgen = _library()
    target, workload = prepare(url, model=model, inputs=inputs, seed=scenario.seed)
    with ExitStack() as stack:
        logs = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zoolens-mlperf-")))
        logs.mkdir(parents=True, exist_ok=True)
        carrier = stack.enter_context(_Carrier(loadgen, transport_to(target), workload))
        for _ in range(_ATTEMPTS):
            _run(loadgen, _settings(loadgen, scenario), carrier, len(workload.requests), logs)
            summary = _read_summary(logs / _SUMMARY)
            if not _too_short(scenario.name, summary):
                break
            scenario = replace(scenario, rate=_FASTER * float(summary["Samples per second"]))
    # Offline hands over more samples than there are connections by design; the other scenarios never hold so many.
    held_back = scenario.name == "Server" and carrier.held > 0
    notes = list(workload.notes)
    if carrier.failures:
        lost = sum(carrier.failures.values())
        notes.append(f"{lost:,} requests got no answer; the generator counts them as answered.")
    if held_back:
        notes.append(f"{carrier.held:,} requests waited until one of {_AT_ONCE} connections was free.")
    notes.append("This is not an MLPerf submission: its rules ask for fixed data, longer runs and an accuracy run.")
    valid = summary.get("Result is") == "VALID" and not carrier.failures and not held_back
    return ScenarioResult(scenario.name, valid, dict(carrier.failures), tuple(notes), summary)


def _too_short(scenario: str, summary: Mapping[str, str]) -> bool:
    """Whether an Offline run was over before its time, because the server is quicker than was expected."""
    satisfied = summary.get("Min duration satisfied", "")
    return scenario == "Offline" and satisfied.lower() == "no"


def _settings(loadgen: Any, scenario: Scenario) -> Any:
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, scenario.name)
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = round(scenario.duration * 1000)
    settings.min_query_count = _FEWEST.get(scenario.name, 1)
    # From this the generator takes how many queries it prepares, 1,000 for a second if it is not told: a quick server
    # would answer them before the time is over, and the run would count as invalid.
    settings.single_stream_expected_latency_ns = _QUICKEST_NS
    settings.multi_stream_expected_latency_ns = _QUICKEST_OF_EIGHT_NS
    if scenario.name == "Server":
        assert scenario.latency_bound is not None
        settings.server_target_qps = scenario.rate
        settings.server_target_latency_ns = round(scenario.latency_bound * 1e9)
    elif scenario.name == "Offline":
        settings.offline_expected_qps = scenario.rate
    return settings


def _run(loadgen: Any, settings: Any, carrier: _Carrier, count: int, logs: Path) -> None:
    output = loadgen.LogOutputSettings()
    output.outdir = str(logs)
    output.copy_summary_to_stdout = False
    log_settings = loadgen.LogSettings()
    log_settings.log_output = output
    log_settings.enable_trace = False
    system = loadgen.ConstructSUT(carrier.issue, lambda: None)
    library = loadgen.ConstructQSL(count, count, lambda _: None, lambda _: None)
    try:
        loadgen.StartTestWithLogSettings(system, library, settings, log_settings)
    finally:
        loadgen.DestroyQSL(library)
        loadgen.DestroySUT(system)


class _Carrier:
    """Carries what the load generator issues to the server, on an event loop in a thread of its own."""

    def __init__(self, loadgen: Any, transport: Transport, workload: Workload) -> None:
        self._loadgen, self._transport = loadgen, transport
        self._encoded = [transport.encode(request) for request in workload.requests]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mlperf", daemon=True)
        self._slots: asyncio.Semaphore | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._read: set[int] = set()
        self.failures: dict[str, int] = {}
        self.held = 0  # requests that had to wait for a free connection

    def __enter__(self) -> _Carrier:
        self._thread.start()
        self._await(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._await(self._transport.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)
        try:
            await self._transport.open(4)
        except OSError as error:
            raise ZoolensError(f"No answer from {self._transport.address}: {error}.") from error

    def _await(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def issue(self, samples: Sequence[Any]) -> None:
        """Called by the load generator, in a thread of its own; it must return at once."""
        wanted = [(sample.id, sample.index) for sample in samples]
        self._loop.call_soon_threadsafe(self._begin, wanted)

    def _begin(self, wanted: Sequence[tuple[int, int]]) -> None:
        for number, index in wanted:
            task = self._loop.create_task(self._carry(number, index))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, number: int, index: int) -> None:
        assert self._slots is not None
        self.held += self._slots.locked()
        outcome = Outcome.FAILED
        try:
            async with self._slots:
                reply = await self._transport.send(self._encoded[index], _SECONDS)
            outcome = reply.outcome
            if reply.read is not None and index not in self._read:
                self._read.add(index)
                # One answer to each input: a server that answers with rubbish is noticed.
                reply.read()
        except ServingError:
            outcome = Outcome.UNREADABLE
        finally:
            # The generator waits for every sample, whatever became of it.
            if outcome is not Outcome.ANSWERED:
                name = outcome.name.lower()
                self.failures[name] = self.failures.get(name, 0) + 1
            self._loadgen.QuerySamplesComplete([self._loadgen.QuerySampleResponse(number, 0, 0)])


def _read_summary(path: Path) -> dict[str, str]:
    """The lines "name : value" of the generator's summary."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ZoolensError("The MLPerf load generator wrote no summary.", hint="Read its logs.") from error
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip() and value.strip()}


def _library() -> Any:
    try:
        import mlperf_loadgen
    except ImportError as error:
        raise MissingDependency("An MLPerf scenario", "mlcommons-loadgen", "loadgen") from error
    return mlperf_loadgen
