"""TorchScript's rules, rule by rule, on code that is never run."""

from __future__ import annotations

import io
import zipfile

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.torch.torch_script import _Code, _registered, check_torchscript

torch = pytest.importorskip("torch")

PICKLE = b"\x80\x02c__torch__\nNet\n."


def _check(tmp_path, code):
    _Code(tmp_path / "net.pt", frozenset({"save", "add", "wait"})).check(code.encode("latin-1"))


def _body(*lines):
    inside = "\n".join(f"    {line}" for line in lines)
    return f"class Net(Module):\n  training : bool\n  def forward(self, x: Tensor) -> Tensor:\n{inside}\n    return x\n"


@pytest.mark.parametrize(
    "line",
    [
        "y = torch.add(x, CONSTANTS.c0)",
        "y = ops.aten.add(x, 1)",
        "y = ops.prim.NumToTensor(1)",
        "y = x.add(x)",
        "y = self.conv.forward(x)",
        'y = getattr(self, "0").forward(x)',
        "y = getattr(self.a, '1')",
        "y = annotate(List[int], [len(x), int(2)])",
        "y = x[0:1, :][-1] if bool(x) and not False else (x, x)[0]",
        "y, z = x, {1: 2}",
        "y = __torch__.helper(x)",
        "y = __torch__.torch.nn.functional.relu(x)",
        "y = __torch__.torch.classes.quantized.Conv2dPackedParamsBase.x(x)",
        "y = __torch__.torch(x)",
        "y = unchecked_cast(Tensor, x)",
        "f = x\n    y = f(x)",
        "for i in range(3):\n      y = torch.add(x, i)",
        "while bool(x):\n      break",
        "assert bool(x)",
        'ops.prim.RaiseException("what")',
        "y = 'it\"s'",
        'y = "it\'s"',
        'y = ""',
        "y += 1",
        "y : int = 3",
        "y = torch.add(x, alpha=2)",
        "y = [*x]",
        "y = x.own_method(x)",
    ],
)
def test_code_of_known_parts_passes(tmp_path, line):
    _check(tmp_path, _body(line))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("y = torch.save(x)", "a call of torch.save"),
        ("y = torch.add.save(x)", "a call of torch.add.save"),
        ("y = torch.nn.add(x)", "a call of torch.nn.add"),
        ("y = ops.add(x)", "a call of ops.add"),
        ("y = ops.aten.save(x)", "a call of ops.aten.save"),
        ("y = ops.aten.add.out(x)", "a call of ops.aten.add.out"),
        ("y = ops.unknown.add(x)", "a call of ops.unknown.add"),
        ("y = x.save(1)", "a call of save"),
        ("y = x.save", "a call of save"),
        ("y = self.a.save.b(x)", "a call of save"),
        ("y = x.wait()", "a call of wait"),
        ('y = getattr(x, "save")', "a call of save"),
        ('y = getattr(torch, "x")', "the module torch as a value"),
        ("y = getattr(x, z)", "a call of getattr(x, z)"),
        ("y = getattr(x)", "a call of getattr(x)"),
        ("y = getattr(x, 3)", "a call of getattr(x, 3)"),
        ('y = getattr(x, "a", 1)', "a call of getattr(x, 'a', 1)"),
        ("y = open(x)", "a call of open"),
        ("y = print(x)", "a call of print"),
        ("y = forward(x)", "a call of forward"),
        ("y = x[0](x)", "a call of x[0]"),
        ("y = x()()", "a call of x()"),
        ("y = torch", "the module torch as a value"),
        ("y = ops", "the module ops as a value"),
        ("y = [__torch__]", "the module __torch__ as a value"),
        ("y = x + CONSTANTS", "the module CONSTANTS as a value"),
        ("y = torch.add(torch)", "the module torch as a value"),
        ("y = torch.add(alpha=torch)", "the module torch as a value"),
        ("y = x.own(torch.save(x))", "a call of torch.save"),
        ("y = x.own(a=torch.save(x))", "a call of torch.save"),
        ("y = torch.add(x, [torch.save(x)])", "a call of torch.save"),
        ("y = [torch.save(x), x.own(1)]", "a call of torch.save"),
        ("y = [x.own(1), torch.save(x)]", "a call of torch.save"),
        ("y = torch.save(x).own(1)", "a call of torch.save"),
        ("y = torch.save", "a call of save"),
        ("y = torch.own", "the module torch as a value"),
        ("y = __torch__.torch.classes.dist_c10d.Work(x)", "the class __torch__.torch.classes.dist_c10d.Work"),
        ("y = __torch__.torch.classes", "the class __torch__.torch.classes"),
        ("torch = x", "a variable named torch"),
        ("ops = x", "a variable named ops"),
        ("getattr = x", "a variable named getattr"),
        ("for CONSTANTS in x:\n      pass", "a variable named CONSTANTS"),
        ("y = lambda z: z", "a Lambda in its code"),
        ("y = (z for z in x)", "a GeneratorExp in its code"),
        ("y = [z for z in x]", "a ListComp in its code"),
        ("import os", "a Import in its code"),
        ("global y", "a Global in its code"),
        ("del x", "a Delete in its code"),
        ("y = (z := x)", "a NamedExpr in its code"),
        ("y = f'{x}'", "in its code"),
        ("try:\n      pass\n    finally:\n      pass", "a Try in its code"),
        ("y = 1  # torch", "'# torch' in its code"),
        ('y = """a"""', "in its code"),
        ("y = '''a'''", "in its code"),
        ('y = r"a"', "'r\"a\"' in its code"),
        ('y = b"a"', "'b\"a\"' in its code"),
        ("y = ^open(x)", "a call of ^open in Python"),
        ("y = = x", "code that is not TorchScript"),
        ("y = (", "code that is not TorchScript"),
        ("y = 'ä'", "code with other characters than printable ASCII"),
        ("y =\tx", "code with other characters than printable ASCII"),
        ("y = \\\n    x", "code with other characters than printable ASCII"),
        ("y = x\r", "code with other characters than printable ASCII"),
        ("y = '\x7f'", "code with other characters than printable ASCII"),
        ("y = '\x1f'", "code with other characters than printable ASCII"),
    ],
)
def test_other_code_is_refused_with_its_reason(tmp_path, line, words):
    with pytest.raises(ModelError) as caught:
        _check(tmp_path, _body(line))
    assert str(caught.value) == (
        f"net.pt carries {_found(caught)}, which zoolens does not run. Only operators that compute on tensors are run. "
        "Trace the network alone, or convert it to ONNX."
    )
    assert words in _found(caught)


