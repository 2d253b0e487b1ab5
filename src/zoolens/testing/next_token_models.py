"""A tiny language model in ONNX whose faults are known: it foresees words that follow each other in a circle.

It is sure of itself behind a token for the beginning, or only without one, and the surer the more it has read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from zoolens.testing.text_models import write_tokenizer

BEGIN = "[CLS]"
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
VOCABULARY = ("[PAD]", "[UNK]", BEGIN, "[SEP]", *WORDS)
READ = 16  # tokens behind which it is as sure as it gets
MAX_LENGTH = 64


def write_model(folder: Path, name: str = "circle", *, begins: bool = True, **tokenizer: Any) -> Path:
    """The path of the manifest. `begins`: the network was trained with the token for the beginning. `tokenizer`: as the
    manifest has it."""
    _write_onnx(folder / f"{name}.onnx", begins=begins)
    tokens = folder / "circle.tokenizer.json"
    if not tokens.exists():
        around = [{"SpecialToken": {"id": BEGIN, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        special = {BEGIN: {"id": BEGIN, "ids": [VOCABULARY.index(BEGIN)], "tokens": [BEGIN]}}
        processor = {"type": "TemplateProcessing", "single": around, "pair": around, "special_tokens": special}
        write_tokenizer(tokens, VOCABULARY, post_processor=processor, normalizer=None)
    files = [{"location": f"{name}.onnx"}, {"location": tokens.name, "role": "tokenizer"}]
    declared = {"max_length": MAX_LENGTH, "vocabulary": len(VOCABULARY), "padding": "none", **tokenizer}
    manifest = {
        "zoolens": 1, "name": name,
        "inputs": [{"modality": "text", "shape": [None, None], "dtype": "int64", "tokenizer": declared}],
        "outputs": [{"name": "logits", "task": "language-model"}],
        "assets": [{"format": "onnx", "files": files}],
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    return path


def write_texts(folder: Path, texts: int, words: int = 24, seed: int = 3) -> str:
    """Lines of words of which two in three follow the circle, as passages of one line each."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(texts):
        place, line = int(random.integers(len(WORDS))), []
        for _ in range(words):
            line.append(WORDS[place])
            place = (place + 1) % len(WORDS) if random.random() < 0.67 else int(random.integers(len(WORDS)))
        lines.append(" ".join(line))
    path = folder / f"lines-{texts}-{words}.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    # No two lines fit into the size of the longest one.
    return f"passages:{path}?size={max(map(len, lines)) + 1}"


def _table() -> Any:
    table = np.zeros((len(VOCABULARY), len(VOCABULARY)), np.float32)
    first = VOCABULARY.index(WORDS[0])
    for place in range(len(WORDS)):
        table[first + place, first + (place + 1) % len(WORDS)] = 4
    return table


def _write_onnx(path: Path, *, begins: bool) -> None:
    import onnx as library
    from onnx import TensorProto, helper, numpy_helper

    sure, unsure = (1.0, 0.2) if begins else (0.2, 1.0)
    constants = {
        "table": _table(), "begin": np.array(VOCABULARY.index(BEGIN), np.int64), "start": np.array([0], np.int64),
        "stop": np.array([1], np.int64), "axis": np.array([1], np.int64), "sure": np.array(sure, np.float32),
        "unsure": np.array(unsure, np.float32), "read": np.array(READ, np.float32), "most": np.array(1, np.float32),
        "along": np.array(1, np.int64), "last": np.array([-1], np.int64), "zero": np.array(0, np.int64),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["rows"], axis=0),
        helper.make_node("Slice", ["tokens", "start", "stop", "axis"], ["first"]),
        helper.make_node("Equal", ["first", "begin"], ["begun"]),
        helper.make_node("Where", ["begun", "sure", "unsure"], ["trust"]),
        helper.make_node("GreaterOrEqual", ["tokens", "zero"], ["any"]),
        helper.make_node("Cast", ["any"], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("CumSum", ["ones", "along"], ["count"]),
        helper.make_node("Div", ["count", "read"], ["grown"]),
        helper.make_node("Min", ["grown", "most"], ["practice"]),
        helper.make_node("Mul", ["practice", "trust"], ["scale"]),
        helper.make_node("Unsqueeze", ["scale", "last"], ["factor"]),
        helper.make_node("Mul", ["rows", "factor"], ["logits"]),
    ]
    extents = ["batch", "tokens"]
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, extents)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [*extents, len(VOCABULARY)])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    library.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
