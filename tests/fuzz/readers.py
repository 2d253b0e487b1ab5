"""Files that strangers make: datasets, model files, submissions, and archives of models."""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import shutil
import struct
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
from tests.fuzz import mutations


def _opened(path: Path | str) -> None:
    from zoolens.inventory.datasets.opening import open_dataset

    with contextlib.closing(open_dataset(str(path))) as dataset:
        dataset.fingerprint()
        dataset.labels()
        for index in {0, len(dataset) - 1}:
            dataset.read(index)


@cache
def _npz() -> list[bytes]:
    made = []
    for save in (np.savez, np.savez_compressed):
        for fortran in (False, True):
            file = io.BytesIO()
            images = np.arange(5 * 3 * 8 * 8, dtype="u1").reshape(5, 3, 8, 8)
            save(file, x=np.asfortranarray(images) if fortran else images, y=np.arange(5))
            made.append(file.getvalue())
    return made


def npz(draw: random.Random, folder: Path) -> None:
    (folder / "d.npz").write_bytes(mutations.octets(draw, draw.choice(_npz())))
    _opened(f"npz:{folder / 'd.npz'}")


@cache
def _parquet() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    image = _images()[0]
    tables = [
        pa.table({"image": [{"bytes": image, "path": "a"}] * 6, "label": ["a", "b"] * 3}),
        pa.table({"image": pa.array([image] * 6), "label": pa.array([0, 1] * 3, pa.int32())}),
        pa.table({"x": [[[0.5, 1.0], [2.0, 3.0]]] * 6, "y": [0, 1, 2] * 2}),
    ]
    made = []
    for table in tables:
        for options in ({"compression": "none"}, {"compression": "snappy"}, {"data_page_version": "2.0"}):
            file = io.BytesIO()
            pq.write_table(table, file, row_group_size=3, **options)
            made.append(file.getvalue())
    return made


def parquet(draw: random.Random, folder: Path) -> None:
    (folder / "d.parquet").write_bytes(mutations.octets(draw, draw.choice(_parquet())))
    _opened(f"parquet:{folder / 'd.parquet'}")


def idx(draw: random.Random, folder: Path) -> None:
    images = struct.pack(">4B3I", 0, 0, 8, 3, 4, 6, 6) + bytes(144)
    labels = struct.pack(">4BI", 0, 0, 8, 1, 4) + bytes([0, 1, 2, 3])
    spoilt = draw.randrange(3)
    files = {"t10k-images-idx3-ubyte": images, "t10k-labels-idx1-ubyte": labels}
    for place, (name, content) in enumerate(files.items()):
        content = mutations.octets(draw, content) if spoilt in (place, 2) else content
        packed = draw.random() < 0.3
        content = mutations.octets(draw, gzip.compress(content, mtime=0)) if packed else content
        (folder / f"{name}{'.gz' if packed else ''}").write_bytes(content)
    _opened(f"idx:{folder}")


def cifar(draw: random.Random, folder: Path) -> None:
    record = bytes([3]) + bytes(3072)
    content = mutations.octets(draw, record * 3)
    if draw.random() < 0.5:
        content = content[: len(content) // 3073 * 3073]
    packed = draw.random() < 0.3
    name = "test_batch.bin.gz" if packed else "test_batch.bin"
    (folder / name).write_bytes(mutations.octets(draw, gzip.compress(content, mtime=0)) if packed else content)
    _opened(f"cifar10:{folder}")


@cache
def _images() -> list[bytes]:
    from PIL import Image

    made = []
    picture = Image.fromarray(np.arange(16 * 16 * 3, dtype="u1").reshape(16, 16, 3))
    for form in ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM"):
        file = io.BytesIO()
        picture.save(file, form)
        made.append(file.getvalue())
    return made


def image(draw: random.Random, folder: Path) -> None:
    (folder / "cat").mkdir()
    (folder / "cat" / "0.png").write_bytes(mutations.octets(draw, draw.choice(_images())))
    if draw.random() < 0.3:
        table = mutations.text(draw, ["file,label\ncat/0.png,3\n", "image,class\n0.png,cat\n"])
        (folder / "labels.csv").write_bytes(table.encode("utf-8", "surrogatepass"))
    if draw.random() < 0.2:
        names = mutations.text(draw, ["cat\ndog\n", "n01440764 tench\n"])
        (folder / "classes.txt").write_bytes(names.encode("utf-8", "surrogatepass"))
    _opened(f"imagefolder:{folder}")


def _demo(suffix: str) -> list[bytes]:
    from zoolens.inventory.zoos.demo import MODELS_FOLDER

    return [path.read_bytes() for path in sorted(MODELS_FOLDER.glob(f"*.{suffix}"))]


@cache
def _models(suffix: str) -> list[bytes]:
    return sorted(_demo(suffix), key=len)[:3]


def _graph(importer: object, path: Path, weights: bool, files: dict[str, str] | None = None) -> None:
    from zoolens.findings.graph.cost.cost import cost
    from zoolens.findings.graph.importers.importer import Request
    from zoolens.findings.graph.passes.canonical import canonical

    graph = importer.load(Request(str(path), weights=weights, files=files or {}))
    cost(canonical(graph))


def onnx(draw: random.Random, folder: Path) -> None:
    from zoolens.findings.graph.importers.onnx import ONNX
    from zoolens.inventory.runtimes.onnx.onnx_file import check_external
    from zoolens.inventory.runtimes.runtime import ModelFiles

    path = folder / "m.onnx"
    path.write_bytes(mutations.octets(draw, draw.choice(_models("onnx"))))
    check_external(ModelFiles("onnx", {"model": path}))
    _graph(ONNX, path, draw.random() < 0.3)


def tflite(draw: random.Random, folder: Path) -> None:
    from zoolens.findings.graph.importers.tflite import TFLITE

    path = folder / "m.tflite"
    path.write_bytes(mutations.octets(draw, draw.choice(_models("tflite"))))
    _graph(TFLITE, path, draw.random() < 0.3)


PROTOTXT = """name: "net"
input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 group: 1 } }
layer { name: "b" type: "BatchNorm" bottom: "c" top: "b" batch_norm_param { eps: 1e-5 } }
layer { name: "r" type: "ReLU" bottom: "b" top: "b" }
layer { name: "p" type: "Pooling" bottom: "b" top: "p" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "f" type: "InnerProduct" bottom: "p" top: "f" inner_product_param { num_output: 10 } }
layer { name: "s" type: "Softmax" bottom: "f" top: "s" }
"""


def _message(number: int, content: bytes) -> bytes:
    length, size = len(content), b""
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    key = number << 3 | 2
    keys = bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])
    return keys + size + bytes([length]) + content


