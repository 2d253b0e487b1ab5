"""Which layers the difference in the number of parameters comes from."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.training.crosstrain.training.diff.recipe_findings import Finding, compared
from zoolens.training.crosstrain.training.diff.recipe_layers import TITLES
from zoolens.training.crosstrain.training.diff.recipe_structure import Pair
from zoolens.training.pairs.reading.side_facts import SideFacts


def parameters(pairs: list[Pair], a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    gap = b.parameters - a.parameters
    shares = attributed(pairs, a, b)
    parts = [f"{amount:+,} in {where}" for where, amount in sorted(shares.items(), key=lambda share: -abs(share[1]))]
    left = gap - sum(shares.values())
    rest = [f"{left:+,} in other layers"] if left else []
    yield compared(
        "parameters",
        "parameters to learn",
        f"{a.parameters:,}",
        f"{b.parameters:,}",
        evidence=f"difference {gap:+,}: {'; '.join([*parts, *rest])}",
    )


def attributed(pairs: list[Pair], a: SideFacts, b: SideFacts) -> dict[str, int]:
    """What b has more than a, by where it is."""
    by_place: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for layer_a, layer_b in pairs:
        for role in dict.fromkeys([*(layer_a.learned if layer_a else ()), *(layer_b.learned if layer_b else ())]):
            sizes = [layer.learned.get(role, 0) if layer else 0 for layer in (layer_a, layer_b)]
            present = layer_a or layer_b
            if sizes[0] != sizes[1] and present:
                name = " | ".join(layer.name if layer else "–" for layer in (layer_a, layer_b))
                text = f"{name} ({sizes[0]:,} → {sizes[1]:,})"
                by_place.setdefault((present.op, role), []).append((sizes[1] - sizes[0], text))
    shares = {
        _place(*key, [text for _, text in members]): sum(n for n, _ in members) for key, members in by_place.items()
    }
    norms = [sum(sum(layer.learned.values()) for layer in facts.layers if layer.op == "batch_norm") for facts in (a, b)]
    return shares | ({"scales and shifts of batch norms": norms[1] - norms[0]} if norms[0] != norms[1] else {})


def _place(op: str, role: str, texts: list[str]) -> str:
    plural = {"bias": "biases"}.get(role, f"{role}s")
    return f"the {role} of {texts[0]}" if len(texts) == 1 else f"the {plural} of {len(texts)} {TITLES[op]}"
