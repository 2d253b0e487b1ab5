"""Statistics as Triton counts them, so that its tools read ours.

Durations of queue and compute are added once for each answered request: five requests that shared a batch of 10 ms
count five times 10 ms. Those of `batches` are added once for each call of the model.
"""

from __future__ import annotations

import time

from zoolens.base.protocol.errors import Refusal
from zoolens.base.protocol.messages import BatchStatistics, Duration, ModelStatistics


class Counters:
    """The statistics of one endpoint. All times are in nanoseconds."""

    def __init__(self) -> None:
        self.inferences = 0
        self.executions = 0
        self.successes = 0
        self.success_ns = 0
        self.failures = 0
        self.failure_ns = 0
        self.queue_ns = 0
        self.input_ns = 0
        self.infer_ns = 0
        self.output_ns = 0
        self.last_ms = 0
        self.nan_values = 0
        self.refusals: dict[Refusal, int] = {}
        self._batches: dict[int, list[int]] = {}  # rows -> calls, input, infer and output nanoseconds

    def executed(self, rows: int, input_ns: int, infer_ns: int, output_ns: int) -> None:
        """Count one call of the model."""
        self.executions += 1
        batch = self._batches.get(rows)
        if batch is None:
            batch = self._batches[rows] = [0, 0, 0, 0]
        batch[0] += 1
        batch[1] += input_ns
        batch[2] += infer_ns
        batch[3] += output_ns

    def succeeded(self, rows: int, total_ns: int, queue_ns: int, input_ns: int, infer_ns: int, output_ns: int) -> None:
        """Count one answered request."""
        self.inferences += rows
        self.successes += 1
        self.success_ns += total_ns
        self.queue_ns += queue_ns
        self.input_ns += input_ns
        self.infer_ns += infer_ns
        self.output_ns += output_ns
        self.last_ms = time.time_ns() // 1_000_000

    def failed(self, total_ns: int, refusal: Refusal) -> None:
        """Count one request that got an error instead of an answer."""
        self.failures += 1
        self.failure_ns += total_ns
        self.refusals[refusal] = self.refusals.get(refusal, 0) + 1

    def snapshot(self, name: str, version: str) -> ModelStatistics:
        return ModelStatistics(
            name,
            version,
            self.last_ms,
            self.inferences,
            self.executions,
            Duration(self.successes, self.success_ns),
            Duration(self.failures, self.failure_ns),
            Duration(self.successes, self.queue_ns),
            Duration(self.successes, self.input_ns),
            Duration(self.successes, self.infer_ns),
            Duration(self.successes, self.output_ns),
            tuple(
                BatchStatistics(rows, Duration(calls, input_ns), Duration(calls, infer_ns), Duration(calls, output_ns))
                for rows, (calls, input_ns, infer_ns, output_ns) in sorted(self._batches.items())
            ),
        )
