"""Energy of a call, by the counters that the installed meters read (`measure.meters`): those of the processor, and of a
GPU where the model runs on one.

The counters are of whole processor packages and whole GPUs. Nothing is subtracted: idle power and all else that ran
meanwhile is in the figure, and the observation says so. On a GPU its own energy must be known; that of the processor is
added where it is, and the observation names what was counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base import plugins
from zoolens.base.store.records import Observation, unavailable
from zoolens.base.store.scopes import batch_scope
from zoolens.findings.measure.meters.meter import Meter, Metered, MeterSource, NoEnergy, meters_of

ROUNDS: Final = 5  # the spread of these is the interval
SECONDS: Final = 1.0  # of all rounds; the counters move about once in a millisecond
GPU_SECONDS: Final = 5.0  # those of a GPU move some ten times a second


def energy_observations(
    call: Callable[[], object],
    batch: int,
    *,
    seconds: float = SECONDS,
    device: str = "cpu",
    sources: Sequence[MeterSource] | None = None,
) -> list[Observation]:
    """Joules of one call with `batch` inputs, from calls repeated for `seconds`; or why there are none. `sources`: of
    meters; default: all that are installed."""
    scope = batch_scope(batch)
    try:
        metered = meters_of(device, sources)
        meters = [meter for own in metered.values() for meter in own]
        rounds = [_round(call, meters, seconds / ROUNDS) for _ in range(ROUNDS)]
        return [_observation(rounds, metered, scope, batch)]
    except NoEnergy as error:
        return [unavailable("energy", str(error), scope=scope, unit="J")]


@dataclass(frozen=True)
class _Round:
    joules: float
    seconds: float
    calls: int


def _round(call: Callable[[], object], meters: Sequence[Meter], seconds: float) -> _Round:
    before, started, calls = [meter.read() for meter in meters], time.perf_counter(), 0
    while True:
        call()
        calls += 1
        elapsed = time.perf_counter() - started
        if elapsed >= seconds:
            break
    after = [meter.read() for meter in meters]
    joules = sum(meter.joules(*pair) for meter, *pair in zip(meters, before, after, strict=True))
    return _Round(joules, elapsed, calls)


def _observation(rounds: list[_Round], metered: Metered, scope: str, batch: int) -> Observation:
    joules, calls = sum(lap.joules for lap in rounds), sum(lap.calls for lap in rounds)
    if not joules:
        raise NoEnergy("the energy counters did not move")
    each = [lap.joules / lap.calls for lap in rounds]
    counted = " and ".join(source.counts for source in metered)
    details: dict[str, Any] = {
        "interval": "range",
        "rounds": ROUNDS,
        "joules_per_input": joules / calls / batch,
        "watts": joules / sum(lap.seconds for lap in rounds),
        # Nothing is subtracted: the counters are of whole packages, and do not separate processes.
        "what": f"{counted} while the model ran: idle power and other processes included",
        "meters": {source.name: [meter.name for meter in meters] for source, meters in metered.items()},
    }
    state = {meter.name: dict(known) for meters in metered.values() for meter in meters if (known := meter.state())}
    foreign = {source.name: code for source in metered if (code := plugins.code_of(plugins.METERS, source.name))}
    details |= ({"state": state} if state else {}) | ({"plugins": foreign} if foreign else {})
    return Observation(
        "energy", joules / calls, scope=scope, unit="J", low=min(each), high=max(each), n=calls, details=details
    )
