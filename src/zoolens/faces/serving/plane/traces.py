"""The trace extension: for a sample of the requests, when each arrived, was started and was answered.

A trace is one line of JSON in the log `zoolens.serving.trace`, with the names that Triton gives to timestamps. Where
traces go is decided by who runs the server: a client can switch them on and off, but names no file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest

log = logging.getLogger("zoolens.serving.trace")

_LEVELS: Final = ("OFF", "TIMESTAMPS")


@dataclass(frozen=True)
class TraceSettings:
    """Which requests are traced."""

    level: str = "OFF"
    rate: int = 1000  # one request in so many is traced
    count: int = -1  # traces that are left; -1 is no limit

    def as_data(self) -> dict[str, Any]:
        """Returns the settings in Triton's form, where numbers are texts."""
        return {
            "trace_level": [self.level],
            "trace_rate": str(self.rate),
            "trace_count": str(self.count),
            "log_frequency": "0",
            "trace_file": "",
            "trace_mode": "triton",
        }


class Traces:
    """Settings for all models, and for single ones that differ."""

    def __init__(self) -> None:
        self._everywhere = TraceSettings()
        self._own: dict[str, TraceSettings] = {}
        self._seen: dict[str, int] = {}  # requests by model
        self.active = False

    def settings(self, model: str) -> TraceSettings:
        return self._own.get(model, self._everywhere)

    def change(self, model: str, changes: Mapping[str, Any]) -> TraceSettings:
        """Change some settings; null puts back what holds for all models, or the default. An empty name means all."""
        before = self.settings(model)
        fallback = self._everywhere if model else TraceSettings()
        level, rate, count = before.level, before.rate, before.count
        for name, value in changes.items():
            if name == "trace_level":
                level = fallback.level if value is None else _level(value)
            elif name == "trace_rate":
                rate = fallback.rate if value is None else _whole(name, value, 1)
            elif name == "trace_count":
                count = fallback.count if value is None else _whole(name, value, -1)
            elif str(name) in ("trace_file", "log_frequency", "trace_mode") and value in (
                None,
                "",
                "0",
                "triton",
                [""],
            ):
                continue
            else:
                raise ServingError(
                    Refusal.INVALID,
                    f"The trace setting {str(name)[:100]!r} cannot be changed here; "
                    "trace_level, trace_rate and trace_count can.",
                )
        changed = TraceSettings(level, rate, count)
        if model:
            self._own[model] = changed
        else:
            self._everywhere = changed
        self.active = any(settings.level != "OFF" for settings in (self._everywhere, *self._own.values()))
        return changed

    def record(
        self,
        name: str,
        version: str,
        request: InferRequest,
        arrived_ns: int,
        started_ns: int,
        parts: tuple[int, int, int],
    ) -> None:
        """Log an answered request, if it is its turn. `parts`: nanoseconds of input, inference and output."""
        settings = self.settings(name)
        if settings.level == "OFF" or settings.count == 0:
            return
        seen = self._seen[name] = self._seen.get(name, 0) + 1
        if seen % settings.rate:
            return
        if settings.count > 0:
            fewer = replace(settings, count=settings.count - 1)
            if name in self._own:
                self._own[name] = fewer
            else:
                self._everywhere = fewer
        input_ns, infer_ns, output_ns = parts
        input_end = started_ns + input_ns
        infer_end = input_end + infer_ns
        times = {
            "REQUEST_START": arrived_ns,
            "QUEUE_START": arrived_ns,
            "COMPUTE_START": started_ns,
            "COMPUTE_INPUT_END": input_end,
            "COMPUTE_OUTPUT_START": infer_end,
            "COMPUTE_END": infer_end + output_ns,
            "REQUEST_END": infer_end + output_ns,
        }
        trace = {
            "id": seen,
            "model_name": name,
            "model_version": version,
            "request_id": request.id,
            "traceparent": request.traceparent,
            "timestamps": [{"name": moment, "ns": ns} for moment, ns in times.items()],
        }
        log.info("%s", json.dumps(trace))


def _level(value: Any) -> str:
    levels = [value] if isinstance(value, str) else value
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        raise ServingError(Refusal.INVALID, "trace_level is a list of names such as TIMESTAMPS.")
    unknown = [level for level in levels if level not in _LEVELS]
    if unknown:
        raise ServingError(
            Refusal.UNSUPPORTED, f"This server traces {' or '.join(_LEVELS)}, and not {unknown[0][:100]!r}."
        )
    return "TIMESTAMPS" if "TIMESTAMPS" in levels else "OFF"


def _whole(name: str, value: Any, least: int) -> int:
    text = value[0] if isinstance(value, list) and len(value) == 1 else value
    try:
        number = int(str(text))
    except ValueError:
        number = least - 1
    if number < least or isinstance(text, bool):
        raise ServingError(
            Refusal.INVALID, f"{name} must be a whole number of at least {least}; got {str(value)[:100]!r}."
        )
    return number
