"""TensorFlow and Keras files judged before they run: a graph may read and write files, a Keras file may carry code."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from zoolens.errors import ModelError

# Operators that reach outside the tensors: files, Python, other hosts. None of them occurs in a saver.
_REACHING_OUT: Final = re.compile(
    r"ReadFile|WriteFile|MatchingFiles|.*PyFunc.*|.*Reader(V2)?|PrintV2|Debug\w+|Create\w*Summary\w*Writer|Write\w*Summary"
    r"|(Save|Load|Snapshot|Cache|TFRecord|TextLine|FixedLengthRecord|Sql|LMDB|DataService|CSV)\w*Dataset\w*"
    r"|Save|SaveSlices|Restore|RestoreSlice|RemoteCall|Rpc\w*|DeleteFile|LookupTableExport\w*|Import\w*Event|FlushSummary\w*"
)
# Operators of the saver that every SavedModel carries: fine there, not in what answers a request.
_SAVER: Final = {"SaveV2", "MergeV2Checkpoints", "RestoreV2"}

_LAMBDAS: Final = {"Lambda", "__lambda__"}
_HARMLESS_TF_CALLS: Final = re.compile(
    r"(__operators__|math|nn|linalg)\.[\w.]+|image\.(resize|crop_and_resize|flip_left_right)"
    r"|(concat|reshape|cast|transpose|expand_dims|squeeze|split|clip_by_value|identity|stack|unstack|pad|tile|shape)"
    r"|(reduce_(mean|sum|max|min)|compat\.v1\.(shape|transpose|pad|concat|gather|nn\.[\w.]+)|slice|strided_slice|gather)"
)
_FUNCTION_MODULES: Final = re.compile(r"keras(\.src)?\.(activations|initializers|regularizers|ops|losses|metrics)\b.*")


def check_graph(graph: Any, name: str, outputs: Iterable[str] | None = None) -> None:
    """Refuse a GraphDef with operators that reach outside; `outputs`: nodes that answer, None for all of them."""
    functions = {function.signature.name: function for function in graph.library.function}
    everywhere = [graph.node, *(function.node_def for function in functions.values())]
    for node in (node for nodes in everywhere for node in nodes):
        if _REACHING_OUT.fullmatch(node.op):
            raise _refused(
                name, f"the operator {node.op}", "A model has no business with files, Python or other hosts."
            )
    answering = [node.name for node in graph.node] if outputs is None else outputs
    for op in _reached(graph.node, answering, functions):
        if op in _SAVER:
            raise _refused(name, f"the operator {op} in what answers a request", "A model has no business with files.")


def check_saved_model(path: Path) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    file = path / "saved_model.pb"
    if not file.is_file():
        raise ModelError(f"{path.name} has no saved_model.pb.", hint="The location of a SavedModel is its folder.")
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString(file.read_bytes())
    if not saved.meta_graphs:
        raise ModelError(f"{path.name}/saved_model.pb holds no graph.", hint="Fetch it again: it is not complete.")
    for meta in saved.meta_graphs:
        answers = [info.name for sig in meta.signature_def.values() for info in sig.outputs.values()]
        check_graph(meta.graph_def, path.name, [answer.split(":")[0] for answer in answers])


def _reached(nodes: Any, outputs: Iterable[str], functions: dict[str, Any]) -> Iterator[str]:
    """Operators that the outputs depend on, through inputs and called functions."""
    by_name = {node.name: node for node in nodes}
    waiting, seen = list(outputs), set()
    called: list[str] = []
    while waiting:
        name = waiting.pop().lstrip("^").split(":")[0]
        if name in seen or name not in by_name:
            continue
        seen.add(name)
        node = by_name[name]
        waiting.extend(node.input)
        called.extend(_called(node))
        yield node.op
    done: set[str] = set()
    while called:
        name = called.pop()
        if name in done or name not in functions:
            continue
        done.add(name)
        for node in functions[name].node_def:
            called.extend(_called(node))
            yield node.op


def _called(node: Any) -> Iterator[str]:
    for attribute in node.attr.values():
        if attribute.func.name:
            yield attribute.func.name
        yield from (function.name for function in attribute.list.func)
    yield node.op  # a function may be called by using its name as an operator


# --- Keras


def check_keras(path: Path) -> None:
    """Refuse a .keras file with a Lambda layer or with functions from outside Keras; Keras' own guard comes second."""
    try:
        with zipfile.ZipFile(path) as archive:
            config = json.loads(archive.read("config.json"))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise ModelError(f"{path.name} is not a complete .keras file: {error}.", hint="Fetch it again.") from error
    _check_keras_config(path.name, config)
    for part in _objects(config):
        module = part.get("module")
        if part.get("class_name") == "function" and not _FUNCTION_MODULES.fullmatch(str(module)):
            raise _refused(path.name, f"the function {str(part.get('config'))[:40]!r} of {module}", _LAMBDA_HINT)
        if isinstance(module, str) and not module.startswith("keras.") and module not in ("keras", "builtins"):
            raise _refused(path.name, f"a class of {module}", "Only layers of Keras itself are built.")


def check_keras_h5(path: Path) -> None:
    """Refuse a Keras-2 .h5 file with Lambda layers: they are marshalled Python."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            text = file.attrs.get("model_config")
    except OSError as error:
        raise ModelError(f"{path.name} is not a complete HDF5 file: {error}.", hint="Fetch it again.") from error
    if text is None:
        raise ModelError(
            f"{path.name} holds weights but no model.", hint="Save the whole model, or describe its architecture."
        )
    _check_keras_config(path.name, json.loads(text))


_LAMBDA_HINT: Final = "Ask the maker for a file without code, or convert it to ONNX where you trust it."


def _check_keras_config(name: str, config: Any) -> None:
    for part in _objects(config):
        kind = part.get("class_name")
        if kind in _LAMBDAS:
            raise _refused(name, "a Lambda layer, which is Python code", _LAMBDA_HINT)
        if kind in ("TFOpLambda", "SlicingOpLambda"):
            function = str((part.get("config") or {}).get("function"))
            if not _HARMLESS_TF_CALLS.fullmatch(function):
                raise _refused(name, f"a call of tf.{function}", _LAMBDA_HINT)


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    waiting = [document]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _refused(name: str, what: str, hint: str) -> ModelError:
    return ModelError(f"{name} carries {what}, which zoolens does not run.", hint=hint)
