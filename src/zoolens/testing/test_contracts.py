"""The built-in plug-ins keep the contracts that are shipped for those of third parties. Runtimes, stores, tasks,
trainers, executors and bounds are held to theirs beside their own code. No resource metric and no function for ORDER BY
is built in as a plug-in: the sample plug-in and functions of these tests stand in for them."""

from __future__ import annotations

import importlib.util
import io
import json
import tarfile
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.contrib.caffe import CAFFE
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.keras import KERAS
from zoolens.findings.graph.importers.onnx import ONNX
from zoolens.findings.graph.importers.openvino import OPENVINO
from zoolens.findings.graph.importers.tflite import TFLITE
from zoolens.findings.graph.importers.torch import TORCHVISION
from zoolens.inventory.datasets.arrow_columns import open_parquet
from zoolens.inventory.datasets.beir import open_beir
from zoolens.inventory.datasets.choices import open_choices
from zoolens.inventory.datasets.cifar10 import open_cifar10
from zoolens.inventory.datasets.coco import open_coco
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.demo import open_demo
from zoolens.inventory.datasets.idx import open_idx
from zoolens.inventory.datasets.imagefolder import open_image_folder
from zoolens.inventory.datasets.kinds import BUILT_IN
from zoolens.inventory.datasets.mask_folder import open_mask_folder
from zoolens.inventory.datasets.npz import open_npz
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.passages import open_passages
from zoolens.inventory.datasets.prompts import open_prompts
from zoolens.inventory.datasets.rawfiles import open_raw
from zoolens.inventory.datasets.saved import open_saved
from zoolens.inventory.datasets.sound.soundfolder import open_sounds
from zoolens.inventory.datasets.squad import open_squad
from zoolens.inventory.datasets.tagged import open_tagged
from zoolens.inventory.datasets.texts import open_texts
from zoolens.inventory.datasets.voc import open_voc
from zoolens.inventory.datasets.webdataset import open_webdataset
from zoolens.inventory.datasets.yolo import open_yolo
from zoolens.testing import models
from zoolens.testing.counter_contract import CounterContract
from zoolens.testing.dataset_contract import DatasetContract
from zoolens.testing.function_contract import FunctionContract
from zoolens.testing.importer_contract import ImporterContract
from zoolens.testing.late_imports import frameworks_imported_by, import_together
from zoolens.testing.metric_contract import MetricContract
from zoolens.testing.resource_contract import ResourceContract
from zoolens.testing.zoo_contract import ZooContract


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module", autouse=True)
def modules_imported_together():
    """One Python for all plug-ins of these tests instead of one for each."""
    contracts = [made for made in globals().values() if isinstance(made, type)]
    zoos = [made.zoo_class.__module__ for made in contracts if hasattr(made, "zoo_class")]
    importers = [made.importer.load.__module__ for made in contracts if hasattr(made, "importer")]
    counters = [made.counter.count.__module__ for made in contracts if hasattr(made, "counter")]
    import_together(sorted({*zoos, *importers, *counters}))


def ours(group: str) -> list[str]:
    return [name for name, point in plugins.registered(group).items() if point.value.startswith("zoolens.")]


for name in ours(plugins.ZOOS):
    title = f"TestZoo{name.title()}"
    globals()[title] = type(title, (ZooContract,), {"zoo_class": plugins.load(plugins.ZOOS, name)})

for name in ours(plugins.METRICS):
    title = f"TestMetric{name.title()}"
    globals()[title] = type(title, (MetricContract,), {"metric": staticmethod(plugins.load(plugins.METRICS, name))})

for name in ours(plugins.COUNTERS):
    title = f"TestCounter{name.title()}"
    globals()[title] = type(title, (CounterContract,), {"counter": plugins.load(plugins.COUNTERS, name)})


# --- datasets

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 6, 6), np.uint8)
LABELS = np.arange(20) % 4


def npz(folder: Path) -> Dataset:
    np.savez(folder / "data.npz", x=IMAGES, y=LABELS)
    return open_npz(str(folder / "data.npz"))


def sounds(folder: Path) -> Dataset:
    for number, label in enumerate(LABELS):
        (folder / "words" / str(label)).mkdir(parents=True, exist_ok=True)
        with wave.open(str(folder / "words" / str(label) / f"{number}.wav"), "wb") as file:
            file.setparams((1, 1, 8000, 0, "NONE", ""))
            file.writeframes(IMAGES[number].tobytes())
    return open_sounds(str(folder / "words"))


