"""/network and /networks: the network of a model with what its layers cost, and two networks side by side."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from zoolens.base.present.charts import Spec
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Query, Shown
from zoolens.faces.ui.model_index import ModelRow
from zoolens.faces.ui.resources.model import ModelQuery, find_model
from zoolens.faces.ui.verdict_items import VerdictItem, printed_verdict
from zoolens.findings.graph.diff.picture_cards import State
from zoolens.findings.graph.diff.side_names import short_names
from zoolens.findings.graph.structures.structure import Structure
from zoolens.inventory.catalog.names import bare

_UNLISTED: Final = "No zoo of this machine lists the model: only the store knows it, and its network cannot be read."
_UNREAD: Final = "Its network was not read yet."


# --- one network


class CostWords(Answer):
    """How much of a measure something costs, and which share of the whole network that is."""

    words: str
    share: str
    heat: int
    """The share as a level from 1 to 7."""


class NetworkLayer(Answer):
    """One layer, at a row and a column of its block."""

    words: Shown
    source: Shown
    shape: str
    row: int
    column: int
    costs: list[CostWords | None]


class NetworkBlock(Answer):
    """A block of layers, or a single layer outside any."""

    title: Shown
    shape: str
    count: int
    """How many layers it has, also where none are given."""
    costs: list[CostWords | None]
    lines: list[list[int]]
    """Pairs of places in `layers`, whose first is −1 where the value comes from outside the block."""
    ends: list[int]
    """The places of layers whose values are used outside."""
    inputs: list[int]
    """Places of the other blocks of its part whose values it uses, and −1 for values from outside the part."""
    layers: list[NetworkLayer]


class NetworkPart(Answer):
    """Equal blocks behind one another, or one block, or one layer (`single`)."""

    place: int
    title: Shown
    shape: str
    single: bool
    inputs: list[int]
    """The `place` of every part whose values it uses."""
    costs: list[CostWords | None]
    blocks: list[NetworkBlock]


class NetworkStage(Answer):
    name: Shown
    layers: int
    costs: list[CostWords | None]
    parts: list[NetworkPart]


class Network(Answer):
    """`costs` have one entry for each of `measures`, null for nothing."""

    macs_words: str
    parameters_words: str
    layers: int
    unknown: list[Shown]
    """Operators that are not counted."""
    whole: bool
    """Whether the layers inside blocks are given; networks of thousands of layers come without them."""
    measures: list[str]
    heats: list[str]
    """What each heat means, from none to the hottest."""
    stages: list[NetworkStage]
    chart: Spec


class NetworkFacts(Answer):
    """The network of a model, as far as it is known."""

    ref: Shown
    network: Network | None
    """Null where it is not known here; `reason` then says why, and `readable` whether a job can read it."""
    readable: bool
    reason: Shown


def network(context: Context, query: ModelQuery) -> NetworkFacts:
    row, structure = _structure(context, query.ref)
    if structure is None or structure.packed is None:
        readable, reason = _absence(structure)
        return NetworkFacts(ref=row.ref, network=None, readable=readable, reason=reason)
    known = Network.model_validate(context.networks.layout(structure, bare(row.ref)))
    return NetworkFacts(ref=row.ref, network=known, readable=True, reason="")


def _structure(context: Context, ref: str) -> tuple[ModelRow, Structure | None]:
    """What is known of the network of a model; None where no zoo lists the model."""
    row, entry = find_model(context, ref)
    return row, None if entry is None else context.networks.structure(entry)


def _absence(structure: Structure | None) -> tuple[bool, str]:
    """Whether a job can read the network, and why there is none."""
    if structure is None:
        return False, _UNLISTED
    return structure.error is None, structure.error or _UNREAD


# --- two networks


class NetworksQuery(Query):
    a: str = Field(max_length=500, description="A model, as zoo:name@version.")
    b: str = Field(max_length=500, description="Another one.")


class NetworkSide(Answer):
    """One of the two networks."""

    ref: Shown
    name: Shown
    """What the sentences call the network."""
    read: bool
    """Whether the network is known here; otherwise `readable` says whether a job can read it, and `reason` why not."""
    readable: bool
    reason: Shown
    macs_words: str
    parameters_words: str
    held: Shown


class NetworkDifference(Answer):
    """One thing that differs."""

    number: int
    cause: Shown
    text: Shown
    macs_words: str
    """The change in multiply-accumulates from A to B."""
    share_words: str
    """The share of the whole gap in multiply-accumulates."""
    parameters_words: str


class LinePair(Answer):
    """A layer of A and the one of B beside it; empty where a side has none."""

    a: Shown
    b: Shown
    source_a: Shown
    source_b: Shown
    state: State
    marks: list[int]
    """The numbers of the differences that concern it."""


class PartPair(Answer):
    """A part of A and the one of B beside it."""

    stage: Shown
    a: Shown
    b: Shown
    macs_a: str
    macs_b: str
    state: State
    marks: list[int]
    first_only: bool
    """Whether the lines are those of the first of several blocks, and those of the others read differently."""
    left_out: int
    """Lines that are not given, because there are too many."""
    lines: list[LinePair]


class NetworkComparison(Answer):
    """What `zoolens diff` says of two models, and their parts side by side."""

    a: NetworkSide
    b: NetworkSide
    compared: bool
    """Whether both networks are known here."""
    same: bool
    headline: Shown
    judged: VerdictItem | None
    """The headline as a verdict; null where they were not compared."""
    total: int
    """How many differences there are, of which no more than 200 are given."""
    differences: list[NetworkDifference]
    not_proved: list[Shown]
    """What stands beside operators that are not understood, which proves nothing."""
    parts: list[PartPair]


def compare_networks(context: Context, query: NetworksQuery) -> NetworkComparison:
    (row_a, a), (row_b, b) = (_structure(context, ref) for ref in (query.a, query.b))
    names = short_names(bare(row_a.ref), bare(row_b.ref))
    if a is None or b is None or a.packed is None or b.packed is None:
        sides = [_unread(*side) for side in ((row_a, a, names[0]), (row_b, b, names[1]))]
        return NetworkComparison(
            a=sides[0],
            b=sides[1],
            compared=False,
            same=False,
            headline="",
            judged=None,
            total=0,
            differences=[],
            not_proved=[],
            parts=[],
        )
    data = dict(context.networks.comparison(a, b, names))
    figures, held, judged = data.pop("figures"), data.pop("held"), data.pop("judged")
    side_a, side_b = (
        NetworkSide(ref=row.ref, name=name, read=True, readable=True, reason="", held=more, **words)
        for row, name, more, words in zip((row_a, row_b), names, held, figures, strict=True)
    )
    verdict = printed_verdict(data["headline"], judged)
    return NetworkComparison(a=side_a, b=side_b, compared=True, judged=verdict, **data)


def _unread(row: ModelRow, structure: Structure | None, name: str) -> NetworkSide:
    read = structure is not None and structure.packed is not None
    readable, reason = (True, "") if read else _absence(structure)
    return NetworkSide(
        ref=row.ref,
        name=name,
        read=read,
        readable=readable,
        reason=reason,
        macs_words="",
        parameters_words="",
        held="",
    )


ENDPOINTS: Final = (
    Endpoint("/network/{ref:path}", "The network of a model, and what it costs", network),
    Endpoint("/networks", "How two networks differ, side by side", compare_networks),
)
