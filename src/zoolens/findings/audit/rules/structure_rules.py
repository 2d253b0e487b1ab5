"""Networks that share a name: which are the same, which are not, and by what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zoolens.findings.audit.audit_findings import Finding, Severity
from zoolens.findings.audit.grouping import Grouped, StructureComparison
from zoolens.findings.audit.networks import ZooNetwork
from zoolens.findings.audit.profiles import StructureProfile
from zoolens.findings.graph.diff.diff_causes import CLASSES, INPUT_SIZE, OUTPUT, STRIDE_PLACEMENT

MATTERS = 0.01  # of multiply-accumulates or parameters
_QUIET = frozenset({CLASSES, OUTPUT})  # said in the evidence, but no finding by themselves

_ADVICE = {
    STRIDE_PLACEMENT: "Say whose network you mean, not only its name (ResNets that stride in the 3×3 are called v1.5).",
    INPUT_SIZE: "Compare them at one input size, or state the size with the name.",
}
_GENERAL = "Do not swap one for the other unmeasured: `zoolens eval` both on your data."
_CONSTANTS = "Weights move between them only with these constants set alike; otherwise expect slightly other answers."


def other_networks(grouped: Grouped) -> Iterator[Finding]:
    """A finding for each further network under one name, compared with the network that most zoos have."""
    for comparison, group in zip(grouped.between, grouped.groups[1:], strict=True):
        base, other = comparison.base, comparison.other
        yield Finding(
            f"structure/{comparison.main_cause}",
            _severity(comparison),
            base.architecture.id,
            (*(ref for network in group for ref in network.refs[:1]), base.ref),
            f"{base.architecture.name}: {_joined(group)} {_is(group)} not the network of {_joined(grouped.groups[0])}: "
            f"{comparison.verdict.removeprefix('different networks: ')}",
            tuple(sentences(comparison)),
            _ADVICE.get(comparison.main_cause, _GENERAL),
            {"macs": [base.figure("macs"), other.figure("macs")], "causes": list(comparison.causes)},
        )


def not_known(grouped: Grouped) -> Iterator[Finding]:
    """Networks with operators that are not understood, of which nothing proves that they are another network."""
    for comparison in grouped.open:
        base, other = comparison.base, comparison.other
        yield Finding(
            "structure/not known",
            Severity.INFO,
            base.architecture.id,
            (other.ref, base.ref),
            f"{base.architecture.name}: whether {other.label} is the network of {base.label} is not known",
            (f"{comparison.verdict[0].upper()}{comparison.verdict[1:]}",),
            "Compare files that were exported without these operators.",
        )


def other_sizes(grouped: Grouped) -> Iterator[Finding]:
    """Report one network that two zoos offer for different image sizes, at different cost."""
    for comparison in grouped.within:
        base, other = comparison.base, comparison.other
        ours, theirs = base.figure("macs"), other.figure("macs")
        if INPUT_SIZE in comparison.causes and ours and theirs:
            yield Finding(
                "size/input size",
                Severity.MEDIUM if abs(theirs / ours - 1) > 0.1 else Severity.LOW,
                base.architecture.id,
                (other.ref, base.ref),
                f"{base.architecture.name}: {other.label} is meant for {_size(other)}, {base.label} for {_size(base)}: "
                f"{theirs / ours:.2f} times the cost of one network",
                tuple(sentences(comparison)),
                _ADVICE[INPUT_SIZE],
            )


def _size(network: ZooNetwork) -> str:
    return "×".join(str(extent) for extent in network.size) if network.size else "its own size"


def other_constants(grouped: Grouped) -> Iterator[Finding]:
    """Report networks that differ in constants only: weights fit, answers differ a little."""
    for comparison in grouped.within:
        causes = [cause for cause in comparison.causes if cause not in (*_QUIET, INPUT_SIZE)]
        if causes:
            base, other = comparison.base, comparison.other
            yield Finding(
                f"constants/{causes[0]}",
                Severity.LOW,
                base.architecture.id,
                (other.ref, base.ref),
                f"{base.architecture.name}: {other.label} is the network of {base.label} with other constants "
                f"({', '.join(causes)})",
                tuple(sentences(comparison)),
                _CONSTANTS,
            )


def shortcuts(grouped: Grouped) -> Iterator[Finding]:
    """Residual networks whose zoos differ, but not in the kind of their shortcuts: said, because it was published
    otherwise (ResNet-101, Montes et al. 2022)."""
    known = [
        (network, network.profile) for members in grouped.groups for network in members if network.profile is not None
    ]
    convolutions = {profile.shortcuts["conv"] for _, profile in known}
    if len(grouped.groups) < 2 or len(convolutions) != 1 or convolutions == {0} or not known[0][1].residual:
        return
    causes = list(dict.fromkeys(cause for comparison in grouped.between for cause in comparison.causes))
    base = grouped.groups[0][0]
    yield Finding(
        "shortcuts/equal",
        Severity.INFO,
        base.architecture.id,
        tuple(network.ref for network, _ in known),
        f"{base.architecture.name}: {_all(len({network.zoo for network, _ in known}))} exactly "
        f"{convolutions.pop()} convolutions on shortcuts; what differs is {', '.join(causes)}",
        tuple(_counted(network, profile) for network, profile in known),
        "Look for the cause of a difference in what does differ, not in the shortcuts.",
        {"shortcuts": {network.ref: dict(profile.shortcuts) for network, profile in known}},
    )


def sentences(comparison: StructureComparison) -> Iterator[str]:
    """Every difference in words, with what it adds to or takes from the cost."""
    base = comparison.base.figure("macs") or 0
    for difference in comparison.differences:
        share = (
            f" ({100 * difference.macs / base:+.1f} % of the multiply-accumulates)"
            if base and abs(difference.macs) > base / 2000
            else ""
        )
        yield f"{difference.text}{share}"


def _severity(comparison: StructureComparison) -> Severity:
    """High where structure alone, whatever the image sizes, changes the cost or the number of parameters."""
    base, other = (network.figure("parameters") or 0 for network in (comparison.base, comparison.other))
    changes = ((comparison.structural_macs, comparison.base.figure("macs")), (other - base, base))
    shares = (abs(change) / whole for change, whole in changes if whole)
    return Severity.HIGH if any(share >= MATTERS for share in shares) else Severity.MEDIUM


def _all(zoos: int) -> str:
    return {1: "all its networks have", 2: "both zoos have"}.get(zoos, f"all {zoos} zoos have")


def _counted(network: ZooNetwork, profile: StructureProfile) -> str:
    pools = f" and {profile.shortcuts['pool']} pools" if profile.shortcuts["pool"] else ""
    return f"{network.label}: {profile.shortcuts['conv']} convolutions{pools} on shortcuts"


def _joined(group: Sequence[ZooNetwork]) -> str:
    names = list(dict.fromkeys(network.label for network in group))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _is(group: Sequence[ZooNetwork]) -> str:
    return "is" if len(group) == 1 else "are"