def raw(folder: Path) -> Dataset:
    for number, image in enumerate(IMAGES):
        (folder / f"{number}.bin").write_bytes(image.tobytes())
    lines = ["file,label", *(f"{number}.bin,{label}" for number, label in enumerate(LABELS))]
    (folder / "labels.csv").write_text("\n".join(lines))
    return open_raw(str(folder), shape="6x6", dtype="uint8")


def image_folder(folder: Path) -> Dataset:
    for number, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
        (folder / "photos" / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / "photos" / str(label) / f"{number}.png")
    return open_image_folder(str(folder / "photos"))


def idx(folder: Path) -> Dataset:
    for name, array in {"images": IMAGES, "labels": LABELS.astype(np.uint8)}.items():
        header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
        (folder / f"t10k-{name}-idx{array.ndim}-ubyte").write_bytes(header + array.tobytes())
    return open_idx(str(folder))


def cifar10(folder: Path) -> Dataset:
    rows = np.concatenate([LABELS[:, None].astype(np.uint8), np.resize(IMAGES, (20, 3072))], axis=1)
    (folder / "test_batch.bin").write_bytes(rows.tobytes())
    return open_cifar10(str(folder / "test_batch.bin"))


def parquet(folder: Path) -> Dataset:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"image": [_png(image) for image in IMAGES], "label": LABELS})
    pq.write_table(table, folder / "data.parquet")
    return open_parquet(str(folder / "data.parquet"))


def texts(folder: Path) -> Dataset:
    lines = ["text,label", *(f"text {number},{label}" for number, label in enumerate(LABELS))]
    (folder / "texts.csv").write_text("\n".join(lines))
    return open_texts(str(folder / "texts.csv"))


def boxes_of(number: int, wider: int) -> list[list[int]]:
    """The boxes of a picture of six pixels each way: none, one or two, the first of the first as wide as is said."""
    return [[1, 2, 2 + (wider if number == 1 and not box else 0), 3] for box in range(number % 3)]


