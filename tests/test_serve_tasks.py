"""Real models of other tasks than classification behind `zoolens serve`: what clients get is what was measured."""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from zoolens.base.protocol.messages import InferRequest
from zoolens.base.store.store import open_store
from zoolens.conftest import ASSETS
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.hosting import HostSettings, host_services
from zoolens.findings.measure.answers import run_predictions
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.latency import LatencySettings
from zoolens.inventory.datasets.opening import open_dataset

TASKS = ASSETS / "tasks"
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
QUICK = LatencySettings(min_samples=3, max_samples=5, max_seconds=0.5, warmup_calls=1, warmup_seconds=0.0)
SHOWN = 4  # images

pytestmark = [
    pytest.mark.slow,
    pytest.mark.assets,
    pytest.mark.skipif(not TASKS.is_dir(), reason="the reference assets (ZOOLENS_ASSETS) are not here"),
]


@pytest.fixture
def store(home):
    with open_store() as opened:
        yield opened


def measured(paths, data, store):
    outcomes = evaluate(
        [str(path) for path in paths], data, limit=12, runtimes="litert", batches=(), cold=False, store=store
    )
    assert [outcome.errors for outcome in outcomes] == [()] * len(paths)
    return {outcome.run.ref: run_predictions(store, outcome.run).main for outcome in outcomes}


def documents(service, data, models):
    """What each model of a service answers to the first images, pinned one after the other."""
    dataset = open_dataset(data, limit=SHOWN)
    files = [(TASKS / "detection" / "data" / "val2017" / f"{Path(dataset.read(n).id).stem}.jpg") for n in range(SHOWN)]

    async def asked():
        how = HostSettings(refresh=0.0, latency=QUICK, seed=0)
        async with open_plane() as plane, host_services(plane, {"tasks": service}, settings=how):
            return {model: [await answer(plane, model, file) for file in files] for model in models}

    async def answer(plane, model, file):
        inputs = {"image": np.array([[file.read_bytes()]], object)}
        response = await plane.infer(InferRequest("tasks", inputs, parameters={"zoolens_model": model}))
        assert response.parameters["zoolens_model"] == model
        return json.loads(response.outputs["answer"][0, 0])

    return asyncio.run(asyncio.wait_for(asked(), 300))


def test_two_real_detectors_answer_the_boxes_that_were_measured(store, tmp_path, monkeypatch):
    pytest.importorskip("ai_edge_litert.interpreter")
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    from detectors import EFFICIENTDET, SSD, detectors

    setup = detectors(tmp_path, SSD, "1%")
    kept = measured(setup.models, setup.data, store)
    service = Service(
        reference=setup.reference,
        within=0.01,
        input="image",
        batch={"size": 1},
        fallback={"model": f"file:{EFFICIENTDET}"},
    )
    found = documents(service, setup.data, list(kept))
    labels = yaml.safe_load(Path(setup.like).read_text())["outputs"][0]["labels"]
    for model, answers in kept.items():
        for place, boxes in enumerate(found[model]):
            corners = answers.columns["boxes"][place].reshape(-1, 4)
            assert [box["score"] for box in boxes] == pytest.approx(answers.columns["scores"][place].tolist())
            wanted = np.concatenate([corners[:, :2], corners[:, :2] + corners[:, 2:]], axis=1)
            np.testing.assert_allclose([box["box"] for box in boxes], wanted, rtol=1e-5)
            assert all(labels[box["class"]] == box["label"] for box in boxes)


def test_two_real_segmenters_answer_the_masks_that_were_measured(store, tmp_path):
    pytest.importorskip("ai_edge_litert.interpreter")
    paths = [write_segmenter(tmp_path, f"deeplabv3_mnv2_{size}pascal_quant") for size in ("", "dm05_")]
    data = f"imagefolder:{TASKS / 'detection' / 'data' / 'val2017'}"
    kept = measured(paths, data, store)
    service = Service(
        reference=f"file:{paths[0].stem}",
        within=0.5,
        input="image",
        batch={"size": 1},
        fallback={"model": f"file:{paths[1].stem}"},
    )
    for model, answers in documents(service, data, list(kept)).items():
        columns = kept[model].columns
        for place, mask in enumerate(answers):
            assert (mask["height"], mask["width"]) == (columns["height"][place], columns["width"][place])
            assert [length for _, length in mask["runs"]] == columns["runs"][place].tolist()
            assert [number for number, _ in mask["runs"]] == columns["classes"][place].tolist()
            assert sum(entry["pixels"] for entry in mask["classes"]) == mask["height"] * mask["width"]


