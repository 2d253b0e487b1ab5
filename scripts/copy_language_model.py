"""Make copies of a language model in a GGUF file: in other types, as folders of transformers, and as ONNX.

    python -m scripts.copy_language_model MODEL.gguf FOLDER [--types F32,Q8_0,Q4_0] [--transformers float32,bfloat16]
        [--onnx] [--off-grid]

A copy in a type has all matrices in it, as far as their rows are whole blocks; the table of tokens and the output stay
in Q8_0 where the type is a smaller one, as llama.cpp quantises. Vectors are float32.

`--onnx` writes the folder `onnx`: model.onnx in float32 with past keys and values, configuration and tokenizer.

`--off-grid` first makes a network that computes the same from other numbers, `reference.gguf`, and copies that. A file
that was quantised to 4 bits loses nothing when it is quantised to the same 4 bits again, because its values lie on that
grid: the order of its copies would say nothing. The norms before matrices are multiplied into them, and rows of one
matrix are scaled against the columns of the next, which no output feels and which leaves no value where it was.
"""

from __future__ import annotations

import argparse
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.gguf.llama_settings import read_settings
from zoolens.inventory.catalog.gguf_tokenizer import tokenizer_json
from zoolens.inventory.runtimes.llamacpp.gguf_copy import copy_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_file import TENSOR_TYPES, GgufFile, GgufTensor, read_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_values import Array, tensor_values
from zoolens.inventory.runtimes.llamacpp.llama_tensors import in_halves, transformers_name, turned_heads
from zoolens.testing.onnx_language_models import onnx_copy

TYPES = ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0")
FLOATS = ("F32", "F16", "BF16")
OUTPUTS = ("token_embd.weight", "output.weight")
BLOCKS = {type_.name: type_.block for type_ in TENSOR_TYPES.values()}


def type_in_copy(tensor: GgufTensor, wanted: str) -> str:
    """The type of a tensor in a copy whose matrices are of the wanted type."""
    if len(tensor.shape) < 2:
        return "F32"
    type_ = "Q8_0" if tensor.name in OUTPUTS and wanted not in FLOATS else wanted
    return type_ if tensor.shape[-1] % BLOCKS[type_] == 0 else "F32"


