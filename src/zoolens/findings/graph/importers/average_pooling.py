"""Average pools as files describe them: padding that counts, and windows that hang over, which never do."""

from __future__ import annotations

from zoolens.findings.graph.importers.translation import OperatorCall
from zoolens.findings.graph.ir.model import Shape


def average(
    call: OperatorCall, given: str, kernel: Shape, stride: Shape, pads: Shape, fitted: Shape, *, counts: bool
) -> str:
    """Adds an average pool. `pads` are the file's own, `fitted` those with "ceil" resolved; channels come second."""
    axes = "NC" + "DHW"[-len(kernel) :]
    counts = counts and any(pads)
    if counts and fitted != pads:
        half = len(pads) // 2
        given = call.add("pad", (given,), pads=(0, 0, *pads[:half], 0, 0, *pads[half:]), axes=axes)
        fitted = tuple(a - b for a, b in zip(fitted, pads, strict=True))
        counts = False
    return call.add(
        "avg_pool", (given,), axes=axes, kernel=kernel, stride=stride, pads=fitted, count_pad=counts or None
    )
