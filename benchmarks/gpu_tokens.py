"""Language models on a GPU: time to the first token, tokens per second and joules per token in torch, in float32 and in
bfloat16, in eager modes and as CUDA graphs, beside a loop by hand and beside the time in which the memory could give
what has to be read. What graphs answer is held against what the eager mode of the same precision answers.

    python benchmarks/gpu_tokens.py                    # needs a GPU, torch and transformers
    python benchmarks/gpu_tokens.py --shape tiny --device cpu --modes eager --cases 32x1   # where there is no GPU
    python benchmarks/gpu_tokens.py --wheels .gpu-deps # with packages that are not installed, from wheels in a folder

Weights are random: their values do not change the time. A step of decoding reads all weights once, and the keys and
values of the tokens before. The roof is the rate at which the device copies a gigabyte, measured in the same run.
Joules are those of the whole device and the processor, idle power included, over five seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 1000},
    "135M": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
             "num_key_value_heads": 3, "vocab_size": 49152},  # SmolLM2-135M
    "1B": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256},  # Llama 3.2 1B
    "3B": {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24,
           "num_key_value_heads": 8, "vocab_size": 128256},  # Llama 3.2 3B
}  # fmt: skip
COMMON = {"max_position_embeddings": 8192, "tie_word_embeddings": True}
STEPS = 64  # of decoding, after two that are not counted
ROUNDS = 3  # of everything; the median counts
COMPARED = 300  # tokens whose distributions are compared, so that a memory of 256 tokens has to grow
GRAPHS = ("cuda-graphs", "bfloat16-cuda-graphs")
NATS = {"float32": 1e-3, "bfloat16": 0.25}  # the most that two ways to compute the same may differ


@dataclass(frozen=True)
class Case:
    context: int  # tokens of the prompt of each sequence
    sequences: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=tuple(SHAPES), action="append")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--modes", default="eager,cuda-graphs,bfloat16,bfloat16-cuda-graphs")
    parser.add_argument("--cases", default="128x1,4096x1,128x16,1024x64", help="tokens of the prompt × sequences")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to unpack and import from")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpu-tokens-") as folder:
        if chosen.wheels:
            from wheels import unpacked

            sys.path[:0] = [
                str(Path(__file__).parent.parent / "src"),
                str(unpacked(chosen.wheels, Path(folder, "packages"))),
            ]
        for shape in chosen.shape or ("135M", "1B", "3B"):
            measure(chosen, shape, Path(folder))


def measure(chosen: argparse.Namespace, shape: str, folder: Path) -> None:
    from zoolens.inventory.runtimes.runtime import Options
    from zoolens.inventory.runtimes.torch.torch_runtime import Torch

    files, parameters = network(shape, folder, chosen.device)
    roof = copied(chosen.device)
    print(f"\n{shape}: {parameters:,} parameters; the device copies {roof / 1e12:.2f} TB/s" if roof else f"\n{shape}")
    print(f"{'':21}{'prompt':>8}{'rows':>5}{'first token':>12}{'prompt/s':>10}{'decode/s':>10}{'by hand':>9}"
          f"{'ratio':>7}{'of roof':>9}{'J/token':>9}{'J/prompt token':>16}")  # fmt: skip
    hands: dict[Any, float] = {}  # steps by hand, once for each precision
    for mode in chosen.modes.split(","):
        # Nothing is rounded to TF32, so that float32 says what it is.
        precision = "default" if "bfloat16" in mode else "float32"
        options = Options(device=chosen.device, mode=mode, precision=precision)
        with empty_weights(), Torch().open(files, options) as session:
            if mode in GRAPHS:
                compare(session, mode)
            for case in cases(chosen.cases):
                row(chosen, session, SHAPES[shape], parameters, case, mode, roof, hands)
    files.path().unlink()


def row(
    chosen: argparse.Namespace,
    session: Any,
    shape: dict[str, Any],
    parameters: int,
    case: Case,
    mode: str,
    roof: float | None,
    hands: dict[Any, float],
) -> None:
    prompt = np.random.default_rng(0).integers(0, shape["vocab_size"], (case.sequences, case.context))
    firsts, steps = [], []
    for _ in range(ROUNDS):
        firsts.append(timed(lambda: session.extend(prompt, 0)))
        steps.append(decoding(session, case))
    first, step = float(np.median(firsts)), float(np.median(steps))
    known = precision_of(mode), case
    if mode not in GRAPHS:
        hands[known] = by_hand(session, prompt, chosen.device)
    hand = hands.get(known)
    by = f"{case.sequences / hand:>9,.0f}{hand / step:>7.2f}" if hand else f"{'–':>9}{'–':>7}"
    width = 2 if "bfloat16" in mode else 4
    keys = (
        2
        * shape["num_hidden_layers"]
        * shape["num_key_value_heads"]
        * shape["hidden_size"]
        // shape["num_attention_heads"]
    )
    read = width * (parameters + case.sequences * keys * (case.context + STEPS // 2))
    share = "" if roof is None else f"{100 * read / roof / step:.0f} %"
    # Graphs read prompts as eager modes do.
    read_in = "–" if mode in GRAPHS else joules(lambda: session.extend(prompt, 0), prompt.size, chosen.device)
    session.extend(prompt, 0)
    one = prompt[:, :1]
    written = joules(lambda: session.extend(one, case.context), case.sequences, chosen.device)
    print(f"{mode:21}{case.context:>8,}{case.sequences:>5}{1e3 * first:>9.1f} ms{prompt.size / first:>10,.0f}"
          f"{case.sequences / step:>10,.0f}{by}"
          f"{share:>9}{written:>9}{read_in:>16}", flush=True)  # fmt: skip


def precision_of(mode: str) -> str:
    return "bfloat16" if "bfloat16" in mode else "float32"


def decoding(session: Any, case: Case) -> float:
    """Seconds of one step, each with the most likely token of the one before."""
    found = session.extend(np.ones((case.sequences, 1), np.int64))
    for place in range(STEPS + 2):
        if place == 2:
            began = time.perf_counter()
        found = session.extend(found.argmax(axis=1)[:, None])
    return (time.perf_counter() - began) / STEPS


def by_hand(session: Any, prompt: np.ndarray, device: str) -> float:
    """Seconds of one step of what one writes with transformers alone, on the same network in the same precision. Tokens
    stay on the device."""
    import torch
    from transformers import DynamicCache

    module, times = session._module, []
    with torch.inference_mode():
        for _ in range(ROUNDS):
            cache = DynamicCache()
            tokens = torch.from_numpy(prompt).to(device)
            tokens = (
                module(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
                .logits[:, -1:]
                .argmax(-1)
            )
            for place in range(STEPS + 2):
                if place == 2:
                    waited(device)
                    began = time.perf_counter()
                answer = module(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
                tokens = answer.logits[:, -1:].argmax(-1)
            waited(device)
            times.append((time.perf_counter() - began) / STEPS)
    return float(np.median(times))


def joules(call: Callable[[], object], tokens: int, device: str) -> str:
    from zoolens.findings.measure.energy import GPU_SECONDS, energy_observations

    (found,) = energy_observations(call, tokens, seconds=GPU_SECONDS, device=device)
    if found.value is None:
        print(f"no energy: {found.details.get('reason')}")
        return "–"
    return f"{found.value / tokens:.3g}"


def compare(session: Any, mode: str) -> None:
    """Hold the distributions after each token of one text, which follows the most likely ones, against those of the
    same network in the eager mode."""
    from zoolens.inventory.runtimes.torch.torch_sequences import CachedSequences

    eager = CachedSequences(session._torch, session._module, session._device)
    new = np.arange(8)[None]
    apart, same = [], 0
    for place in range(COMPARED + 1):
        kept = None if place else 0
        with session._running():
            theirs = eager.extend(new, kept)
        ours = session.extend(new, kept)
        apart.append(float(np.abs(ours - theirs).max()))
        same += int(ours.argmax() == theirs.argmax())
        new = theirs.argmax(axis=1)[:, None]
    print(f"{mode}: {same} of {len(apart)} greedy tokens as in the eager mode; log-probabilities up to "
          f"{max(apart):.2g} nats apart", flush=True)  # fmt: skip
    if max(apart) > NATS[precision_of(mode)]:
        raise SystemExit(f"more than {NATS[precision_of(mode)]} nats apart")


@contextmanager
def empty_weights() -> Iterator[None]:
    """Random numbers that a file's weights replace take a processor half a minute for a large network."""
    import torch

    names = ("normal_", "uniform_")
    before = [getattr(torch.Tensor, name) for name in names]
    for name in names:
        setattr(torch.Tensor, name, lambda tensor, *_, **__: tensor)
    try:
        yield
    finally:
        for name, method in zip(names, before, strict=True):
            setattr(torch.Tensor, name, method)


