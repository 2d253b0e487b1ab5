"""Does a language model in ONNX with past keys and values answer what transformers and llama.cpp do?

    python -m scripts.copy_language_model MODEL.gguf COPIES --types F32 --transformers float32 --onnx
    python benchmarks/onnx_language_model.py COPIES TEXT [--passages 3]

Passages of 1,000 bytes of TEXT: the log-probability of every next token in ONNX Runtime, against transformers by hand
and llama.cpp, all of them in float32. Then 24 tokens are written behind the first 40 of the text, with the most likely
token each time: in ONNX Runtime with kept keys and values and without, and in llama.cpp. The exit status is 1 where a
value differs by more than 1e-4 nats, or a written token does.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.inventory.runtimes.llamacpp.llamacpp_runtime import LlamaCpp
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, Session

SIZE = 1000  # bytes of a passage
GIVEN, WRITTEN = 40, 24
MOST = 1e-4  # nats a token
Ids = list[int]


def next_tokens(logits: Any, ids: Ids) -> Any:
    """The log-probabilities of the tokens that follow."""
    scores = logits[:-1].astype(np.float64)
    scores -= scores.max(axis=-1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return scores[np.arange(len(ids) - 1), ids[1:]]


def in_onnx(session: Session, ids: Ids) -> Any:
    tokens = np.array([ids], np.int64)
    return session.predict({"input_ids": tokens, "attention_mask": np.ones_like(tokens)})["logits"][0]


def written(session: Session, given: Ids) -> Ids:
    """What is written with keys and values kept."""
    after = session.extend(np.array([given], np.int32), 0)
    made: Ids = []
    for _ in range(WRITTEN):
        made.append(int(after[0].argmax()))
        after = session.extend(np.array([made[-1:]], np.int32))
    return made


def written_anew(session: Session, given: Ids) -> Ids:
    """What is written when each text is computed from its beginning."""
    text = list(given)
    for _ in range(WRITTEN):
        text.append(int(in_onnx(session, text)[-1].argmax()))
    return text[len(given) :]


def by_hand(folder: Path, texts: list[Ids]) -> list[Any]:
    import torch

    import_torchvision()
    from transformers import LlamaForCausalLM

    network = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return [next_tokens(network(torch.tensor([ids])).logits[0].numpy(), ids) for ids in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("copies", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--passages", type=int, default=3)
    asked = parser.parse_args()
    splitter = Tokenizer.from_file(str(asked.copies / "onnx" / "tokenizer.json"))
    content = asked.text.read_bytes()
    cuts = [content[place : place + SIZE] for place in range(0, asked.passages * SIZE, SIZE)]
    texts = [splitter.encode(cut.decode("utf-8", "ignore")).ids for cut in cuts]
    given = texts[0][:GIVEN]

    with OnnxRuntime().open(ModelFiles("onnx", {"model": asked.copies / "onnx" / "model.onnx"})) as session:
        ours = [next_tokens(in_onnx(session, ids), ids) for ids in texts]
        greedy = {"kept": written(session, given), "anew": written_anew(session, given)}
    files = ModelFiles("gguf", {"model": asked.copies / "F32.gguf"})
    with LlamaCpp().open(files, Options(precision="float32")) as session:
        answers = [session.predict({"tokens": np.array([ids], np.int32)})["logits"][0] for ids in texts]
        theirs = {"llama.cpp": [next_tokens(one, ids) for one, ids in zip(answers, texts, strict=True)]}
        greedy["llama.cpp"] = written(session, given)
    theirs["transformers"] = by_hand(asked.copies / "transformers-float32", texts)

    worst = 0.0
    for name, values in theirs.items():
        difference = max(float(np.abs(a - b).max()) for a, b in zip(ours, values, strict=True))
        worst = max(worst, difference)
        print(f"{name}: largest difference {difference:.1e} nats in {sum(map(len, ours)):,} tokens")
    same = len({tuple(tokens) for tokens in greedy.values()}) == 1
    print(f"{WRITTEN} tokens written {'alike' if same else 'differently'}: {splitter.decode(greedy['kept'])!r}")
    sys.exit(0 if same and worst <= MOST else 1)


if __name__ == "__main__":
    main()
