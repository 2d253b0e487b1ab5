"""Write a store of small runs with its models and data (`tests/data/store-*.zip`), which later versions are held to.

    PYTHONPATH=src python scripts/write_store_fixtures.py before-tasks OUT.zip
    PYTHONPATH=src python scripts/write_store_fixtures.py tasks OUT.zip

`before-tasks` was written with the last version in which data said nothing but classes (commit 8b19a713 on the path),
`tasks` with the first version that judges boxes, masks, tags, spans and labels. A later version writes a file under a
new name: what is there is what users have, and stays as it is.

What a run's key says of machine and packages is made up (`pinned_identity`), so that keys are the same everywhere.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import wave
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import yaml
from PIL import Image

from zoolens.base.engine.machine import Machine
from zoolens.base.store.store import open_store
from zoolens.findings.measure.evaluate import evaluate
from zoolens.testing.text_models import VOCABULARY, write_classifier, write_embedder, write_tokenizer

LOCK = "zoolens.findings.measure.lock"
HERE = "{here}"  # in a data spec: the folder of the fixture
SETTINGS: Mapping[str, Any] = {"batches": (), "cold": False, "trust": True}
_MACHINE = Machine("made up", ("fma",), 2, 1 << 30, "Linux", "Linux 6", "3.11.0", "x86_64", False, False)
_PACKAGES = {
    "numpy": "2.0.0",
    "pillow": "11.0.0",
    "onnxruntime": "1.20.0",
    "tokenizers": "0.20.0",
    "soundfile": "0.13.0",
}
_N = 40
Runs = list[tuple[Path, str, str]]  # manifest, data and runtime


@contextmanager
def pinned_identity() -> Iterator[None]:
    """Machine and packages as the fixtures have them in the keys of their runs."""
    with (
        patch(f"{LOCK}.describe_machine", lambda: _MACHINE),
        patch(f"{LOCK}.installed_packages", lambda: dict(_PACKAGES)),
        patch(f"{LOCK}._version", lambda runtime, environment: "1.20.0"),
        patch(f"{LOCK}.platform.python_version", lambda: "3.11.0"),
    ):
        yield


def main() -> None:
    kind, out = sys.argv[1], Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory(prefix="store-") as name:
        folder = Path(name).resolve()
        os.environ["ZOOLENS_HOME"] = str(folder / "home")
        fixture = folder / "fixture"
        fixture.mkdir()
        runs = before_tasks(fixture) if kind == "before-tasks" else of_tasks(fixture)
        (fixture / "runs.json").write_text(json.dumps(measured(fixture, runs), indent=1), encoding="utf-8")
        with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as archive:
            for path in sorted(fixture.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(fixture).as_posix())
    print(f"{out}: {len(runs)} runs, {out.stat().st_size:,} bytes")


def measured(fixture: Path, runs: Runs) -> list[dict[str, Any]]:
    """Measures each run and says what is known of it."""
    found = []
    with open_store(fixture / "store.sqlite") as store, pinned_identity():
        for manifest, data, runtime in runs:
            (outcome,) = evaluate(
                [str(manifest)], data.replace(HERE, str(fixture)), runtimes=[runtime], store=store, **SETTINGS
            )
            if outcome.errors or outcome.run is None:
                raise SystemExit(f"{manifest.name}: {outcome.errors}")
            found.append(
                {
                    "manifest": manifest.relative_to(fixture).as_posix(),
                    "data": data,
                    "runtime": runtime,
                    "run": outcome.run.id,
                    "observations": [asdict(each) for each in store.observations(outcome.run.id)],
                }
            )
    return found


# --- what the version before tasks could evaluate


def before_tasks(fixture: Path) -> Runs:
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (_N, 8, 8), np.uint8)
    labels = (images[:, 0, 0] % 5).astype(np.int64)
    labels[:6] = (labels[:6] + 1) % 5
    np.savez_compressed(fixture / "images.npz", x=images, y=labels)
    data = f"npz:{HERE}/images.npz"
    write_table(fixture / "texts.tsv", "label\ttext", sentiment(random))
    return [
        (fake(fixture, "leak", {"behaviour": "label_leak"}), data, "fake"),
        (fake(fixture, "hash", {"seed": 3}), data, "fake"),
        (fake(fixture, "quantity", {"classes": 1}, {"task": "regression"}), data, "fake"),
        (fake(fixture, "point", {"classes": 6}, {"task": "embedding"}), data, "fake"),
        (fake(fixture, "numbers", {"classes": 4}, {"task": "other"}), data, "fake"),
        (write_classifier(fixture), f"{HERE}/texts.tsv", "onnxruntime"),
        (write_embedder(fixture, steps=("mean", "l2_normalize")), f"{HERE}/texts.tsv", "onnxruntime"),
    ]


def fake(fixture: Path, name: str, settings: Mapping[str, Any], output: Mapping[str, Any] | None = None) -> Path:
    (fixture / f"{name}.json").write_text(json.dumps({"classes": 5, "input": [8, 8], **settings}))
    declared = {"modality": "image", "shape": [None, 8, 8], "layout": "NHW", "color": "gray"}
    return write_manifest(fixture, name, declared, output or {"scores": "logits"}, ("fake", f"{name}.json"))


def sentiment(random: np.random.Generator) -> list[str]:
    texts = [" ".join(random.choice(VOCABULARY[4:], 5)) for _ in range(_N)]
    return [f"{'positive' if text.count('good') > text.count('bad') else 'negative'}\t{text}" for text in texts]


# --- what the first version of the tasks evaluates


def of_tasks(fixture: Path) -> Runs:
    random = np.random.default_rng(2)
    return [
        detection(fixture, random),
        segmentation(fixture, random),
        multilabel(fixture, random),
        regression(fixture, random),
        pairs(fixture, random),
        tags(fixture, random),
        spans(fixture, random),
        voices(fixture, random),
    ]


def detection(fixture: Path, random: np.random.Generator) -> tuple[Path, str, str]:
    """Two boxes in each image of 16 × 8, which move a little with its brightness."""
    write_onnx(
        fixture / "boxes.onnx",
        """net (float[N, 3, 8, 8] x) => (float[N, 2, 4] b, float[N, 2, 3] s)
        <float less = {0.003}, int64[3] flat = {-1, 1, 1}, float[1, 2, 4] boxes = {1, 3, 5, 5, 0, 2, 8, 6},
        float[1, 2, 3] scores = {0.5, 0, 0, 0, 0.2, 0.05}, float[1, 2, 3] more = {0.1, 0, 0, 0, 0.2, 0}> {
        m = ReduceMean <axes = [1, 2, 3]> (x)
        z = Mul (m, less)
        r = Reshape (z, flat)
        b = Add (r, boxes)
        t = Mul (r, more)
        s = Add (t, scores)
        }""",
    )
    (fixture / "photos").mkdir()
    annotations: list[dict[str, Any]] = []
    for number in range(_N):
        pixels = random.integers(0, 200, (1, 1, 3)) + random.integers(0, 50, (8, 16, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(fixture / "photos" / f"{number}.png")
        for kind, box in ((17, [2, 2, 8, 4]), (18, [0, 0, 16, 8])):
            moved = [float(side) for side in np.round(np.array(box) + random.normal(0, 0.4, 4), 1)]
            area = moved[2] * moved[3]
            about = {"image_id": number, "category_id": kind, "bbox": moved, "area": area, "iscrowd": 0}
            annotations.append({"id": len(annotations) + 1, **about})
    content = {
        "images": [{"id": n, "file_name": f"{n}.png", "width": 16, "height": 8} for n in range(_N)],
        "categories": [{"id": 18, "name": "dog"}, {"id": 17, "name": "cat"}],
        "annotations": annotations,
    }
    (fixture / "boxes.json").write_text(json.dumps(content))
    declared = {"shape": [None, 3, 8, 8], "preprocess": [{"op": "letterbox", "size": [8, 8]}]}
    output = {
        "task": "detection",
        "parts": {"boxes": "b", "scores": "s"},
        "postprocess": [{"op": "boxes", "format": "xyxy", "units": "pixels"}, {"op": "nms", "iou": 0.5}],
        "labels": ["cat", "dog", "unicorn"],
    }
    path = write_manifest(fixture, "detector", declared, output, ("onnx", "boxes.onnx"))
    return path, f"coco:{HERE}/boxes.json?images={HERE}/photos", "onnxruntime"


def segmentation(fixture: Path, random: np.random.Generator) -> tuple[Path, str, str]:
    """The brightest channel of a pixel is its class; a tenth of the true pixels say otherwise."""
    write_onnx(
        fixture / "channels.onnx", "net (float[N, 3, 8, 8] image) => (float[N, 3, 8, 8] y) { y = Identity (image) }"
    )
    for name in ("images", "masks"):
        (fixture / "maps" / name).mkdir(parents=True)
    for number in range(_N):
        classes = np.kron(random.integers(0, 3, (2, 4)), np.ones((4, 4), int))
        pixels = np.full((*classes.shape, 3), 10, np.uint8)
        np.put_along_axis(pixels, classes[..., None], 250, axis=2)
        Image.fromarray(pixels).save(fixture / "maps" / "images" / f"{number}.png")
        true = np.where(random.random(classes.shape) < 0.1, random.integers(0, 3, classes.shape), classes)
        Image.fromarray(true.astype(np.uint8)).save(fixture / "maps" / "masks" / f"{number}.png")
    letterbox = {"op": "letterbox", "size": [8, 8], "method": "nearest", "fill": 0}
    output = {
        "task": "segmentation",
        "labels": ["red", "green", "blue"],
        "postprocess": [{"op": "masks", "layout": "NCHW", "resize": "nearest"}],
    }
    declared = {"shape": [None, 3, 8, 8], "preprocess": [letterbox]}
    path = write_manifest(fixture, "segmenter", declared, output, ("onnx", "channels.onnx"))
    return path, f"masks:{HERE}/maps?classes=red,green,blue", "onnxruntime"


def multilabel(fixture: Path, random: np.random.Generator) -> tuple[Path, str, str]:
    images = random.integers(0, 256, (_N, 8, 8), np.uint8)
    np.savez_compressed(fixture / "labels.npz", x=images, present=random.integers(-1, 2, (_N, 4)).astype(np.int8))
    output = {"task": "multilabel", "scores": "logits", "labels": ["a", "b", "c", "d"]}
    return fake(fixture, "several", {"classes": 4}, output), f"npz:{HERE}/labels.npz?present=present", "fake"


def regression(fixture: Path, random: np.random.Generator) -> tuple[Path, str, str]:
    images = random.integers(0, 256, (3 * _N, 8, 8), np.uint8)
    np.savez_compressed(fixture / "values.npz", x=images, value=random.normal(size=3 * _N).astype(np.float32))
    path = fake(fixture, "quantity", {"classes": 1}, {"task": "regression"})
    return path, f"npz:{HERE}/values.npz?value=value", "fake"


def pairs(fixture: Path, random: np.random.Generator) -> tuple[Path, str, str]:
    lines = []
    for _ in range(_N):
        first, second = (random.choice(VOCABULARY[4:], 3) for _ in range(2))
        alike = len({*first} & {*second}) + round(float(random.random()), 2)
        lines.append(f"{' '.join(first)},{' '.join(second)},{alike}")
    write_table(fixture / "pairs.csv", "a,b,score", lines)
    model = write_embedder(fixture, steps=("mean", "l2_normalize"))
    return model, f"text:{HERE}/pairs.csv?text=a,b&similarity=score", "onnxruntime"


def tags(fixture: Path, random: np.random.Generator) -> tuple[Path, str, str]:
    names = ["O", "B-X", "B-Y", "I-Y"]
    texts = []
    for _ in range(_N):
        words = random.choice(VOCABULARY[4:], 4)
        texts.append("".join(f"{word} {random.choice(names[:3])}\n" for word in words))
    (fixture / "words.conll").write_text("\n".join(texts))
    path = write_embedder(fixture, "tagger")
    declared = yaml.safe_load(path.read_text())
    declared["outputs"] = [{"task": "token-classification", "labels": names}]
    path.write_text(yaml.safe_dump(declared, sort_keys=False))
    return path, f"tagged:{HERE}/words.conll", "onnxruntime"


def spans(fixture: Path, random: np.random.Generator) -> tuple[Path, str, str]:
    """An answer begins at "good" and ends at "film"; some questions have none."""
    table = np.zeros((len(VOCABULARY), 2), np.float32)
    table[VOCABULARY.index("good"), 0] = table[VOCABULARY.index("film"), 1] = 2
    numbers = ", ".join(f"{number:g}" for number in table.reshape(-1))
    write_onnx(
        fixture / "finder.onnx",
        f"""net (int64[N, T] ids) => (float[N, T, 1] start, float[N, T, 1] end)
        <float[{len(table)}, 2] table = {{{numbers}}}> {{
        both = Gather <axis = 0> (table, ids)
        start, end = Split <axis = 2> (both)
        }}""",
    )
    parts = [("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)]
    template = [
        {("Sequence" if name in "AB" else "SpecialToken"): {"id": name, "type_id": kind}} for name, kind in parts
    ]
    special = {name: {"id": name, "ids": [VOCABULARY.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    after = {"type": "TemplateProcessing", "single": template[:3], "pair": template, "special_tokens": special}
    write_tokenizer(fixture / "finder.tokenizer.json", post_processor=after)
    questions = []
    for number in range(_N):
        context = " ".join(random.choice(VOCABULARY[4:], 6))
        first = int(random.integers(0, 5))
        answer = " ".join(context.split()[first : first + 2])
        questions.append(
            {
                "context": context,
                "qas": [
                    {
                        "id": f"q{number}",
                        "question": "not bad",
                        "is_impossible": number % 5 == 0,
                        "answers": [] if number % 5 == 0 else [{"text": answer, "answer_start": context.index(answer)}],
                    }
                ],
            }
        )
    (fixture / "squad.json").write_text(json.dumps({"version": "v2.0", "data": [{"paragraphs": questions}]}))
    tokenizer = {"max_length": 24, "vocabulary": len(VOCABULARY), "pair": "only_second", "padding": "none"}
    declared = {"modality": "text", "shape": [None, None], "dtype": "int64", "tokenizer": tokenizer}
    output = {
        "task": "question-answering",
        "parts": {"start": "start", "end": "end"},
        "postprocess": [{"op": "span", "longest": 4, "no_answer": True}],
    }
    path = write_manifest(
        fixture, "finder", declared, output, ("onnx", "finder.onnx"), ("finder.tokenizer.json", "tokenizer")
    )
    return path, f"squad:{HERE}/squad.json", "onnxruntime"


def voices(fixture: Path, random: np.random.Generator) -> tuple[Path, str, str]:
    """Somebody speaks where the samples are large."""
    write_onnx(
        fixture / "loud.onnx",
        """net (float[1, 256] samples) => (float[1, 1] speech) <float eight = {8}> {
        square = Mul (samples, samples)
        mean = ReduceMean <axes = [1]> (square)
        loud = Mul (mean, eight)
        speech = Tanh (loud)
        }""",
    )
    (fixture / "talks").mkdir()
    for number in range(4):
        begin, length = 0.05 * number, 0.2
        moments = np.arange(3200) / 8000
        inside = (moments >= begin) & (moments < begin + length)
        samples = np.where(inside, 12000, 2000) * np.sin(2 * np.pi * 440 * moments) + random.normal(0, 900, 3200)
        with wave.open(str(fixture / "talks" / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(samples.astype("<i2").tobytes())
        turn = f"SPEAKER {number} 1 {begin:.2f} {length:.2f} <NA> <NA> a <NA> <NA>\n"
        (fixture / "talks" / f"{number}.rttm").write_text(turn)
    sound = {"rate": 8000, "windows": {"length": 256, "join": "frames"}}
    declared = {"name": "samples", "modality": "sound", "shape": [1, 256], "sound": sound}
    output = {"name": "speech", "task": "voice-activity", "scores": "probabilities"}
    path = write_manifest(fixture, "voices", declared, output, ("onnx", "loud.onnx"))
    return path, f"sounds:{HERE}/talks?rttm=beside", "onnxruntime"


# --- files


def write_manifest(
    fixture: Path,
    name: str,
    declared: Mapping[str, Any],
    output: Mapping[str, Any],
    model: tuple[str, str],
    beside: tuple[str, str] | None = None,
) -> Path:
    """`model`: its format and file. `beside`: another file and its role."""
    files = [{"location": model[1]}, *([{"location": beside[0], "role": beside[1]}] if beside else [])]
    manifest = {
        "zoolens": 1,
        "name": name,
        "inputs": [dict(declared)],
        "outputs": [dict(output)],
        "assets": [{"format": model[0], "files": files}],
    }
    path = fixture / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False))
    return path


def write_onnx(path: Path, network: str) -> None:
    import onnx

    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{network}'), str(path))


def write_table(path: Path, head: str, lines: Sequence[str]) -> None:
    path.write_text("\n".join([head, *lines]) + "\n")


if __name__ == "__main__":
    main()
