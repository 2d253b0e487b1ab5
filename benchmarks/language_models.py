"""Are log-likelihoods those of lm-evaluation-harness and of transformers by hand, and how long does each take?

    python benchmarks/language_models.py MODEL TEXT --peer PYTHON [--passages 40] [--questions 40] [--rounds 3]

MODEL is a folder of transformers with safetensors, or `random` for a tiny network with random weights. TEXT is a plain
text. PYTHON is the interpreter of an environment with torch, transformers and lm-eval; without it only transformers
is compared.

- Passages of 1,000 bytes, whose first token is foreseen from the token for the beginning, as lm-eval's
  `loglikelihood_rolling` does: nats of each passage.
- Questions with four choices, which are the ends of four lines of the text: nats of each choice, as lm-eval's
  `loglikelihood`.

Time is that of whole processes, in turns: `zoolens.evaluate` into a new store, without timings, and a script that
calls lm-eval's own model class on the same texts and does nothing else (`peers/lm_eval_peer.py`). The least of the
rounds counts. The exit status is 1 where values differ by more than 1e-4 nats a token, or where zoolens takes longer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from zoolens.base.store.store import open_store
from zoolens.findings.measure.answers import run_predictions
from zoolens.inventory.datasets.passages import cut_passages
from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

PEER = Path(__file__).parent / "peers" / "lm_eval_peer.py"
SIZE = 1000  # bytes of a passage
MOST = 1e-4  # nats a token
WORDS = 6  # of a choice
Nats = list[list[float]]
# `zoolens eval` always times a model, too.
EVALUATION = """
import sys, zoolens
model, data, store = sys.argv[1:]
(outcome,) = zoolens.evaluate(model, data, runtimes="torch", batches=(), cold=False, store=store)
sys.exit("; ".join(outcome.errors) or None)
"""


# --- the material


def model_in(folder: Path, named: str) -> Path:
    """A copy of the model whose tokenizer adds a token for the beginning, and one with the tokenizer as it is."""
    if named == "random":
        make_random(folder / "plain")
    else:
        shutil.copytree(named, folder / "plain")
    begins = folder / "begins"
    shutil.copytree(folder / "plain", begins)
    path = begins / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    token, number = beginning(folder / "plain")
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }
    own = content.get("post_processor")
    both = {"type": "Sequence", "processors": [own, template]}
    content["post_processor"] = both if own else template
    path.write_text(json.dumps(content), "utf-8")
    return folder


def beginning(folder: Path) -> tuple[str, int]:
    """The token that lm-eval takes for the beginning: that of the tokenizer, else the one for the end."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    number = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    return tokenizer.convert_ids_to_tokens(number), number


def make_random(folder: Path) -> None:
    """A llama of 2 layers with random weights, and a tokenizer of bytes."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: place for place, word in enumerate([*letters, "<s>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>"])
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<s>").save_pretrained(
        folder
    )
    config = transformers.LlamaConfig(
        vocab_size=257, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.4,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def questions(text: str, count: int) -> list[dict[str, Any]]:
    """The beginnings of lines with four ends, of which one is the line's own."""
    lines = [line.split() for line in text.splitlines() if 20 <= len(line.split()) <= 80][: count + 3]
    found = []
    for place in range(min(count, len(lines) - 3)):
        ends = [" ".join(lines[place + step][-WORDS:]) for step in range(4)]
        right = place % 4
        ends[0], ends[right] = ends[right], ends[0]
        found.append({"context": " ".join(lines[place][:-WORDS]), "choices": ends, "answer": right})
    return found


# --- three ways


def of_zoolens(folder: Path, data: str, store: Path) -> float:
    """Seconds of a whole evaluation, without timings."""
    return timed([sys.executable, "-c", EVALUATION, str(folder / "model.yaml"), data, str(store)])


def kept_nats(store: Path, column: str) -> Nats:
    with open_store(store) as opened:
        (run,) = opened.runs()
        rows = run_predictions(opened, run).main.columns[column]
        return [np.asarray(rows[place], np.float64).tolist() for place in range(len(rows))]


def of_peer(python: str, folder: Path, asked: Path, answer: Path) -> float:
    return timed([python, str(PEER), str(folder), str(asked), str(answer)])


def timed(command: Sequence[str]) -> float:
    started = time.perf_counter()
    around = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=around)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return seconds


