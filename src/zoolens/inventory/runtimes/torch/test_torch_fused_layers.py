"""Which layers are recognised, and that the kernels answer as the modules that they stand for."""

from __future__ import annotations

import copy
import ctypes

import numpy as np
import pytest

from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.runtimes.torch.test_torch_sequences import files, ids
from zoolens.inventory.runtimes.torch.torch_fused_layers import FusedLayers, is_layer
from zoolens.inventory.runtimes.torch.torch_kernels import KernelError, _compiled, _nvrtc
from zoolens.inventory.runtimes.torch.torch_runtime import Torch
from zoolens.inventory.runtimes.torch.torch_same_code import same_code
from zoolens.inventory.runtimes.torch.torch_sequences import CachedSequences

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 40, "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 1024, "initializer_range": 0.2,
}  # fmt: skip


def network(name="Llama", **settings):
    import_torchvision(with_compiler=False)
    kind = getattr(transformers, f"{name}ForCausalLM")
    return kind(kind.config_class(**{**SMALL, **settings})).eval()


def layers(module):
    return sum(is_layer(torch, each) for each in module.modules())


@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [
        ("Llama", {}, 2),
        ("Llama", {"num_key_value_heads": 4, "hidden_size": 128}, 2),
        pytest.param("Mistral", {"sliding_window": None}, 2, marks=pytest.mark.slow),
        pytest.param("Qwen2", {}, 2, marks=pytest.mark.slow),
        pytest.param("Qwen3", {}, 0, marks=pytest.mark.slow),  # norms of queries and keys
        pytest.param("Gemma", {}, 0, marks=pytest.mark.slow),  # norms by 1 + weight
        pytest.param("Granite", {}, 0, marks=pytest.mark.slow),  # factors of what is added
        ("Llama", {"hidden_act": "gelu"}, 0),
        ("Llama", {"attention_bias": True}, 0),
        ("Llama", {"mlp_bias": True}, 0),
        ("Llama", {"head_dim": 24}, 0),
        ("Llama", {"head_dim": 256}, 0),  # a key of 1,024 bytes
        ("Llama", {"hidden_size": 66, "num_attention_heads": 6}, 0),
        ("Llama", {"hidden_size": 72, "num_attention_heads": 18}, 0),
    ],
)
def test_layers_are_recognised_by_what_they_compute(name, settings, count):
    assert layers(network(name, **settings)) == count


def test_layers_that_somebody_changed_are_left_alone():
    def changed(change):
        module = network()
        change(module.model.layers[1])
        return layers(module)

    class Clipped(torch.nn.Linear):
        def forward(self, given):
            return super().forward(given).clamp(-1, 1)

    assert changed(lambda layer: None) == 2
    assert changed(lambda layer: setattr(layer.mlp, "forward", lambda given: given)) == 1
    assert changed(lambda layer: layer.self_attn.q_proj.register_forward_hook(lambda *_: None)) == 1
    assert changed(lambda layer: setattr(layer.mlp, "up_proj", Clipped(64, 48, bias=False))) == 1
    assert changed(lambda layer: layer.mlp.half()) == 1
    assert changed(lambda layer: layer.train()) == 1


def test_the_same_code_is_more_than_the_same_instructions():
    def adding(number):
        return lambda given: given + number

    def one(given):
        """Adds."""
        return given + 1

    def other(given):
        """Adds one."""
        return given + 1

    def another(given):
        return given + 1.0

    def default(given=1):
        return given + 1

    assert same_code(one, other)
    assert not same_code(one, another)
    assert not same_code(one, default)
    assert not same_code(adding(1), adding(2))
    assert not same_code(one, len)


def test_helpers_of_the_same_name_must_do_the_same():
    def made(source):
        names: dict = {}
        exec(source, names)
        return names["run"]

    twice = "def helper(x):\n    return 2 * x\ndef run(x):\n    return helper(x)"
    assert same_code(made(twice), made(twice))
    assert not same_code(made(twice), made(twice.replace("2 *", "3 *")))


@pytest.mark.parametrize("names", [(("NARROW", 1), ("HEAD", 128), ("GROUP", 3)), (("HEAD", 32), ("GROUP", 8))])
def test_the_kernels_compile_without_a_device(names):
    try:
        nvrtc = ctypes.CDLL("libnvrtc.so.13")
    except OSError:
        pytest.skip("NVRTC is not installed")
    assert _compiled(nvrtc, (9, 0), names).startswith(b"\x7fELF")
    with pytest.raises(KernelError, match="NVRTC does not compile them"):
        _compiled(nvrtc, (9, 0), (("HEAD", 128),))


def biased_files(folder, name, settings):
    """Networks of transformers begin with biases of zero."""
    made = files(folder, f"{name}ForCausalLM", {**SMALL, **settings})
    state = torch.load(made.path(), weights_only=True)
    random = torch.Generator().manual_seed(5)
    for key in [key for key in state if key.endswith("bias")]:
        state[key] = torch.randn(state[key].shape, generator=random)
    torch.save(state, made.path())
    return made


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("mode", ["cuda-graphs", "bfloat16-cuda-graphs"])
@pytest.mark.parametrize(
    ("name", "settings"),
    [("Llama", {}), ("Qwen2", {"hidden_size": 128}), ("Llama", {"head_dim": 128, "vocab_size": 44})],
)
def test_steps_are_as_near_to_the_exact_answer_as_those_of_torch(tmp_path, mode, name, settings):
    """Texts of 1 to 300 tokens, whose attention is made of up to five parts."""
    made, text, apart = biased_files(tmp_path, name, settings), ids(300), []
    with Torch().open(made, Options(device="cuda", mode=mode, precision="default")) as session:
        session.extend(text[:, :1], 0)
        assert len(session._sequences._keys._fused) == 2
        device = torch.device("cuda")
        eager = CachedSequences(torch, session._module, device)
        exact = CachedSequences(torch, copy.deepcopy(session._module).double(), device)
        for place in range(text.shape[1]):
            new, kept = text[:, place : place + 1], None if place else 0
            with session._running():
                theirs, best = eager.extend(new, kept), exact.extend(new, kept)
            ours = session.extend(new, kept)
            apart.append([np.abs(found - best).max() for found in (ours, theirs)])
    ours, theirs = np.max(apart, axis=0)
    assert ours < 1.5 * theirs + 1e-5


def test_torch_for_devices_of_other_makers_compiles_no_kernels(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(KernelError, match="not for CUDA"):
        _nvrtc(torch)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_kernels_that_do_not_compile_leave_torch_its_own(monkeypatch):
    from zoolens.inventory.runtimes.torch import torch_fused_layers

    def broken(*_):
        raise KernelError("NVRTC answers with error 5")

    monkeypatch.setattr(torch_fused_layers, "kernels", broken)
    with pytest.warns(RuntimeWarning, match="kernels of torch alone: NVRTC answers with error 5"):
        assert not len(FusedLayers(torch, network().cuda(), torch.device("cuda")))