def copies(source: Path, folder: Path, types: Sequence[str] = TYPES) -> list[Path]:
    """A copy of the file in each type."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for wanted in types:
        target = folder / f"{wanted}.gguf"
        copy_gguf(source, target, lambda tensor, wanted=wanted: type_in_copy(tensor, wanted))
        made.append(target)
    return made


class OffGrid:
    """The same network from other numbers: what is multiplied into one tensor is divided out of another."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, read_gguf(path)
        self.settings = read_settings(self.file)
        self.tensors = {tensor.name: tensor for tensor in self.file.tensors}
        if any(name.endswith(".bias") for name in self.tensors) or self.file.architecture != "llama":
            raise ModelError(f"{path.name} is no llama without biases, which alone are rewritten.")

    def change(self, tensor: GgufTensor, values: Array) -> Array:
        block, _, name = tensor.name.removesuffix(".weight").rpartition(".")
        if name in ("attn_norm", "ffn_norm"):
            return np.ones_like(values)
        if name in ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"):
            values = self._normed(block, name, values)
        if name == "attn_v":
            return values * self._scales(block, "attn_v", "attn_output")[:, None]
        if name == "ffn_up":
            return values * self._scales(block, "ffn_up", "ffn_down")[:, None]
        if name == "attn_output":
            return values / self._over_heads(self._scales(block, "attn_v", "attn_output"))
        if name == "ffn_down":
            return values / self._scales(block, "ffn_up", "ffn_down")
        return values

    def _values(self, block: str, name: str) -> Array:
        return tensor_values(self.path, self.tensors[f"{block}.{name}.weight"])

    def _normed(self, block: str, name: str, values: Array) -> Array:
        return values * self._values(block, f"{name.partition('_')[0]}_norm")

    def _scales(self, block: str, first: str, second: str) -> Array:
        """By what the rows of the first matrix are multiplied, so that they are as long as the columns behind them."""
        rows = np.abs(self._normed(block, first, self._values(block, first))).max(axis=1)
        columns = np.abs(self._values(block, second)).max(axis=0)
        if first == "attn_v":
            shape = self.settings.key_heads, -1, self.settings.head_width
            columns = columns.reshape(shape).max(axis=1).reshape(-1)
        return np.sqrt((columns + np.float32(1e-9)) / (rows + np.float32(1e-9)))

    def _over_heads(self, scales: Array) -> Array:
        """Scales of the values of each head of keys, for every head of queries that it serves."""
        own = self.settings
        by_head = scales.reshape(own.key_heads, 1, own.head_width)
        return by_head.repeat(own.heads // own.key_heads, axis=1).reshape(-1)


def off_grid(source: Path, target: Path) -> Path:
    copy_gguf(source, target, lambda _: "F32", OffGrid(source).change)
    return target


# --- transformers


def transformers_folder(source: Path, folder: Path, dtype: str) -> Path:
    """The model as a folder of transformers: weights as safetensors, configuration and tokenizer."""
    file = read_gguf(source)
    write_configuration(file, folder, dtype)
    write_safetensors(source, file, folder / "model.safetensors", dtype)
    return folder


def onnx_folder(source: Path, folder: Path) -> Path:
    """The model as an ONNX file, beside the files that say what it is."""
    write_configuration(read_gguf(source), folder, "float32")
    onnx_copy(source, folder / "model.onnx")
    return folder


def write_configuration(file: GgufFile, folder: Path, dtype: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = configuration(file, dtype)
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
    (folder / "tokenizer.json").write_text(tokenizer_json(file), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_configuration(file), indent=1), "utf-8")


def tokenizer_configuration(file: GgufFile) -> dict[str, Any]:
    """What others than zoolens want to know of the tokenizer: which tokens begin and end a text, and the template."""
    words = file.texts("tokenizer.ggml.tokens") or ()
    found: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for name, key in (("bos_token", "bos"), ("eos_token", "eos")):
        number = file.number(f"tokenizer.ggml.{key}_token_id")
        if number is not None and 0 <= number < len(words):
            found[name] = words[number].decode("utf-8", "replace")
    template = file.text("tokenizer.chat_template")
    return found if template is None else {**found, "chat_template": template}


def configuration(file: GgufFile, dtype: str) -> dict[str, Any]:
    own = read_settings(file)
    if file.architecture != "llama" or own.rope_scaling or any("rope" in tensor.name for tensor in file.tensors):
        raise ModelError(f"{file.name} is no llama with positions as they are, which alone are written.")
    names = {tensor.name: tensor for tensor in file.tensors}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": own.width,
        "intermediate_size": own.inner,
        "num_hidden_layers": own.layers,
        "num_attention_heads": own.heads,
        "num_key_value_heads": own.key_heads,
        "head_dim": own.head_width,
        "rms_norm_eps": own.epsilon,
        "rope_theta": own.rope_base,
        "vocab_size": names["token_embd.weight"].shape[0],
        "max_position_embeddings": file.context_length,
        "tie_word_embeddings": "output.weight" not in names,
        "attention_bias": "blk.0.attn_q.bias" in names,
        "mlp_bias": False,
        "bos_token_id": file.number("tokenizer.ggml.bos_token_id"),
        "eos_token_id": file.number("tokenizer.ggml.eos_token_id"),
        "torch_dtype": dtype,
    }


def write_safetensors(source: Path, file: GgufFile, target: Path, dtype: str) -> None:
    width = {"float32": 4, "bfloat16": 2}[dtype]
    own = read_settings(file)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for tensor in file.tensors:
        name = transformers_name(tensor.name)
        if name is None:
            raise ModelError(f"The tensor {tensor.name} has no name in transformers that is known here.")
        listed = {"F32": 4, "BF16": 2}
        kind = next(kind for kind, size in listed.items() if size == width)
        end = place + tensor.size * width
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [place, end]}
        place = end
    content = json.dumps(header).encode()
    content += b" " * (-len(content) % 8)
    with target.open("wb") as out:
        out.write(struct.pack("<Q", len(content)) + content)
        for tensor in file.tensors:
            values = tensor_values(source, tensor)
            heads = turned_heads(transformers_name(tensor.name) or "", own.heads, own.key_heads)
            values = values if heads is None else in_halves(values, heads)
            out.write(values.tobytes() if width == 4 else rounded_to_bfloat16(values).tobytes())


def rounded_to_bfloat16(values: Array) -> Any:
    """The upper halves, rounded to even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype("<u2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--transformers", default="", help="float32, bfloat16 or both")
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--off-grid", action="store_true")
    asked = parser.parse_args()
    source = asked.model
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.off_grid:
        source = off_grid(source, asked.folder / "reference.gguf")
    for path in copies(source, asked.folder, [name for name in asked.types.split(",") if name]):
        print(f"{path}  {path.stat().st_size:,} bytes")
    for dtype in filter(None, asked.transformers.split(",")):
        print(transformers_folder(source, asked.folder / f"transformers-{dtype}", dtype))
    if asked.onnx:
        print(onnx_folder(source, asked.folder / "onnx"))


if __name__ == "__main__":
    main()