def by_hand(folder: Path, texts: Sequence[str]) -> Nats:
    """The log-probability of each token of each text, by transformers in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    with torch.no_grad():
        for text in texts:
            ids = torch.tensor([[beginning(folder)[1], *tokenizer(text, add_special_tokens=False)["input_ids"]]])
            logs = torch.log_softmax(network(ids).logits[0, :-1].double(), dim=-1)
            found.append(logs[torch.arange(ids.shape[1] - 1), ids[0, 1:]].tolist())
    return found


# --- what is compared


def largest(ours: Nats, theirs: Nats) -> float:
    """The largest difference of two sums, in nats a token."""
    pairs = zip(ours, theirs, strict=True)
    return max(abs(sum(mine) - sum(other)) / max(len(mine), 1) for mine, other in pairs)


def report(what: str, difference: float) -> bool:
    print(f"{what:64} {difference:.1e}{'' if difference <= MOST else '  TOO FAR'}", flush=True)
    return difference > MOST


def in_turns(ways: Mapping[str, Any], rounds: int) -> dict[str, float]:
    """The least seconds of each way."""
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            best[name] = min(best.get(name, 1e9), way())
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--peer")
    parser.add_argument("--passages", type=int, default=40)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    text = chosen.text.read_text("utf-8")
    with suppress(ImportError):
        # transformers imports it where it is installed.
        import_torchvision(with_compiler=False)
    with tempfile.TemporaryDirectory() as name:
        sys.exit(compared(model_in(Path(name), chosen.model), text, chosen))


def compared(place: Path, text: str, chosen: argparse.Namespace) -> int:
    passages = list(cut_passages(text, SIZE))[: chosen.passages]
    book, asked, lists = (place / each for each in ("book.txt", "asked.jsonl", "texts.json"))
    book.write_text("".join(passages), "utf-8")
    given = questions(text, chosen.questions)
    asked.write_text("\n".join(map(json.dumps, given)), "utf-8")
    pairs = [[one["context"], f" {choice}"] for one in given for choice in one["choices"]]
    rolling, chosen_pairs = place / "rolling.json", place / "pairs.json"
    lists.write_text(json.dumps({"texts": list(cut_passages(book.read_text("utf-8"), SIZE)), "pairs": []}), "utf-8")
    chosen_pairs.write_text(json.dumps({"texts": [], "pairs": pairs}), "utf-8")
    for folder in ("plain", "begins"):
        timed([sys.executable, "-m", "zoolens", "manifest", "init", str(place / folder / "model.safetensors"),
               "-o", str(place / folder / "model.yaml")])  # fmt: skip
    failed = False
    for kind, folder, data, column, peer_input in (
        ("passages", "begins", f"passages:{book}?size={SIZE}", "true_logprob", lists),
        ("choices", "plain", f"choices:{asked}", "choice_logprobs", chosen_pairs),
    ):
        stores = iter(place / f"{kind}-{number}.sqlite" for number in range(chosen.rounds))
        last: list[Path] = []

        def ours(stores: Any = stores, last: list[Path] = last, folder: str = folder, data: str = data) -> float:
            last[:] = [next(stores)]
            return of_zoolens(place / folder, data, last[0])

        ways: dict[str, Any] = {"zoolens": ours}
        if chosen.peer:
            # The tokenizer as it is: lm-eval puts the token for the beginning there itself.
            ways["lm-eval"] = lambda given=peer_input: of_peer(chosen.peer, place / "plain", given, rolling)
        best = in_turns(ways, chosen.rounds)
        nats = kept_nats(last[0], column)
        if kind == "passages":
            hand = by_hand(place / "plain", json.loads(lists.read_text("utf-8"))["texts"])
            failed |= report("passages: nats a token, against transformers by hand", largest(nats, hand))
        if chosen.peer:
            theirs = json.loads(rolling.read_text("utf-8"))
            flat = nats if kind == "passages" else [[value] for row in nats for value in row]
            failed |= report(f"{kind}: nats a token, against lm-eval", largest(flat, [[value] for value in theirs]))
            ratio = best["zoolens"] / best["lm-eval"]
            print(f"{kind}: zoolens {best['zoolens']:.1f} s, lm-eval {best['lm-eval']:.1f} s, ratio {ratio:.2f}")
            failed |= ratio > 1
    return int(failed)


if __name__ == "__main__":
    main()
