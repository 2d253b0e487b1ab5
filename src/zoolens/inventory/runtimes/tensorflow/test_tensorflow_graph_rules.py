"""The rules for TensorFlow graphs, rule by rule, on protocol buffers that TensorFlow never runs."""

from __future__ import annotations

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.tensorflow.tensorflow_graph import check_graph, check_saved_model

pytest.importorskip("tensorflow")

from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import saved_model_pb2

HINT = (
    "Only operators that compute on tensors are run. Export the network alone (without files, tables read from files, "
    "datasets or Python), or convert it to ONNX where you trust it."
)


def _node(place, name, op, *inputs, calls=(), word=None):
    node = place.add(name=name, op=op, input=inputs)
    for number, function in enumerate(calls):
        node.attr[f"f{number}"].func.name = function
    if word is not None:
        node.attr["word"].s = word
    return node


def _function(graph, name, *operators):
    function = graph.library.function.add()
    function.signature.name = name
    for number, operator in enumerate(operators):
        _node(function.node_def, f"n{number}", operator)
    return function


def _graph(*nodes):
    graph = graph_pb2.GraphDef()
    for name, op, *inputs in nodes:
        _node(graph.node, name, op, *inputs)
    return graph


def _said(check, *given):
    """What is said; None where nothing is."""
    try:
        check(*given)
    except ModelError as error:
        return str(error)
    return None


# --- operators and functions


def test_operators_that_compute_pass():
    graph = _graph(("x", "Placeholder"), ("y", "Relu", "x"), ("z", "own", "y"))
    _function(graph, "own", "Add", "other")
    _function(graph, "other", "Mul")
    _node(graph.node, "call", "PartitionedCall", "y", calls=["own", "other"])
    assert _said(check_graph, graph, "net.pb") is None


@pytest.mark.parametrize("operator", ["WriteFile", "SaveV2", "RestoreV2", "ShardedFilename", "", "relu"])
def test_other_operators_are_refused_wherever_they_stand(operator):
    expected = f"net.pb carries the operator {operator}, which zoolens does not run. {HINT}"
    assert _said(check_graph, _graph(("x", operator)), "net.pb") == expected
    assert _said(check_graph, _graph(("a", "Relu"), ("x", operator), ("b", "Relu")), "net.pb") == expected
    graph = _graph(("x", "Relu"))
    _function(graph, "first", "Add")
    _function(graph, "second", "Add", operator)
    assert _said(check_graph, graph, "net.pb") == expected


def test_two_functions_of_one_name_are_refused():
    graph = _graph(("x", "Relu"))
    _function(graph, "own", "Add")
    _function(graph, "own", "Mul")
    assert _said(check_graph, graph, "net.pb") == (
        f"net.pb carries two functions of one name, which zoolens does not run. {HINT}"
    )


def test_functions_that_are_not_in_the_file_are_refused_at_any_depth():
    def called(change):
        graph = _graph(("x", "Relu"))
        _function(graph, "own", "Add")
        change(graph.node[0].attr, graph)
        return _said(check_graph, graph, "net.pb") or ""

    def direct(attr, _):
        attr["f"].func.name = "WriteFile"

    def listed(attr, _):
        attr["f"].list.func.add(name="own")
        attr["f"].list.func.add(name="WriteFile")

    def nested(attr, _):
        attr["f"].func.name = "own"
        attr["f"].func.attr["g"].func.name = "WriteFile"

    def nested_in_list(attr, _):
        attr["f"].list.func.add(name="own").attr["g"].list.func.add(name="WriteFile")

    def nameless(attr, _):
        attr["f"].func.attr["g"].func.name = "WriteFile"

    def in_a_function(_, graph):
        graph.library.function[0].node_def[0].attr["f"].func.name = "WriteFile"

    for change in (direct, listed, nested, nested_in_list, nameless, in_a_function):
        assert "a call of 'WriteFile', a function that is not in the file" in called(change), change

    def known(attr, _):
        attr["f"].func.name = "own"
        attr["g"].list.func.add(name="own").attr["h"].func.name = "own"

    assert called(known) == ""


