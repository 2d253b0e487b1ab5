"""Steps of decoding over a memory of fixed length answer as the whole forward does, and as a recording at every place.

Without a GPU, kernels are recorded by `make_fx`: numbers that Python reads while it records are constants then, as in
a CUDA graph.
"""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.inventory.runtimes.torch import torch_fixed_keys
from zoolens.inventory.runtimes.torch.test_torch_sequences import GPT2, LLAMA, MISTRAL, after, files, ids
from zoolens.inventory.runtimes.torch.torch_cuda import no_collection
from zoolens.inventory.runtimes.torch.torch_fixed_keys import fixed_length
from zoolens.inventory.runtimes.torch.torch_runtime import Torch
from zoolens.inventory.runtimes.torch.torch_sequences import CachedSequences

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


class Recorded:
    """A call whose kernels are recorded once and replayed with the same memory."""

    def __init__(self, call):
        self._call, self.recorded, self.replays = call, None, 0

    def __call__(self, given):
        from torch.fx.experimental.proxy_tensor import make_fx

        if self.recorded is None:
            self.recorded = make_fx(lambda given: self._call(given))(given)
        self.replays += 1
        return self.recorded(given)


def recorded_sequences(session, recordings=None):
    """Those of mode cuda-graphs, on the CPU."""
    session._call = session._module
    session._sequences = CachedSequences(torch, session._module, torch.device("cpu"), recorded=True)
    keys = session._sequences._keys
    if recordings is not None:
        step = keys._one_step
        made = keys.forget

        def forget():
            made()
            keys._step = Recorded(step)
            recordings.append(keys._step)

        keys.forget = forget
    return session._sequences


@pytest.mark.parametrize(
    ("name", "settings"),
    [("LlamaForCausalLM", LLAMA), pytest.param("GPT2LMHeadModel", GPT2, marks=pytest.mark.slow)],
)
def test_replayed_steps_answer_as_the_whole_forward(tmp_path, monkeypatch, name, settings):
    monkeypatch.setattr(torch_fixed_keys, "_SHORTEST", 16)
    texts, recordings = ids(40, rows=3), []
    with Torch().open(files(tmp_path, name, settings)) as session:
        recorded_sequences(session, recordings)
        session.extend(texts[:, :13])
        for end in range(14, 27):
            found = session.extend(texts[:, end - 1 : end])
            if end in (14, 15, 17, 26):
                np.testing.assert_allclose(found, after(session, texts[:, :end]), atol=2e-5)
        other = np.concatenate([texts[:, :12], ids(9, rows=3, seed=4)], axis=1)
        np.testing.assert_allclose(session.extend(other[:, 12:20], 12), after(session, other[:, :20]), atol=2e-5)
        np.testing.assert_allclose(session.extend(other[:, 20:]), after(session, other), atol=2e-5)
        np.testing.assert_allclose(session.extend(texts[:1, :5], 0), after(session, texts[:1, :5]), atol=2e-5)
        np.testing.assert_allclose(session.extend(texts[:1, 5:6]), after(session, texts[:1, :6]), atol=2e-5)
    # The trial; up to 16, 24 and 32 tokens of the first texts, whose memory takes the second ones too; the last text.
    assert [each.replays for each in recordings if each.replays] == [2, 3, 8, 2 + 1, 1]


def test_tokens_that_stay_are_not_computed_again(tmp_path):
    with Torch().open(files(tmp_path)) as session:
        recorded_sequences(session)
        session.extend(ids(20))
        computed, forward = [], session._module.forward
        session._module.forward = lambda **given: computed.append(given["input_ids"].shape[1]) or forward(**given)
        session.extend(ids(2), 12)
        session.extend(ids(1))
        session.extend(ids(3), 14)
    assert computed == [2, 1, 3]


def test_nothing_of_a_text_that_gave_nan_reaches_the_next_one(tmp_path):
    text = ids(9)
    with Torch().open(files(tmp_path)) as session:
        keys = recorded_sequences(session)._keys
        session.extend(text)
        with torch.inference_mode():
            for layer in keys._cache.layers:
                layer.values[:, :, 5:] = torch.nan
        with pytest.raises(ModelError, match="NaN"):
            session.extend(ids(1))
        np.testing.assert_allclose(session.extend(text[:, :3], 0), after(session, text[:, :3]), atol=2e-5)


def test_a_step_that_is_not_the_same_at_another_place_is_refused(tmp_path):
    """What a network counts in Python is a constant in a recording."""
    with Torch().open(files(tmp_path)) as session:
        recorded_sequences(session, [])
        forward, seen = session._module.forward, [0]

        def counted(input_ids, **given):
            count = input_ids.shape[1]
            places = torch.arange(seen[0], seen[0] + count)[None]
            seen[0] += count
            return forward(input_ids=input_ids, position_ids=places, **given)

        session._module.forward = counted
        with pytest.raises(UnsupportedAbility, match="nats from those without"):
            session.extend(ids(4))


def test_a_step_that_a_graph_cannot_hold_is_refused(tmp_path):
    def step(given):
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nMore lines")

    with Torch().open(files(tmp_path)) as session:
        keys = recorded_sequences(session)._keys
        session.extend(ids(4))
        keys._step = step
        with pytest.raises(UnsupportedAbility, match=r"its step cannot be recorded \(CUDA error: .* capturing\)"):
            session.extend(ids(1))


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("MistralForCausalLM", MISTRAL, "keep tokens in other ways than all of them"),
        ("MptForCausalLM", {"vocab_size": 40, "d_model": 16, "n_layers": 1, "n_heads": 2}, "each of its steps"),
    ],
)
def test_networks_whose_steps_are_not_the_same_kernels_are_refused(tmp_path, name, settings, words):
    with Torch().open(files(tmp_path, name, settings)) as session, pytest.raises(UnsupportedAbility, match=words):
        recorded_sequences(session)


def test_nothing_is_collected_while_a_graph_is_recorded():
    class Graph:
        def __init__(self):
            self.itself = self

    gone = weakref.ref(Graph())
    with no_collection():
        for _ in range(2_000):
            Graph()
        assert not gc.isenabled()
        assert gone() is not None
    assert gc.isenabled()
    gc.collect()
    assert gone() is None
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_lengths_are_enough_and_never_half_as_much_again():
    lengths = {count: fixed_length(count, None) for count in range(1, 5000)}
    assert sorted(set(lengths.values())) == [256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144]
    assert all(count <= length for count, length in lengths.items())
    assert all(length < 1.5 * count + 1 for count, length in lengths.items() if count > 256)
    assert fixed_length(900, 1000) == 1000
    assert fixed_length(7, 40) == 40
