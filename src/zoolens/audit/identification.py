"""What a network is by structure, and whether what it is called agrees.

Zoos mislabel: what a structure is called is decided by the paper that describes exactly it, else by most of the zoos
that have it, and only then is a name held against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from zoolens.audit.naming import claimed_architecture, covers, label
from zoolens.catalog.names import OWN_ZOOS
from zoolens.errors import ZoolensError
from zoolens.graph.known_networks import PAPER, KnownNetwork, shipped
from zoolens.graph.model import Graph
from zoolens.graph.nearest_networks import NEAR, NetworkMatch, Padding, contains, differences, nearest, similarity
from zoolens.graph.serialisation import unpack
from zoolens.graph.signatures import StructureSignature, as_json, signature
from zoolens.graph.structure import KIND, STAGE
from zoolens.store.records import RunKind
from zoolens.store.store import Store

SURE: Final = 0.75  # this like a network whose paper or zoo members are known, a graph may be called after it
APART: Final = 0.05  # so much less like what it is called, it is not that

Scored = Sequence[tuple[float, KnownNetwork]]  # likeness and what it is with


@dataclass(frozen=True)
class Identification:
    """`architecture` is an id of the audit's table, "" where nothing is near; `claimed` what the name says."""

    subject: str
    signature: StructureSignature
    matches: tuple[NetworkMatch, ...]
    architecture: str
    name: str  # in words: "SqueezeNet 1.1", "MobileNet v2, width 0.35"
    claimed: str = ""
    contradiction: str = ""  # one sentence; "" where name and structure agree, or the name says nothing
    contained: str = ""  # the claimed architecture, where the network is more than that and has it as a part

    @property
    def exact(self) -> bool:
        return bool(self.matches) and self.matches[0].exact

    @property
    def sentence(self) -> str:
        if not self.matches:
            return f"{self.subject}: no network is known to compare it with."
        best = self.matches[0]
        if self.exact:
            return f"{self.subject} is {article(self.name)}: {evidence(self.matches)}."
        percent = f"{100 * best.similarity:.0f} %"
        if best.similarity < NEAR:
            inside = f" It has the layers of {article(label(self.contained))} in it." if self.contained else ""
            return f"{self.subject}: nothing near; the nearest is {best.ref} at {percent}.{inside}"
        return f"{self.subject} is like {article(self.name)} ({percent} {best.ref}): {'; '.join(best.differences)}."

    def as_data(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "architecture": self.architecture or None,
            "name": self.name or None,
            "exact": self.exact,
            "claimed": self.claimed or None,
            "contradiction": self.contradiction or None,
            "contained": self.contained or None,
            "sentence": self.sentence,
            "matches": [match.as_data() for match in self.matches],
            "signature": as_json(self.signature),
        }


def identify(
    graph: Graph, subject: str, *, names: Sequence[str] = (), n: int = 5, further: Iterable[KnownNetwork] = ()
) -> Identification:
    """`names`: what the network is called (file, manifest, claimed architecture), the most trusted first."""
    own = signature(graph)
    scored = [(similarity(own, network.signature), network) for network in shipped()]
    matches = tuple(nearest(own, [*shipped(), *further], n))
    claimed = next((id_ for name in names if (id_ := claimed_architecture(name))), "")
    architecture = _called(scored, claimed) or _nearest_name(matches)
    result = Identification(subject, own, matches, architecture, label(architecture) if architecture else "", claimed)
    return _judged(result, scored) if claimed and not covers(claimed, architecture) else result


def _called(scored: Scored, claimed: str) -> str:
    """The architecture of the networks that it is most like: by paper, by its own claim, or by majority."""
    best = max((score for score, _ in scored), default=0.0)
    if best < NEAR:
        return ""
    peers = [network for score, network in scored if score == best]
    papers = [network.architecture for network in peers if network.zoo == PAPER]
    named = [network.architecture for network in peers if network.architecture] or [network.name for network in peers]
    agreeing = [id_ for id_ in (papers or named) if covers(claimed, id_)]
    return (agreeing or papers or [Counter(named).most_common(1)[0][0]])[0]


def _nearest_name(matches: Sequence[NetworkMatch]) -> str:
    """The name of the nearest network, which may be known only in the user's own store."""
    return matches[0].name if matches and matches[0].similarity >= NEAR else ""


def article(name: str) -> str:
    """ "a ResNet-50", "an AlexNet"."""
    return f"{'an' if name[:1].upper() in 'AEIOU' else 'a'} {name}"


def evidence(matches: Sequence[NetworkMatch]) -> str:
    """Which networks have exactly these layers, and what is known of their padding."""
    by_padding = {
        kind: ", ".join(match.ref for match in matches if match.exact and match.padding is kind) for kind in Padding
    }
    patterns = {
        Padding.EQUAL: "its structure equals {}",
        Padding.OTHER: "it has the layers of {} with other padding",
        Padding.UNKNOWN: "it has the layers of {}, whose padding at this image size is not known",
    }
    return "; ".join(patterns[kind].format(refs) for kind, refs in by_padding.items() if refs)


def _judged(result: Identification, scored: Scored) -> Identification:
    """Hold a name that is not what was found against the structure: without any likeness to what it names, it is
    contradicted, unless what it names is a part of the network, as backbones are of detectors."""
    known = [network for _, network in scored]
    named = [(score, network) for score, network in scored if _means(result.claimed, network)]
    # A VGG-16 with batch norm is, norms folded, exactly the paper's VGG-16: then those of the name are all there is.
    meant = [(score, network) for score, network in named if _rightly(network, known)] or named
    if not meant:
        return result
    best = max(score for score, _ in scored)
    likeness, ideal = max(meant, key=lambda pair: pair[0])
    if likeness >= NEAR and (best < SURE or likeness > best - APART):
        return result  # a relative of both: nothing tells which
    if best < SURE and contains(result.signature, ideal.signature):
        return replace(result, contained=result.claimed)
    return replace(result, contradiction=_contradiction(result, best, likeness, ideal))


def _means(claimed: str, network: KnownNetwork) -> bool:
    return covers(claimed, network.architecture) or claimed == network.name.lower()


def _contradiction(result: Identification, best: float, likeness: float, ideal: KnownNetwork) -> str:
    claimed = article(label(result.claimed))
    unlike = f"{claimed} ({ideal.ref}) is {100 * likeness:.0f} % like it"
    if best < SURE:
        nearest_ref, percent = result.matches[0].ref, f"{100 * result.matches[0].similarity:.0f} %"
        known = f"the nearest network known is {nearest_ref} at {percent}"
        return f"{result.subject} is not {claimed}: {unlike}, and {known}."
    exact = [
        match for match in result.matches if match.exact and result.architecture in (match.architecture, match.name)
    ]
    because = evidence(exact) if exact else f"its structure is {100 * best:.0f} % like one"
    has = "; ".join(differences(ideal.signature, result.signature))
    meant = f"{claimed} has {has}" if likeness >= NEAR else unlike
    return f"{result.subject} is {article(result.name)}: {because}; {meant}."


def _rightly(network: KnownNetwork, known: Sequence[KnownNetwork]) -> bool:
    """Whether a network is what its zoo calls it: unless the paper of something else describes exactly it."""
    equal = (other for other in known if other.signature.digest == network.signature.digest)
    papers = {other.architecture for other in equal if other.zoo == PAPER}
    return not papers or network.architecture in papers


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
            continue  # failed, or its file was not brought along
        yield KnownNetwork(name, zoo, signature(graph))
