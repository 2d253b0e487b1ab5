"""Whether a network is what its name claims: the same, another one, or not known.

A name claims an architecture, so the layers must be exactly those of a network that goes by that name rightly. A claim
whose structure is not known here (a variant, a member of a family) is contradicted by one thing only: the network has
exactly the layers of another family. Operators that are not understood leave a name open, unless what is understood
cannot be part of a network of that name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from zoolens.base.verdicts import Coverage, Gap, Verdict, judged
from zoolens.findings.audit.blind_spots import blind_spots
from zoolens.findings.audit.name_claims import NameClaim, families_of
from zoolens.findings.audit.naming import covers, label
from zoolens.findings.audit.norm_comparison import Norms, compare_norms
from zoolens.findings.audit.wording import article, evidence
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.passes.implied_activations import implies_activations
from zoolens.findings.graph.signatures.known_networks import PAPER, KnownNetwork
from zoolens.findings.graph.signatures.nearest_networks import (
    MOVED_ACTIVATIONS,
    NEAR,
    NetworkMatch,
    Padding,
    contains,
    differences,
    is_equal,
    same_kinds_of_layers,
    same_learned_layers,
)
from zoolens.findings.graph.signatures.resized_signatures import ResizedSignatures
from zoolens.findings.graph.signatures.signatures import StructureSignature, least_parameters

SURE: Final = 0.75  # this like a network whose paper or zoo members are known, a graph may be called after it
APART: Final = 0.05  # so much less like what it is called, it is not even a relative of that
_COMPARE: Final = "Compare it with the network that is meant: `zoolens diff`."
_WINDOW: Final = re.compile(r"(conv|depthwise|transposed conv) (?!1×1\b)")

Scored = Sequence[tuple[float, KnownNetwork]]  # likeness and what it is with


class Identified(Protocol):
    """What is known of a network before its name is looked at."""

    @property
    def subject(self) -> str: ...
    @property
    def signature(self) -> StructureSignature: ...
    @property
    def matches(self) -> Sequence[NetworkMatch]: ...
    @property
    def architecture(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def coverage(self) -> Coverage: ...


@dataclass(frozen=True)
class Judgement:
    """`contained`: the claimed architecture, where the network is more than that and has it as a part."""

    verdict: Verdict
    sentence: str
    contained: str = ""


def judge_name(
    found: Identified, claim: NameClaim, scored: Scored, *, graph: Graph | None = None, like: bool = False
) -> Judgement:
    """`graph`: the network itself, for what no signature holds. `like`: relatives may go by the name."""
    meant = _meant(claim, scored)
    if not found.coverage.whole:
        return _partial(found, claim, meant, scored)
    equal = [network for _, network in meant if is_equal(found.signature, network.signature)]
    if equal:
        return _equal(found, claim, equal, None if like else graph, like=like)
    other = _other_family(found, claim, scored)
    if other is not None:
        return _different(found, other)
    if not meant:
        return _family(found, claim, scored)
    if like and _is_relative(meant, scored):
        return Judgement(judged(found.coverage, different=False), f"{found.subject} is like what its name says.")
    if claim.variant or _has_inside(found, meant, scored):
        return _unproved(found, claim, meant)
    if graph is not None and (sizes := _bound_to_sizes(graph, found.signature, meant)):
        return _open(found, claim, f"it has the layers of what its name says, {sizes}")
    if graph is not None and (folded := _folded_layer(graph, found.signature, meant)):
        return _open(found, claim, f"it has all layers of {_words(claim)} but {folded}, which may be folded")
    hidden = graph is not None and implies_activations(graph)
    if hidden and any(score >= MOVED_ACTIVATIONS for score, _ in meant):
        return _open(
            found, claim, "it has the layers of what its name says, and its quantisation hides its activations"
        )
    return _different(found, _contradiction(found, claim, meant, scored))


def _equal(
    found: Identified, claim: NameClaim, equal: Sequence[KnownNetwork], graph: Graph | None, *, like: bool
) -> Judgement:
    """Judge a network that has the layers of the known networks of its name."""
    if claim.certainly and not like:
        reason = f"it has exactly the layers of {_words(claim)}, and {claim.variant!r} in its name says otherwise"
        return _open(found, claim, reason)
    norms = compare_norms(graph, found.signature, equal) if graph else Norms.AGREE
    if norms is Norms.ADDED:
        known = ", ".join(network.ref for network in equal[:3])
        return _different(
            found, f"{found.subject} is not {_words(claim)}: it has norms, which {known} do{_s(equal)} not have."
        )
    unseen = _unseen(found, claim, graph, norms)
    if unseen:
        return _passed_over(found, unseen)
    if not like and (reason := _open_padding(found, claim)):
        return _open(found, claim, reason)
    folded = " Its norms are folded into biases, or it never had any." if norms is Norms.FOLDED else ""
    return Judgement(judged(found.coverage, different=False), f"{found.subject} is what its name says.{folded}")


def _s(listed: Sequence[object]) -> str:
    return "es" if len(listed) == 1 else ""


def _unseen(found: Identified, claim: NameClaim, graph: Graph | None, norms: Norms) -> tuple[Gap, ...]:
    """What the network has or lacks that no signature holds."""
    if graph is None:
        return ()
    gaps = blind_spots(graph, (*claim.architectures, found.architecture))
    if norms is not Norms.UNKNOWN:
        return gaps
    return (*gaps, Gap("norms, which are others than those of the networks of this name", 1, _COMPARE))


def _open_padding(found: Identified, claim: NameClaim) -> str:
    """Why the padding leaves the name open; "" where some network with these layers has it. Zoos have a network with
    the padding of each framework, under names that say so or not."""
    paddings = {match.padding for match in found.matches if match.exact}
    if Padding.EQUAL in paddings:
        return ""
    if Padding.OTHER in paddings:
        return f"it has the layers of {_words(claim)} with other padding than any that is known"
    return f"it has the layers of {_words(claim)}, whose padding at this image size is not known"


def _meant(claim: NameClaim, scored: Scored) -> Scored:
    """The networks that go by a claimed name rightly. A VGG-16 with batch norm is, norms folded, exactly the paper's
    VGG-16: then those of the name are all there is."""
    known = [network for _, network in scored]
    named = [(score, network) for score, network in scored if any(_means(id_, network) for id_ in claim.architectures)]
    return [(score, network) for score, network in named if _rightly(network, known)] or named


def _means(claimed: str, network: KnownNetwork) -> bool:
    return covers(claimed, network.architecture) or claimed == network.name.lower()


def _rightly(network: KnownNetwork, known: Sequence[KnownNetwork]) -> bool:
    """Whether a network is what its zoo calls it: unless the paper of something else describes exactly it."""
    equal = (other for other in known if other.signature.digest == network.signature.digest)
    papers = {other.architecture for other in equal if other.zoo == PAPER}
    return not papers or network.architecture in papers


# --- different


def _different(found: Identified, sentence: str) -> Judgement:
    return Judgement(judged(found.coverage, different=True), sentence)


def _other_family(found: Identified, claim: NameClaim, scored: Scored) -> str | None:
    """A sentence, where the network has the layers of another family, in whatever widths and with whatever
    activations."""
    own = found.signature
    alike = [network for _, network in scored if own.outline == network.signature.outline]
    families = frozenset[str]().union(*(families_of(network.architecture, network.name) for network in alike))
    if not families or families & claim.families:
        return None
    exact = [match for match in found.matches if match.exact]
    like = f"it has the layers of {alike[0].ref} in other widths or with other activations"
    because = evidence(exact) if exact else like
    named = " or ".join(sorted(claim.families))
    return f"{found.subject} is {article(found.name)}, and its name speaks of {named}: {because}."


def _is_relative(meant: Scored, scored: Scored) -> bool:
    best = max(score for score, _ in scored)
    likeness = max(score for score, _ in meant)
    return likeness >= NEAR and (best < SURE or likeness > best - APART)


def _has_inside(found: Identified, meant: Scored, scored: Scored) -> bool:
    best = max(score for score, _ in scored)
    return best < SURE and any(contains(found.signature, network.signature) for _, network in meant)


def _bound_to_sizes(graph: Graph, own: StructureSignature, meant: Scored) -> str:
    """Says where a network has the learned layers of one that is meant at another image size, and something binds it
    to its own: the windows of a Swin transformer are arranged by the size, and an MLP-Mixer has layers as wide as there
    are places."""
    for _, network in meant:
        theirs = network.signature
        # Widths may count places, and an optimiser that moves a transposition makes convolutions of dense layers.
        alike = own.outline == theirs.outline or same_learned_layers(own, theirs) or same_kinds_of_layers(own, theirs)
        if theirs.size == own.size or not alike:
            continue
        if ResizedSignatures(graph).at(theirs.size) is None:
            here, there = ("×".join(map(str, size)) for size in (own.size, theirs.size))
            return f"and their arrangement is known at {there} only, while it is bound to {here}"
    return ""


def _folded_layer(graph: Graph, own: StructureSignature, meant: Scored) -> str:
    """The one layer that a network lacks, if it has a stored tensor in its place: optimisers compute a layer that acts
    on constants, such as that of a position embedding, beforehand."""
    if not any(node.op in FIXED and node.parameters for node in graph):
        return ""
    for _, network in meant:
        theirs = network.signature
        missing = Counter(theirs.layers) - Counter(own.layers)
        surplus = Counter(own.layers) - Counter(theirs.layers)
        if not surplus and missing.total() == 1 and own.activations == theirs.activations:
            return next(iter(missing))
    return ""


def _contradiction(found: Identified, claim: NameClaim, meant: Scored, scored: Scored) -> str:
    likeness, ideal = max(meant, key=lambda pair: pair[0])
    best = max(score for score, _ in scored)
    claimed = _words(claim)
    unlike = f"{claimed} ({ideal.ref}) is {100 * likeness:.0f} % like it"
    named = (found.architecture,)
    exact = [match for match in found.matches if match.exact and {match.architecture, match.name} & {*named}]
    if exact:
        has = "; ".join(differences(ideal.signature, found.signature))
        meant_words = f"{claimed} has {has}" if likeness >= NEAR else unlike
        return f"{found.subject} is {article(found.name)}: {evidence(exact)}; {meant_words}."
    if likeness >= NEAR:
        has = "; ".join(differences(found.signature, ideal.signature))
        return f"{found.subject} is not {claimed}: compared with {ideal.ref} it has {has}."
    nearest, percent = found.matches[0].ref, f"{100 * best:.0f} %"
    return f"{found.subject} is not {claimed}: {unlike}, and the nearest network known is {nearest} at {percent}."


# --- not known


def _open(found: Identified, claim: NameClaim, reason: str, contained: str = "") -> Judgement:
    gap = Gap(f"what the name {claim.name!r} claims", 1, _COMPARE)
    coverage = Coverage(found.coverage.tallies, (*found.coverage.gaps, gap))
    sentence = f"Whether {found.subject} is what its name says is not known: {reason}."
    return Judgement(judged(coverage, different=False), sentence, contained)


def _passed_over(found: Identified, unseen: tuple[Gap, ...]) -> Judgement:
    coverage = Coverage(found.coverage.tallies, (*found.coverage.gaps, *unseen))
    has = "; ".join(gap.text for gap in unseen)
    same = "it has the layers of what its name says, but the table of known networks lacks some facts"
    sentence = f"Whether {found.subject} is what its name says is not known: {same}: {has}."
    return Judgement(judged(coverage, different=False), sentence)


def _partial(found: Identified, claim: NameClaim, meant: Scored, scored: Scored) -> Judgement:
    """Judge a network with operators that are not understood."""
    proof = "" if claim.variant or _has_inside(found, meant, scored) else _excluded(found, meant)
    if proof:
        return _different(found, f"{found.subject} is not {_words(claim)}: {proof}. {found.coverage.text}")
    inside = any(contains(found.signature, network.signature) for _, network in meant)
    sentence = f"Whether {found.subject} is what its name says is not known. {found.coverage.text}"
    contained = claim.architectures[0] if inside else ""
    return Judgement(judged(found.coverage, different=False), sentence, contained)


def _excluded(found: Identified, meant: Scored) -> str:
    """Why what is understood cannot be part of any network that is meant; "" where nothing proves that."""
    if not meant:
        return ""
    own = found.signature
    known = [network.signature for _, network in meant]
    _, ideal = max(meant, key=lambda pair: pair[0])
    if all(_surplus_windows(own, theirs) for theirs in known):
        return f"it has {', '.join(_surplus_windows(own, ideal.signature)[:3])} more than {ideal.ref}"
    least = min(map(least_parameters, known))
    if _counts_all_parameters(found.coverage) and own.parameters < least:
        return f"it has {own.parameters:,} parameters, and the kernels of {ideal.ref} alone have {least:,}"
    most = max(theirs.parameters for theirs in known)
    if least_parameters(own) > most:
        return f"its kernels have {least_parameters(own):,} parameters, and {ideal.ref} has {most:,} in all"
    return ""


def _surplus_windows(own: StructureSignature, theirs: StructureSignature) -> list[str]:
    """Windows that a network has and another has not, or not as often. What is last may not be the last layer where
    operators are not understood."""
    surplus = Counter(own.layers) - Counter(theirs.layers)
    windows = (layer for layer in sorted(surplus) if _WINDOW.match(layer) and not layer.endswith("→classes"))
    return [f"{surplus[layer]} × {layer}" for layer in windows]


def _counts_all_parameters(coverage: Coverage) -> bool:
    return any(tally.unit == "parameters" and tally.whole for tally in coverage.tallies)


def _family(found: Identified, claim: NameClaim, scored: Scored) -> Judgement:
    """A name without an architecture that is known here: any member of a family that it names will do, if it says no
    more than the family."""
    exact = [network for _, network in scored if is_equal(found.signature, network.signature)]
    if exact and claim.bare:
        return Judgement(judged(found.coverage, different=False), f"{found.subject} is what its name says.")
    named = " or ".join(sorted(claim.families))
    known = f"it is {article(found.name)}, and " if exact else ""
    return _open(found, claim, f"{known}which {named} its name means is not among the networks known")


def _unproved(found: Identified, claim: NameClaim, meant: Scored) -> Judgement:
    _, ideal = max(meant, key=lambda pair: pair[0])
    if contains(found.signature, ideal.signature):
        inside = f"it has the layers of {_words(claim)} in it, and more"
        return _open(found, claim, inside, claim.architectures[0])
    variant = f"{claim.variant!r} in its name may stand for the difference"
    return _open(found, claim, f"it is not exactly {_words(claim)}, and {variant}")


def _words(claim: NameClaim) -> str:
    return " or ".join(article(label(id_)) for id_ in claim.architectures)
