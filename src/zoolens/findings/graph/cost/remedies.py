"""What would make an operator known that is not understood, in one sentence that is true for its case."""

from __future__ import annotations

from zoolens.findings.graph.ir.vocabulary import COMPUTED_SHAPE, HOLDING_GRAPHS, UNKNOWN_SHAPE


def remedy(operator: str) -> str:
    """`operator` is as coverage names it: its name, and why it is not understood. Extents that a file leaves open are
    no reason: nothing is read before they are given."""
    name = operator.split(" ", maxsplit=1)[0]
    if name in HOLDING_GRAPHS:
        return f"Export the network without {name}: trace it, so that its loops are unrolled and one branch is kept."
    if operator.endswith(COMPUTED_SHAPE):
        return (
            f"What {name} makes has a shape that depends on values: export the network with that shape as a constant, "
            f"or without {name}."
        )
    if operator.endswith(UNKNOWN_SHAPE):
        return (
            f"The output shape of an operator before {name} is unknown: give that shape in the file "
            "(`value_info` of ONNX), or export the network without that operator."
        )
    if ":" in name:
        return f"Export the network without {name}, or with it written out in standard operators."
    return f"zoolens has no reading of {operator}: export the network without it, or written out in other operators."
