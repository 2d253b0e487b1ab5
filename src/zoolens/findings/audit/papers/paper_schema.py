"""What a specification file holds. `compile` turns its layers into a graph; the rest is for people and for the audit.

`silent` maps a cause of `zoolens diff` to why a network that differs in it does not depart from the paper; the cause
may be narrowed to one attribute or place, as in "local response normalisation: alpha" and "stride placement: within a
block". `settled` maps a cause to what decides it where the text alone does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from zoolens.base.errors import ManifestError


@dataclass(frozen=True)
class Citation:
    title: str
    authors: str
    venue: str
    year: int
    arxiv: str = ""
    doi: str = ""

    @property
    def link(self) -> str:
        return f"arXiv:{self.arxiv}" if self.arxiv else f"doi:{self.doi}" if self.doi else self.venue


@dataclass(frozen=True)
class Stated:
    """A figure that the paper states, in its own words."""

    what: str  # parameters or macs
    value: float
    words: str
    where: str = ""


@dataclass(frozen=True)
class Widths:
    """The width multipliers a paper gives: each width times one of `values`, rounded to a multiple of `divisor`."""

    values: tuple[float, ...]
    divisor: int = 8
    where: str = ""


@dataclass(frozen=True)
class Paper:
    architecture: str
    name: str
    citation: Citation
    taken_from: str
    input: int
    states: Mapping[str, str]
    silent: Mapping[str, str]
    layers: tuple[Any, ...] = field(hash=False)
    settled: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    numbers: tuple[Stated, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)  # of convolutions: norm, act, bias, pad
    parameters: Mapping[str, Any] = field(default_factory=dict)  # what $name in the layers stands for
    blocks: Mapping[str, Any] = field(default_factory=dict)  # named pieces of the layer description
    widths: Widths | None = None

    def stated(self, what: str) -> Stated | None:
        return next((number for number in self.numbers if number.what == what), None)


def read_paper(architecture: str, document: Mapping[str, Any]) -> Paper:
    """A specification from its file; ManifestError where something is missing or unknown."""
    unknown = set(document) - {known.name for known in fields(Paper)}
    if unknown:
        raise ManifestError(f"The paper specification {architecture} has an unknown key {sorted(unknown)[0]!r}.")
    given = dict(document)
    try:
        given["citation"] = Citation(**given["citation"])
        given["numbers"] = tuple(_stated(number) for number in given.get("numbers", ()))
        given["layers"], given["notes"] = tuple(given["layers"]), tuple(given.get("notes", ()))
        if "widths" in given:
            given["widths"] = Widths(**{**given["widths"], "values": tuple(given["widths"]["values"])})
        return Paper(architecture, **given)
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(f"The paper specification {architecture} is incomplete: {error}.") from error


def _stated(row: Mapping[str, Any]) -> Stated:
    return Stated(**{**row, "value": float(row["value"])})
