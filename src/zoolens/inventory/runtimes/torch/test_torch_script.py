"""TorchScript: the code is judged by its syntax tree, the archive so that torch cannot read it differently."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.allowlists import allowed
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.runtimes.torch.torch_runtime import Torch
from zoolens.inventory.runtimes.torch.torch_script import check_torchscript
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract

torch = pytest.importorskip("torch")

CODE = """class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.Net,
    x: Tensor{argument}) -> Tensor:
    {body}
    return x
{more}"""


class _Plain(torch.nn.Module):
    def forward(self, x):
        return x


def _entries():
    """A real archive of one module, by entry."""
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(_Plain(), torch.zeros(1, 3, 8, 8)), buffer)
    with zipfile.ZipFile(buffer) as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if "debug_pkl" not in name}
    (code,) = (name for name in entries if name.endswith(".py"))
    folder = code.split("/")[0]
    entries.pop(code)
    data = next(name for name in entries if name.endswith("/data.pkl"))
    entries[data] = b"\x80\x02c__torch__\nNet\n)\x81}(X\x08\x00\x00\x00training\x89ub."
    return folder, entries


def _model(tmp_path, code, extra=()):
    folder, entries = _entries()
    path = tmp_path / "net.pt"
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of duplicate names
        for name, content in [*entries.items(), (f"{folder}/code/__torch__.py", code), *extra]:
            archive.writestr(name.replace("FOLDER", folder), content)
    return ModelFiles("torchscript", {"model": path}, inputs=models.declared())


def _code(body="pass", argument="", more=""):
    return CODE.format(body=body, argument=argument, more=more)


def test_code_written_by_the_same_means_runs(tmp_path):
    """So that the refusals below are about what the code calls."""
    with Torch().open(_model(tmp_path, _code("x = torch.add(x, 1)"))) as session:
        images = models.images(1)
        assert (session.predict({"image": images})["output0"] == images + 1).all()


@pytest.mark.parametrize(
    "body",
    [
        "torch.save(x, PATH)",
        "torch . save(x, PATH)",
        "torch.\\\n    save(x, PATH)",
        "ops.aten.save(x, PATH)",
        "x.save(PATH)",
        "(x).save(PATH)",
        'getattr(torch, "save")(x, PATH)',
        'getattr(x, "save")(PATH)',
        "f = torch.save\n    f(x, PATH)",
        "f = x.save\n    f(PATH)",
        "t = torch\n    t.save(x, PATH)",
        "[torch.save][0](x, PATH)",
        "x = torch.add(x, torch.from_file(PATH, True, 4))",
        "x = (lambda y: y)(x)",
        "print(x)",
        "_0 = ^open(PATH)",
        "_0 = fork(x)",
        "_0 = __torch__.torch.classes.dist_c10d.Work(x)",
        "torch.manual_seed(1)",
        "x = torch.set_(x)  # type: ignore",
        'x = torch.add(x, len(r"\\"))',
        "ops.prim.rpc_sync(PATH, x)",
        "ops._test.leaky_relu(x, 1.)",
    ],
)
def test_code_that_calls_more_than_known_operators_is_refused(tmp_path, body):
    mark = tmp_path / "ran"
    with pytest.raises(ModelError, match="does not run") as caught:
        Torch().open(_model(tmp_path, _code(body.replace("PATH", f'"{mark}"'))))
    RuntimeContract.reads_as_one_sentence(caught.value)
    assert not mark.exists()


def test_what_loading_alone_would_run_is_refused(tmp_path):
    """Default values and __setstate__ run before anybody asks for an answer."""
    mark = tmp_path / "ran"
    setstate = (
        "  def __setstate__(self: __torch__.Net,\n    state: bool) -> NoneType:\n"
        f'    torch.save(state, "{mark}")\n    self.training = state\n    return None\n'
    )
    for code in (_code(argument=f',\n    y: NoneType=torch.save(1, "{mark}")'), _code(more=setstate)):
        with pytest.raises(ModelError, match=r"torch\.save"):
            Torch().open(_model(tmp_path, code))
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    ["FOLDER/code/__torch__.py", "FOLDER/code/__torch__.PY", "FOLDER/CODE/__torch__.py", "FOLDER/code/__Torch__.py"],
)
def test_a_second_reading_of_the_code_is_refused(tmp_path, name):
    """Torch takes the first of two entries and ignores the case of names; Python takes the last and does not."""
    hostile = _code(f'torch.save(x, "{tmp_path / "ran"}")')
    for first, second in ((_code(), hostile), (hostile, _code())):
        with pytest.raises(ModelError, match=r"two entries|does not run"):
            Torch().open(_model(tmp_path, first, [(name, second)]))
    assert not (tmp_path / "ran").exists()


def test_code_under_a_name_in_capitals_is_refused(tmp_path):
    files = _model(tmp_path, _code())
    path = files.path()
    path.write_bytes(path.read_bytes().replace(b"/__torch__.py", b"/__torch__.PY"))
    with pytest.raises(ModelError, match=r"__torch__\.PY"):
        Torch().open(files)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other/code/__torch__.py", "2 folders"),
        ("FOLDER/model.json", "the entry 'model.json'"),
        ("FOLDER/../code.py", "an entry named"),
        ("loose", "an entry named"),
    ],
)
def test_other_entries_are_refused(tmp_path, name, words):
    with pytest.raises(ModelError, match=words):
        Torch().open(_model(tmp_path, _code(), [(name, b"{}")]))


def test_bytes_around_the_archive_are_refused(tmp_path):
    files = _model(tmp_path, _code())
    whole = files.path().read_bytes()
    comment = bytearray(whole)
    comment[-2:] = (4).to_bytes(2, "little")
    for changed in (b"#!/bin/sh\n" + whole, bytes(comment) + b"abcd"):
        files.path().write_bytes(changed)
        with pytest.raises(ModelError, match="before or after"):
            Torch().open(files)


def test_an_index_that_only_torch_would_find_is_refused(tmp_path):
    """Torch follows the locator of a large archive; Python takes the record that stands before it."""
    files = _model(tmp_path, _code())
    whole = files.path().read_bytes()
    end = len(whole) - 22
    count, size, offset = (
        int.from_bytes(whole[end + a : end + b], "little") for a, b in ((10, 12), (12, 16), (16, 20))
    )
    record = b"PK\x06\x06" + (44).to_bytes(8, "little") + b"\x2d\0\x2d\0" + bytes(8)
    record += b"".join(number.to_bytes(8, "little") for number in (count, count, size, offset))
    for place, accepted in ((end, True), (offset, False)):
        locator = b"PK\x06\x07" + bytes(4) + place.to_bytes(8, "little") + (1).to_bytes(4, "little")
        files.path().write_bytes(whole[:end] + record + locator + whole[end:])
        if accepted:
            check_torchscript(files.path())
        else:
            # Newer versions of Python see by themselves that the record is not where the locator says.
            with pytest.raises(ModelError, match=r"before or after|Corrupt zip64"):
                check_torchscript(files.path())


def test_names_in_pickles_are_listed(tmp_path):
    class Payload:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    for content in (pickle.dumps(Payload(), 2), pickle.dumps(Payload(), 4)):
        folder, entries = _entries()
        path = tmp_path / "net.pt"
        with zipfile.ZipFile(path, "w") as archive:
            for name, inside in {**entries, f"{folder}/code/__torch__.py": _code()}.items():
                archive.writestr(name, content if name.endswith("data.pkl") else inside)
        with pytest.raises(ModelError, match="does not run"):
            Torch().open(ModelFiles("torchscript", {"model": path}, inputs=models.declared()))
    assert not (tmp_path / "ran").exists()


def test_the_list_of_operators_is_of_registered_ones_that_touch_no_file():
    schemas = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")]
    registered = {schema.name.removeprefix("aten::") for schema in schemas}
    aten, prim = allowed("torch")["aten"], allowed("torch")["prim"]
    assert not aten - registered or torch.__version__ < "2.13"  # older versions lack some
    assert not aten & {"save", "from_file", "set_", "set_data", "manual_seed", "resize_", "to_here", "wait", "print"}
    files = {s.name for s in schemas if any(a.name in ("filename", "file") for a in s.arguments)}
    assert not {name.removeprefix("aten::") for name in files} & aten
    assert not prim & {"Print", "PythonOp", "rpc_sync", "rpc_async", "rpc_remote", "IgnoredPythonOp"}


def test_a_scripted_transformer_passes(tmp_path):
    """torch's own encoder takes a short cut through nested tensors, which is in its code whether or not it is taken."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    path = tmp_path / "m.pt"
    torch.jit.save(torch.jit.script(torch.nn.TransformerEncoder(layer, 1).eval()), str(path))
    check_torchscript(path)


def test_scripted_and_traced_networks_pass(tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
            self.lstm = torch.nn.LSTM(4, 3)

        def forward(self, x):
            y = torch.nn.functional.interpolate(self.conv(x), scale_factor=2.0, mode="bilinear").mean([2, 3])
            z, _ = self.lstm(y[None])
            return z[0].softmax(1)

    network = Net().eval()
    made = [
        torch.jit.trace(network, torch.zeros(1, 3, 8, 8)),
        torch.jit.freeze(torch.jit.trace(network, torch.zeros(1, 3, 8, 8))),
    ]
    for number, module in enumerate(made):
        path = tmp_path / f"{number}.pt"
        torch.jit.save(module, str(path))
        check_torchscript(path)
        Torch().open(ModelFiles("torchscript", {"model": path}, inputs=models.declared())).close()
