"""What a network costs that writes text token by token: the prompt at once, and then each further token.

Keys and values of earlier tokens are kept (the cache), so that a further token meets every weight once and every kept
key and value once. That follows from the graph of one text where all its multiply-accumulates are of dense layers,
whose work grows with the tokens, and of causal attention, whose work grows with their square. Attention of a prompt is
counted for all pairs of tokens, also those that a mask hides, as everywhere in zoolens; a kernel may leave them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from zoolens.findings.graph.cost.cost import macs
from zoolens.findings.graph.ir.model import Graph, Node

_CACHE_BYTES_EACH: Final = 2  # keys and values in float16, which llama.cpp and others keep them in
CACHE_FACT: Final = "cache_bytes_each"  # of a graph whose file says how its keys and values are kept
_WEIGHT_BYTES_EACH: Final = 4  # where the source does not say how many bytes a tensor has
_LENGTHS: Final = (128, 512, 2048, 8192, 32768, 131072)
_REPEATS: Final = frozenset({"reshape", "expand", "tile", "transpose", "identity"})


@dataclass(frozen=True)
class Generation:
    """Costs by length. `attention_macs` are those of one token for each token before it, itself included."""

    token_macs: int  # of one token in all layers but attention
    attention_macs: int
    cached_numbers: int  # keys and values that one token adds to the cache
    weight_bytes: int  # that a token reads, as they are stored
    context_length: int | None  # tokens that the network was trained for
    cache_bytes_each: int = _CACHE_BYTES_EACH  # of a key or value

    def prefill_macs(self, tokens: int) -> int:
        return tokens * (self.token_macs + tokens * self.attention_macs)

    def decode_macs(self, context: int) -> int:
        """Multiply-accumulates of one further token that sees `context` tokens, itself included."""
        return self.token_macs + context * self.attention_macs

    def cache_bytes(self, context: int) -> int:
        return context * self.cached_numbers * self.cache_bytes_each

    def read_bytes(self, context: int) -> int:
        """What must be read for one further token: all weights and the whole cache. Decoding waits for this."""
        return self.weight_bytes + self.cache_bytes(context)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths worth a row of a table, up to the longest that the network was trained for."""
        if self.context_length is None:
            return _LENGTHS[:3]
        return (*(length for length in _LENGTHS if length < self.context_length), self.context_length)

    def as_data(self) -> dict[str, Any]:
        rows = [
            {
                "tokens": length,
                "prefill_macs": self.prefill_macs(length),
                "decode_macs": self.decode_macs(length),
                "cache_bytes": self.cache_bytes(length),
                "read_bytes": self.read_bytes(length),
            }
            for length in self.lengths
        ]
        return {"weight_bytes": self.weight_bytes, "cache_bytes_each": self.cache_bytes_each, "lengths": rows}


def generation(graph: Graph) -> Generation | None:
    """How a network's cost grows with a text; None where it does not write text, or where that is not known."""
    attentions = [node for node in graph.nodes if node.op == "attention"]
    tokens = _tokens(graph)
    if tokens is None or not attentions or graph.unknown:
        return None
    if not all(_is_causal_over(node, graph, tokens) for node in attentions):
        return None
    pairs = linear = 0
    for node in graph.nodes:
        products = macs(node, [graph.by_name[name].shape for name in node.inputs])
        if node.op == "attention":
            pairs += products
        elif node.op == "dense" and node.shape[1] == tokens:
            linear += products
        elif products:
            return None  # how it grows is not known
    cached = sum(_kept_numbers(name, graph) for node in attentions for name in node.inputs[1:3])
    longest = graph.facts.get("context_length")
    return Generation(
        token_macs=linear // tokens,
        attention_macs=pairs // tokens**2,
        cached_numbers=cached // tokens,
        weight_bytes=sum(_read_weights(graph)),
        context_length=longest if isinstance(longest, int) and longest > 0 else None,
        cache_bytes_each=_CACHE_BYTES_EACH if graph.facts.get(CACHE_FACT) is None else int(graph.facts[CACHE_FACT]),
    )


def _tokens(graph: Graph) -> int | None:
    """The length of the text, which is the only input."""
    shapes = [node.shape for node in graph.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 2 or shapes[0][0] != 1:
        return None
    return shapes[0][1]


def _is_causal_over(node: Node, graph: Graph, tokens: int) -> bool:
    query, key = (graph.by_name[name].shape for name in node.inputs[:2])
    masks = [graph.by_name[name] for name in node.inputs[3:]]
    # A file may add the mask as numbers, which are named when they are read.
    causal = [bool(node.get("causal")), *(mask.get("mask") == "causal" for mask in masks)]
    return any(causal) and len(masks) < 2 and query[-2] == key[-2] == tokens


def _kept_numbers(name: str, graph: Graph) -> int:
    """Numbers of keys or values that are kept: those before heads are repeated for several queries."""
    node = graph.by_name[name]
    fewest = prod(node.shape)
    while node.op in _REPEATS:
        node = graph.by_name[node.inputs[0]]
        fewest = min(fewest, prod(node.shape))
    return fewest


def _read_weights(graph: Graph) -> Iterator[int]:
    """Bytes of every tensor that each token reads whole. A table of tokens gives one row, unless the output uses it
    too."""
    stored = graph.facts.get("tensor_bytes")
    known = stored if isinstance(stored, dict) else {}
    sizes = {
        tensor.key or f"{node.name}/{place}": tensor.size
        for node in graph.nodes
        if node.op not in ("embedding", "constant")
        for place, tensor in enumerate(node.parameters)
    }
    for key, size in sizes.items():
        yield int(known.get(key, size * _WEIGHT_BYTES_EACH))
