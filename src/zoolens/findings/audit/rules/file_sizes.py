"""Files that are too small for what they are called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from zoolens.findings.audit.audit_findings import Finding, Severity
from zoolens.findings.audit.claims import ClaimRow
from zoolens.findings.audit.networks import ZooNetwork

FULL, HALF = 4, 2  # bytes a number
FILLED = 1.05  # what a file holds beside its numbers is less than this
_NOT_FLOAT = ("int8", "qdq", "quant", "fp16", "float16", "uint8", "light/")  # the light ones have no weights
_MEBIBYTE = 2**20


def file_sizes(
    networks: Mapping[str, tuple[ZooNetwork, ...]], claims: Iterable[ClaimRow], misnamed: Collection[str]
) -> Iterator[Finding]:
    """Files too small for their network's parameters in float32, norms folded, or for the smallest network of their
    name where their own is not known.

    `misnamed`: references of networks that are something else, and so say nothing about the name they go by.
    """
    sizes = {claim.ref: claim for claim in claims if claim.metric == "file_size" and claim.value}
    fewest = {
        name: _fewest(network for network in same_name if network.ref not in misnamed)
        for name, same_name in networks.items()
    }
    families = {name: same_name[0].architecture.family for name, same_name in networks.items()}
    sisters = {name: {other: fewest[other] for other in fewest if families[other] == families[name]} for name in fewest}
    for name, same_name in networks.items():
        for network in same_name:
            numbers = _fewest([network]) or fewest[name]
            for claim in (sizes[ref] for ref in network.refs if ref in sizes and _is_float(ref)):
                if numbers and _largest(claim) < FULL * numbers:
                    yield _finding(network, claim, numbers, sisters[name])


def _fewest(networks: Iterable[ZooNetwork]) -> int | None:
    return min((network.profile.folded for network in networks if network.profile), default=None)


def _is_float(ref: str) -> bool:
    return not any(mark in ref.lower() for mark in _NOT_FLOAT)


def _largest(claim: ClaimRow) -> float:
    """The largest size that may be meant: whole mebibytes are rounded ones."""
    size = claim.value or 0.0
    return size if size % _MEBIBYTE else size + _MEBIBYTE / 2


def _finding(network: ZooNetwork, claim: ClaimRow, numbers: int, sisters: Mapping[str, int | None]) -> Finding:
    size = claim.value or 0.0
    few = f"its {size:,.0f} bytes are fewer than the {FULL * numbers:,} that {numbers:,} float32 parameters need"
    source = f"source of the size: {claim.source}"
    architecture = network.architecture
    if 1 <= size / (HALF * numbers) < FILLED:
        return Finding(
            "claims/half precision",
            Severity.INFO,
            architecture.id,
            (claim.ref,),
            f"{claim.ref} is stored in half precision: {size:,.0f} bytes, two for each parameter",
            (source,),
            "Compare its size with others' at the same precision.",
        )
    # It is built under that name, not read from the file.
    if network.structure.source is not None or network.known:
        return Finding(
            "claims/file size",
            Severity.LOW,
            architecture.id,
            (claim.ref,),
            f"{claim.ref} claims a file that cannot hold it: {few}",
            (source,),
            "Look at the file itself for budgets.",
        )
    fits = _fitting(size, {name: count for name, count in sisters.items() if name != architecture.id})
    return Finding(
        "naming/file size",
        Severity.HIGH,
        architecture.id,
        (claim.ref,),
        f"{claim.ref} cannot be {architecture.name}: {few}",
        (source, *((f"{size:,.0f} bytes fit {fits}",) if fits else ())),
        "Check the file with `zoolens identify` before using it under this name."
        + (f" It is probably {fits}." if fits else ""),
    )


def _fitting(size: float, sisters: Mapping[str, int | None]) -> str | None:
    """The member of the same family whose float32 weights fill the file best."""
    fills = {name: size / (FULL * count) for name, count in sisters.items() if count}
    fitting = [name for name in fills if 1 <= fills[name] < FILLED]
    return min(fitting, key=lambda name: fills[name], default=None)