def _caffemodel() -> bytes:
    def blob(*shape: int) -> bytes:
        values = np.zeros(shape, "<f4").tobytes()
        return _message(7, _message(7, _message(1, bytes(shape))) + _message(5, values))

    layers = {"c": [(4, 3, 3, 3), (4,)], "f": [(10, 16), (10,)], "b": [(4,), (4,), (1,)]}
    return b"".join(
        _message(100, _message(1, name.encode()) + b"".join(blob(*shape) for shape in shapes))
        for name, shapes in layers.items()
    )


def caffe(draw: random.Random, folder: Path) -> None:
    from zoolens.contrib.caffe import CAFFE

    graph, weights = folder / "m.prototxt", folder / "m.caffemodel"
    spoilt = draw.random() < 0.5
    text = mutations.text(draw, [PROTOTXT]) if spoilt else PROTOTXT
    graph.write_bytes(text.encode("utf-8", "surrogatepass"))
    weights.write_bytes(_caffemodel() if spoilt else mutations.octets(draw, _caffemodel()))
    _graph(CAFFE, graph, True, {"weights": str(weights)})


def archive(draw: random.Random, folder: Path) -> None:
    """Zip archives as torch and Keras write them, and what is said of their format and size."""
    from zoolens.inventory.manifests.formats import detect_format
    from zoolens.inventory.runtimes.model_files.model_reading import check_file

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name in draw.sample(("m/data.pkl", "m/constants.pkl", "m/code/a.py", "config.json", "model.weights.h5"), 3):
            kind = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            made.writestr(name, bytes(draw.randrange(1000)), kind)
    path = folder / draw.choice(("m.pt", "m.pt2", "m.pth", "m.keras"))
    path.write_bytes(mutations.octets(draw, file.getvalue()))
    check_file(path)
    detect_format(path)


@cache
def exported_study() -> Path:
    """A small study, exported once for the process."""
    from zoolens.base.store.store import open_store
    from zoolens.training.crosstrain.exchange.conftest import fill
    from zoolens.training.crosstrain.exchange.exchange_export import export_study

    folder = Path(tempfile.mkdtemp(prefix="zoolens-fuzz-study-"))
    with open_store(folder / "store.sqlite") as store:
        fill(store)
        return export_study(store, "small", folder / "exported")


def submission(draw: random.Random, folder: Path) -> None:
    """One spoilt file with checksums made anew, so that the content itself is judged."""
    from zoolens.training.crosstrain.exchange.check import check_submission
    from zoolens.training.crosstrain.exchange.contents import CHECKSUMS
    from zoolens.training.crosstrain.exchange.files import checksum_lines, digest

    given = folder / "given"
    shutil.copytree(exported_study(), given)
    names = sorted(
        str(path.relative_to(given)) for path in given.rglob("*") if path.is_file() and path.name != CHECKSUMS
    )
    spoilt = given / draw.choice(names)
    content = spoilt.read_bytes()
    if spoilt.suffix in (".json", ".md", ".yaml"):
        spoilt.write_bytes(mutations.text(draw, [content.decode()]).encode("utf-8", "surrogatepass"))
    else:
        spoilt.write_bytes(mutations.octets(draw, content))
    if draw.random() < 0.9:
        (given / CHECKSUMS).write_text(checksum_lines({name: digest(given / name) for name in names}))
    check_submission(given)
