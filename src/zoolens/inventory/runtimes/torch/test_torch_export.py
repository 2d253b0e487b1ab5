"""torch.export archives: unknown keys, names, guards, operators and expressions are refused before torch reads them."""

from __future__ import annotations

import io
import json
import shutil
import zipfile

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.torch.torch_export import harmless_expression, harmless_guard
from zoolens.inventory.runtimes.torch.torch_runtime import Torch
from zoolens.testing import models

torch = pytest.importorskip("torch")


def _changed(tmp_path, change):
    """A torch.export archive whose program is changed: change(program)."""
    files = models.cached(models.torch_export, tmp_path)
    original = tmp_path / "original.zip"
    shutil.move(files.path(), original)
    with zipfile.ZipFile(original) as old, zipfile.ZipFile(files.path(), "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("models/model.json"):
                program = json.loads(content)
                change(program)
                content = json.dumps(program).encode()
            new.writestr(name, content)
    return files


def _graph(program):
    return program["graph_module"]["graph"]


def _guard(text):
    return lambda program: program["guards_code"].append(text)


def _node_name(text):
    def change(program):
        _graph(program)["nodes"][0]["name"] = text

    return change


def _buffer_name(program):
    spec = next(spec for spec in program["graph_module"]["signature"]["input_specs"] if "parameter" in spec)
    spec["parameter"]["parameter_name"] = 'x"); open("MARK", "w'


def _argument_name(program):
    program["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = ["x=open('MARK', 'w')"]


def _key_of_an_input(program):
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    leaf = {"type": None, "context": None, "children_spec": []}
    tree = {"type": "builtins.dict", "context": json.dumps(["x'+open('MARK','w')+'"]), "children_spec": [leaf]}
    signature["in_spec"] = json.dumps([1, tree])


def _container(program):
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    signature["out_spec"] = json.dumps([1, {"type": "subprocess.Popen", "context": "null", "children_spec": []}])


def _custom_object(program):
    _graph(program)["custom_obj_values"] = {"x": {"name": "x", "class_fqn": "os.system"}}


def _unknown_key(program):
    program["on_load"] = "open('MARK', 'w')"


def _metadata(program):
    _graph(program)["nodes"][0]["metadata"]["hook"] = "x"


def _expression(program):
    _graph(program)["sym_int_values"]["s"] = {"as_expr": {"expr_str": "9**9**9**9", "hint": None}}


def _operator(text):
    def change(program):
        _graph(program)["nodes"][0]["target"] = text

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_guard("open('MARK', 'w') or True"), "the guard"),
        (_guard("[open('MARK', 'w')]"), "the guard"),
        (_guard("L['x'].__class__.__base__.__subclasses__()"), "the guard"),
        (_guard("True)\n  open('MARK', 'w'"), "the guard"),
        (_node_name("x; open('MARK', 'w')"), "the name"),
        (_buffer_name, "the name"),
        (_argument_name, "the name"),
        (_key_of_an_input, "the name"),
        (_container, "the container"),
        (_custom_object, "Python objects"),
        (_unknown_key, "the key 'on_load'"),
        (_metadata, "the key 'hook' in metadata"),
        (_expression, "the shape expression"),
        (_operator("torch.ops.aten.save.default"), "the operator"),
        (_operator("torch.ops.inductor._reinterpret_tensor.default"), "the operator"),
        (_operator("torch.ops.higher_order.triton_kernel_wrapper_mutation"), "the operator"),
        (_operator("torch.ops.load_library"), "the operator"),
        (_operator("#extension:evil"), "the operator"),
    ],
)
def test_a_program_that_could_do_more_than_compute_is_refused(tmp_path, change, words, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MARK would be made here
    with pytest.raises(ModelError, match=words):
        Torch().open(_changed(tmp_path, change))
    assert not list(tmp_path.glob("*MARK*"))


class _Marks:
    def __reduce__(self):
        return open, ("MARK", "w")


@pytest.mark.parametrize("word", [True, 1, "yes", [1], {"arg": 1}], ids=str)
def test_weights_that_torch_would_unpickle_are_refused(tmp_path, word, monkeypatch):
    """Torch looks only whether `use_pickle` is true in Python's sense, and a text is."""
    monkeypatch.chdir(tmp_path)
    files = models.cached(models.torch_export, tmp_path)
    original = tmp_path / "original.zip"
    shutil.move(files.path(), original)
    with zipfile.ZipFile(original) as old, zipfile.ZipFile(files.path(), "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("model_weights_config.json"):
                config = json.loads(content)
                for payload in config["config"].values():
                    payload["use_pickle"] = word
                content = json.dumps(config).encode()
            elif "/data/weights/" in name:
                buffer = io.BytesIO()
                torch.save(_Marks(), buffer)
                content = buffer.getvalue()
            new.writestr(name, content)
    with pytest.raises(ModelError, match="pickled tensors"):
        Torch().open(files)
    assert not (tmp_path / "MARK").exists()


def test_a_program_with_harmless_guards_opens(tmp_path):
    Torch().open(_changed(tmp_path, _guard("L['image'].size()[0] <= 1024"))).close()


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("9**9**9**9", False),
        ("2**64", False),
        ("s0**2", True),
        ("Pow(Symbol('s0'), Integer(2))", True),
        ("Pow(Pow(Pow(9, 8), 8), 8)", False),
        ("PowByNatural(10, 999999999)", False),
        ("s0**s1", False),
        ("1 << 99999999999", False),
        ("-" * 5000 + "1", False),
        ("1" * 400, False),
        ("Symbol('s0') * 2 + 1", True),
    ],
)
def test_expressions_are_bounded(text, harmless):
    assert harmless_expression(text) is harmless


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("L['d']['z'].size()[0] == L['image'].size()[0]", True),
        ("L['args'][0].size()[1] * 2 <= 64", True),
        ("Mod(L['x'].size()[0], 2) == 0", True),
        ("L['x'].size(open('y'))", False),
        ("L['x'].numpy().tofile('y')", False),
        ("eval('1')", False),
    ],
)
def test_guards(text, harmless):
    assert harmless_guard(text) is harmless
