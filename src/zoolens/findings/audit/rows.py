"""Evidence put into the rows that reports show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zoolens.base.present.figures import percent
from zoolens.findings.audit.architectures import ArchitectureEntry
from zoolens.findings.audit.claim_spreads import Spread, ZooClaim
from zoolens.findings.audit.claims import ClaimRow
from zoolens.findings.audit.document import ArchitectureRow, AuditedNetwork
from zoolens.findings.audit.grouping import Grouped
from zoolens.findings.audit.networks import ZooNetwork

# With which counter Montes et al. 2022 counted each zoo; timm and gluon, which it left out, as their kind.
STUDY_COUNTERS: Final = {
    "torchvision": "fvcore",
    "timm": "fvcore",
    "onnx": "onnx-opcounter",
    "gluon": "onnx-opcounter",
    "keras": "tensorflow",
    "slim": "tensorflow",
    "official": "tensorflow",
}
STUDIED_ZOOS: Final = frozenset({"torchvision", "onnx", "keras", "slim", "official", "gluon"})


def architecture_row(
    architecture: ArchitectureEntry,
    networks: Sequence[ZooNetwork],
    grouped: Grouped,
    spreads: Mapping[str, Mapping[str, Spread]],  # view -> architecture -> spread
    claims: Mapping[tuple[str, str], ClaimRow],  # (ref, metric) -> the first
) -> ArchitectureRow:
    shown = {view: of_view.get(architecture.id) for view, of_view in spreads.items()}
    rows = tuple(_network(network, grouped, shown, claims) for network in networks)
    counted = [row for row in rows if row.macs is not None and not row.not_understood]
    firsts = list({row.zoo: row for row in reversed(counted)}.values())  # one voice for each zoo
    studied = [row for row in firsts if row.zoo in STUDIED_ZOOS and row.as_studied]  # one set for both ratios
    first, best = (spreads[view].get(architecture.id) for view in ("first", "best"))
    return ArchitectureRow(
        architecture.id,
        architecture.name,
        architecture.study,
        rows,
        len(grouped.groups),
        first.points if first else None,
        best.points if best else None,
        _ratio(row.macs for row in firsts),
        _ratio(row.macs for row in studied),
        _ratio(row.as_studied for row in studied),
        sentence(grouped),
        architecture.family,
    )


def sentence(grouped: Grouped) -> str:
    """Who agrees with whom: "torchvision and timm agree; keras: stride placement (5.7 % cheaper)"."""
    if not grouped.groups:
        return "its structure is known in no zoo"
    agreeing = _zoos(grouped.groups[0])
    parts = [
        f"{agreeing} agree" if len({network.zoo for network in grouped.groups[0]}) > 1 else f"reference {agreeing}"
    ]
    for comparison, members in zip(grouped.between, grouped.groups[1:], strict=True):
        parts.append(f"{_zoos(members)}: {', '.join(comparison.causes[:3])}{_gap(comparison.base, comparison.other)}")
    if grouped.open:
        parts.append(f"not known of {_zoos([comparison.other for comparison in grouped.open])}")
    sizes = sorted({network.size for members in grouped.groups for network in members if network.size})
    if len(sizes) > 1:
        parts.append(f"image sizes from {sizes[0][0]} to {sizes[-1][0]}")
    return "; ".join(parts)


def _gap(base: ZooNetwork, other: ZooNetwork) -> str:
    ours, theirs = base.figure("macs"), other.figure("macs")
    counted = base.understood and other.understood
    if not counted or not ours or theirs is None or ours == theirs:
        return ""
    return f" ({percent(abs(theirs / ours - 1), 1)} {'more expensive' if theirs > ours else 'cheaper'})"


def _zoos(networks: Sequence[ZooNetwork]) -> str:
    names = list(dict.fromkeys(network.zoo for network in networks))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _network(
    network: ZooNetwork,
    grouped: Grouped,
    shown: Mapping[str, Spread | None],  # view -> spread
    claims: Mapping[tuple[str, str], ClaimRow],
) -> AuditedNetwork:
    counter = STUDY_COUNTERS.get(network.zoo)
    profile = network.profile
    first, best = (_claim_shown(network, shown[view]) for view in ("first", "best"))
    return AuditedNetwork(
        network.zoo,
        network.architecture.id,
        network.name,
        network.refs,
        network.size,
        network.figure("macs"),
        network.figure("flops"),
        network.figure("parameters"),
        network.figure("peak_bytes"),
        grouped.number(network),
        profile.counted.get(counter) if counter and profile else None,
        100 * first.value if first else None,
        100 * best.value if best else None,
        _claimed(network, "flops", claims),
        _claimed(network, "params", claims),
        network.structure.error,
        outlier_first=_is_outlier(first, shown["first"]),
        outlier_best=_is_outlier(best, shown["best"]),
        parameters_held=profile.held if profile else None,
        parameters_held_reason=profile.held_reason if profile else "",
        not_understood=profile.unknown if profile else (),
    )


def _claim_shown(network: ZooNetwork, spread: Spread | None) -> ZooClaim | None:
    """The claim that speaks for the network's zoo, if it is one of the network's own weights."""
    claims = (*spread.claims, *spread.outliers) if spread else ()
    return next((claim for claim in claims if claim.ref in network.refs), None)


def _is_outlier(claim: ZooClaim | None, spread: Spread | None) -> bool:
    return claim is not None and spread is not None and claim in spread.outliers


def _claimed(network: ZooNetwork, metric: str, claims: Mapping[tuple[str, str], ClaimRow]) -> float | None:
    claimed = (claims.get((ref, metric)) for ref in network.refs)
    return next((claim.value for claim in claimed if claim is not None), None)


def _ratio(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value]
    return max(known) / min(known) if len(known) > 1 else None
