"""Tiny models that take text, with their tokenizer and manifest: a judge of sentiment and a table of word vectors.

What they answer follows from the words: "good" counts one towards positive and "bad" one towards negative. A word of
padding counts `PADDING` towards negative wherever a model does not look at the mask.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = ("good", "bad", "film", "boat", "not", "ship")
VOCABULARY = (*SPECIAL, *WORDS)
LABELS = ("negative", "positive")
PADDING = 0.5
WIDTH = 4  # of a word vector
MAX_LENGTH = 8

_random = np.random.default_rng(11)
VECTORS = _random.normal(0, 1, (len(VOCABULARY), WIDTH)).astype(np.float32)
VECTORS[VOCABULARY.index("ship")] = VECTORS[VOCABULARY.index("boat")] + 0.05


def scores() -> Any:
    """What each word of the vocabulary counts towards negative and positive."""
    table = np.zeros((len(VOCABULARY), 2), np.float32)
    table[VOCABULARY.index("bad"), 0] = 1
    table[VOCABULARY.index("good"), 1] = 1
    table[VOCABULARY.index("[PAD]"), 0] = PADDING
    return table


def write_tokenizer(path: Path, words: tuple[str, ...] = VOCABULARY, **changes: Any) -> Path:
    """A tokenizer.json that lowers case, splits at spaces and punctuation and puts [CLS] and [SEP] around a text."""
    ids = {word: number for number, word in enumerate(words)}
    added = [
        {"id": ids[word], "content": word, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True} for word in SPECIAL if word in ids
    ]  # fmt: skip
    around = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    special = {word: {"id": word, "ids": [ids[word]], "tokens": [word]} for word in ("[CLS]", "[SEP]")}
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "TemplateProcessing", "single": around, "pair": around, "special_tokens": special},
        "decoder": None, "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"}, **changes,
    }  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_classifier(
    folder: Path, name: str = "sentiment", *, mask: bool = True, labels: Sequence[str] = LABELS, **tokenizer: Any
) -> Path:
    """The path of the manifest. `mask`: the model looks at an attention mask. `tokenizer`: as the manifest has it."""
    tensors = {"input_ids": "ids", **({"attention_mask": "mask"} if mask else {})}
    _write_onnx(folder / f"{name}.onnx", scores(), "logits", mask=mask, added=True)
    output = {"task": "classification", "labels": list(labels)}
    return _write_manifest(folder, name, output, {"tensors": tensors, **tokenizer})


def write_embedder(folder: Path, name: str = "vectors", *, steps: tuple[str, ...] = (), **tokenizer: Any) -> Path:
    """The path of the manifest of a model that gives each token its vector; `steps`: such as "mean", "l2_normalize"."""
    _write_onnx(folder / f"{name}.onnx", VECTORS, "last_hidden_state", mask=True, added=False)
    declared = [{"op": step} if step == "l2_normalize" else {"op": "pool", "method": step} for step in steps]
    tensors = {"input_ids": "ids", "attention_mask": "mask"}
    return _write_manifest(
        folder, name, {"task": "embedding", "postprocess": declared}, {"tensors": tensors, **tokenizer}
    )


def _write_manifest(folder: Path, name: str, output: dict[str, Any], tokenizer: dict[str, Any]) -> Path:
    tokens = folder / "tokenizer.json"
    if not tokens.exists():
        write_tokenizer(tokens)
    files = [{"location": f"{name}.onnx"}, {"location": tokens.name, "role": "tokenizer"}]
    manifest = {
        "zoolens": 1, "name": name,
        "inputs": [{"modality": "text", "shape": [None, None], "dtype": "int64",
                    "tokenizer": {"max_length": MAX_LENGTH, "vocabulary": len(VOCABULARY), **tokenizer}}],
        "outputs": [output], "assets": [{"format": "onnx", "files": files}],
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    return path


def _write_onnx(path: Path, table: Any, output: str, *, mask: bool, added: bool) -> None:
    """Rows of a table for each id, masked where there is a mask; `added`: their sum over a text."""
    import onnx as library
    from onnx import TensorProto, helper, numpy_helper

    tokens = ["batch", "tokens"]
    inputs = [helper.make_tensor_value_info(end, TensorProto.INT64, tokens) for end in ("ids", "mask")[: 1 + mask]]
    rows = "rows" if mask or added else output
    nodes = [helper.make_node("Gather", ["table", "ids"], [rows], axis=0)]
    if mask:
        rows, taken = ("taken" if added else output), rows
        nodes += [
            helper.make_node("Cast", ["mask"], ["shares"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["shares", "last"], ["weights"]),
            helper.make_node("Mul", [taken, "weights"], [rows]),
        ]
    if added:
        nodes.append(helper.make_node("ReduceSum", [rows, "one"], [output], keepdims=0))
    shape = ["batch", table.shape[1]] if added else [*tokens, table.shape[1]]
    constants = {"table": table, "last": np.array([-1], np.int64), "one": np.array([1], np.int64)}
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        path.stem,
        inputs,
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in constants.items() if name in used],
    )
    library.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
