"""Write a folder of manifests and tokenizers for the reference models that take text (`ZOOLENS_ASSETS`/tasks).

Two of the models come with plain lists of words: they become a tokenizer.json each. Models stay where they are.

python -m scripts.write_text_zoo FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

_TASKS = Path("tasks")
_TEXT = _TASKS / "text" / "models"
_EMBEDDINGS = _TASKS / "embeddings" / "models"


def write_zoo(assets: Path, folder: Path) -> list[Path]:
    """The manifests that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_word_average(assets, folder), _bi_gru(assets, folder), _minilm(assets, folder), _wordllama(assets, folder)]


def _word_average(assets: Path, folder: Path) -> Path:
    lines = (assets / _TEXT / "tflite_support_sentiment_wordavg.vocab.txt").read_text(encoding="utf-8").splitlines()
    words = {word: int(number) for word, _, number in (line.rpartition(" ") for line in lines if line)}
    start = {"SpecialToken": {"id": "<START>", "type_id": 0}}
    split = {"type": "Split", "pattern": {"Regex": r"[^\w']+"}, "behavior": "Removed", "invert": False}
    content = _word_level(words, "<UNKNOWN>", split) | {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [start, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<START>": {"id": "<START>", "ids": [words["<START>"]], "tokens": ["<START>"]}},
        }
    }
    (folder / "word-average.tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return _manifest(
        folder, "word-average", assets / _TEXT / "tflite_support_sentiment_wordavg.tflite", "tflite", "Apache-2.0",
        {"shape": [1, 256], "dtype": "int32",
         "tokenizer": {"max_length": 256, "pad_id": words["<PAD>"], "vocabulary": len(words)}},
        {"scores": "probabilities", "labels": ["negative", "positive"]},
    )  # fmt: skip


def _bi_gru(assets: Path, folder: Path) -> Path:
    words = json.loads((assets / _TEXT / "nn_sentiment.word_index.json").read_text(encoding="utf-8"))
    tokens = r"[A-Za-z0-9_']+|[,.?;\-()]"
    split = {"type": "Split", "pattern": {"Regex": tokens}, "behavior": "Removed", "invert": True}
    content = _word_level({"[UNK]": 0, **words}, "[UNK]", split)
    (folder / "bi-gru.tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return _manifest(
        folder, "bi-gru", assets / _TEXT / "nn_sentiment.onnx", "onnx", "MIT",
        {"shape": [None, 100], "dtype": "int64",
         "tokenizer": {"max_length": 100, "padding_side": "left", "pad_id": 0, "vocabulary": 30_000,
                       "special_tokens": False}},
        {"scores": "probabilities", "postprocess": [{"op": "select", "indices": [0, 2]}],  # neutral is left out
         "labels": ["detractor", "promoter"]},
    )  # fmt: skip


def _minilm(assets: Path, folder: Path) -> Path:
    shutil.copyfile(assets / _EMBEDDINGS / "all-MiniLM-L6-v2.tokenizer.json", folder / "minilm.tokenizer.json")
    names = ("input_ids", "attention_mask", "token_type_ids")
    return _manifest(
        folder, "minilm", assets / _EMBEDDINGS / "all-MiniLM-L6-v2_int8.onnx", "onnx", "Apache-2.0",
        {"shape": [None, None], "dtype": "int64",
         "tokenizer": {"max_length": 128, "padding": "none", "vocabulary": 30_522,
                       "tensors": {name: name for name in names}}},
        {"name": "last_hidden_state", "task": "embedding",
         "postprocess": [{"op": "pool", "method": "mean"}, {"op": "l2_normalize"}]},
    )  # fmt: skip


def _wordllama(assets: Path, folder: Path) -> Path:
    shutil.copyfile(assets / _EMBEDDINGS / "wordllama.tokenizer.json", folder / "wordllama.tokenizer.json")
    names = ("input_ids", "attention_mask")
    return _manifest(
        folder, "wordllama", assets / _EMBEDDINGS / "wordllama_l2_supercat_64.onnx", "onnx", "MIT",
        {"shape": [None, None], "dtype": "int64",
         "tokenizer": {"max_length": 512, "padding": "longest", "pad_id": 0, "special_tokens": False,
                       "vocabulary": 32_000, "tensors": {name: name for name in names}}},
        {"task": "embedding"},
    )  # fmt: skip


def _word_level(words: dict[str, int], unknown: str, split: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": split, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": unknown},
    }  # fmt: skip


def _manifest(
    folder: Path, name: str, model: Path, format_: str, licence: str, given: dict[str, Any], output: dict[str, Any]
) -> Path:
    files = [
        {"location": f"file://{model.resolve()}"},
        {"location": f"{name}.tokenizer.json", "role": "tokenizer"},
    ]
    manifest = {
        "zoolens": 1, "name": name, "version": "1.0.0", "license": licence, "inputs": [{"modality": "text", **given}],
        "outputs": [output], "assets": [{"format": format_, "files": files}],
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    return path


if __name__ == "__main__":
    shared = Path(os.environ.get("ZOOLENS_ASSETS", Path(__file__).parents[2] / "shared" / "assets"))
    for written in write_zoo(shared, Path(sys.argv[1])):
        print(written)