def _found(caught):
    return str(caught.value).removeprefix("net.pt carries ").partition(", which zoolens does not run")[0]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("@torch.add\nclass Net(Module):\n  pass\n", "a decorator in its code"),
        ("class Net(Module, metaclass=x):\n  pass\n", "a decorator in its code"),
        ("class Net(object):\n  pass\n", "a class made from object"),
        ("class Net(torch.Module):\n  pass\n", "a class made from torch.Module"),
        ("class Net(Module):\n  @x\n  def forward(self):\n    pass\n", "a decorator in its code"),
        ("class Net(Module):\n  def save(self):\n    pass\n", "a call of save"),
        ("class Net(Module):\n  a = torch.save(1)\n", "a call of torch.save"),
        ("class Net(Module):\n  a = f(1)\n", "a call of f"),
        ("class Net(Module):\n  a : torch.save(1)\n", "a call of torch.save"),
        ("def f(x=torch.save(1)):\n  pass\n", "a call of torch.save"),
        ("def f(x) -> torch.save(1):\n  pass\n", "a call of torch.save"),
        ("def f(torch):\n  pass\n", "a variable named torch"),
        ("def f(x):\n  def g(y):\n    return torch.save(y)\n  return x\n", "a call of torch.save"),
        ("x = torch.save(1)\n", "a call of torch.save"),
        ("torch.save(1)\n", "a call of torch.save"),
        ("def f(x):\n  return x\ny = x(1)\n", "a call of x"),
        ("def f(x):\n  with torch.save(1):\n    pass\n", "a call of torch.save"),
        ("def f(x):\n  if torch.save(1):\n    pass\n", "a call of torch.save"),
        ("def f(x):\n  if x:\n    pass\n  else:\n    torch.save(1)\n", "a call of torch.save"),
        ("def f(x):\n  raise torch.save(1)\n", "a call of torch.save"),
        ("def f(x):\n  x[torch.save(1)] = 2\n", "a call of torch.save"),
        ("def f(x):\n  torch.own.a = 2\n", "the module torch as a value"),
    ],
)
def test_declarations_are_judged(tmp_path, code, words):
    with pytest.raises(ModelError) as caught:
        _check(tmp_path, code)
    assert words in _found(caught)


