"""TensorFlow graphs judged before TensorFlow runs them: a graph is a program, and may read and write files.

Every operator of every graph and function has to be one of `allowed/tensorflow.txt`. The one exception is the
saver that every SavedModel carries: its operators write and read checkpoints, so they may stand only where nothing that
zoolens runs can reach them, or restore the variables from the place that TensorFlow passes in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.allowlists import allowed, refused

OPERATORS: Final = allowed("tensorflow")["operators"]
_WRITERS: Final = frozenset({"SaveV2", "MergeV2Checkpoints", "SaveSlices", "Save"})
SAVER: Final = _WRITERS | {"RestoreV2", "ShardedFilename", "ShardedFilespec"}
_REGISTERED_CLASSES: Final = frozenset({"", "tf.StaticHashTable", "tf.TrackableConstant"})
_HINT: Final = (
    "Only operators that compute on tensors are run. Export the network alone (without files, tables read from files, "
    "datasets or Python), or convert it to ONNX where you trust it."
)


def check_graph(graph: Any, name: str) -> None:
    """Refuse a frozen GraphDef unless every operator in it is known to do nothing but compute."""
    _check_operators(graph, name, exceptions=frozenset())


def check_saved_model(path: Path) -> None:
    """Refuse a SavedModel whose graphs could do more than compute and restore the variables beside them."""
    from tensorflow.core.protobuf import saved_model_pb2

    file = path / "saved_model.pb"
    if not file.is_file():
        raise ModelError(f"{path.name} has no saved_model.pb.", hint="The location of a SavedModel is its folder.")
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString(file.read_bytes())
    if not saved.meta_graphs:
        raise ModelError(f"{path.name}/saved_model.pb holds no graph.", hint="Fetch it again: it is not complete.")
    check_links(path)
    for meta in saved.meta_graphs:
        _check_operators(meta.graph_def, path.name, exceptions=SAVER)
        _check_assets(meta, path.name)
        _check_objects(meta, path.name)
        _check_saver(meta, path.name)


def check_links(path: Path) -> None:
    """The checkpoint is read by name, so a link among its files would read another one."""
    folder = path.resolve()
    for file in sorted(path.rglob("*")):
        if not file.resolve().is_relative_to(folder):
            raise ModelError(
                f"{path.name}/{file.relative_to(path)} is a link that leads out of the SavedModel.",
                hint="Put the file itself there.",
            )


def _check_operators(graph: Any, name: str, exceptions: Collection[str]) -> None:
    functions = {function.signature.name for function in graph.library.function}
    if len(functions) != len(graph.library.function):
        raise refused(name, "two functions of one name", _HINT)
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    for node in (node for body in bodies for node in body):
        if node.op not in OPERATORS and node.op not in functions and node.op not in exceptions:
            raise refused_operator(name, node.op)
        for called in _functions_in(node.attr):
            if called not in functions:
                raise refused(name, f"a call of {called[:80]!r}, a function that is not in the file", _HINT)


def _check_assets(meta: Any, name: str) -> None:
    for asset in meta.asset_file_def:
        parts = PurePosixPath(asset.filename).parts
        if asset.filename.startswith(("/", "\\")) or ".." in parts or ":" in asset.filename:
            raise refused(name, f"the asset {asset.filename[:80]!r} outside its folder", _HINT)


def _check_objects(meta: Any, name: str) -> None:
    for node in meta.object_graph_def.nodes:
        if node.registered_name not in _REGISTERED_CLASSES or node.registered_saver:
            registered = node.registered_name or node.registered_saver
            raise refused(name, f"an object of the registered class {str(registered)[:80]!r}", _HINT)


def _check_saver(meta: Any, name: str) -> None:
    """Savers may be in the file, but nothing that loading or answering runs may lead to one."""
    graph = meta.graph_def
    functions = {function.signature.name: function for function in graph.library.function}
    savers = _saving_functions(functions)
    _check_unmentioned(meta, functions, savers, name)
    nodes = {node.name: node for node in graph.node}
    answering = _closure(nodes, _run_nodes(meta))
    _refuse_savers((nodes[node] for node in answering), savers, SAVER, name)
    if meta.HasField("object_graph_def"):
        # TensorFlow 2 restores the variables by itself and never runs the saver.
        return
    restoring = _closure(nodes, [meta.saver_def.restore_op_name])
    _refuse_savers((nodes[node] for node in restoring), savers, SAVER - {"RestoreV2"}, name)
    for node in (nodes[node] for node in restoring):
        if node.op == "RestoreV2" and _origin(nodes, node.input[0]) != _plain(meta.saver_def.filename_tensor_name):
            raise refused(name, "the operator RestoreV2 on a file of its own choice", _HINT)


def _saving_functions(functions: Mapping[str, Any]) -> set[str]:
    """Functions that save or restore, themselves or through others."""
    savers = {name for name, function in functions.items() if any(n.op in SAVER for n in function.node_def)}
    while True:
        callers = {
            name
            for name, function in functions.items()
            if name not in savers and any(_mentions(node, savers) for node in function.node_def)
        }
        if not callers:
            return savers
        savers |= callers


def _check_unmentioned(meta: Any, functions: Mapping[str, Any], savers: set[str], name: str) -> None:
    """No object, no collection and no attribute of a function names a saver; only nodes of the main graph call it."""
    objects = meta.object_graph_def.SerializeToString()
    collected = b"".join(
        collection.SerializeToString() for key, collection in meta.collection_def.items() if key != "savers"
    )
    nodes = {node.name: node for node in meta.graph_def.node}
    downstream = _downstream(nodes, {n for n, node in nodes.items() if node.op in SAVER or _mentions(node, savers)})
    for saver in savers:
        # Grappler swaps functions that say they implement the same interface (api_implements).
        if saver.encode() in objects or functions[saver].attr.get("api_implements") is not None:
            raise refused(name, f"the function {saver[:80]!r}, which saves or restores files", _HINT)
    for function in functions.values():
        if any(value.s and value.s.decode("latin-1") in savers for value in function.attr.values()):
            raise refused(name, "a function that stands for one which saves or restores files", _HINT)
    if any(node.encode() in collected for node in downstream):
        raise refused(name, "a collection that names an operator which saves or restores files", _HINT)


def _run_nodes(meta: Any) -> Iterator[str]:
    """Nodes of the main graph that loading or answering runs: what signatures and initialisers name."""
    for signature in meta.signature_def.values():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            yield info.name
            yield from (component.name for component in info.composite_tensor.components)
            yield from (info.coo_sparse.values_tensor_name, info.coo_sparse.indices_tensor_name)
            yield info.coo_sparse.dense_shape_tensor_name
    for key in ("saved_model_main_op", "legacy_init_op", "saved_model_init_op", "table_initializer"):
        if key in meta.collection_def:
            yield from meta.collection_def[key].node_list.value
    yield from (asset.tensor_info.name for asset in meta.asset_file_def)


def _refuse_savers(nodes: Iterable[Any], savers: set[str], operators: Collection[str], name: str) -> None:
    for node in nodes:
        if node.op in operators:
            raise refused(name, f"the operator {node.op} in what answers a request", _HINT)
        if _mentions(node, savers):
            raise refused(name, f"a call of a function that saves or restores files, in {node.name[:80]!r}", _HINT)


def _closure(nodes: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    """The nodes that these depend on, themselves among them."""
    sources = {name: [_plain(source) for source in node.input] for name, node in nodes.items()}
    return _reached(sources, map(_plain, names)) & nodes.keys()


def _downstream(nodes: Mapping[str, Any], names: set[str]) -> set[str]:
    """The nodes that depend on these, themselves among them."""
    consumers: dict[str, list[str]] = {}
    for node in nodes.values():
        for source in node.input:
            consumers.setdefault(_plain(source), []).append(node.name)
    return _reached(consumers, names)


def _reached(neighbours: Mapping[str, Iterable[str]], starts: Iterable[str]) -> set[str]:
    """The starts, and all names that a chain of neighbours leads to from one of them."""
    waiting, seen = list(starts), set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(neighbours.get(name, ()))
    return seen


def _origin(nodes: Mapping[str, Any], name: str) -> str:
    """The node that a tensor comes from, seen through operators that pass it on; the saver's own name stops there."""
    name = _plain(name)
    for _ in range(len(nodes)):
        node = nodes.get(name)
        if node is None or node.op != "Identity" or not node.input:
            break
        name = _plain(node.input[0])
    return name


def _mentions(node: Any, functions: set[str]) -> bool:
    if node.op in functions or any(name in functions for name in _functions_in(node.attr)):
        return True
    return any(value.s and value.s.decode("latin-1") in functions for value in node.attr.values())


def _functions_in(attributes: Any) -> Iterator[str]:
    """Names of functions in attributes, at any depth: a function may be given functions."""
    waiting = list(attributes.values())
    while waiting:
        value = waiting.pop()
        for function in (value.func, *value.list.func):
            if function.name:
                yield function.name
            waiting.extend(function.attr.values())


def _plain(name: str) -> str:
    return name.lstrip("^").split(":")[0]


def refused_operator(name: str, operator: str) -> ModelError:
    return refused(name, f"the operator {operator[:80]}", _HINT)
