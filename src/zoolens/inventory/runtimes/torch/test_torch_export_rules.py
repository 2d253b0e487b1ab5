"""The rules for torch.export archives, rule by rule, on descriptions that torch never opens."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.torch import torch_export
from zoolens.inventory.runtimes.torch.torch_export import (
    _check_json,
    _check_plain_tensors,
    _check_tree,
    _is_operator,
    check_export,
    harmless_expression,
    harmless_guard,
)

torch = pytest.importorskip("torch")


def _refusal(tmp_path, program):
    """What is said against a program; None where nothing is."""
    try:
        _check_json(tmp_path / "net.pt2", json.dumps(program).encode())
    except ModelError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "program",
    [
        {"graph_module": {"graph": {"nodes": [{"name": "add", "target": "torch.ops.aten.add.Tensor"}]}}},
        {"tensor_values": {"p_conv.weight-1": {"dtype": 7, "sizes": [{"as_int": 3}]}}},
        {"sym_int_values": {"s0": {"as_expr": {"expr_str": "2*s0 + 1", "hint": None}}}},
        {"range_constraints": {"s0": {"min_val": 2, "max_val": 100}, "2*s0 + 1": {"min_val": 5}}},
        {"opset_version": {"aten": 10}},
        {"config": {"weight_0": {"path_name": "weight_0", "is_param": True, "use_pickle": False}}},
        {"metadata": {"stack_trace": "any text; at (all)\n", "custom": {"anything": "open('x')"}}},
        {"as_string": "any text; at (all)\n", "as_strings": ["any; text"], "torch_version": "2.13.0+cpu (x)"},
        {"guards_code": ["L['x'].size()[0] <= 8"]},
        {
            "in_spec": "",
            "out_spec": json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": []}]),
        },
        {"custom_obj_values": {}, "treespec_namedtuple_fields": {}},
        {"as_string_to_argument": {"any_name": {"as_int": 3}}},
        {"as_floats": [1.5, None, True]},
        {"name": "a" * 300},
        {"use_pickle": False},
        [],
    ],
)
def test_descriptions_that_torch_writes_pass(tmp_path, program):
    assert _refusal(tmp_path, program) is None


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ({"on_load": 1}, "the key 'on_load',"),
        ({"graph": {"on_load": 1}}, "the key 'on_load' in graph"),
        ({"metadata": {"hook": "x"}}, "the key 'hook' in metadata"),
        ({"metadata": {"custom": "x", "hook": "x"}}, "the key 'hook' in metadata"),
        ({"range_constraints": {"9**9**9": {"min_val": 1}}}, "the key '9**9**9' in range_constraints"),
        ({"tensor_values": {"a;b": {}}}, "the key 'a;b' in tensor_values"),
        ({"tensor_values": {"a" * 301: {}}}, "in tensor_values"),
        ({"tensor_values": {"a": {"on_load": 1}}}, "the key 'on_load',"),
        ({"graph": {"tensor_values": {"a": {"b": 1}}}}, "the key 'b',"),
        ({"name": "a" * 301}, "the name 'aaa"),
        ({"name": "a b"}, "the name 'a b'"),
        ({"name": "ä"}, "the name 'ä'"),
        ({"inputs": [{"name": "a;"}]}, "the name 'a;'"),
        ({"forward_arg_names": ["x=1"]}, "the name 'x=1'"),
        ({"custom_obj_values": {"x": {}}}, "custom_obj_values, which are Python objects"),
        ({"treespec_namedtuple_fields": {"x": {}}}, "treespec_namedtuple_fields, which are Python objects"),
        ({"use_pickle": True}, "pickled tensors"),
        ({"use_pickle": 1}, "pickled tensors"),
        ({"use_pickle": None}, "pickled tensors"),
        ({"config": {"w": {"use_pickle": True}}}, "pickled tensors"),
        ({"target": "os.system"}, "the operator 'os.system'"),
        ({"expr_str": "9**9**9"}, "the shape expression '9**9**9'"),
        ({"guards_code": ["open('x')"]}, "the guard"),
        ({"in_spec": "[1"}, "a description that is not plain JSON"),
        ({"in_spec": '{"type": "os.system"}'}, "the container 'os.system'"),
        ({"out_spec": '{"type": "os.system"}'}, "the container 'os.system'"),
    ],
)
def test_other_descriptions_are_refused_with_their_reason(tmp_path, program, words):
    said = _refusal(tmp_path, program)
    assert said is not None
    assert said.startswith("net.pt2 carries ")
    assert words in said
    assert "which zoolens does not run. " in said


def test_text_that_is_no_json_is_refused(tmp_path):
    for content in (b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(ModelError, match="a description that is not plain JSON"):
            _check_json(tmp_path / "net.pt2", content)


@pytest.mark.parametrize(
    ("target", "known"),
    [
        ("torch.ops.aten.add.Tensor", True),
        ("torch.ops.aten.add", True),
        ("torch.ops.aten.conv2d.default", True),
        ("torch.ops.aten.save.default", False),
        ("torch.ops.prim.NumToTensor.default", False),
        ("torch.ops.unknown.add.default", False),
        ("torch.ops.aten.add.Tensor.more", False),
        ("torch.ops.aten", False),
        ("xtorch.ops.aten.add", False),
        ("torchXops.aten.add", False),
        ("_operator.getitem", True),
        ("_operator.add", True),
        ("_operator.call", False),
        ("math.ceil", True),
        ("math.perm", False),
        ("torch.sym_max", True),
        ("torch.load", False),
        ("torch.ops.higher_order.cond", True),
        ("torch.ops.higher_order.map_impl", False),
        ("torch.ops.aten.add.Ä", False),
    ],
)
def test_operators(target, known):
    assert _is_operator(target) is known


@pytest.mark.parametrize(
    "tree",
    [
        None,
        [1, {"type": None, "context": None, "children_spec": []}],
        {"type": "builtins.dict", "context": '["a", "b.c-d", 3]', "children_spec": [{"type": None}]},
        {"type": "collections.OrderedDict", "context": ["a"], "children_spec": []},
        {"type": "builtins.list", "context": '"a"', "children_spec": []},
        {"type": "builtins.list", "context": 5},
    ],
)
def test_trees_of_plain_containers_pass(tmp_path, tree):
    _check_tree(tmp_path / "net.pt2", tree)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"type": "os.system"}, "the container 'os.system'"),
        ({"type": "builtins.list", "more": 1}, "the container 'builtins.list'"),
        ({"type": "builtins.dict", "context": '["a b"]'}, "the name 'a b'"),
        ({"type": "builtins.dict", "context": ["a;"]}, "the name 'a;'"),
        ({"type": "builtins.dict", "context": ["a", "b;"]}, "the name 'b;'"),
        ({"type": "builtins.dict", "context": {"a": 1}}, "the name "),
        ({"type": "builtins.dict", "context": [1.5]}, "the name '1.5'"),
        ({"type": "builtins.dict", "children_spec": [{"type": "os.system"}]}, "the container 'os.system'"),
        ({"type": "builtins.dict", "children_spec": {"type": "os.system"}}, "the container 'os.system'"),
        ([1, [{"type": "os.system"}]], "the container 'os.system'"),
        (["os.system"], "the container 'os.system'"),
    ],
)
def test_other_trees_are_refused(tmp_path, tree, words):
    with pytest.raises(ModelError) as caught:
        _check_tree(tmp_path / "net.pt2", tree)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("s0**8", True),
        ("s0**9", False),
        ("s0**0", True),
        ("s0**-1", True),
        ("s0**-8", True),
        ("s0**-9", False),
        ("s0**+1", False),
        ("s0**1.5", False),
        ("Pow(s0, 8)", True),
        ("Pow(s0, 9)", False),
        ("Pow(9, s0)", False),
        ("Pow()", False),
        ("Pow(2)", True),
        ("s0**-0", True),
        ("Pow(s0, Integer(8))", True),
        ("Pow(s0, Integer(9))", False),
        ("Pow(s0, Float(2))", False),
        ("PowByNatural(s0, 2)", True),
        ("PowByNatural(s0, 9)", False),
        ("(s0**2)**2", True),
        ("((s0**2)**2)**2", False),
        ("Pow(Pow(s0, 2), 2)", True),
        ("Pow(Pow(Pow(s0, 2), 2), 2)", False),
        ("Pow((s0**2)**2, 2)", False),
        ("s0**2 + s1**2 + s2**2", True),
        ("Max(s0**2, s1**2)", True),
        (str(1 << 63), True),
        (str((1 << 63) + 1), False),
        ("-" + str(1 << 63), True),
        ("Symbol('s0', integer=True)", True),
        ("Symbol('" + "a" * 40 + "')", True),
        ("Symbol('" + "a" * 41 + "')", False),
        ("Symbol('')", False),
        ("Symbol('a b')", False),
        ("Symbol(None)", True),
        ("Symbol(b'a')", False),
        ("1j", False),
        ("a" * 41, True),
        ("a" * 42, False),
        ("_a", False),
        ("__import__", False),
        ("open('x')", False),
        ("Symbol('s0').subs()", False),
        ("s0.size()", False),
        ("s0[0]", False),
        ("[s0]", False),
        ("(s0, s1)", False),
        ("lambda: 1", False),
        ("s0 if s1 else s2", False),
        ("s0 // 2 % 3 - 4 / 5", True),
        ("s0 << 2", False),
        ("s0 @ s1", False),
        ("s0 & s1", False),
        ("not s0 and s1 or -s2 < s3", True),
        ("Symbol('s0')(1)", False),
        ("ä", False),
        ("s0;s1", False),
        ("", False),
        ("s0 + " * 2499 + "s000", False),
        ("1" + " " * 9999, True),
        ("1" + " " * 10000, False),
        ("Mod(FloorDiv(s0, 2), 3)", True),
    ],
)
def test_expressions(text, harmless):
    assert harmless_expression(text) is harmless


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("L['x'].size()[0] <= 32", True),
        ("L['x'].stride()[0] == 1", True),
        ("L['x'].storage_offset() == 0", True),
        ("L['x'].size(0) == 1", False),
        ("L['x'].size(dim=0) == 1", False),
        ("L['x'].size", True),
        ("L['x'].data", False),
        ("L['x'].numpy()", False),
        ("L['x'].size()[0] <= 32\n", False),
        ("L['x'].size()[0]\n<= 32", False),
        ("L['x'][0:1]", False),
        ("Eq(L['x'].size()[0], 2)", True),
    ],
)
def test_guards(text, harmless):
    assert harmless_guard(text) is harmless


# --- archives


def _archive(tmp_path, entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(f"net/{name}", content)
    path = tmp_path / "net.pt2"
    path.write_bytes(buffer.getvalue())
    return path


@pytest.mark.parametrize(
    "name",
    [
        *("data/weights/weight_0", "data/constants/tensor_12", "archive_format", "archive_version", "byteorder"),
        *("version", ".data/serialization_id", ".format_version"),
    ],
)
def test_entries_of_an_export_pass(tmp_path, name):
    check_export(_archive(tmp_path, {"models/model.json": b"{}", name: b"\x00"}))


def test_an_export_is_judged_by_its_entries(tmp_path):
    for name in ("data/aotinductor/model.so", "models/model.pkl", "data/weights/weight_x", "xversion"):
        with pytest.raises(ModelError, match=f"the entry '{name}', which zoolens does not run") as caught:
            check_export(_archive(tmp_path, {name: b"x"}))
        assert caught.value.hint == "It may hold compiled code or pickled objects."
    names = (
        *("models/model.json", "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"),
        "serialized_exported_program.json",
    )
    for name in names:
        with pytest.raises(ModelError, match="the key 'on_load'"):
            check_export(_archive(tmp_path, {name: b'{"on_load": 1}'}))
    for name in ("data/sample_inputs/model.pt", "serialized_state_dict.pt", "serialized_constants.pt"):
        with pytest.raises(ModelError, match=f"{name} with more than plain tensors"):
            check_export(_archive(tmp_path, {name: b"cos\nsystem\n."}))
    path = tmp_path / "net.pt2"
    path.write_bytes(b"no archive")
    with pytest.raises(ModelError, match=r"not a torch\.export archive"):
        check_export(path)


def _tensors():
    buffer = io.BytesIO()
    torch.save({"a": torch.zeros(3)}, buffer)
    return buffer.getvalue()


def test_plain_tensors_pass_and_what_unpacks_to_more_than_it_claims_does_not(tmp_path, monkeypatch):
    plain = _tensors()
    _check_plain_tensors(tmp_path / "net.pt2", "x.pt", plain)
    path = _archive(tmp_path, {"data/sample_inputs/model.pt": plain})
    check_export(path)
    monkeypatch.setattr(torch_export, "UNPACKED_AT_LEAST", 10)  # then the size that the entry claims is the limit
    check_export(path)


def test_a_pickle_is_not_executed(tmp_path):
    mark = tmp_path / "ran"

    class Payload:
        def __reduce__(self):
            return open, (str(mark), "w")

    buffer = io.BytesIO()
    torch.save({"a": Payload()}, buffer)
    with pytest.raises(ModelError, match=r"x\.pt with more than plain tensors"):
        _check_plain_tensors(tmp_path / "net.pt2", "x.pt", buffer.getvalue())
    assert not mark.exists()
