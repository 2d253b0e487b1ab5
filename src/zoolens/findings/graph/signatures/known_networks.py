"""The signatures of networks that zoos ship: `data/known_structures.json`, made by `scripts/make_signatures.py`.

The file has every layer once and every structure once, in tables: a structure names its layers, and the links between
them, by their number; a network names its structure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import chain
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.signatures.signatures import VERSION, StructureSignature

FILE: Final = "data/known_structures.json"
PAPER: Final = "paper"  # the zoo of a network that is compiled from its paper


@dataclass(frozen=True)
class KnownNetwork:
    """A network somebody has given a name. `architecture` is what its zoo says it is: an id of the audit's table."""

    name: str
    zoo: str
    signature: StructureSignature
    architecture: str = ""
    note: str = ""  # such as "width 0.35"

    @property
    def ref(self) -> str:
        return f"{self.zoo}:{self.name}"


@cache
def shipped() -> tuple[KnownNetwork, ...]:
    """What comes with zoolens."""
    text = resources.files("zoolens.findings.graph.signatures").joinpath(FILE).read_text(encoding="utf-8")
    return from_document(json.loads(text))


def from_document(document: Mapping[str, Any]) -> tuple[KnownNetwork, ...]:
    if document.get("version") != VERSION:
        raise ModelError(
            "The table of known structures is of another version.", hint="Make it anew with scripts/make_signatures.py."
        )
    names: list[str] = document["layers"]
    structures = [_structure(row, names) for row in document["structures"]]
    return tuple(_known(row, structures) for row in document["networks"])


def to_document(known: Iterable[KnownNetwork], versions: Mapping[str, str]) -> dict[str, Any]:
    networks = sorted(known, key=lambda network: (network.zoo, network.name))
    names = sorted({name for network in networks for name in _names(network.signature)})
    number = {name: place for place, name in enumerate(names)}
    structures: dict[str, int] = {}
    rows = []
    for network in networks:
        text = json.dumps(_structure_row(network.signature, number), ensure_ascii=False, separators=(",", ":"))
        place = structures.setdefault(text, len(structures))
        own = network.signature
        figures = [own.parameters, own.macs, list(own.size), own.padding]
        rows.append([network.zoo, network.name, network.architecture, network.note, place, *figures])
    return {
        "version": VERSION,
        "libraries": dict(sorted(versions.items())),
        "layers": names,
        "structures": [json.loads(text) for text in structures],
        "networks": rows,
    }


def _names(signature: StructureSignature) -> set[str]:
    return {*signature.layers, *(name for link in signature.links for name in link)}


def _structure_row(known: StructureSignature, number: Mapping[str, int]) -> list[Any]:
    """Sorted, so that equal structures are equal rows."""
    layers = sorted((number[name], count) for name, count in known.layers.items())
    links = sorted((number[a], number[b], count) for (a, b), count in known.links.items())
    digests = f"{known.digest} {known.activated} {known.skeleton} {known.outline}"
    stages = [list(stage) for stage in known.stages]
    activations = dict(sorted(known.activations.items()))
    return [digests, stages, activations, list(chain(*layers)), list(chain(*links))]


def _structure(row: list[Any], names: list[str]) -> StructureSignature:
    digests, stages, activations, layers, links = row
    counts = {names[place]: count for place, count in zip(layers[::2], layers[1::2], strict=True)}
    triples = zip(links[::3], links[1::3], links[2::3], strict=True)
    linked = {(names[a], names[b]): count for a, b, count in triples}
    drawn = tuple((factor, count, widest) for factor, count, widest in stages)
    full, activated, skeleton, outline = digests.split()
    return StructureSignature(full, activated, skeleton, outline, counts, linked, activations, drawn)


def _known(row: list[Any], structures: list[StructureSignature]) -> KnownNetwork:
    zoo, name, architecture, note, place, parameters, macs, size, padding = row
    own = replace(structures[place], parameters=parameters, macs=macs, size=tuple(size), padding=padding)
    return KnownNetwork(name, zoo, own, architecture, note)