def coco(folder: Path, wider: int = 0) -> Dataset:
    (folder / "images").mkdir()
    images, annotations = [], []
    for number, image in enumerate(IMAGES):
        Image.fromarray(image).save(folder / "images" / f"{number}.png")
        images.append({"id": number + 7, "file_name": f"{number}.png", "width": 6, "height": 6})
        for box in boxes_of(number, wider):
            annotations.append({"id": 1, "image_id": number + 7, "category_id": 3 * (number % 2) + 1, "bbox": box})
    categories = [{"id": 4, "name": "cat"}, {"id": 1, "name": "dog"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "boxes.json").write_text(json.dumps(content))
    return open_coco(str(folder / "boxes.json"))


def masks(folder: Path, more: int = 0) -> Dataset:
    for name in ("images", "masks"):
        (folder / name).mkdir()
    for number, image in enumerate(IMAGES):
        (folder / f"images/{number:02}.png").write_bytes(_png(image))
        (folder / f"masks/{number:02}.png").write_bytes(_png(image // 26 + (more if number == 1 else 0)))
    return open_mask_folder(str(folder))


def voc(folder: Path, wider: int = 0) -> Dataset:
    for name in ("Annotations", "JPEGImages"):
        (folder / name).mkdir()
    for number, image in enumerate(IMAGES):
        Image.fromarray(image).save(folder / "JPEGImages" / f"{number}.png")
        name = "cat" if number % 2 else "dog"
        objects = "".join(
            f"<object><name>{name}</name><bndbox><xmin>{left + 1}</xmin><ymin>{top + 1}</ymin>"
            f"<xmax>{left + width}</xmax><ymax>{top + height}</ymax></bndbox></object>"
            for left, top, width, height in boxes_of(number, wider)
        )
        (folder / "Annotations" / f"{number}.xml").write_text(f"<annotation>{objects}</annotation>")
    return open_voc(str(folder))


def tagged(folder: Path, tag: str = "B-X") -> Dataset:
    lines = [f"word{number} {tag if number == 1 else 'O'}\n\n" for number in range(20)]
    (folder / "words.conll").write_text("".join(lines))
    return open_tagged(str(folder / "words.conll"))


def passages(folder: Path) -> Dataset:
    (folder / "book.txt").write_text("".join(f"This is line {number:02}.\n" for number in range(len(LABELS))))
    return open_passages(str(folder / "book.txt"), size="20")


def prompts(folder: Path) -> Dataset:
    lines = "".join(json.dumps({"prompt": f"{number} and"}) + "\n" for number in range(8))
    (folder / "prompts.jsonl").write_text(lines, encoding="utf-8")
    return open_prompts(str(folder / "prompts.jsonl"))


def choices(folder: Path, answer: int = 1) -> Dataset:
    rows = [
        {"context": f"{number} and", "choices": ["one", "two", "three"], "answer": answer if number == 3 else 0}
        for number in range(20)
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return open_choices(str(folder / "questions.jsonl"))


def squad(folder: Path, answer: str = "1") -> Dataset:
    asked = [
        {"id": str(number), "question": "?", "answers": [{"text": answer if number == 1 else str(number)}]}
        for number in range(20)
    ]
    context = " ".join(map(str, range(20)))
    content = {"data": [{"paragraphs": [{"context": context, "qas": asked}]}]}
    (folder / "dev.json").write_text(json.dumps(content))
    return open_squad(str(folder / "dev.json"))


def beir(folder: Path, score: int = 1) -> Dataset:
    (folder / "qrels").mkdir()
    for name in ("corpus", "queries"):
        rows = [{"_id": f"{name} {number}", "text": str(number)} for number in range(10)]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    judged = [f"queries {number}\tcorpus {number}\t{score if number == 1 else 1}" for number in range(10)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return open_beir(str(folder))


def yolo(folder: Path, wider: int = 0) -> Dataset:
    for name in ("images", "labels"):
        (folder / name).mkdir()
    for number, image in enumerate(IMAGES):
        Image.fromarray(image).save(folder / "images" / f"{number}.png")
        lines = [
            f"{number % 2} {(left + width / 2) / 6} {(top + height / 2) / 6} {width / 6} {height / 6}\n"
            for left, top, width, height in boxes_of(number, wider)
        ]
        (folder / "labels" / f"{number}.txt").write_text("".join(lines))
    return open_yolo(str(folder), classes="dog,cat")


def webdataset(folder: Path) -> Dataset:
    with tarfile.open(folder / "shard.tar", "w") as archive:
        for number, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
            for kind, content in (("png", _png(image)), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{number:04}.{kind}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return open_webdataset(str(folder / "shard.tar"))


def saved(folder: Path) -> Dataset:
    import pyarrow as pa

    images = [{"bytes": _png(image), "path": f"{number}.png"} for number, image in enumerate(IMAGES)]
    table = pa.table({"image": images, "label": LABELS})
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as to,
    ):
        to.write_table(table, max_chunksize=7)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}
    (folder / "state.json").write_text(json.dumps(state))
    return open_saved(str(folder))


def records(folder: Path) -> Dataset:
    for number, image in enumerate(IMAGES):
        Image.fromarray(image).save(folder / f"{number}.png")
    lines = [f"{number}.png,{number},{label}\n" for number, label in enumerate(LABELS)]
    (folder / "table.csv").write_text("photo,age,kind\n" + "".join(lines))
    return open_dataset(f"records:{folder / 'table.csv'}?images=photo&numbers=age&label=kind")


def _png(image) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "png")
    return stream.getvalue()


DATASETS: dict[str, Callable[[Path], Dataset]] = {
    "demo": lambda _: open_demo(""),
    "npz": npz,
    "sounds": sounds,
    "raw": raw,
    "imagefolder": image_folder,
    "idx": idx,
    "cifar10": cifar10,
    "parquet": parquet,
    "text": texts,
    "coco": coco,
    "masks": masks,
    "voc": voc,
    "tagged": tagged,
    "squad": squad,
    "passages": passages,
    "prompts": prompts,
    "choices": choices,
    "beir": beir,
    "yolo": yolo,
    "saved": saved,
    "webdataset": webdataset,
    "records": records,
}
# Those whose truth is no class, with one truth changed.
CHANGED: dict[str, Callable[[Path], Dataset]] = {
    "coco": lambda folder: coco(folder, wider=1),
    "masks": lambda folder: masks(folder, more=1),
    "voc": lambda folder: voc(folder, wider=1),
    "tagged": lambda folder: tagged(folder, tag="B-Y"),
    "squad": lambda folder: squad(folder, answer="1 2"),
    "choices": lambda folder: choices(folder, answer=2),
    "beir": lambda folder: beir(folder, score=2),
    "yolo": lambda folder: yolo(folder, wider=1),
}
for name, opened in DATASETS.items():
    title = f"TestDataset{name.title()}"
    methods = {"opened": lambda self, folder, opened=opened: opened(folder)}
    if name in CHANGED:
        methods["opened_with_another_truth"] = lambda self, folder, opened=CHANGED[name]: opened(folder)
    globals()[title] = type(title, (DatasetContract,), methods)


def test_no_kind_of_dataset_is_forgotten():
    assert set(DATASETS) == set(BUILT_IN)


# --- importers


class TestOnnxImporter(ImporterContract):
    importer = ONNX

    def request(self, tmp_path):
        pytest.importorskip("onnx")
        return Request(str(models.onnx(tmp_path).path()))


class TestTfliteImporter(ImporterContract):
    importer = TFLITE

    def request(self, tmp_path):
        demo = (
            Path(str(importlib.util.find_spec("zoolens.inventory.zoos").submodule_search_locations[0]))
            / "demo_data"
            / "models"
        )
        return Request(str(demo / "lenet-narrow.tflite"))


class TestCaffeImporter(ImporterContract):
    importer = CAFFE

    def request(self, tmp_path):
        files = models.caffe(tmp_path).files
        return Request(str(files["model"]), files={"weights": str(files["weights"])})


class TestOpenVinoImporter(ImporterContract):
    importer = OPENVINO

    def request(self, tmp_path):
        pytest.importorskip("onnx")
        pytest.importorskip("openvino")
        files = models.openvino_ir(tmp_path).files
        return Request(str(files["model"]), files={"weights": str(files["weights"])})


class TestTorchvisionImporter(ImporterContract):
    importer = TORCHVISION
    damaged = False

    def request(self, tmp_path):
        if importlib.util.find_spec("torchvision") is None:
            pytest.skip("torchvision IS NOT INSTALLED")
        return Request("squeezenet1_1", size=(64, 64))


class TestKerasImporter(ImporterContract):
    importer = KERAS
    damaged = False

    def request(self, tmp_path):
        pytest.importorskip("keras")
        pytest.importorskip("tensorflow")
        return Request("MobileNet", size=(64, 64))


# --- resource metrics and functions for ORDER BY

SAMPLE = Path(__file__).parents[3] / "examples" / "plugin" / "src" / "zoolens_ncnn"


def sample(module: str):
    """A module of the sample plug-in, which need not be installed: these two import numpy and zoolens alone."""
    spec = importlib.util.spec_from_file_location(f"sample_{module}", SAMPLE / f"{module}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class TestSampleResource(ResourceContract):
    resource = staticmethod(sample("resource").download)


class TestResourceThatGivesABareNumber(ResourceContract):
    @staticmethod
    def resource(row):
        size = row.figures.get("file_size")
        return None if size is None else size.value / 1e6


class TestSampleFunction(FunctionContract):
    function = staticmethod(sample("order").bargain)
    arguments = 2


class TestFunctionOfSingleNumbers(FunctionContract):
    arguments = 3

    @staticmethod
    def function(accuracy, latency, size):
        return accuracy if latency < 0.5 and size < 0.5 else 0.0


class Forgetful(ResourceContract):
    """Fails for models that were never run."""

    @staticmethod
    def resource(row):
        return row.figures["file_size"].value


class Ranks(FunctionContract):
    """Sorts its column, so that a row gets the number of another one."""

    arguments = 1

    @staticmethod
    def function(column):
        return np.sort(column)


def test_contracts_of_resources_and_functions_refuse_what_breaks_them():
    with pytest.raises(ZoolensError, match="KeyError"):
        Forgetful().test_a_row_without_figures_is_no_error()
    with pytest.raises(AssertionError):
        Ranks().test_the_order_of_the_rows_does_not_matter()


def test_only_the_module_that_imports_a_framework_is_blamed(tmp_path, monkeypatch):
    for name, line in {"early": "", "guilty": "import onnxruntime", "late": ""}.items():
        (tmp_path / f"imports_{name}.py").write_text(line)
    (tmp_path / "onnxruntime.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    import_together(["imports_early", "imports_guilty", "imports_late"])
    found = {name: frameworks_imported_by(f"imports_{name}") for name in ("early", "guilty", "late")}
    assert found == {"early": [], "guilty": ["onnxruntime"], "late": []}
