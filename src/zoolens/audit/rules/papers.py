"""Networks that are not what the paper describes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zoolens.audit.document import Conformance
from zoolens.audit.findings import Finding, Severity
from zoolens.audit.networks import ZooNetwork


def departures(found: Iterable[Conformance], networks: Iterable[ZooNetwork]) -> Iterator[Finding]:
    refs = {(network.architecture.id, network.zoo, network.name): network.refs for network in networks}
    for one in found:
        if one.departures:
            yield Finding(
                "papers/departure",
                Severity.MEDIUM,
                one.architecture,
                refs.get((one.architecture, one.zoo, one.name), ()),
                f"{one.zoo} {one.name} departs from its paper: {_counted(one.departures)}",
                (*one.departures, f"The paper: {one.paper}; {one.table}."),
                "Cite the implementation, not only the paper, when you report results with it.",
            )


def _counted(found: tuple[str, ...]) -> str:
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{found[0]}{more}"
