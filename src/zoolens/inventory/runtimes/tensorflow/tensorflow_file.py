"""TensorFlow's files judged without TensorFlow, for other runtimes that read them.

The operators of every graph and function are read from the bytes. All occurrences of a field count, also of those that
protobuf lets the last one decide: whichever of them a reader takes was judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes
from zoolens.inventory.runtimes.model_files.protobuf_wire import Buffer, content, fields, text
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.runtimes.tensorflow.tensorflow_graph import OPERATORS, SAVER, check_links, refused_operator


def check_operators(model: ModelFiles) -> None:
    """Refuse a SavedModel or a frozen graph unless its operators only compute. A SavedModel may carry its saver, which
    no other runtime runs: they read the variables by themselves."""
    path = model.path()
    if model.format != "tf-savedmodel":
        _check(path, model_bytes(path), saved=False)
        return
    file = path / "saved_model.pb"
    if not file.is_file():
        raise ModelError(f"{path.name} has no saved_model.pb.", hint="The location of a SavedModel is its folder.")
    check_links(path)
    _check(path, model_bytes(file), saved=True)


def _check(path: Path, data: bytes, *, saved: bool) -> None:
    try:
        whole = memoryview(data)
        graphs = list(_messages(_messages([whole], 2), 2)) if saved else [whole]
        libraries = list(_messages(graphs, 2))
        functions = list(_messages(libraries, 1))
        names = {text(name) for signature in _messages(functions, 1) for name in _messages([signature], 1)}
        nodes = (*_messages(graphs, 1), *_messages(functions, 3))
        operators = {text(operator) for node in nodes for operator in _messages([node], 2)}
    except (ValueError, IndexError) as error:
        raise ModelError(
            f"{path.name} is not a complete TensorFlow graph: {error}.",
            hint="Fetch it again; a frozen graph is a binary file.",
        ) from error
    if not nodes:
        raise ModelError(f"{path.name} holds no graph.", hint="Fetch it again: it is not complete.")
    strange = sorted(operators - OPERATORS - names - (SAVER if saved else frozenset()))
    if strange:
        raise refused_operator(path.name, strange[0])


def _messages(data: Iterator[Buffer] | list[Buffer], number: int) -> Iterator[Buffer]:
    """Every field of this number in each of these messages."""
    return (content(value) for message in data for key, value in fields(message) if key == number)