def test_long_names_are_cut():
    said = _said(check_graph, _graph(("x", "A" * 99)), "net.pb")
    assert "A" * 80 in said
    assert "A" * 81 not in said
    graph = _graph(("x", "Relu"))
    graph.node[0].attr["f"].func.name = "A" * 99
    assert f"'{'A' * 80}'" in _said(check_graph, graph, "net.pb")


# --- SavedModels


def _saved(tmp_path, *changes):
    """A SavedModel with a signature, a saver in its main graph and one in functions; each change makes a meta graph."""
    saved = saved_model_pb2.SavedModel()
    for change in changes or (lambda meta: None,):
        meta = saved.meta_graphs.add()
        nodes = meta.graph_def.node
        _node(nodes, "x", "Placeholder")
        _node(nodes, "y", "Relu", "x:0", "^start")
        _node(nodes, "start", "NoOp")
        _node(nodes, "file", "Placeholder")
        _node(nodes, "name", "Identity", "file")
        _node(nodes, "save", "SaveV2", "name")
        _node(nodes, "merge", "StatefulPartitionedCall", "file", calls=["caller"])
        _node(nodes, "restore", "RestoreV2", "name:0")
        _node(nodes, "assign", "AssignVariableOp", "restore:0")
        _node(nodes, "restore_all", "NoOp", "^assign")
        _function(meta.graph_def, "plain", "Add")
        _function(meta.graph_def, "traced_save", "SaveV2", "MergeV2Checkpoints")
        caller = _function(meta.graph_def, "caller", "Add")
        _node(caller.node_def, "c", "StatefulPartitionedCall", calls=["traced_save"])
        meta.saver_def.filename_tensor_name = "file:0"
        meta.saver_def.restore_op_name = "restore_all"
        signature = meta.signature_def["serving_default"]
        signature.inputs["x"].name = "x:0"
        signature.outputs["y"].name = "y:0"
        meta.collection_def["savers"].bytes_list.value.append(b"save restore_all")
        change(meta)
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    return folder


def _objects(meta):
    """As TensorFlow 2 writes it: objects, which restore by themselves."""
    meta.object_graph_def.nodes.add().function.concrete_functions.append("plain")


def test_a_saver_that_nothing_reaches_passes(tmp_path):
    assert _said(check_saved_model, _saved(tmp_path)) is None
    assert _said(check_saved_model, _saved(tmp_path, _objects)) is None


def test_what_is_no_saved_model_is_said(tmp_path):
    (tmp_path / "empty").mkdir()
    assert _said(check_saved_model, tmp_path / "empty") == (
        "empty has no saved_model.pb. The location of a SavedModel is its folder."
    )
    (tmp_path / "empty" / "saved_model.pb").write_bytes(b"")
    assert _said(check_saved_model, tmp_path / "empty") == (
        "empty/saved_model.pb holds no graph. Fetch it again: it is not complete."
    )


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    folder = _saved(tmp_path)
    (folder / "variables").mkdir()
    (folder / "variables" / "inside").symlink_to(folder / "saved_model.pb")
    assert _said(check_saved_model, folder) is None
    (tmp_path / "model-elsewhere").write_bytes(b"")
    (folder / "variables" / "data").symlink_to(tmp_path / "model-elsewhere")
    assert _said(check_saved_model, folder) == (
        "model/variables/data is a link that leads out of the SavedModel. Put the file itself there."
    )


def _operator(meta):
    _node(meta.graph_def.node, "w", "WriteFile")


def _asset(name):
    def change(meta):
        meta.asset_file_def.add(filename="words.txt")
        meta.asset_file_def.add(filename=name)

    return change


def _registered_class(meta):
    meta.object_graph_def.nodes.add(registered_name="tf.StaticHashTable")
    meta.object_graph_def.nodes.add(registered_name="evil.Class")


