"""MXNet symbol files judged before MXNet reads them: some of its operators call pointers, compile code or run Python.

`_Native` and `_NDArray` call an address that is written in the file, `_FusedOp` compiles source text, `Custom` runs
Python. So every operator has to be a listed one, and graphs inside nodes are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import parse_json
from zoolens.inventory.runtimes.model_files.allowlists import allowed, refused
from zoolens.inventory.runtimes.model_files.model_reading import model_text

_HINT: Final = "Only operators that compute on tensors are run. Convert the model to ONNX where you trust it."


def check_symbol(path: Path) -> None:
    """Refuse a symbol file with an operator that is not listed, or with graphs inside its nodes."""
    try:
        symbol: Any = parse_json(model_text(path))
        nodes = symbol["nodes"]
        operators = [(node["op"], bool(node.get("subgraphs"))) for node in nodes]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path.name} is not a complete MXNet symbol file.", hint="Fetch it again.") from error
    for operator, nested in operators:
        if not isinstance(operator, str) or operator not in allowed("mxnet")["operators"] or nested:
            what = "a graph inside a node" if nested else f"the operator {str(operator)[:80]}"
            raise refused(path.name, what, _HINT)
