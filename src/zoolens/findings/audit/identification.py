"""What a network is by structure, and whether what it is called agrees.

Zoos mislabel: what a structure is called is decided by the paper that describes exactly it, else by most of the zoos
that have it. Only then is the name held against it (`name_judgement`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zoolens.base.errors import WrongArgument, ZoolensError
from zoolens.base.present.results import Result, frame
from zoolens.base.public.argument_types import value_words
from zoolens.base.store.records import RunKind
from zoolens.base.store.store import Store
from zoolens.base.verdicts import Coverage, Outcome, Verdict
from zoolens.findings.audit.name_claims import NameClaim, name_claim
from zoolens.findings.audit.name_judgement import Judgement, Scored, judge_name
from zoolens.findings.audit.naming import covers, label
from zoolens.findings.audit.wording import article, evidence
from zoolens.findings.graph.cost.graph_coverage import graph_coverage
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.serialisation import unpack
from zoolens.findings.graph.passes.implied_activations import readings
from zoolens.findings.graph.signatures.known_networks import PAPER, KnownNetwork, shipped
from zoolens.findings.graph.signatures.nearest_networks import (
    NEAR,
    NetworkMatch,
    is_equal,
    nearest,
    same_learned_layers,
    similarity,
)
from zoolens.findings.graph.signatures.resized_signatures import ResizedSignatures
from zoolens.findings.graph.signatures.signatures import StructureSignature, as_json, signature
from zoolens.findings.graph.structures.structure import KIND, STAGE
from zoolens.inventory.catalog.names import OWN_ZOOS


@dataclass(frozen=True, repr=False)
class Identification(Result):
    """`architecture` is an id of the audit's table, "" where nothing is near; `claimed` what the name says."""

    subject: str
    signature: StructureSignature
    matches: tuple[NetworkMatch, ...]
    architecture: str
    name: str  # in words: "SqueezeNet 1.1", "MobileNet v2, width 0.35"
    coverage: Coverage
    claim: NameClaim | None = None
    judgement: Judgement | None = None  # of the name; None where it claims nothing

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each known network that is near, the nearest first."""
        rows = [
            {
                "network": match.ref,
                "architecture": match.architecture,
                "similarity": match.similarity,
                "exact": match.exact,
                "padding": str(match.padding),
                "differences": "; ".join(match.differences),
            }
            for match in self.matches
        ]
        return frame(rows, "Identification.frame")

    @property
    def claimed(self) -> str:
        return self.claim.architectures[0] if self.claim and self.claim.architectures else ""

    @property
    def verdict(self) -> Verdict | None:
        """Whether the network is what its name claims; None where it claims nothing."""
        return self.judgement.verdict if self.judgement else None

    @property
    def contradiction(self) -> str:
        """One sentence; "" where name and structure agree, or nothing proves that they do not."""
        different = self.judgement is not None and self.judgement.verdict.outcome is Outcome.DIFFERENT
        return self.judgement.sentence if different and self.judgement else ""

    @property
    def contained(self) -> str:
        """The claimed architecture, where the network is more than that and has it as a part."""
        return self.judgement.contained if self.judgement else ""

    @property
    def exact(self) -> bool:
        return self.coverage.whole and bool(self.matches) and self.matches[0].exact

    @property
    def sentence(self) -> str:
        if not self.matches:
            return f"{self.subject}: no network is known to compare it with."
        best = self.matches[0]
        if self.exact:
            return f"{self.subject} is {article(self.name)}: {evidence(self.matches)}."
        partly = "" if self.coverage.whole else f" {self.coverage.text}"
        percent = f"{100 * best.similarity:.0f} %"
        if best.similarity < NEAR:
            inside = f" It has the layers of {article(label(self.contained))} in it." if self.contained else ""
            return f"{self.subject}: nothing near; the nearest is {best.ref} at {percent}.{inside}{partly}"
        differences = "; ".join(best.differences) or "the same layers, as far as they are understood"
        return f"{self.subject} is like {article(self.name)} ({percent} {best.ref}): {differences}.{partly}"

    def as_data(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "subject": self.subject,
            **(verdict.as_data() if verdict else {"outcome": None, "coverage": self.coverage.as_data()}),
            "architecture": self.architecture or None,
            "name": self.name or None,
            "exact": self.exact,
            "claimed": self.claimed or None,
            "claimed_families": sorted(self.claim.families) if self.claim else [],
            "contradiction": self.contradiction or None,
            "judgement": self.judgement.sentence if self.judgement else None,
            "contained": self.contained or None,
            "sentence": self.sentence,
            "matches": [match.as_data() for match in self.matches],
            "signature": as_json(self.signature),
        }


def identify(
    graph: Graph,
    subject: str,
    *,
    names: Sequence[str] = (),
    n: int = 5,
    further: Iterable[KnownNetwork] = (),
    like: bool = False,
) -> Identification:
    """`names`: what the network is called (file, manifest, claimed architecture), the most trusted first. `like`: a
    relative of what the name claims may go by it."""
    resized = ResizedSignatures(graph)
    known = [*shipped(), *_known_networks(further)]
    own = _at_known_size(_signature(graph), known, resized)
    scored = [(similarity(own, network.signature), network) for network in shipped()]
    matches = tuple(nearest(own, known, n, resized))
    claim = name_claim(names)
    architecture = _called(scored, claim.architectures if claim else ()) or _nearest_name(matches)
    name = label(architecture) if architecture else ""
    found = Identification(subject, own, matches, architecture, name, graph_coverage(graph), claim)
    if claim is None:
        return found
    return replace(found, judgement=judge_name(found, claim, scored, graph=graph, like=like))


def _known_networks(further: Iterable[object]) -> Iterator[KnownNetwork]:
    """Yields the networks; refuses anything else. Items of a generator cannot be checked before it is read."""
    for network in further:
        if not isinstance(network, KnownNetwork):
            raise WrongArgument(
                f"zoolens.identify: further must be an iterable of KnownNetwork; it holds {value_words(network)}."
            )
        yield network


def _signature(graph: Graph) -> StructureSignature:
    """The signature of a network. If its quantisation implies activations, that of the reading which is known."""
    made = [signature(reading) for reading in readings(graph)]
    digests = {network.signature.digest for network in shipped()} if len(made) > 1 else set()
    return next((one for one in made if one.digest in digests), made[0])


def _at_known_size(
    own: StructureSignature, known: Sequence[KnownNetwork], resized: ResizedSignatures
) -> StructureSignature:
    """The signature with the structure that the network has at the image size of a known network, where that is its
    structure: an adaptive pool, for one, is none at the size for which it was made."""
    if any(own.digest == network.signature.digest for network in known):
        return own
    for network in known:
        theirs = network.signature
        if theirs.size == own.size or not same_learned_layers(own, theirs):
            continue
        there = resized.at(theirs.size)
        if there is not None and is_equal(there, theirs):
            return replace(there, macs=own.macs, size=own.size, padding=own.padding)
    return own


def _called(scored: Scored, claimed: Sequence[str]) -> str:
    """The architecture of the networks that it is most like: by paper, by its own claim, or by majority."""
    best = max((score for score, _ in scored), default=0.0)
    if best < NEAR:
        return ""
    peers = [network for score, network in scored if score == best]
    # The paper decides: onnx:light/squeezenet is listed as a SqueezeNet 1.0 and equals 1.1.
    papers = [network.architecture for network in peers if network.zoo == PAPER]
    named = [network.architecture for network in peers if network.architecture] or [network.name for network in peers]
    agreeing = [id_ for id_ in (papers or named) if any(covers(one, id_) for one in claimed)]
    return (agreeing or papers or [Counter(named).most_common(1)[0][0]])[0]


def _nearest_name(matches: Sequence[NetworkMatch]) -> str:
    """The name of the nearest network, which may be known only in the user's own store."""
    return matches[0].name if matches and matches[0].similarity >= NEAR else ""


def stored(store: Store, *, besides: Iterable[str] = ()) -> Iterator[KnownNetwork]:
    """Networks of zoos whose structure is in the store and that are not among the shipped ones, nor `besides`.

    The user's own files are left out: an impostor that was looked at once would vouch for its copies.
    """
    seen = {network.ref for network in shipped()} | set(besides)
    for run in store.runs(kind=RunKind.STRUCTURE):
        ref = run.ref.partition("@")[0]
        zoo, _, name = ref.partition(":")
        if ref in seen or zoo in OWN_ZOOS or STAGE not in run.stages:
            continue
        seen.add(ref)
        try:
            graph = unpack(store.table(run.id, KIND).column(KIND)[0].as_py())
        except ZoolensError:
            # Failed, or its file was not brought along.
            continue
        yield KnownNetwork(name, zoo, signature(graph))