def _registered_saver(meta):
    meta.object_graph_def.nodes.add(registered_saver="evil.Saver")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_operator, "the operator WriteFile"),
        (_asset("/etc/passwd"), "the asset '/etc/passwd' outside its folder"),
        (_asset("\\\\host"), "the asset "),
        (_asset("a/../../b"), "the asset 'a/../../b' outside its folder"),
        (_asset("C:x"), "the asset 'C:x' outside its folder"),
        (_asset("gs://x"), "the asset 'gs://x' outside its folder"),
        (_asset("/" + "A" * 99), f"the asset '/{'A' * 79}' outside"),
        (_registered_class, "an object of the registered class 'evil.Class'"),
        (_registered_saver, "an object of the registered class 'evil.Saver'"),
    ],
)
def test_every_graph_of_a_saved_model_is_judged(tmp_path, change, words):
    for changes in ((change,), (lambda meta: None, change), (change, lambda meta: None)):
        assert f"model carries {words}" in _said(check_saved_model, _saved(tmp_path, *changes))


def test_plain_assets_and_known_objects_pass(tmp_path):
    def change(meta):
        _objects(meta)
        meta.asset_file_def.add(filename="a..b/words.txt")
        for name in ("", "tf.StaticHashTable", "tf.TrackableConstant"):
            meta.object_graph_def.nodes.add(registered_name=name)

    assert _said(check_saved_model, _saved(tmp_path, change)) is None


def _input(name, source):
    def change(meta):
        next(node for node in meta.graph_def.node if node.name == name).input.append(source)

    return change


def _signature(fill):
    return lambda meta: fill(meta.signature_def["serving_default"])


def _collection(key, name):
    return lambda meta: meta.collection_def[key].node_list.value.append(name)


ANSWERING = "in what answers a request"
CALLED = "a call of a function that saves or restores files, in"
COLLECTED = "a collection that names an operator which saves or restores files"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_input("y", "save"), f"the operator SaveV2 {ANSWERING}"),
        (_input("y", "^save"), f"the operator SaveV2 {ANSWERING}"),
        (_input("y", "restore:1"), f"the operator RestoreV2 {ANSWERING}"),
        (_input("y", "restore_all"), f"the operator RestoreV2 {ANSWERING}"),
        (_input("start", "save"), f"the operator SaveV2 {ANSWERING}"),
        (_input("y", "merge"), f"{CALLED} 'merge'"),
        (_signature(lambda it: setattr(it.outputs["z"], "name", "save:0")), f"the operator SaveV2 {ANSWERING}"),
        (_signature(lambda it: setattr(it.inputs["z"], "name", "save:0")), f"the operator SaveV2 {ANSWERING}"),
        (
            _signature(lambda it: it.outputs["z"].composite_tensor.components.add(name="save:0")),
            f"the operator SaveV2 {ANSWERING}",
        ),
        *(
            (
                _signature(lambda it, field=field: setattr(it.outputs["z"].coo_sparse, field, "save:0")),
                f"the operator SaveV2 {ANSWERING}",
            )
            for field in ("values_tensor_name", "indices_tensor_name", "dense_shape_tensor_name")
        ),
        *(
            (_collection(key, "save"), COLLECTED)
            for key in ("saved_model_main_op", "legacy_init_op", "saved_model_init_op", "table_initializer", "other")
        ),
        (_collection("other", "restore_all"), COLLECTED),
        (_collection("other", "assign"), COLLECTED),
        (_collection("other", "merge"), COLLECTED),
        (
            lambda meta: setattr(meta.asset_file_def.add(filename="a").tensor_info, "name", "save:0"),
            f"the operator SaveV2 {ANSWERING}",
        ),
        (_input("restore_all", "^save"), f"the operator SaveV2 {ANSWERING}"),
        (_input("restore_all", "merge"), f"{CALLED} 'merge'"),
        (_input("name", "^save"), f"the operator SaveV2 {ANSWERING}"),
    ],
)
def test_what_runs_may_not_lead_to_a_saver(tmp_path, change, words):
    assert f"model carries {words}" in _said(check_saved_model, _saved(tmp_path, change))


