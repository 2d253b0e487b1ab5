"""Model files whose code and configuration are judged before a framework may open them. No framework is needed."""

from __future__ import annotations

import io
import json
import random
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
from tests.fuzz import mutations

PICKLE = b"\x80\x02c__torch__\nNet\n)\x81}(X\x08\x00\x00\x00training\x89ub."
CODE = """class Net(Module):
  __parameters__ = ["weight", ]
  training : bool
  weight : Tensor
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    _0 = torch.conv2d(x, self.weight, None, [1, 1], [0, 0], [1, 1], 1)
    if bool(torch.gt(_0, 1.)):
      y = torch.relu(getattr(self, "0").forward(_0, ))
    else:
      y = ops.prim.NumToTensor(torch.len(annotate(List[int], [1, 2])))
    return torch.add(y, CONSTANTS.c0, alpha=1)
"""
PROGRAM = {
    "graph_module": {
        "graph": {
            "inputs": [{"as_tensor": {"name": "x"}}],
            "nodes": [{"target": "torch.ops.aten.add.Tensor", "inputs": [], "metadata": {"stack_trace": "a"}}],
            "tensor_values": {"x": {"dtype": 7, "sizes": [{"as_int": 1}, {"as_expr": {"expr_str": "2*s0 + 1"}}]}},
            "sym_int_values": {"s0": {"as_expr": {"expr_str": "Max(1, s0**2)", "hint": {"as_int": 3}}}},
            "custom_obj_values": {},
        },
        "signature": {"input_specs": [{"parameter": {"arg": {"name": "p"}, "parameter_name": "conv.weight"}}]},
        "module_call_graph": [{"signature": {"in_spec": '[1, {"type": "builtins.tuple", "context": "null"}]'}}],
    },
    "opset_version": {"aten": 10},
    "range_constraints": {"s0": {"min_val": 2, "max_val": 64}},
    "guards_code": ["L['x'].size()[0] <= 32", "Eq(Mod(L['x'].size()[1], 2), 0)"],
    "schema_version": {"major": 8, "minor": 1},
}
LAYER = {
    "module": "keras.layers",
    "class_name": "Dense",
    "registered_name": None,
    "config": {
        "name": "d",
        "units": 3,
        "activation": {"module": "builtins", "class_name": "function", "config": "relu", "registered_name": "function"},
        "kernel_initializer": {"module": "keras.initializers", "class_name": "Zeros", "config": {}},
    },
    "build_config": {"input_shape": [None, 4]},
    "inbound_nodes": [{"args": [{"class_name": "__keras_tensor__", "config": {"shape": [None, 4]}}], "kwargs": {}}],
}
NETWORK = {"class_name": "Functional", "config": {"name": "n", "layers": [LAYER], "input_layers": [["a", 0, 0]]}}
SYMBOL = {
    "nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "relu", "name": "y", "inputs": [[0, 0, 0]]}],
    "arg_nodes": [0],
    "heads": [[1, 0, 0]],
}


def _archive(draw: random.Random, entries: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in entries.items():
            made.writestr(name, content, draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return file.getvalue()


def _spoilt_text(draw: random.Random, text: str) -> bytes:
    return mutations.text(draw, [text]).encode("utf-8", "surrogatepass")


def torchscript(draw: random.Random, folder: Path) -> None:
    """Spoilt code, pickles and archives. Which names are operators is told here: torch itself would have to say."""
    from zoolens.inventory.runtimes.torch.torch_archive import check_pickle, opened, text_of
    from zoolens.inventory.runtimes.torch.torch_script import _Code

    path, what = folder / "m.pt", draw.randrange(3)
    code = _spoilt_text(draw, CODE) if what == 0 else CODE.encode()
    pickled = mutations.octets(draw, PICKLE) if what == 1 else PICKLE
    made = _archive(draw, {"m/data.pkl": pickled, "m/constants.pkl": PICKLE, "m/code/__torch__.py": code})
    path.write_bytes(mutations.octets(draw, made) if what == 2 else made)
    with opened(path, "TorchScript") as (archive, entries):
        for inner, entry in entries.items():
            if inner.endswith(".py"):
                _Code(path, frozenset({"save", "add"})).check(text_of(archive, entry))
            elif inner.endswith("pkl"):
                check_pickle(path, inner, text_of(archive, entry))


def torch_export(draw: random.Random, folder: Path) -> None:
    from zoolens.inventory.runtimes.torch.torch_export import check_export

    path = folder / "m.pt2"
    program = _spoilt_text(draw, json.dumps(PROGRAM))
    made = _archive(draw, {"m/models/model.json": program, "m/data/weights/weight_0": b"1234", "m/version": b"3"})
    path.write_bytes(mutations.octets(draw, made) if draw.random() < 0.2 else made)
    check_export(path)


def keras(draw: random.Random, folder: Path) -> None:
    """Both of Keras' formats, with a spoilt configuration or a spoilt file around it."""
    import h5py

    from zoolens.inventory.runtimes.tensorflow.keras_file import check_keras, check_keras_h5

    text = _spoilt_text(draw, json.dumps(NETWORK))
    if draw.random() < 0.5:
        path = folder / "m.keras"
        made = _archive(draw, {"metadata.json": b"{}", "config.json": text, "model.weights.h5": b""})
        path.write_bytes(mutations.octets(draw, made) if draw.random() < 0.2 else made)
        check_keras(path)
    else:
        path = folder / "m.h5"
        with h5py.File(path, "w") as file:
            file.attrs["model_config"] = text[:60_000].replace(b"\0", b" ").decode("utf-8", "replace")
        if draw.random() < 0.3:  # cut, not spoilt: HDF5 itself goes on for ever over some spoilt attributes
            content = path.read_bytes()
            path.write_bytes(content[: draw.randrange(len(content))])
        check_keras_h5(path)


@cache
def _weights() -> bytes:
    import h5py

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset("a/kernel", data=np.zeros((4, 4), "f4"))
        file.create_dataset("a/b/packed", data=np.zeros(100, "f4"), compression="gzip")
        file["a/again"] = file["a/kernel"]
        file["soft"] = h5py.SoftLink("/a/kernel")
        file["text"] = "words"
    return content.getvalue()


def hdf5(draw: random.Random, folder: Path) -> None:
    """Weights, alone and inside a Keras archive."""
    from zoolens.inventory.runtimes.runtime import ModelFiles
    from zoolens.inventory.runtimes.tensorflow.keras_sizes import check_sizes

    content = mutations.octets(draw, _weights())
    format_, path = draw.choice((("keras-h5", folder / "m.h5"), ("keras", folder / "m.keras")))
    path.write_bytes(content if format_ == "keras-h5" else _archive(draw, {"model.weights.h5": content}))
    check_sizes(ModelFiles(format_, {"model": path}))


def mxnet(draw: random.Random, folder: Path) -> None:
    from zoolens.inventory.runtimes.mxnet.mxnet_symbol import check_symbol

    (folder / "m-symbol.json").write_bytes(_spoilt_text(draw, json.dumps(SYMBOL)))
    check_symbol(folder / "m-symbol.json")
