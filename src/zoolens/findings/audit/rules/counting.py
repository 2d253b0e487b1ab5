"""Cost differences that are only differences between counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zoolens.findings.audit.audit_findings import Finding, Severity
from zoolens.findings.audit.document import ArchitectureRow
from zoolens.findings.audit.rows import STUDIED_ZOOS

NOISE = 1.001  # a ratio below is equality: a class more or less in the last layer


def counter_noise(rows: Iterable[ArchitectureRow]) -> Iterator[Finding]:
    """Architectures that cost the same everywhere, but not as the study counted."""
    for row in rows:
        if row.real_ratio is None or row.studied_ratio is None or row.studied_ratio < NOISE:
            continue
        if row.real_ratio < NOISE:
            known = [network for network in row.networks if network.macs is not None]
            yield Finding(
                "counting/noise",
                Severity.INFO,
                row.id,
                tuple(network.models[0] for network in known),
                f"{row.name} costs the same in every zoo of the 2022 study; counted as there, with a counter for each "
                f"zoo, it would differ by {row.studied_ratio:.3f}×",
                tuple(
                    f"{network.zoo}: {network.macs:,} multiply-accumulates, {network.as_studied:,.0f} as studied"
                    for network in known
                    if network.as_studied is not None and network.zoo in STUDIED_ZOOS
                ),
                "Compare costs from one counter only.",
            )
