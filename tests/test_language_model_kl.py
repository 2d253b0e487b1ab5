"""The divergence of copies, and of copies with one group of tensors restored."""

from __future__ import annotations

import numpy as np
import pytest
from scripts import language_model_kl
from scripts.language_model_kl import bits, cost_of_groups, distance, logits_of, restored, texts_as_ids

from zoolens.inventory.runtimes.llamacpp.gguf_copy import copy_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_file import read_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_values import tensor_values
from zoolens.testing import language_models

for package in ("xllamacpp", "tokenizers", "gguf"):
    pytest.importorskip(package)


@pytest.fixture
def files(tmp_path):
    """The tiny model, and a copy whose matrices are in Q4_0."""
    source = language_models.gguf(tmp_path).path()
    copy = tmp_path / "Q4_0.gguf"
    copy_gguf(source, copy, lambda tensor: "Q4_0" if len(tensor.shape) == 2 and tensor.shape[-1] == 32 else "F32")
    return source, copy


def test_a_restored_group_has_the_values_of_the_reference_and_the_rest_those_of_the_copy(files, tmp_path):
    source, copy = files
    path = restored(source, copy, tmp_path / "restored.gguf", language_model_kl.GROUPS["queries and keys"])
    own, theirs = language_models.weights(), {one.name: tensor_values(copy, one) for one in read_gguf(copy).tensors}
    for tensor in read_gguf(path).tensors:
        values = tensor_values(path, tensor)
        back = "attn_q" in tensor.name or "attn_k" in tensor.name
        np.testing.assert_array_equal(values, (own if back else theirs)[tensor.name])
        assert tensor.type.name == ("F32" if back or tensor.shape[-1] != 32 or len(tensor.shape) < 2 else "Q4_0")


def test_every_tensor_is_in_one_group_or_is_a_norm(files):
    for tensor in read_gguf(files[0]).tensors:
        own = tensor.name.rpartition("blk.")[2].lstrip("0123456789.")
        groups = [name for name, members in language_model_kl.GROUPS.items() if own.startswith(members)]
        assert len(groups) == (0 if "norm" in tensor.name else 1), tensor.name


def test_what_a_group_costs_is_measured_with_the_rest_as_it_is(files, tmp_path):
    source, copy = files
    texts = texts_as_ids(source, "AB BA CAB.\nABBA\n" * 4, 32, 2)
    assert len(texts) == 2
    originals = list(logits_of(source, texts))
    assert distance(originals, iter(originals)).kl == 0
    found = cost_of_groups(source, copy, texts)
    assert set(found) == {"", *language_model_kl.GROUPS}
    assert found["down"] == found[""]  # its rows are no whole blocks, so that it was never quantised
    # Errors of groups may cancel each other: nothing need fall where one is restored, but all together are the whole.
    changed = {name for name, each in found.items() if name and each != found[""]}
    assert changed == set(language_model_kl.GROUPS) - {"down"}
    every = [member for members in language_model_kl.GROUPS.values() for member in members]
    path = restored(source, copy, tmp_path / "all.gguf", every)
    assert distance(originals, logits_of(path, texts)).kl == 0
    assert not list(copy.parent.glob("tmp*"))


def test_divergence_and_bits(files):
    source, copy = files
    assert bits(source) == 32
    assert 4.5 < bits(copy) < 32
    halves, skewed = np.log([[0.5, 0.5]]).astype(np.float32), np.log([[0.25, 0.75]]).astype(np.float32)
    found = distance([halves], iter([skewed]))
    assert found.kl == pytest.approx(0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75), abs=1e-6)
    assert found.parted == 1
