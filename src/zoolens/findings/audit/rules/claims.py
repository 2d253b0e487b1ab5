"""What zoos claim, against each other, against what we count and against what we measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from zoolens.findings.audit.audit_findings import Finding, Severity
from zoolens.findings.audit.claim_spreads import Spread
from zoolens.findings.audit.claim_verdicts import ClaimVerdict, Judgement
from zoolens.findings.audit.claims import ClaimRow, first_claims
from zoolens.findings.audit.networks import ZooNetwork

WIDE, NOTABLE = 2.0, 1.0  # points of top-1
OFF = 0.02  # of a claimed count
MULTIPLY_ADDS = "multiply-adds"  # the only unit of cost that can be held against ours: what others add is not said


def accuracy_spreads(spreads: Iterable[Spread]) -> Iterator[Finding]:
    """Zoos that claim different accuracies for one architecture, and claims far from all others."""
    for spread in spreads:
        for odd in spread.outliers:
            rest = f"{100 * spread.claims[-1].value:.2f} to {100 * spread.claims[0].value:.2f} %"
            yield Finding(
                "claims/outlier",
                Severity.HIGH,
                spread.architecture.id,
                (odd.ref,),
                f"{spread.architecture.name}: {odd.zoo} claims {100 * odd.value:.2f} % top-1, all others {rest}",
                (f"{odd.ref}: {odd.source}", *(_claim(spread, place) for place in range(len(spread.claims)))),
                "Measure it before use: the figure is mistaken, or the weights are much worse than their namesakes.",
            )
        if spread.points >= NOTABLE:
            high, low = spread.claims[0], spread.claims[-1]
            yield Finding(
                "claims/accuracy spread",
                Severity.MEDIUM if spread.points >= WIDE else Severity.LOW,
                spread.architecture.id,
                tuple(claim.ref for claim in spread.claims),
                f"{spread.architecture.name}: claimed top-1 spans {spread.points:.2f} points, from {low.zoo} "
                f"({100 * low.value:.2f} %) to {high.zoo} ({100 * high.value:.2f} %)",
                tuple(_claim(spread, place) for place in range(len(spread.claims))),
                "Choose by weights, not by architecture name; `zoolens eval` ranks them on your data.",
                {"points": spread.points},
            )


def counted(networks: Iterable[ZooNetwork], claims: Iterable[ClaimRow]) -> Iterator[Finding]:
    """Claimed parameters and multiply-adds that are not what the network has."""
    by_ref = first_claims(claims)
    for network in networks:
        for member in network.members if network.known else ():
            for metric, figure in (("params", "parameters"), ("flops", "macs")):
                claimed = by_ref.get((member.ref, metric))
                if claimed is not None:
                    yield from _count(network, claimed, figure)


def _count(network: ZooNetwork, claim: ClaimRow, metric: str) -> Iterator[Finding]:
    ours = network.figure(metric)
    if not ours or claim.value is None or claim.unit not in ("", MULTIPLY_ADDS):
        return
    if any(_agree(claim.value, count) for count in (ours, *_wider_counts(network, metric))):
        return
    if not network.understood and claim.value > ours:
        # What is counted is a lower bound, which refutes smaller claims only.
        return
    name = "parameters" if metric == "parameters" else "multiply-accumulates"
    off = claim.value / ours - 1
    yield Finding(
        f"claims/{metric}",
        Severity.MEDIUM if abs(off) > 0.1 else Severity.LOW,
        network.architecture.id,
        (claim.ref,),
        f"{claim.ref} claims {claim.value:,.0f} {name}; the network has {ours:,} ({100 * off:+.1f} %)",
        (
            f"source of the claim: {claim.source}",
            f"counted from the structure at {_size(network)}",
            *_held(network, metric),
        ),
        "Use the counted figure for budgets; `zoolens cost --counters` says what each counter would give.",
        {"claimed": claim.value, "counted": ours},
    )


def _held(network: ZooNetwork, metric: str) -> Iterator[str]:
    known = network.profile
    if metric == "parameters" and known and known.held:
        yield f"parameters: {network.parameters}"


def _agree(claimed: float, count: float) -> bool:
    """Within the digits of the claim (which may be in millions with one decimal) or 2 %."""
    return abs(claimed - count) <= max(OFF * count, 0.051e6 if claimed % 1e5 == 0 else 0)


def _wider_counts(network: ZooNetwork, metric: str) -> Iterator[int]:
    """Parameters with heads that only training uses, and with running statistics: Keras counts these too."""
    known = network.profile
    if metric == "parameters" and known and known.parameters_total:
        yield known.parameters_total
        yield known.parameters_total + (known.statistics or 0)


def measured(verdicts: Iterable[ClaimVerdict], architecture_of: Mapping[str, str]) -> Iterator[Finding]:
    """Claims that our own measurement contradicts."""
    for verdict in verdicts:
        if verdict.judgement is Judgement.INCONSISTENT:
            ref = verdict.claim.ref
            yield Finding(
                f"claims/{verdict.claim.metric} measured",
                Severity.HIGH,
                architecture_of.get(ref, ""),
                (ref,),
                f"{ref} {verdict.sentence}",
                (f"source of the claim: {verdict.claim.source}", f"run {verdict.run}"),
                "Check weights and preprocessing first: `zoolens doctor` sweeps the latter.",
            )


def _claim(spread: Spread, place: int) -> str:
    claim = spread.claims[place]
    return f"{claim.ref}: {100 * claim.value:.2f} % ({claim.source})"


def _size(network: ZooNetwork) -> str:
    return f"{network.size[0]}×{network.size[1]}" if network.size else "its own size"
