"""How many prompts `zoolens verify-endpoint` needs, on real llama.cpp servers, and how often it is wrong.

    python -m scripts.copy_language_model MODEL.gguf FOLDER --types Q8_0,Q4_0 --off-grid
    python -m benchmarks.endpoints FOLDER [--honest 20] [--sessions 5] [--simulated 1000] [--cases honest,Q4 …]

Each session asks other prompts. Servers are those of xllamacpp, in processes of their own with one thread.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import zoolens
from zoolens.base.verdicts.verdict import Outcome
from zoolens.findings.endpoints.hypothesis import Hypothesis, Standing
from zoolens.findings.endpoints.questions import kind_of_next
from zoolens.findings.endpoints.verification_words import sentence
from zoolens.inventory.runtimes.llamacpp.gguf_file import read_gguf
from zoolens.testing.llama_server import llama_server
from zoolens.testing.temperature_proxy import cooled

CLAIMED, SMALLER, TUNED = "Q8_0.gguf", "Q4_0.gguf", "tuned.gguf"
CONTEXT = 96  # tokens of long prompts, but for the case of a shortened context
NOISE = 0.02  # standard deviation of what the scales of a "fine-tuned" copy are multiplied by, around 1
_BLOCK = 34  # bytes of a block of Q8_0, of which the first two are the scale
PERSON = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


@dataclass(frozen=True)
class Case:
    served: str
    wanted: Outcome
    server: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    temperature: float = 1.0


CASES = {
    "honest": Case(CLAIMED, Outcome.SAME),
    "honest, chat": Case(CLAIMED, Outcome.SAME, asked={"chat": True}),
    "Q4_0 behind the name of Q8_0": Case(SMALLER, Outcome.DIFFERENT),
    "another chat template": Case(CLAIMED, Outcome.DIFFERENT, {"chat_template": PERSON}, {"chat": True}),
    "a context of 256 instead of 300": Case(CLAIMED, Outcome.DIFFERENT, {"n_ctx": 256}, {"context": 300}),
    "scales off by 2 %": Case(TUNED, Outcome.DIFFERENT),
    "temperature 0.6 instead of 1": Case(CLAIMED, Outcome.DIFFERENT, asked={"by": "tokens"}, temperature=0.6),
}


@contextmanager
def serving(folder: Path, case: Case) -> Iterator[str]:
    with ExitStack() as stack:
        address = stack.enter_context(llama_server(folder / case.served, **case.server))
        yield address if case.temperature == 1 else stack.enter_context(cooled(address, case.temperature))


def run(folder: Path, name: str, sessions: int) -> str:
    case = CASES[name]
    counts, right, wrong = [], 0, 0
    with serving(folder, case) as address:
        for seed in range(sessions):
            settings = {"context": CONTEXT, "threads": 1, "keep": False, "seed": seed, **case.asked}
            found = zoolens.verify_endpoint(address, str(folder / CLAIMED), **settings)
            outcome = found.verdict.outcome
            counts.append(len(found.asked))
            right += outcome is case.wanted
            wrong += outcome not in (case.wanted, Outcome.NOT_KNOWN)
            print(f"  {name} {seed}: {sentence(found)}", flush=True)
    return f"{name:34}{sessions:9}{right:7}{wrong:7}{statistics.median(counts):10g}{max(counts):6}"


def tune(folder: Path) -> None:
    """A copy of the claimed model whose weights are a little off, block by block."""
    content = bytearray((folder / CLAIMED).read_bytes())
    random = np.random.default_rng(0)
    for tensor in read_gguf(folder / CLAIMED).tensors:
        if tensor.type.name == "Q8_0" and tensor.name.startswith("blk."):
            blocks = np.frombuffer(content, np.uint8, tensor.nbytes, tensor.offset).reshape(-1, _BLOCK)
            scales = blocks[:, :2].copy().view("<f2")
            noisy = scales.astype(np.float32) * (1 + NOISE * random.standard_normal(scales.shape))
            blocks[:, :2] = noisy.astype("<f2").view(np.uint8)
    (folder / TUNED).write_bytes(content)


def simulated(sessions: int) -> str:
    """Honest sessions at the edge of what is granted: each hundredth prompt exceeds the allowance."""
    random = np.random.default_rng(0)
    own = np.exp(random.normal(0, 2.5, (64, 40)))
    own /= own.sum(axis=1, keepdims=True)
    standings = []
    for _ in range(sessions):
        session = Hypothesis("m", 0.01, 0.02, 0.005)
        for number in range(300):
            session.add_distance(0.05 if random.random() < 0.01 else 0.001, long=kind_of_next(number))
            chances = own[random.integers(len(own))]
            session.add_token(chances, {}, int(random.choice(len(chances), p=chances)), random.random())
            if session.standing is not Standing.OPEN:
                break
        standings.append(session.standing)
    rejected, fits = standings.count(Standing.REJECTED), standings.count(Standing.FITS)
    return f"simulated honest sessions: {sessions:,}, of which rejected {rejected}, taken for the model {fits}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--honest", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--simulated", type=int, default=1000)
    parser.add_argument("--cases", default="", help="beginnings of names of cases, with commas between")
    given = parser.parse_args()
    if not (given.folder / TUNED).exists():
        tune(given.folder)
    wanted = tuple(given.cases.split(",")) if given.cases else ("",)
    lines = [simulated(given.simulated)] if given.simulated else []
    lines.append(f"{'case':34}{'sessions':>9}{'right':>7}{'wrong':>7}{'median':>10}{'most':>6}  prompts")
    for name, case in CASES.items():
        if name.startswith(wanted):
            lines.append(run(given.folder, name, given.honest if case.wanted is Outcome.SAME else given.sessions))
            print(lines[-1], flush=True)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
