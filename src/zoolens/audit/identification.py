"""What a network is by structure, and whether what it is called agrees.

Zoos mislabel: what a structure is called is decided by the paper that describes exactly it, else by most of the zoos
that have it, and only then is a name held against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zoolens.audit.naming import claimed_architecture, covers, label
from zoolens.errors import ZoolensError
from zoolens.graph.identity import NEAR, Match, differences, nearest, similarity
from zoolens.graph.known import PAPER, Known, shipped
from zoolens.graph.model import Graph
from zoolens.graph.serialise import unpack
from zoolens.graph.signatures import Signature, as_json, signature
from zoolens.graph.sources import RUNTIME
from zoolens.graph.structure import KIND, STAGE
from zoolens.store.store import Store
from zoolens.zoos.catalog import FILE_ZOO

SURE: Final = 0.75  # this like a network whose paper or zoo members are known, a graph may be called after it
APART: Final = 0.05  # so much less like what it is called, it is not that


@dataclass(frozen=True)
class Identification:
    """`architecture` is an id of the audit's table, "" where nothing is near; `claimed` what the name says."""

    subject: str
    signature: Signature
    matches: tuple[Match, ...]
    architecture: str
    name: str  # in words: "SqueezeNet 1.1", "MobileNet v2, width 0.35"
    claimed: str = ""
    contradiction: str = ""  # one sentence; "" where name and structure agree, or the name says nothing

    @property
    def exact(self) -> bool:
        return bool(self.matches) and self.matches[0].exact

    @property
    def sentence(self) -> str:
        if not self.matches:
            return f"{self.subject}: no network is known to compare it with."
        best = self.matches[0]
        if self.exact:
            equal = ", ".join(match.ref for match in self.matches if match.exact)
            if not self._is_architecture:
                return f"{self.subject}: its structure equals {equal}."
            return f"{self.subject} is {article(self.name)}: its structure equals {equal}."
        percent = f"{100 * best.similarity:.0f} %"
        if best.similarity < NEAR:
            return f"{self.subject}: nothing near; the nearest is {best.ref} at {percent}."
        told = "; ".join(best.differences)
        if not self._is_architecture:
            return f"{self.subject} is {percent} like {best.ref}: {told}."
        return f"{self.subject} is like {article(self.name)} ({percent} {best.ref}): {told}."

    @property
    def _is_architecture(self) -> bool:
        """Whether its name is one, and not that of a file the user once looked at."""
        return self.matches[0].zoo != FILE_ZOO or self.matches[0].name != self.architecture

    def to_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "architecture": self.architecture or None,
            "name": self.name or None,
            "exact": self.exact,
            "claimed": self.claimed or None,
            "contradiction": self.contradiction or None,
            "sentence": self.sentence,
            "matches": [match.to_json() for match in self.matches],
            "signature": as_json(self.signature),
        }


def identify(
    graph: Graph, subject: str, *, names: Sequence[str] = (), n: int = 5, further: Iterable[Known] = ()
) -> Identification:
    """`names`: what the network is called (file, manifest, claimed architecture), the most trusted first."""
    own = signature(graph)
    known = shipped()
    matches = tuple(nearest(own, [*known, *further], n))
    claimed = next((id_ for name in names if (id_ := claimed_architecture(name))), "")
    found = _called(own, known, claimed) or _nearest_name(matches)
    contradiction = _contradiction(subject, own, found, claimed, known) if claimed and found else ""
    return Identification(subject, own, matches, found, label(found) if found else "", claimed, contradiction)


def _called(own: Signature, known: Sequence[Known], claimed: str) -> str:
    """What those networks are that it is most like: by paper, by its own claim, by majority."""
    best = max((similarity(own, one.signature) for one in known), default=0.0)
    if best < NEAR:
        return ""
    peers = [one for one in known if similarity(own, one.signature) == best]
    papers = [one.architecture for one in peers if one.zoo == PAPER]
    named = [one.architecture for one in peers if one.architecture] or [one.name for one in peers]
    agreeing = [id_ for id_ in (papers or named) if covers(claimed, id_)]
    return (agreeing or papers or [Counter(named).most_common(1)[0][0]])[0]


def _nearest_name(matches: Sequence[Match]) -> str:
    """What only the user's own store knows is called as it is there."""
    return matches[0].name if matches and matches[0].similarity >= NEAR else ""


def article(name: str) -> str:
    """ "a ResNet-50", "an AlexNet"."""
    return f"{'an' if name[:1].upper() in 'AEIOU' else 'a'} {name}"


def _contradiction(subject: str, own: Signature, found: str, claimed: str, known: Sequence[Known]) -> str:
    if covers(claimed, found):
        return ""
    best = max(similarity(own, one.signature) for one in known)
    meant = [one for one in known if covers(claimed, one.architecture) and _rightly(one, known)]
    if not meant or best < SURE:
        return ""
    ideal = max(meant, key=lambda one: similarity(own, one.signature))
    if similarity(own, ideal.signature) > best - APART:
        return ""
    equal = [one.ref for one in known if one.signature.digest == own.digest and found in (one.architecture, one.name)]
    because = f"its structure equals {', '.join(equal)}" if equal else f"its structure is {100 * best:.0f} % like one"
    likeness = similarity(own, ideal.signature)
    has = "; ".join(differences(ideal.signature, own))
    meant_words = f"has {has}" if likeness >= NEAR else f"({ideal.ref}) is {100 * likeness:.0f} % like it"
    return f"{subject} is {article(label(found))}: {because}; {article(label(claimed))} {meant_words}."


def _rightly(one: Known, known: Sequence[Known]) -> bool:
    """Whether a network is what its zoo calls it: unless the paper of something else describes exactly it."""
    equal = (other for other in known if other.signature.digest == one.signature.digest)
    papers = {other.architecture for other in equal if other.zoo == PAPER}
    return not papers or one.architecture in papers


def stored(store: Store, *, besides: Iterable[str] = ()) -> Iterator[Known]:
    """Networks whose structure is in the store and that are not among the shipped ones, nor `besides` (references)."""
    seen = {one.ref for one in shipped()} | set(besides)
    for run in store.runs(runtime=f"{RUNTIME}*"):
        ref = run.ref.partition("@")[0]
        if ref in seen or STAGE not in run.stages:
            continue
        seen.add(ref)
        try:
            graph = unpack(store.table(run.id, KIND).column(KIND)[0].as_py())
        except ZoolensError:
            continue  # failed, or its file was not brought along
        zoo, _, name = ref.partition(":")
        yield Known(name, zoo, signature(graph))