@pytest.mark.parametrize("key", ["saved_model_main_op", "legacy_init_op", "saved_model_init_op", "table_initializer"])
def test_initialisers_are_judged_by_what_they_lead_to(tmp_path, key):
    """A function that saves, called through an attribute that is a word: no operator of it is a saver."""

    def change(meta):
        _node(meta.graph_def.node, "start_all", "NoOp", "^through")
        _node(meta.graph_def.node, "through", "PartitionedCall", word=b"traced_save")
        meta.collection_def[key].node_list.value.append("start_all")

    said = _said(check_saved_model, _saved(tmp_path, change))
    assert COLLECTED in said or CALLED in said

    def harmless(meta):
        meta.collection_def[key].node_list.value.append("start")

    assert _said(check_saved_model, _saved(tmp_path, harmless)) is None


def _place_of(source):
    def change(meta):
        _node(meta.graph_def.node, "elsewhere", "Const")
        _node(meta.graph_def.node, "twice", "Identity", "^name:0")
        _node(meta.graph_def.node, "nothing", "Identity")
        _node(meta.graph_def.node, "round", "Identity", "around")
        _node(meta.graph_def.node, "around", "Identity", "round")
        next(node for node in meta.graph_def.node if node.name == "restore").input[0] = source

    return change


@pytest.mark.parametrize(
    ("source", "passes"),
    [
        ("file", True),
        ("file:0", True),
        ("twice", True),
        ("elsewhere", False),
        ("nothing", False),
        ("round", False),
        ("not_there", False),
        ("x", False),
    ],
)
def test_variables_come_from_the_place_that_tensorflow_passes_in(tmp_path, source, passes):
    said = _said(check_saved_model, _saved(tmp_path, _place_of(source)))
    if passes:
        assert said is None
    else:
        assert "model carries the operator RestoreV2 on a file of its own choice" in said


def test_with_objects_the_saver_of_the_main_graph_is_not_run(tmp_path):
    def change(meta):
        _objects(meta)
        _place_of("elsewhere")(meta)

    assert _said(check_saved_model, _saved(tmp_path, change)) is None


def _object_calls(name):
    def change(meta):
        meta.object_graph_def.nodes.add().function.concrete_functions.append(name)

    return change


def _implements(name):
    def change(meta):
        function = next(f for f in meta.graph_def.library.function if f.signature.name == name)
        function.attr["api_implements"].s = b"one"

    return change


def _stands_for(meta):
    meta.graph_def.library.function[0].attr["forward"].s = b"traced_save"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_object_calls("traced_save"), "the function 'traced_save', which saves or restores files"),
        (_object_calls("caller"), "the function 'caller', which saves or restores files"),
        (_implements("traced_save"), "the function 'traced_save', which saves or restores files"),
        (_implements("caller"), "the function 'caller', which saves or restores files"),
        (_stands_for, "a function that stands for one which saves or restores files"),
    ],
)
def test_functions_that_save_are_named_by_nothing(tmp_path, change, words):
    assert f"model carries {words}" in _said(check_saved_model, _saved(tmp_path, change))


def test_functions_that_save_through_others_count(tmp_path):
    def change(meta):
        library = meta.graph_def.library.function
        third = _function(meta.graph_def, "third", "caller")
        fourth = _function(meta.graph_def, "fourth", "Add")
        _node(fourth.node_def, "w", "Add", word=b"third")
        assert len(library) == 5
        assert third.node_def[0].op == "caller"
        _node(meta.graph_def.node, "late", "fourth")
        _input("y", "late")(meta)

    assert f"{CALLED} 'late'" in _said(check_saved_model, _saved(tmp_path, change))


def test_a_plain_function_may_be_named_and_stand_for_another(tmp_path):
    def change(meta):
        _object_calls("plain")(meta)
        _implements("plain")(meta)
        meta.graph_def.library.function[0].attr["forward"].s = b"other"
        meta.graph_def.node[0].attr["word"].s = b"plain"

    assert _said(check_saved_model, _saved(tmp_path, change)) is None


def test_names_of_savers_are_cut(tmp_path):
    long = "s" * 99

    def change(meta):
        _function(meta.graph_def, long, "SaveV2")
        _object_calls(long)(meta)

    assert f"'{'s' * 80}'" in _said(check_saved_model, _saved(tmp_path, change))

    def called(meta):
        _node(meta.graph_def.node, long, "traced_save")
        _input("y", long)(meta)

    assert f"'{'s' * 80}'" in _said(check_saved_model, _saved(tmp_path, called))
