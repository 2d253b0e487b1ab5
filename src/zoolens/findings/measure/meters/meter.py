"""The contract of energy meters, which are registered under `zoolens.meters`, and which of them count for a device.

A source of meters says which kinds of devices it measures. It is probed before it is used, and says in words why it
tells nothing here. Counters of two sources for one kind of device may count the same energy, so that only one source is
used for each: the first that answers, those of other packages before the built-in ones.
"""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.devices import device_kind

_log = logging.getLogger(__name__)


class NoEnergy(Exception):
    """Why the counters tell nothing here, as the end of a sentence."""


class Meter(ABC):
    """One counter of energy. Reading it must take microseconds, because it is read around calls of a model."""

    name: str  # what it measures, such as "package-0"

    @abstractmethod
    def read(self) -> int:
        """The counter, in units of its own. NoEnergy where it does not answer any more."""

    @abstractmethod
    def joules(self, before: int, after: int) -> float:
        """The energy between two readings. NoEnergy where they do not tell it, such as of a counter that went back."""

    def state(self) -> Mapping[str, Any]:
        """What else is known of the device right now, such as its clocks; it is kept beside the figure."""
        return {}


class MeterSource(ABC):
    """Where meters come from. It is made without arguments, and making it must touch nothing."""

    name: ClassVar[str]
    counts: ClassVar[str]  # what its meters count, for people: "whole processor packages"
    devices: ClassVar[tuple[str, ...]]  # kinds of devices that it measures: "cpu", "cuda"

    @abstractmethod
    def probe(self, device: str) -> Sequence[Meter]:
        """The meters of a device, such as "cpu" or "cuda:1"; at least one. NoEnergy says why there are none."""


def sources() -> Iterator[MeterSource]:
    """All sources that are installed, those of other packages first. One that cannot be imported is left out, and a
    warning says so: energy is not worth an evaluation."""
    names = plugins.names(plugins.METERS)
    for name in sorted(names, key=lambda name: (plugins.code_of(plugins.METERS, name) is None, name)):
        try:
            yield plugins.load(plugins.METERS, name)()
        except ZoolensError as error:
            _log.warning("%s", error)


Metered = dict[MeterSource, tuple[Meter, ...]]


def meters_of(device: str, given: Sequence[MeterSource] | None = None) -> Metered:
    """The meters of what a model on this device makes work, by their source. That of the device itself must be known,
    or NoEnergy says why it is not; that of the processor is added where a model on another device can have it."""
    known = list(sources() if given is None else given)
    kind = device_kind(device)
    metered = dict([_first(known, kind, device)])
    if kind != "cpu":
        with contextlib.suppress(NoEnergy):
            metered |= dict([_first(known, "cpu", "cpu")])
    return metered


def _first(known: Sequence[MeterSource], kind: str, device: str) -> tuple[MeterSource, tuple[Meter, ...]]:
    reasons = []
    for source in known:
        if kind in source.devices:
            try:
                return source, tuple(source.probe(device))
            except NoEnergy as error:
                reasons.append(str(error))
    raise NoEnergy("; ".join(reasons) or f"there is no energy counter of {device}")
