"""Write the manifests of the reference models whose task is not the classification of images (`tests/task_zoo`).

    python scripts/write_task_zoo.py ../shared/assets

The models are not part of this project; the manifests find them through ZOOLENS_ASSETS. What each model takes and gives
was read from the reference folder's own description; the figures there, measured independently of zoolens, become
claims, whose dataset is a key of `scripts/measure_tasks.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.manifests.schema import Manifest

OUT = Path(__file__).parent.parent / "tests" / "task_zoo"
WORDS = ["Down", "Go", "Left", "No", "Off", "On", "Right", "Stop", "Up", "Yes", "Silence", "Unknown"]
SOURCE = "reference measurement, independent of zoolens"


def main() -> None:
    tasks = Path(sys.argv[1]).resolve() / "tasks"
    entries = {entry["file"]: entry for entry in _json(tasks / "MANIFEST.json")["entries"]}
    OUT.mkdir(exist_ok=True)
    for name, content in manifests(tasks, entries):
        write_manifest(
            Manifest.model_validate({"name": f"tasks/{name}", "version": "1.0.0", **content}), OUT / f"{name}.yaml"
        )


def manifests(tasks: Path, entries: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from detectors(tasks, entries)
    yield from segmenters(tasks, entries)
    yield from sentiments(entries)
    yield from embedders(entries)
    yield tagger(tasks, entries)
    yield from sounds(entries)


def detectors(tasks: Path, entries: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    categories = _json(tasks / "detection" / "data" / "instances_val50.json")["categories"]
    names = {category["id"]: category["name"] for category in categories}
    # Class 0 of these models is category 1 of COCO, whose 80 categories have the numbers 1 to 90.
    labels = [names.get(number + 1, "???") for number in range(90)]
    tensors = {
        "ssd_mobilenet_v1_coco_300_uint8": [f"TFLite_Detection_PostProcess{end}" for end in ("", ":1", ":2", ":3")],
        "efficientdet_lite0_coco_320_uint8": [f"StatefulPartitionedCall:{end}" for end in (3, 2, 1, 0)],
    }
    for stem, side, mean in (
        ("ssd_mobilenet_v1_coco_300_uint8", 300, 1.0),
        ("efficientdet_lite0_coco_320_uint8", 320, 0.9921875),
    ):
        file = f"detection/models/{stem}.tflite"
        measured = entries[file]["measured"]
        claims = {"ap": measured["coco_val50_AP"], "ap50": measured["coco_val50_AP50"]}
        output = {
            "task": "detection",
            "parts": dict(zip(("boxes", "classes", "scores", "count"), tensors[stem], strict=True)),
            "postprocess": [{"op": "boxes", "format": "yxyx", "units": "shares"}],
            "labels": labels,
        }
        steps = [{"op": "resize", "size": [side, side]}, {"op": "normalize", "scale": 1 / 128, "mean": [mean]}]
        declared = {"shape": [1, side, side, 3], "layout": "NHWC", "dtype": "uint8", "preprocess": steps}
        yield stem, _about(entries, file, declared, output, {"coco_val50": claims})


def segmenters(tasks: Path, entries: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    names = _json(tasks / "segmentation" / "data" / "classes.json")["voc21"]
    canvas = {"op": "letterbox", "size": [513, 513], "fit": "top_left", "fill": 128}
    steps = [canvas, {"op": "normalize", "scale": 1 / 128, "mean": [1]}]
    for stem in ("deeplabv3_mnv2_pascal_quant", "deeplabv3_mnv2_dm05_pascal_quant"):
        file = f"segmentation/models/{stem}.tflite"
        measured = entries[file]["measured"]
        claims = {"miou": measured["val50_mIoU"], "pixel_accuracy": measured["val50_pixel_accuracy"]}
        declared = {"shape": [1, 513, 513, 3], "layout": "NHWC", "dtype": "uint8", "preprocess": steps}
        output = {"task": "segmentation", "labels": names}
        yield stem, _about(entries, file, declared, output, {"coco_masks50": claims})


def sentiments(entries: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    file = "text/models/tflite_support_sentiment_wordavg.tflite"
    words = {"pattern": r"[^\w']+", "matches": "separators", "unknown_id": 2, "start_id": 1}
    declared = _text({"max_length": 256, "vocabulary": 10003, "pad_id": 0, "words": words}, dtype="int32")
    output: dict[str, Any] = {"scores": "probabilities", "labels": ["negative", "positive"]}
    claims = {name: {"top1": entries[file]["measured"][name]["accuracy"]} for name in ("tweets", "amazon", "imdb400")}
    vocabulary = "text/models/tflite_support_sentiment_wordavg.vocab.txt"
    yield "sentiment_word_average", _about(entries, file, declared, output, claims, vocabulary)
    file = "text/models/nn_sentiment.onnx"
    words = {"pattern": r"[A-Za-z0-9_']+|[,.?;\-()]", "unknown_id": 0}
    declared = _text({"max_length": 100, "vocabulary": 30000, "pad_id": 0, "words": words})
    output = {
        "scores": "probabilities",
        "postprocess": [{"op": "select", "indices": [0, 2]}],
        "labels": ["detractor", "promoter"],
    }
    claims = {name: {"top1": entries[file]["measured"][name]["accuracy"]} for name in ("tweets", "amazon", "imdb400")}
    index = "text/models/nn_sentiment.word_index.json"
    yield "sentiment_bi_gru", _about(entries, file, declared, output, claims, index)
    output = {"task": "regression", "postprocess": [{"op": "linear", "weights": [-1, 0, 1]}]}
    measured = entries[file]["measured"]["tweets_intensity"]
    claims = {"tweets_intensity": {name: measured[name] for name in ("spearman", "pearson")}}
    yield "intensity_bi_gru", _about(entries, file, declared, output, claims, index)


def embedders(entries: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    models = "embeddings/models"
    tokenizer = {
        "max_length": 512,
        "vocabulary": 32000,
        "padding": "longest",
        "pad_id": 0,
        "special_tokens": False,
        "tensors": {name: name for name in ("input_ids", "attention_mask")},
    }
    file = f"{models}/wordllama_l2_supercat_64.onnx"
    tokens = f"{models}/wordllama.tokenizer.json"
    yield "wordllama_64", _about(entries, file, _text(tokenizer), {"task": "embedding"}, _alike(entries, file), tokens)
    names = ("input_ids", "attention_mask", "token_type_ids")
    tokenizer = {
        "max_length": 128, "vocabulary": 30522, "padding": "none", "tensors": {name: name for name in names}
    }  # fmt: skip
    file = f"{models}/all-MiniLM-L6-v2_int8.onnx"
    output = {"task": "embedding", "postprocess": [{"op": "pool"}]}
    tokens = f"{models}/all-MiniLM-L6-v2.tokenizer.json"
    yield "minilm_int8", _about(entries, file, _text(tokenizer), output, _alike(entries, file), tokens)


def _alike(entries: Mapping[str, Any], file: str) -> dict[str, dict[str, float]]:
    measured = entries[file]["measured"]
    return {"stsb": {"spearman": measured["stsb_test_spearman"], "pearson": measured["stsb_test_pearson"]}}


def tagger(tasks: Path, entries: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    file, vocabulary = "ner/models/slovnet_ner_factru.onnx", "ner/models/slovnet_ner_factru.vocab.json"
    known = _json(tasks / vocabulary)
    words: dict[str, Any] = {
        "key": "words",
        "unknown_id": known["words"].index("<unk>"),
        "shapes": {"rule": "slovnet", "key": "shapes"},
    }
    tokenizer: dict[str, Any] = {
        "max_length": 8192,
        "vocabulary": len(known["words"]),
        "padding": "none",
        "words": words,
        "tensors": {"input_ids": "word_id", "shape_ids": "shape_id"},
    }
    steps = [{"op": "viterbi", "transitions": known["transitions"]}]
    output = {"task": "token-classification", "labels": known["tags"], "postprocess": steps}
    measured = entries[file]["measured"]
    claims = {"f1": measured["micro_F1"], **{f"f1.{kind}": value for kind, value in measured["entity_F1"].items()}}
    return "slovnet_ner", _about(entries, file, _text(tokenizer), output, {"factru": claims}, vocabulary)


def sounds(entries: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    back = {"op": "normalize", "scale": 0.5847029, "mean": [83 * 0.5847029]}
    for stem, kind in (("kws_ref_model", "int8"), ("kws_ref_model_float32", "float32")):
        file = f"audio/models/{stem}.tflite"
        declared: dict[str, Any] = {"modality": "array", "shape": [1, 49, 10, 1], "dtype": kind, "preprocess": [back]}
        output: dict[str, Any] = {"scores": "probabilities", "labels": WORDS}
        claims = {"keywords": {"top1": entries[file]["measured"]["top1"]}}
        yield stem, _about(entries, file, declared, output, claims)
    file = "audio/models/silero_vad_16k_op15.onnx"
    sound: dict[str, Any] = {
        "rate": 16000,
        "resample": "scipy",
        "length": {"samples": 16000, "pad": "front", "crop": "none"},
        "windows": {"length": 512, "context": 64, "join": "frames"},
        "carry": {"state": {"output": "stateN", "shape": [2, 1, 128]}},
        "constants": {"sr": 16000},
    }
    declared = {"name": "input", "modality": "sound", "shape": [1, 576], "sound": sound}
    output = {"name": "output", "task": "voice-activity", "scores": "probabilities"}
    measured = entries[file]["measured"]
    found, spoken = map(int, measured["speech_clips_found"].split("/"))
    alarms, noises = map(int, measured["noise_clips_false_alarm"].split("/"))
    claims = {
        "conversation": {"frame_auc": 100 * measured["frame_auc"], "frame_accuracy": measured["frame_accuracy"]},
        "clips": {
            "clip_auc": 100 * measured["clip_auc"],
            "clips_found": 100 * found / spoken,
            "false_alarms": 100 * alarms / noises,
        },
    }
    yield "silero_vad", _about(entries, file, declared, output, claims)


def _text(tokenizer: Mapping[str, Any], dtype: str = "int64") -> dict[str, Any]:
    return {"modality": "text", "shape": [None, None], "dtype": dtype, "tokenizer": dict(tokenizer)}


def _about(
    entries: Mapping[str, Any],
    file: str,
    declared: Mapping[str, Any],
    output: Mapping[str, Any],
    claims: Mapping[str, Mapping[str, float]],
    tokenizer: str | None = None,
) -> dict[str, Any]:
    """`claims`: by dataset and metric, in per cent."""
    entry = entries[file]
    files = [_file(entry)]
    if tokenizer is not None:
        files.append({**_file(entries[tokenizer]), "role": "tokenizer"})
    return {
        "description": entry["what"],
        "license": entry["licence"],
        "references": [entry["source"]],
        "inputs": [dict(declared)],
        "outputs": [dict(output)],
        "assets": [{"format": entry["format"], "files": files}],
        "attributes": {"architecture": entry["architecture"]},
        "claims": [
            {"metric": metric, "value": round(value / 100, 6), "unit": "fraction", "dataset": data, "source": SOURCE}
            for data, figures in claims.items()
            for metric, value in figures.items()
        ],
    }


def _file(entry: Mapping[str, Any]) -> dict[str, Any]:
    location = f"file://${{ZOOLENS_ASSETS}}/tasks/{entry['file']}"
    return {"location": location, "sha256": entry["sha256"], "bytes": entry["bytes"]}


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
