"""Two real detectors and the images that they are asked about, for benchmarks of serving."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import yaml

from serve_switching import ASSETS, Setup
from zoolens.base.protocol.messages import InferResponse
from zoolens.base.statistics.anytime import bounded_mean
from zoolens.base.statistics.intervals import Interval
from zoolens.faces.load.exchanges import UNKNOWN
from zoolens.inventory.runtimes.remote import ANSWERED_BY
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.task import Answers, task_named

DETECTION = ASSETS / "tasks" / "detection"
# The usual reference: its older kernels take 82 ms of one ARM core for an image, those of EfficientDet-Lite0 41 ms.
SSD, EFFICIENTDET = "ssd-mobilenet-v1", "efficientdet-lite0"
FILES = {
    # name: file, side of the canvas, mean of the normalisation, tensors (boxes, classes, scores, count)
    EFFICIENTDET: (
        "efficientdet_lite0_coco_320_uint8",
        320,
        0.9921875,
        [f"StatefulPartitionedCall:{number}" for number in (3, 2, 1, 0)],
    ),
    SSD: (
        "ssd_mobilenet_v1_coco_300_uint8",
        300,
        1.0,
        [f"TFLite_Detection_PostProcess{end}" for end in ("", ":1", ":2", ":3")],
    ),
}


def detectors(folder: Path, reference: str, within: str) -> Setup:
    """EfficientDet-Lite0 and SSD MobileNet v1 on 50 images of COCO; their manifests are written into the folder."""
    annotations = DETECTION / "data" / "instances_val50.json"
    if not annotations.exists():
        raise SystemExit(f"{annotations} does not exist; ZOOLENS_ASSETS names the folder of the reference assets")
    categories = json.loads(annotations.read_text())["categories"]
    names = {category["id"]: category["name"] for category in categories}
    # Class 0 of these models is category 1 of COCO, whose 80 categories have the numbers 1 to 90.
    labels = [names.get(number + 1, "???") for number in range(90)]
    paths = {name: str(_manifest(folder, name, labels)) for name in FILES}
    return Setup(
        f"file:{reference}", paths[reference], tuple(paths.values()), ("litert",),
        f"coco:{annotations.resolve()}?images=val2017", None,
        within, "image",
    )  # fmt: skip


def _manifest(folder: Path, name: str, labels: list[str]) -> Path:
    file, side, mean, tensors = FILES[name]
    steps = [{"op": "resize", "size": [side, side]}, {"op": "normalize", "scale": 0.0078125, "mean": [mean]}]
    output = {
        "task": "detection",
        "parts": dict(zip(("boxes", "classes", "scores", "count"), tensors, strict=True)),
        "postprocess": [{"op": "boxes", "format": "yxyx", "units": "shares"}],
        "labels": labels,
    }
    location = (DETECTION / "models" / f"{file}.tflite").resolve().as_uri()
    manifest = {
        "zoolens": 1,
        "name": name,
        "inputs": [{"shape": [1, side, side, 3], "layout": "NHWC", "dtype": "uint8", "preprocess": steps}],
        "outputs": [output],
        "assets": [{"format": "tflite", "files": [{"location": location}]}],
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False))
    return path


@dataclass(frozen=True)
class Agreed:
    """How far the answers of one model are those of the reference: a share of them, or a mean agreement."""

    model: str
    count: int
    value: float
    interval: Interval


@dataclass
class BoxJudge:
    """Compares the boxes of each answer with those of the reference, by the task's own agreement."""

    references: list[Answers]
    found: dict[str, dict[int, list[float]]] = field(default_factory=dict)  # agreements, by model and input

    def __call__(self, number: int, response: InferResponse) -> int:
        boxes = boxes_of(response)
        (agreement,) = task_named(boxes.task).agreement(self.references[number], boxes)
        by_input = self.found.setdefault(str(response.parameters[ANSWERED_BY]), {})
        by_input.setdefault(number, []).append(float(agreement))
        return UNKNOWN  # neither right nor wrong

    def agreed(self, model: str) -> Agreed:
        """The mean agreement of a model's answers. Its interval is about different inputs, each of which counts once,
        however often it was sent."""
        by_input = self.found[model]
        every = [agreement for agreements in by_input.values() for agreement in agreements]
        interval = bounded_mean(np.array([np.mean(some) for some in by_input.values()]), 1.0, 0.05)
        return Agreed(model, len(every), float(np.mean(every)), interval)


def boxes_of(response: InferResponse) -> Answers:
    (document,) = response.outputs["answer"].reshape(-1)
    found = json.loads(document)
    corners = np.array([row["box"] for row in found], np.float32).reshape(-1, 4)
    columns = {
        "boxes": Ragged.of([np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)], np.float32),
        "classes": Ragged.of([np.array([row["class"] for row in found])], np.int32),
        "scores": Ragged.of([np.array([row["score"] for row in found])], np.float32),
    }
    return Answers("answer", "detection", columns)