def network(shape: str, folder: Path, device: str) -> tuple[Any, int]:
    """The files of a network with random weights, and how many numbers a step of decoding reads."""
    import torch
    from safetensors.torch import save_file

    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

    with suppress(ImportError):  # transformers imports it where it is installed
        import_torchvision(with_compiler=False)
    from transformers import LlamaConfig, LlamaForCausalLM

    from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec

    settings = {**SHAPES[shape], **COMMON}
    with torch.device("meta"):
        module = LlamaForCausalLM(LlamaConfig(**settings))
    random = torch.Generator(device).manual_seed(0)
    weights = {
        name: (0.02 * torch.randn(value.shape, generator=random, device=device)).to(torch.bfloat16).cpu()
        for name, value in module.state_dict().items()
        if name != "lm_head.weight"  # the embedding again
    }
    path = folder / f"{shape}.safetensors"
    save_file(weights, path)
    files = ModelFiles(
        "torch-state-dict",
        {"model": path},
        architecture={"library": "transformers", "name": "LlamaForCausalLM", "arguments": settings},
        inputs=(TensorSpec("input_ids", (None, None), "int64"),),
        outputs=(TensorSpec("logits", (None, None, None), "float32"),),
    )
    return files, sum(value.numel() for value in weights.values())


def copied(device: str) -> float | None:
    if device == "cpu":
        return None
    from zoolens.inventory.runtimes.torch.device_peaks import copies

    # Small copies stay in the device's cache and are quicker than its memory.
    return float([each["per_second"] for each in copies(device)][-1])


def cases(text: str) -> Iterator[Case]:
    for each in text.split(","):
        context, _, sequences = each.partition("x")
        yield Case(int(context), int(sequences))


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def waited(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
