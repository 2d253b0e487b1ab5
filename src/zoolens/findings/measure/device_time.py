"""Times of a prediction on an accelerator, part by part: moving inputs, computing, moving answers, and launching.

The latency beside them is what a caller waits for, by the host's clock, with all of these in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.base.statistics.intervals import CONFIDENCE, quantile
from zoolens.base.store.records import Observation, unavailable
from zoolens.base.store.scopes import batch_scope
from zoolens.inventory.runtimes.runtime import Session, Tensor

REPEATS: Final = 50
_PARTS: Final = {
    "device_compute_p50": "compute",
    "device_inputs_p50": "inputs",
    "device_outputs_p50": "outputs",
    "device_launch_p50": "launch",
}


def device_observations(
    session: Session, feeds: Mapping[str, Tensor], batch: int, repeats: int = REPEATS
) -> list[Observation]:
    """Medians of each part with their intervals, and the most memory that was held on the device."""
    scope = batch_scope(batch)
    try:
        times = session.device_times(feeds, repeats)
    except (NotImplementedError, ModelError) as error:
        reason = str(error) or "the runtime does not time what its device does"
        return [unavailable(name, reason, scope=scope, unit="s") for name in _PARTS]
    observations = []
    for name, part in _PARTS.items():
        seconds = np.sort([getattr(timing, part) / 1e9 for timing in times])
        median, low, high = quantile(seconds, 0.5)
        by_events = times[0].events and part != "launch"
        details = {
            "confidence": CONFIDENCE,
            "interval": "order statistics",
            "clock": "events on the device" if by_events else "host",
        }
        observations.append(
            Observation(name, median, scope=scope, unit="s", low=low, high=high, n=len(seconds), details=details)
        )
    peaks = [timing.peak_memory for timing in times if timing.peak_memory is not None]
    if peaks:
        what = {"what": "held by the framework on the device, weights included"}
        observations.append(Observation("peak_device_memory", float(max(peaks)), scope=scope, unit="B", details=what))
    return observations
