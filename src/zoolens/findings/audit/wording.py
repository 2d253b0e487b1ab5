"""Words that the sentences about a network's name share."""

from __future__ import annotations

from collections.abc import Sequence

from zoolens.findings.graph.signatures.nearest_networks import NetworkMatch, Padding


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
