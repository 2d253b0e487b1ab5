"""What an ONNX operator computes, by the reference implementation of the `onnx` package, in its inputs' precision.

It is used for operators that the graph's own vocabulary has no word for. An operator is built from attributes that our
own reader has decoded: the `onnx` package never sees the file.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, Final

from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency, ModelError

Array = NDArray[Any]
_DOMAINS: Final = ("", "ai.onnx")


def has_reference() -> bool:
    """Whether the `onnx` package is installed."""
    return importlib.util.find_spec("onnx") is not None


def operator_outputs(
    kind: str, opset: int, attributes: Mapping[str, Any], inputs: Sequence[Array | None], count: int, domain: str = ""
) -> list[Array]:
    """The first `count` outputs of one operator; ModelError where the reference does not compute it."""
    try:
        from onnx import helper
        from onnx.reference import ReferenceEvaluator
    except ImportError as error:
        raise MissingDependency(f"The reference of the operator {kind[:40]}", "onnx") from error
    if domain not in _DOMAINS:
        raise ModelError(f"The operator {domain[:40]}:{kind[:40]} has no reference.")
    fed = {f"input_{place}": value for place, value in enumerate(inputs) if value is not None}
    names = [f"input_{place}" if value is not None else "" for place, value in enumerate(inputs)]
    outputs = [f"output_{place}" for place in range(count)]
    try:
        node = helper.make_node(kind, names, outputs, **attributes)
        graph = helper.make_graph(
            [node],
            "operator",
            [helper.make_tensor_value_info(name, 0, None) for name in fed],
            [helper.make_tensor_value_info(name, 0, None) for name in outputs],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        return list(ReferenceEvaluator(model).run(None, fed))
    except (
        Exception
    ) as error:  # the reference raises whatever numpy does, and RuntimeContextError and others of its own
        raise ModelError(f"The operator {kind[:40]} has no reference here: {str(error)[:120]}") from error