def write_segmenter(folder, name):
    letterbox = {"op": "letterbox", "size": [513, 513], "fit": "top_left", "fill": 128}
    manifest = {
        "zoolens": 1,
        "name": name,
        "inputs": [
            {
                "shape": [1, 513, 513, 3], "layout": "NHWC", "dtype": "uint8",
                "preprocess": [letterbox, {"op": "normalize", "scale": 0.0078125, "mean": [1.0]}],
            }
        ],
        "outputs": [{"task": "segmentation", "postprocess": [{"op": "masks"}]}],
        "assets": [
            {
                "format": "tflite",
                "files": [{"location": (TASKS / "segmentation" / "models" / f"{name}.tflite").as_uri()}],
            }
        ],
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False))
    return path


MODELS = sorted(path for end in ("tflite", "onnx") for path in TASKS.rglob(f"*.{end}"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_real_model_is_served_plainly(home, path):
    pytest.importorskip("ai_edge_litert.interpreter" if path.suffix == ".tflite" else "onnxruntime")

    async def served():
        async with open_plane([f"model={path}"]) as plane:
            assert plane.model_ready("model")
            return plane.model_metadata("model")

    metadata = asyncio.run(asyncio.wait_for(served(), 100))
    assert metadata.inputs
    assert metadata.outputs


def test_a_real_tagger_answers_the_tags_that_were_measured(store, tmp_path):
    """Texts of several lengths, each run alone, since the model is not told where padding begins."""
    pytest.importorskip("onnxruntime")
    model, tokens = (TASKS / "ner" / "models" / f"slovnet_ner_factru.{end}" for end in ("onnx", "vocab.json"))
    vocabulary = json.loads(tokens.read_text(encoding="utf-8"))
    unknown, size = vocabulary["words"].index("<unk>"), len(vocabulary["words"])
    words = {"key": "words", "unknown_id": unknown, "shapes": {"rule": "slovnet", "key": "shapes"}}
    tensors = {"input_ids": "word_id", "shape_ids": "shape_id"}
    tokenizer = {"max_length": 8192, "vocabulary": size, "padding": "none", "words": words, "tensors": tensors}
    viterbi = {"op": "viterbi", "transitions": vocabulary["transitions"]}
    manifest = {
        "name": "slovnet",
        "inputs": [{"modality": "text", "shape": [None, None], "dtype": "int64", "tokenizer": tokenizer}],
        "outputs": [{"task": "token-classification", "labels": vocabulary["tags"], "postprocess": [viterbi]}],
        "assets": [
            {
                "format": "onnx",
                "files": [{"location": model.as_uri()}, {"location": tokens.as_uri(), "role": "tokenizer"}],
            }
        ],
    }
    (tmp_path / "slovnet.yaml").write_text(yaml.safe_dump(manifest))
    data = f"tagged:{TASKS / 'ner' / 'data' / 'factrueval2016_test.jsonl'}"
    (outcome,) = evaluate(
        tmp_path / "slovnet.yaml", data, limit=12, runtimes="onnxruntime", batches=(), cold=False, store=store
    )
    assert not outcome.errors
    kept = run_predictions(store, outcome.run).main.columns["tags"]
    samples = [open_dataset(data, limit=SHOWN).read(place).value.item() for place in range(SHOWN)]

    async def asked():
        service = Service(reference="file:slovnet", within=0.9, input="text", batch={"size": 4})
        how = HostSettings(refresh=0.0, latency=QUICK, seed=0)
        async with open_plane() as plane, host_services(plane, {"tasks": service}, settings=how):
            return await asyncio.gather(*(answer(plane, str(sample)) for sample in samples))

    async def answer(plane, text):
        response = await plane.infer(InferRequest("tasks", {"text": np.array([[text.encode()]], object)}))
        return json.loads(response.outputs["answer"][0, 0])

    for place, document in enumerate(asyncio.run(asyncio.wait_for(asked(), 200))):
        assert tuple(document["words"]) == samples[place].parts
        assert document["tags"] == kept[place].tolist()
