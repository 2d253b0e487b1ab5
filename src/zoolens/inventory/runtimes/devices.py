"""Devices that a model runs on, how they are named, and the times of a prediction on one that is no CPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

_NAME: Final = re.compile(r"([a-z]+)(?::(\d{1,3}))?")


def device_kind(device: str) -> str:
    """ "cuda" of "cuda:1"; all of it where it is not written like that."""
    match = _NAME.fullmatch(device)
    return match.group(1) if match else device


def device_index(device: str) -> int:
    """1 of "cuda:1", 0 of "cuda"."""
    match = _NAME.fullmatch(device)
    return int(match.group(2) or 0) if match else 0


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """One prediction on an accelerator, in nanoseconds.

    `total` is by the host's clock, from inputs in the host's memory to answers there. `launch` is how long the host
    took to hand the computation over. `inputs`, `compute` and `outputs` are moving the inputs to the device, computing
    (gaps in which the device waits for the host are in it), and moving the answers back: by events on the device where
    `events` is true, else by the host's clock, which then waits for each. `peak_memory` is the most bytes that the
    framework held on the device; None where it does not report it.
    """

    total: int
    launch: int
    inputs: int
    compute: int
    outputs: int
    peak_memory: int | None
    events: bool


def read_device_times(messages: Any, repeats: int) -> list[DeviceTimes]:
    """Parses a worker's answer; ValueError, TypeError or KeyError if it is invalid."""
    times = [_device_times(**message) for message in messages]
    if len(times) != repeats:
        raise ValueError("times of calls that were not requested")
    return times


def _device_times(
    total: Any, launch: Any, inputs: Any, compute: Any, outputs: Any, peak_memory: Any, events: Any
) -> DeviceTimes:
    whole = (total, launch, inputs, compute, outputs, 0 if peak_memory is None else peak_memory)
    if not all(isinstance(value, int) and 0 <= value < 1 << 63 for value in whole):
        raise ValueError("a time that is not an integer")
    return DeviceTimes(total, launch, inputs, compute, outputs, peak_memory, bool(events))