@pytest.mark.parametrize("base", ["Module", "NamedTuple", "Enum", "Interface", "ModuleInterface", "Exception"])
def test_classes_of_torchscript_pass(tmp_path, base):
    _check(tmp_path, f"class A({base}):\n  a : Tensor\n")


def test_variables_of_one_function_are_none_of_another(tmp_path):
    _check(tmp_path, "def f(g: Tensor) -> Tensor:\n  return g(1)\n")
    with pytest.raises(ModelError, match="a call of g"):
        _check(tmp_path, "def f(g: Tensor) -> Tensor:\n  return g(1)\ndef h(x: Tensor) -> Tensor:\n  return g(1)\n")


def test_code_nested_too_deeply_is_refused(tmp_path):
    with pytest.raises(ModelError, match="code that is not TorchScript"):
        _check(tmp_path, _body("y = " + "(" * 300 + "x" + ")" * 300))


def test_long_names_are_cut(tmp_path):
    for line, shown in ((f"y = {'a' * 90}(x)", 60), (f"y = torch.{'a' * 90}(x)", 74), (f"y = 1  # {'a' * 90}", 38)):
        with pytest.raises(ModelError) as caught:
            _check(tmp_path, _body(line))
        assert _found(caught).count("a" * shown) == 1
        assert "a" * (shown + 1) not in _found(caught)


# --- archives


def _archive(tmp_path, entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(f"net/{name}", content)
    path = tmp_path / "net.pt"
    path.write_bytes(buffer.getvalue())
    return path


PLAIN = {"version": b"3", "constants.pkl": PICKLE, "data.pkl": PICKLE, "code/__torch__.py": _body("pass").encode()}


@pytest.mark.parametrize(
    "name",
    [
        *("byteorder", ".format_version", ".storage_alignment", ".data/serialization_id", ".data/version", "data/0"),
        *("constants/12", "bytecode/0", "traced_inputs/3", "code/__torch__.py.debug_pkl", "extra/a b.txt"),
        "code/__torch__/torch/nn/functional.py",
    ],
)
def test_entries_of_torchscript_pass(tmp_path, name):
    content = PICKLE if name.endswith("pkl") else b"x : int = 1\n" if name.endswith(".py") else b"\x00"
    check_torchscript(_archive(tmp_path, {**PLAIN, name: content}))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"model.json": b"{}"},
            "net.pt carries the entry 'model.json', which zoolens does not run. It does not belong",
        ),
        ({"code/other.py": b"x"}, "the entry 'code/other.py'"),
        ({"data/a": b"x"}, "the entry 'data/a'"),
        ({"code/__torch__.py": b"import os\n"}, "a Import in its code"),
        ({"code/__torch__/a.py": b"import os\n"}, "a Import in its code"),
        ({"code/__torch__.py": _body("x.save(1)").encode()}, "a call of save"),
        ({"data.pkl": b"cos\nsystem\n."}, "the Python name 'os system' in data.pkl"),
        ({"constants.pkl": b"cos\nsystem\n."}, "the Python name 'os system' in constants.pkl"),
        ({"bytecode.pkl": b"cos\nsystem\n."}, "the Python name 'os system' in bytecode.pkl"),
        ({"code/__torch__.py.debug_pkl": b"cos\nsystem\n."}, "'os system' in code/__torch__.py.debug_pkl"),
    ],
)
def test_what_is_in_an_archive_is_judged(tmp_path, changed, words):
    with pytest.raises(ModelError) as caught:
        check_torchscript(_archive(tmp_path, {**PLAIN, **changed}))
    assert words in str(caught.value)


def test_weights_alone_are_no_torchscript(tmp_path):
    with pytest.raises(ModelError, match=r"net\.pt is a torch archive but not TorchScript\.") as caught:
        check_torchscript(_archive(tmp_path, {"data.pkl": PICKLE}))
    assert caught.value.hint == "Weights alone are the format torch-state-dict."
    path = tmp_path / "net.pt"
    path.write_bytes(b"no archive")
    with pytest.raises(ModelError, match="not a TorchScript archive"):
        check_torchscript(path)


def test_operators_of_torch_are_known_by_name():
    names = _registered()
    assert {"save", "add", "conv2d", "NumToTensor"} <= names  # of aten and of prim
    assert "quantize_per_tensor_dynamic_nobody" not in names
    assert not any("::" in name for name in names)
    assert "conv2d_relu" not in names  # of quantized, which no method can reach
