"""Runs the exported files in onnxruntime and LiteRT: do they agree, and how often are they right?"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.manifests.schema import Manifest

from .data import Split

AGREEMENT_IMAGES: Final = 200
FLOAT_TOLERANCE: Final = 1e-4  # on logits
INT8_AGREEMENT: Final = 0.97  # share of equal answers: kernels may round a step up or down
# Another processor sums in another order; int8 kernels also saturate differently where it lacks VNNI
ACCURACY_TOLERANCE: Final = {"float32": 5e-4, "int8": 5e-3}
BATCH: Final = 500

Predict = Callable[[NDArray[np.float32]], NDArray[np.float32]]


@dataclass(frozen=True)
class Verified:
    """`accuracy`: share of right answers by format; `agreement`: one sentence on how the formats compare."""

    accuracy: dict[str, float]
    agreement: str


def verify(files: dict[str, Path], element_type: str, test: Split) -> Verified:
    """Accuracy of each format on the whole test set; an error where the formats disagree."""
    logits = {name: _logits(_OPENERS[name](path), test.images) for name, path in files.items()}
    accuracy = {name: float((values.argmax(1) == test.labels).mean()) for name, values in logits.items()}
    onnx, tflite = (logits[name][:AGREEMENT_IMAGES] for name in ("onnx", "tflite"))
    if element_type == "float32":
        worst = float(np.abs(onnx - tflite).max())
        _require(worst <= FLOAT_TOLERANCE, f"formats differ by {worst:.1e} in a logit")
        return Verified(accuracy, f"logits equal within {worst:.1e} on {AGREEMENT_IMAGES} images")
    same = float((onnx.argmax(1) == tflite.argmax(1)).mean())
    _require(same >= INT8_AGREEMENT, f"formats give the same answer for only {same:.1%}")
    return Verified(accuracy, f"same answer on {same:.1%} of {AGREEMENT_IMAGES} images")


def check(folder: Path, test: Split) -> list[str]:
    """Re-verify every committed model against its manifest; the problems found, one sentence each."""
    problems = []
    for path in sorted(folder.glob("*.yaml")):
        manifest = read_manifest(path)
        try:
            verified = verify(_intact_files(manifest, folder), manifest.element_type, test)
            _compare(manifest, verified)
        except ValueError as error:
            problems.append(f"{manifest.name}: {error}.")
        else:
            print(f"{manifest.name}: {verified.accuracy}, {verified.agreement}", flush=True)
    return problems


def _intact_files(manifest: Manifest, folder: Path) -> dict[str, Path]:
    files = {}
    for asset in manifest.assets:
        path = folder / asset.files[0].location
        _require(hashlib.sha256(path.read_bytes()).hexdigest() == asset.files[0].sha256, f"{path.name} was altered")
        files[asset.format] = path
    return files


def _compare(manifest: Manifest, verified: Verified) -> None:
    recorded = {**manifest.attributes["accuracy"], "claim": manifest.claimed("top1")}
    found = {**verified.accuracy, "claim": verified.accuracy["onnx"]}
    for name, value in found.items():
        within = abs(value - recorded[name]) <= ACCURACY_TOLERANCE[manifest.element_type]
        _require(within, f"top-1 of {name} is {value:.4f}, the manifest says {recorded[name]:.4f}")


def _logits(predict: Predict, images: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([predict(images[start : start + BATCH]) for start in range(0, len(images), BATCH)])


def _open_onnx(path: Path) -> Predict:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda images: session.run(None, {"input": images})[0]


def _open_tflite(path: Path) -> Predict:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)
    source, target = (
        details[0]["index"] for details in (interpreter.get_input_details(), interpreter.get_output_details())
    )

    def predict(images: NDArray[np.float32]) -> NDArray[np.float32]:
        interpreter.resize_tensor_input(source, images.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(source, images)
        interpreter.invoke()
        return np.array(interpreter.get_tensor(target))

    return predict


_OPENERS: Final[dict[str, Callable[[Path], Predict]]] = {"onnx": _open_onnx, "tflite": _open_tflite}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
