"""Torch keeps the contract in its three formats, joins weights strictly, and runs no code that a file carries."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import struct
import zipfile
from dataclasses import replace
from importlib.util import find_spec, module_from_spec, spec_from_file_location

import numpy as np
import pytest

from zoolens.base.errors import CodeNotAllowed, ModelError, UnsupportedAbility
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, TensorSpec
from zoolens.inventory.runtimes.torch.torch_cuda import PIECE, _pieces
from zoolens.inventory.runtimes.torch.torch_export import harmless_expression
from zoolens.inventory.runtimes.torch.torch_runtime import Torch
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract
from zoolens.testing.tiny import ComputesTheTinyNetwork

torch = pytest.importorskip("torch")


class _Contract(RuntimeContract, ComputesTheTinyNetwork):
    runtime_class = Torch


class TestTorchScript(_Contract):
    def model(self, tmp_path):
        return models.cached(models.torchscript, tmp_path)

    def test_modes(self, runtime, files, session):
        with pytest.raises(UnsupportedAbility, match="not TorchScript"):
            runtime.open(files, Options(mode="compiled"))
        with runtime.open(files, Options(mode="eager")) as other:
            self.same(other.predict(self.feeds(session)), session.predict(self.feeds(session)))


class TestExport(_Contract):
    def model(self, tmp_path):
        return models.cached(models.torch_export, tmp_path)

    @pytest.mark.slow  # the first compilation on a machine takes most of a minute
    def test_modes(self, runtime, files, session):
        super().test_modes(runtime, files, session)


class TestStateDict(_Contract):
    def model(self, tmp_path):
        return models.cached(models.torch_state_dict, tmp_path)

    @pytest.mark.slow
    def test_modes(self, runtime, files, session):
        super().test_modes(runtime, files, session)


@pytest.mark.slow
def test_a_missing_compiler_is_explained(tmp_path, monkeypatch):
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", ("no-such-compiler",))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    torch.compiler.reset()
    with pytest.raises(ModelError, match="use mode eager"):
        Torch().open(models.cached(models.torch_state_dict, tmp_path), Options(mode="compiled"))


# --- sessions


def test_threads_are_lent_not_kept(tmp_path):
    before = torch.get_num_threads()
    with Torch().open(models.torchscript(tmp_path), Options(threads=before + 1)) as session:
        session.predict({"image": models.images(1)})
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("kind", "matmul", "expected"),
    [
        ("float32", "highest", "float32"),
        ("float32", "medium", "bfloat16+float32"),  # products of float32 are then computed in bfloat16
        ("float64", "medium", "float64"),
        ("bfloat16", "highest", "bfloat16"),
    ],
)
def test_the_precision_is_that_of_weights_and_products(tmp_path, kind, matmul, expected):
    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8, 2, dtype=getattr(torch, kind)))

        def forward(self, image):
            return (image.to(self.weight.dtype) @ self.weight).float()

    path, before = tmp_path / "product.pt", torch.get_float32_matmul_precision()
    torch.jit.save(torch.jit.trace(Product(), torch.zeros(1, 3, 8, 8)), str(path))
    torch.set_float32_matmul_precision(matmul)
    try:
        with Torch().open(ModelFiles("torchscript", {"model": path}, inputs=models.declared())) as session:
            assert session.effective().precision == expected
    finally:
        torch.set_float32_matmul_precision(before)


def test_an_export_knows_its_inputs(tmp_path):
    files = replace(models.cached(models.torch_export, tmp_path), inputs=())
    with Torch().open(files) as session:
        assert session.inputs == models.declared()


def test_torchscript_without_declared_inputs_is_explained(tmp_path):
    with pytest.raises(ModelError, match="does not say what its inputs are"):
        Torch().open(replace(models.torchscript(tmp_path), inputs=()))


def test_tuples_and_dicts_name_their_outputs(tmp_path):
    class Both(torch.nn.Module):
        def forward(self, image):
            return image, image * 2

    class Named(torch.nn.Module):
        def forward(self, image):
            return {"twice": image * 2}

    for module, wanted in ((Both(), ["output0", "output1"]), (Named(), ["twice"])):
        path = tmp_path / "answers.pt"
        torch.jit.save(torch.jit.trace(module, torch.zeros(1, 3, 8, 8), strict=False), str(path))
        with Torch().open(ModelFiles("torchscript", {"model": path}, inputs=models.declared())) as session:
            images = models.images(1)
            answers = session.predict({"image": images})
            assert [spec.name for spec in session.outputs] == list(answers) == wanted
            np.testing.assert_array_equal(answers[wanted[-1]], images * 2)


def test_a_failure_inside_torchscript_names_its_cause(tmp_path):
    wrong = (replace(models.declared()[0], shape=(1, 7, 8, 8)),)
    with pytest.raises(ModelError, match="channels"):
        Torch().open(replace(models.torchscript(tmp_path), inputs=wrong))


# --- weights and architectures


def _with_weights(tmp_path, change):
    files = models.torch_state_dict(tmp_path)
    weights = torch.load(files.path(), weights_only=True)
    torch.save(change(weights), files.path())
    return files


def _renamed(weights):
    return {name.replace("dense", "fc"): tensor for name, tensor in weights.items()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_renamed, r"absent: dense.weight, dense.bias; without a place: fc.weight, fc.bias"),
        (lambda w: {**w, "dense.bias": torch.zeros(7)}, r"dense.bias has shape \(7,\), the network expects \(5,\)"),
        (lambda w: {"state_dict": w}, "'state_dict' among its weights"),
        (lambda w: w["dense.bias"], "no table of weights"),
    ],
)
def test_weights_that_do_not_fit_are_explained(tmp_path, change, words):
    with pytest.raises(ModelError, match=words):
        Torch().open(_with_weights(tmp_path, change))


@pytest.mark.parametrize(
    ("change", "architecture"),
    [
        (_renamed, {"match": "position"}),
        (lambda w: {f"module.{name}": tensor for name, tensor in w.items()}, {"prefix": "module."}),
        (lambda w: {"epoch": 3, "model": w}, {"key": "model"}),
    ],
)
def test_weights_are_found_as_the_architecture_says(tmp_path, change, architecture):
    files = _with_weights(tmp_path, change)
    files = replace(files, architecture={**files.architecture, **architecture})
    with Torch().open(files) as session:
        images = models.images(2)
        (answer,) = session.predict({"image": images}).values()
    np.testing.assert_allclose(answer, models.reference(images), atol=1e-5)


def test_safetensors(tmp_path):
    weights = {name: tensor.numpy() for name, tensor in models.torch_module().state_dict().items()}
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, array in weights.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(body), len(body) + array.nbytes]}
        body += array.tobytes()
    text = json.dumps(header).encode()
    path = tmp_path / "tiny.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    files = replace(models.torch_state_dict(tmp_path), files={"model": path})
    with Torch().open(files) as session:
        assert session.count_parameters() == models.PARAMETERS
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ModelError, match="not a complete safetensors file"):
        Torch().open(files)


@pytest.mark.parametrize(("library", "name"), [("torchvision", "squeezenet1_1"), ("timm", "test_resnet")])
def test_libraries_build_the_network(tmp_path, library, name):
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    from zoolens.inventory.runtimes.torch.torch_weights import _build

    architecture = {"library": library, "name": name, "arguments": {"num_classes": 7}}
    network = _build(architecture)
    path = tmp_path / "weights.pth"
    torch.save(network.state_dict(), path)
    inputs = (replace(models.declared()[0], shape=(None, 3, 64, 64)),)
    files = ModelFiles("torch-state-dict", {"model": path}, architecture=architecture, inputs=inputs)
    with Torch().open(files) as session:
        assert session.outputs[0].shape == (None, 7)
    for argument in ({"pretrained": True}, {"weights": "DEFAULT"}, {"checkpoint_path": "/etc/passwd"}):
        with pytest.raises(ModelError, match="would load other weights"):
            Torch().open(replace(files, architecture={**architecture, "arguments": argument}))
    with pytest.raises(ModelError, match=f"{library} cannot build"):
        Torch().open(replace(files, architecture={**architecture, "name": "no_such_net"}))


def test_architecture_code_runs_only_when_allowed(tmp_path):
    files = models.torch_state_dict(tmp_path)
    mark = tmp_path / "ran"
    source = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n" + models.TORCH_SOURCE
    for allowed in (False, None, "yes", 1):
        architecture = {"library": "code", "source": source, "allowed": allowed}
        with pytest.raises(CodeNotAllowed):
            Torch().open(replace(files, architecture=architecture))
    assert not mark.exists()
    Torch().open(replace(files, architecture={"library": "code", "source": source, "allowed": True})).close()
    assert mark.exists()


# --- hostile files


class _Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".pt2", ".safetensors"])
@pytest.mark.parametrize("writer", ["pickle", "torch.save", "legacy"])
@pytest.mark.parametrize("format_", ["torchscript", "torch-export", "torch-state-dict"])
def test_a_pickle_is_never_executed(tmp_path, suffix, writer, format_):
    mark, path = tmp_path / "ran", tmp_path / f"evil{suffix}"
    if writer == "pickle":
        path.write_bytes(pickle.dumps({"weight": _Payload(mark)}))
    else:
        torch.save({"weight": _Payload(mark)}, path, _use_new_zipfile_serialization=writer == "torch.save")
    architecture = {"library": "code", "source": models.TORCH_SOURCE, "allowed": True}
    files = ModelFiles(format_, {"model": path}, architecture=architecture, inputs=models.declared())
    with pytest.raises(ModelError) as caught:
        Torch().open(files)
    RuntimeContract.reads_as_one_sentence(caught.value)
    assert "weights_only=False" not in str(caught.value)
    assert not mark.exists()


@pytest.mark.parametrize("call", ["torch.save(image, PATH)", "image = image + torch.from_file(PATH, True, 4).sum()"])
def test_torchscript_that_touches_files_is_refused(tmp_path, call):
    mark = tmp_path / "ran"
    source = (
        "import torch\n\nclass Module(torch.nn.Module):\n    def forward(self, image):\n"
        f"        {call.replace('PATH', repr(str(mark)))}\n        return image\n"
    )
    path = tmp_path / "hostile_module.py"
    path.write_text(source)
    spec = spec_from_file_location("hostile_module", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    target = tmp_path / "hostile.pt"
    torch.jit.save(torch.jit.script(module.Module()), str(target))
    with pytest.raises(ModelError, match=r"torch\.(save|from_file)"):
        Torch().open(ModelFiles("torchscript", {"model": target}, inputs=models.declared()))
    assert not mark.exists()


def _rewritten(tmp_path, change):
    """A torch.export archive with entries changed: change(name, content) -> content."""
    files = models.cached(models.torch_export, tmp_path)
    original = tmp_path / "original.zip"
    shutil.move(files.path(), original)
    with zipfile.ZipFile(original) as old, zipfile.ZipFile(files.path(), "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return files


def _replacing(entry, before, after):
    def change(name, content):
        if not name.endswith(entry):
            return content
        assert before in content
        return content.replace(before, after)

    return change


def test_a_rewritten_export_still_opens(tmp_path):
    """So that the refusals below are about what was changed, not about having been rewritten."""
    Torch().open(_rewritten(tmp_path, lambda name, content: content)).close()


@pytest.mark.parametrize(
    ("entry", "before", "after", "words"),
    [
        ("model.json", b"torch.ops.aten.relu.default", b"torch.os.system", "operator 'torch.os.system'"),
        ("model.json", b"torch.ops.aten.relu.default", b"torch.ops.aten.from_file.default", "operator"),
        ("model.json", b"positive=True", b"positive=open('MARK','w')", "shape expression"),
        ("model_weights_config.json", b'"use_pickle": false', b'"use_pickle": true', "pickled tensors"),
    ],
)
def test_an_export_that_could_run_code_is_refused(tmp_path, entry, before, after, words):
    mark = tmp_path / "ran"
    after = after.replace(b"MARK", str(mark).encode())
    with pytest.raises(ModelError, match=words):
        Torch().open(_rewritten(tmp_path, _replacing(entry, before, after)))
    assert not mark.exists()


def test_sample_inputs_are_not_unpickled(tmp_path):
    mark, evil = tmp_path / "ran", io.BytesIO()
    torch.save(((_Payload(mark),), {}), evil)
    files = _rewritten(tmp_path, lambda name, content: evil.getvalue() if "sample_inputs" in name else content)
    with pytest.raises(ModelError, match="sample_inputs"):
        Torch().open(files)
    assert not mark.exists()


def test_an_export_with_a_shared_library_is_refused(tmp_path):
    files = models.cached(models.torch_export, tmp_path)
    with zipfile.ZipFile(files.path(), "a") as archive:
        archive.writestr("tiny/data/aotinductor/model/model.so", b"\x7fELF")
    with pytest.raises(ModelError, match="aotinductor"):
        Torch().open(files)


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("Symbol('s40', positive=True, integer=True)", True),
        ("Add(Integer(1), Mul(Integer(2), Symbol('s0')))", True),
        ("FloorDiv(s0, 2) + 1", True),
        ("open('x', 'w')", False),
        ("().__class__", False),
        ("__import__('os').system('x')", False),
        ("Symbol('s0').subs", False),
        ("[x for x in (1,)]", False),
        ("lambda: 0", False),
        ("Symbol('/etc/passwd')", False),
        ("(", False),
    ],
)
def test_expressions(text, harmless):
    assert harmless_expression(text) is harmless


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((), 1), ((3, 2), 1), ((5, PIECE // 8), 3), ((3, PIECE // 2), 3), ((40, PIECE // 64), 3)],
)
def test_large_inputs_are_cut_into_rows_that_make_up_the_whole(shape, rows):
    array = np.zeros(shape, np.float32)
    pieces = _pieces(array)
    assert len(pieces) == rows
    for piece in pieces:
        array[piece] += 1
    assert (array == 1).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("mode", ["eager", "cuda-graphs"])
def test_predictions_that_overlap_on_a_gpu_are_those_of_one_at_a_time(tmp_path, mode):
    """Inputs of 20 MB are moved while the prediction before computes, small ones straight into the graph's."""
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.ReLU(inplace=True), torch.nn.Flatten())
    torch.jit.script(network.eval()).save(str(tmp_path / "net.pt"))
    inputs = (TensorSpec("x", (None, 3, 64, 64), "float32"),)
    files = ModelFiles("torchscript", {"model": tmp_path / "net.pt"}, inputs=inputs)
    random = np.random.default_rng(0)
    with Torch().open(files, Options(device="cuda", mode=mode)) as session:
        for size in (2, 400):
            batches = [{"x": random.normal(size=(size, 3, 64, 64)).astype(np.float32)} for _ in range(6)]
            batches[1]["x"].flags.writeable = False
            alone = [session.predict(feeds) for feeds in batches]
            begun = [session.begin_predict([feeds]) for feeds in batches]
            for one, (other,) in zip(alone, [finish() for finish in begun], strict=True):
                np.testing.assert_array_equal(one["output0"], other["output0"])
