"""How far copies of a language model lie from the original, and which groups of tensors it comes from.

    python -m scripts.language_model_kl REFERENCE.gguf COPY.gguf… --text FILE [--passages 4] [--size 1000]
    python -m scripts.language_model_kl REFERENCE.gguf COPY.gguf --text FILE --groups

For each copy: the Kullback–Leibler divergence of the copy from the reference in nats, over the whole vocabulary and all
positions of the passages, the share of positions with another best token, and the bits of a value. Both run in
llama.cpp as they are. From 100 passages on, 95 % intervals over passages, and the difference from the copy in the line
above on the same passages.

With `--groups` one group of tensors after the other gets back the reference's values and type, and the rest stays as
it is in the copy: what the divergence falls by is what quantising that group costs. The parts need not add up.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.statistics.intervals import Interval
from zoolens.base.statistics.resampling import AT_LEAST_0, Counts, Limits, resampled_estimates
from zoolens.inventory.catalog.gguf_tokenizer import tokenizer_json
from zoolens.inventory.datasets.passages import cut_passages
from zoolens.inventory.runtimes.llamacpp.gguf_copy import copy_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufTensor, read_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_values import tensor_values
from zoolens.inventory.runtimes.llamacpp.llamacpp_runtime import LlamaCpp
from zoolens.inventory.runtimes.runtime import ModelFiles

Logits = NDArray[np.float32]
ANYTHING: Limits = (float("-inf"), float("inf"))
GROUPS = {
    "queries and keys": ("attn_q.", "attn_k."),
    "values": ("attn_v.",),
    "output of attention": ("attn_output.",),
    "gate and up": ("ffn_gate.", "ffn_up."),
    "down": ("ffn_down.",),
    "tokens and output": ("token_embd.", "output."),
}


@dataclass(frozen=True)
class Distance:
    """How far a copy lies from the reference. `of_passages`: the nats of each passage, and its positions."""

    kl: float  # nats, the mean over positions
    parted: float  # share of positions with another best token
    of_passages: NDArray[np.float64] = field(compare=False, repr=False)

    @property
    def interval(self) -> Interval | None:
        return interval_of_ratio(self.of_passages, AT_LEAST_0)

    def less_than(self, other: Distance) -> tuple[float, Interval | None]:
        """How many nats less than another copy on the same passages."""
        nats = other.of_passages[:, 0] - self.of_passages[:, 0]
        return other.kl - self.kl, interval_of_ratio(np.column_stack([nats, self.of_passages[:, 1]]))


def interval_of_ratio(of_passages: NDArray[np.float64], limits: Limits = ANYTHING) -> Interval | None:
    """The interval of the sum of the first column by that of the second, by resampling passages."""

    def aggregate(weights: Counts) -> NDArray[np.float64]:
        total = weights @ of_passages
        return np.asarray(total[:, :1] / total[:, 1:], np.float64)

    return resampled_estimates(aggregate, len(of_passages), [limits])[0].interval


def texts_as_ids(model: Path, text: str, size: int, count: int) -> list[NDArray[np.int32]]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json(read_gguf(model)))
    passages = [passage for passage in cut_passages(text, size) if passage.strip()][:count]
    return [np.array([tokenizer.encode(passage).ids], np.int32) for passage in passages]


def logits_of(model: Path, texts: Sequence[NDArray[np.int32]]) -> Iterator[Logits]:
    with LlamaCpp().open(ModelFiles("gguf", {"model": model})) as session:
        for ids in texts:
            yield session.predict({"tokens": ids})["logits"][0]


def log_softmax(logits: Logits) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    answer: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return answer


def distance(reference: Sequence[Logits], copy: Iterator[Logits]) -> Distance:
    divergences, parted = [], []
    for ours, theirs in zip(reference, copy, strict=True):
        left, right = log_softmax(ours), log_softmax(theirs)
        divergences.append((np.exp(left) * (left - right)).sum(axis=-1))
        parted.append(ours.argmax(axis=-1) != theirs.argmax(axis=-1))
    of_passages = np.array([(each.sum(), len(each)) for each in divergences])
    return Distance(float(np.concatenate(divergences).mean()), float(np.concatenate(parted).mean()), of_passages)


def bits(model: Path) -> float:
    file = read_gguf(model)
    return 8 * sum(tensor.nbytes for tensor in file.tensors) / file.parameters


def restored(reference: Path, copy: Path, target: Path, names: Sequence[str]) -> Path:
    """The copy with the reference's values in tensors that have one of these names."""
    originals = {tensor.name: tensor for tensor in read_gguf(reference).tensors}

    def of_group(tensor: GgufTensor) -> bool:
        own = tensor.name.rpartition("blk.")[2].lstrip("0123456789.")
        return tensor.name in originals and own.startswith(tuple(names))

    copy_gguf(
        copy,
        target,
        lambda tensor: originals[tensor.name].type.name if of_group(tensor) else tensor.type.name,
        lambda tensor, _: tensor_values(reference, originals[tensor.name]) if of_group(tensor) else None,
    )
    return target


def cost_of_groups(reference: Path, copy: Path, texts: Sequence[NDArray[np.int32]]) -> dict[str, Distance]:
    """How far the copy is from the reference as it is (""), and with each group restored."""
    originals = list(logits_of(reference, texts))
    found = {"": distance(originals, logits_of(copy, texts))}
    for name, members in GROUPS.items():
        with tempfile.TemporaryDirectory(dir=copy.parent) as folder:
            path = restored(reference, copy, Path(folder) / "restored.gguf", members)
            found[name] = distance(originals, logits_of(path, texts))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", type=Path)
    parser.add_argument("copies", type=Path, nargs="+")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=4)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--groups", action="store_true")
    asked = parser.parse_args()
    text = asked.text.read_text("utf-8")
    texts = texts_as_ids(asked.reference, text, asked.size, asked.passages)
    if not texts:
        raise ModelError(f"{asked.text} has no text.")
    print(f"{len(texts)} passages, {sum(ids.size for ids in texts)} tokens")
    if asked.groups:
        found = cost_of_groups(asked.reference, asked.copies[0], texts)
        whole = found.pop("").kl
        print(f"{'as it is':22}{whole:10.5f}")
        for name, each in sorted(found.items(), key=lambda item: item[1].kl):
            print(f"{name:22}{each.kl:10.5f}{100 * (whole - each.kl) / whole:8.1f} % less", flush=True)
        return
    originals = list(logits_of(asked.reference, texts))
    print(f"{'copy':12}{'bits':>8}{'KL, nats':>12}{'[95 %]':>22}{'best token':>12}   less than the line above by")
    above: Distance | None = None
    for path in asked.copies:
        each = distance(originals, logits_of(path, texts))
        less, between = each.less_than(above) if above is not None else (None, None)
        fewer = "" if less is None else f"   {less:.6f} {_bracketed(between)}"
        print(f"{path.stem:12}{bits(path):8.2f}{each.kl:12.6f}{_bracketed(each.interval):>22}"
              f"{100 * each.parted:10.1f} %{fewer}", flush=True)  # fmt: skip
        above = each


def _bracketed(interval: Interval | None) -> str:
    return "" if interval is None else f"[{interval.low:.6f}, {interval.high:.6f}]"


if __name__ == "__main__":
    main()
