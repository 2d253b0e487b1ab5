"""Rounding is told from other values, for every type, in both directions and beside weights that were trained on."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.gguf.llama_network import FAMILIES
from zoolens.findings.graph.weights import stored_weights as stored
from zoolens.findings.graph.weights.rounding import GRIDS, Kind, Reason, float_steps, steps_of, tally
from zoolens.findings.graph.weights.weight_diff import compare_files, weight_diff
from zoolens.findings.graph.weights.weight_words import headline
from zoolens.inventory.runtimes.llamacpp.gguf_copy import copy_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_file import TYPES_BY_NAME as TYPES
from zoolens.inventory.runtimes.llamacpp.gguf_values import decoded
from zoolens.inventory.runtimes.llamacpp.llama_tensors import KNOWN, in_halves, transformers_name, turned_heads
from zoolens.testing import language_models

pytest.importorskip("gguf")
# faces/cli/test_diff.py compares in the sandbox.
pytestmark = pytest.mark.usefixtures("trusted_models")
LEGACY = ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0")
QUERY = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def source(tmp_path):
    return language_models.gguf(tmp_path).path()


@pytest.fixture
def copied(source, tmp_path):
    """Writes a copy whose matrices have a type, with other values where a change is given."""

    def copy(type_, change=None, name=None):
        def type_of(tensor):
            return type_ if len(tensor.shape) == 2 and tensor.shape[-1] % TYPES[type_].block == 0 else "F32"

        target = tmp_path / (name or f"{type_}.gguf")
        copy_gguf(source, target, type_of, change)
        return target

    return copy


def kinds(a, b):
    """The kind of every tensor, in this process."""
    answer = compare_files({"a": str(a), "b": str(b)})
    return {pair["name"]: Kind(pair["kind"]) for pair in answer["pairs"]}


def matrices(found):
    return {kind for name, kind in found.items() if "norm" not in name and "down_proj" not in name}


def perturbed(size, seed=1):
    """Weights that were trained on a little: noise of this part of their own size."""

    def change(tensor, values):
        noise = np.random.default_rng([seed, len(tensor.name)]).normal(0, 1, values.shape)
        return (values + size * values.std() * noise).astype(np.float32)

    return change


@pytest.mark.parametrize("type_", ["F16", "BF16", *LEGACY])
def test_a_copy_in_another_type_is_rounding(source, copied, type_):
    for a, b, rounded in ((source, copied(type_), "B"), (copied(type_), source, "A")):
        found = weight_diff(a, b)
        assert found.is_rounding
        pair = next(pair for pair in found.pairs if pair.name == QUERY)
        assert (pair.kind, pair.rounded) == (Kind.ROUNDED, rounded)
        assert pair.error == pytest.approx(pair.predicted, rel=0.1)
        norms = [pair.kind for pair in found.pairs if "norm" in pair.name]
        assert set(norms) == {Kind.EQUAL}


@pytest.mark.parametrize("type_", ["BF16", *LEGACY])
@pytest.mark.parametrize("size", [0.02, 0.1, 1.0])
def test_weights_that_were_trained_on_and_then_rounded_are_no_rounding(source, copied, type_, size):
    found = kinds(source, copied(type_, perturbed(size)))
    assert not matrices(found) & {Kind.EQUAL, Kind.ROUNDED}
    if size == 1.0:
        assert matrices(found) == {Kind.TRAINED}


@pytest.mark.parametrize("a", ["F16", "BF16", *LEGACY])
@pytest.mark.parametrize("b", ["BF16", *LEGACY])
def test_two_roundings_of_one_original_are_known_as_such_and_not_those_of_others(copied, a, b):
    if a == b:
        return
    assert matrices(kinds(copied(a), copied(b))) == {Kind.ROUNDED}
    other = copied(b, perturbed(1.0, seed=3), name="other.gguf")
    assert matrices(kinds(copied(a), other)) == {Kind.TRAINED}


def test_weights_that_are_equal_and_those_that_differ_in_one_type(source, copied):
    assert weight_diff(source, copied("F32")).equal
    assert matrices(kinds(source, copied("F32", perturbed(0.001)))) == {Kind.TRAINED}
    one, other = copied("Q4_0"), copied("Q4_0", perturbed(0.02), name="other.gguf")
    assert matrices(kinds(one, other)) == {Kind.UNKNOWN}
    assert set(kinds(one, one).values()) == {Kind.EQUAL}


def test_a_type_that_only_cuts_off_digits_is_not_called_rounding(source, copied):
    def cut(tensor, values):
        return ((values.view(np.uint32) >> 16) << 16).view(np.float32)

    assert matrices(kinds(source, copied("BF16", cut))) == {Kind.UNKNOWN}


def test_values_that_are_no_numbers_are_not_known(source, copied):
    def broken(tensor, values):
        return np.where(np.arange(values.size).reshape(values.shape) == 5, np.nan, values)

    assert matrices(kinds(source, copied("F32", broken))) == {Kind.UNKNOWN}


def test_the_same_bytes_of_other_heads_are_other_weights(tmp_path):
    own = language_models.weights()
    query = own["blk.0.attn_q.weight"].copy()
    query[0, 0] = np.nan
    paths = []
    for heads in (language_models.HEADS, 2 * language_models.HEADS):
        path = tmp_path / f"{heads}.gguf"
        entries = language_models.metadata() | {"llama.attention.head_count": np.uint32(heads)}
        path.write_bytes(language_models.gguf_bytes(entries, own | {"blk.0.attn_q.weight": query}))
        paths.append(path)
    assert kinds(paths[0], paths[0])[QUERY] is Kind.EQUAL
    assert kinds(*paths)[QUERY] is Kind.UNKNOWN


def test_values_that_may_be_anything_are_not_called_near(source, copied):
    def zero(tensor, values):
        return np.zeros_like(values)

    def broken(tensor, values):
        return np.where(np.arange(values.size).reshape(values.shape) == 5, np.nan, values)

    for type_ in ("Q4_0", "BF16", "F16"):
        assert matrices(kinds(source, copied(type_, zero))) == {Kind.TRAINED}
    assert float_steps(np.zeros(1, np.float32), "BF16").step[0] < 1e-38
    path = copied("F32", broken)
    assert weight_diff(path, path).equal
    found = weight_diff(source, path)
    assert "contain infinities or values that are no numbers" in headline(found)
    assert "near enough" not in headline(found)
    error = found.as_data()["tensors"][0]["error"]
    assert error is None
    json.dumps(found.as_data(), allow_nan=False)


def test_a_type_whose_steps_are_not_known_explains_nothing():
    values = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    counts = tally(values, -values, None, None, None)
    assert (counts.kind, counts.reason) == (Kind.UNKNOWN, Reason.NO_STEPS)


def test_a_light_training_of_a_side_that_was_rounded_before_is_not_excluded(copied):
    one, other = copied("BF16"), copied("Q4_0", perturbed(0.002))
    found = weight_diff(one, other)
    told = headline(found)
    assert "Nothing but" not in told
    if found.is_rounding:
        assert "training that changes weights by less than about" in told
        assert found.unseen >= 0.001


@pytest.mark.parametrize("type_", ["Q4_K", "Q6_K"])
def test_a_type_that_cannot_be_rounded_again_says_how_much_is_not_seen(type_):
    raw = np.concatenate([rows_of(type_, seed) for seed in range(40)])
    stored = decoded(raw, TYPES[type_])
    steps = steps_of(raw, stored, type_)
    random = np.random.default_rng(0)
    original = (stored + random.uniform(-0.5, 0.5, stored.shape) * steps.step).astype(np.float32)
    counts = tally(original, stored, steps, None, None)
    assert (counts.kind, counts.repeated) == (Kind.ROUNDED, False)
    assert 0 < counts.unseen < counts.predicted / 2
    size = np.where(steps.step > 0, steps.slack, 0)
    for part, rounded in ((0.3, True), (3.0, False)):
        trained = (original + part * size * random.normal(size=original.shape)).astype(np.float32)
        assert (tally(trained, stored, steps, None, None).kind is Kind.ROUNDED) is rounded


# --- grids


def rows_of(type_, seed=0):
    """Random rows of bytes of a type, with scales that are sensible numbers."""
    own = TYPES[type_]
    raw = np.random.default_rng(seed).integers(0, 256, (4, 2 * own.block_bytes), dtype=np.uint8)
    blocks = raw.reshape(-1, own.block_bytes)
    grid = GRIDS[type_]
    inside = np.zeros(own.block_bytes, bool)
    for begin, end in grid.codes:
        inside[begin:end] = True
    halves = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}.get(type_, (0,))
    if type_ in ("Q4_1", "Q5_1"):
        halves = (0, 2)
    for place in halves:
        assert not inside[place : place + 2].any()
        blocks[:, place : place + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    return raw


@pytest.mark.parametrize("type_", GRIDS)
def test_stored_values_are_points_of_a_grid_of_these_steps(type_):
    raw = rows_of(type_)
    values = decoded(raw, TYPES[type_])
    steps = steps_of(raw, values, type_)
    low = decoded(np.where(code_bytes(type_, raw), GRIDS[type_].lowest, raw).astype(np.uint8), TYPES[type_])
    places = np.abs(values - low) / np.where(steps.step > 0, steps.step, 1)
    np.testing.assert_allclose(places, np.round(places), atol=2e-3)
    assert places.max() <= GRIDS[type_].levels - 1 + 1e-3
    used = {int(place) for place in np.round(places[steps.step > 0]).ravel()}
    assert len(used) > 0.6 * GRIDS[type_].levels


def code_bytes(type_, raw):
    mask = np.zeros(TYPES[type_].block_bytes, bool)
    for begin, end in GRIDS[type_].codes:
        mask[begin:end] = True
    return np.tile(mask, raw.shape[1] // len(mask))[None].repeat(len(raw), axis=0)


# --- transformers


def write_safetensors(path, tensors):
    header, place = {}, 0
    for name, values in tensors.items():
        end = place + values.nbytes
        kind = {"float32": "F32", "float16": "F16", "uint16": "BF16", "float64": "F64", "int64": "I64"}[
            values.dtype.name
        ]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [place, end]}
        place = end
    content = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content + b"".join(map(np.ndarray.tobytes, tensors.values())))
    return path


def of_transformers(dtype=np.float32):
    tensors = {}
    for own, values in language_models.weights().items():
        name = transformers_name(own)
        heads = turned_heads(name, language_models.HEADS, language_models.KEY_HEADS)
        tensors[name] = (values if heads is None else in_halves(values, heads)).astype(dtype)
    return tensors


def test_rows_of_queries_and_keys_are_put_back(source, tmp_path, monkeypatch):
    path = write_safetensors(tmp_path / "model.safetensors", of_transformers())
    assert weight_diff(source, path).equal
    monkeypatch.setattr(stored, "_MOST_VALUES", 1)  # heads stay together in pieces of any size
    assert set(kinds(source, path).values()) == {Kind.EQUAL}
    half = write_safetensors(tmp_path / "half.safetensors", of_transformers(np.float16))
    assert set(kinds(half, source).values()) == {Kind.ROUNDED}
    as_in_gguf = {transformers_name(name): values for name, values in language_models.weights().items()}
    wrong = write_safetensors(tmp_path / "wrong.safetensors", as_in_gguf)
    assert kinds(source, wrong)[QUERY] is Kind.TRAINED


def test_tensors_of_one_side_and_of_other_shapes_are_named(source, tmp_path):
    tensors = of_transformers()
    tensors["lm_head.weight"] = -tensors["model.embed_tokens.weight"]
    tensors["model.norm.weight"] = tensors["model.norm.weight"][:16].copy()
    found = weight_diff(source, write_safetensors(tmp_path / "model.safetensors", tensors))
    assert not found.whole
    assert found.reshaped == ("model.norm.weight",)
    assert found.only == ((), ("lm_head.weight",))
    assert "1 are in B alone (lm_head.weight)" in headline(found)


def test_a_stored_output_that_is_the_table_of_tokens_is_no_tensor_of_its_own(source, tmp_path):
    tensors = of_transformers()
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    path = write_safetensors(tmp_path / "model.safetensors", tensors)
    assert weight_diff(source, path).equal
    assert weight_diff(path, source).equal


def test_what_is_computed_is_ignored_where_one_file_has_it_alone(source, tmp_path):
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    one, other = (
        write_safetensors(tmp_path / f"{value}.safetensors", of_transformers() | {name: np.full(4, value, np.float32)})
        for value in (1, 2)
    )
    assert weight_diff(source, one).equal
    assert kinds(one, other)[name] is Kind.TRAINED
    own = {"my_rope_freqs.weight": np.ones(4, np.float32)}
    found = weight_diff(source, write_safetensors(tmp_path / "own.safetensors", of_transformers() | own))
    assert found.only == ((), tuple(own))


def test_whole_numbers_and_float64_are_compared_by_bytes(tmp_path):
    def written(name, number, value):
        tensors = {"ids": np.arange(4) + number, "w": np.full((2, 32), value)}
        return write_safetensors(tmp_path / f"{name}.safetensors", tensors)

    one, same = written("a", 0, 1.0), written("b", 0, 1.0)
    assert set(kinds(one, same).values()) == {Kind.EQUAL}
    found = kinds(one, written("c", 1, 1 + 1e-12))
    assert found == {"ids": Kind.UNKNOWN, "w": Kind.UNKNOWN}
    tensors = {"ids": np.arange(4), "w": np.full((2, 32), 1, np.float32)}
    single = write_safetensors(tmp_path / "d.safetensors", tensors)
    # Of float64 is not seen whether it holds what float32 does not.
    assert kinds(single, one)["w"] is kinds(written("e", 0, 1 + 1e-12), single)["w"] is Kind.ROUNDED


def test_other_architectures_are_not_compared_with_transformers(source, tmp_path):
    own = tmp_path / "gemma.gguf"
    own.write_bytes(source.read_bytes().replace(b"llama", b"gemma"))
    path = write_safetensors(tmp_path / "model.safetensors", of_transformers())
    with pytest.raises(ModelError, match="are not compared: how other files name and order the tensors of gemma"):
        weight_diff(own, path)
    with pytest.raises(ModelError, match="are not compared"):
        weight_diff(source, own)
    assert weight_diff(own, own).equal
    assert set(FAMILIES) == KNOWN


def test_rounding_beside_another_structure_is_not_all_that_differs(source, copied):
    assert headline(weight_diff(source, copied("Q4_0")), alone=False).startswith("Quantisation explains")


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ({"a": {"dtype": "F32", "shape": [float("inf")], "data_offsets": [0, 8]}}, "not a complete safetensors file"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 800]}}, "lies outside it"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}, "lies outside it"),
        ({"a": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 8]}}, "other bytes than values"),
        ({"a": {"dtype": "F8", "shape": [2], "data_offsets": [0, 8]}}, "type F8"),
        ({"a": 3}, "not a complete safetensors file"),
        ([], "not a complete safetensors file"),
    ],
)
def test_a_damaged_file_is_one_sentence(source, tmp_path, header, told):
    content = json.dumps(header).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(content)) + content + bytes(8))
    with pytest.raises(ModelError, match=told):
        weight_diff(source, path)
    path.write_bytes(struct.pack("<Q", 1 << 60))
    with pytest.raises(ModelError, match="not a complete safetensors file"):
        weight_diff(source, path)


# --- words


def test_the_sentence_says_what_is_known(source, copied):
    found = weight_diff(source, copied("Q4_0"))
    assert headline(found) == (
        "Nothing but quantisation lies between the weights of A and B: 13 of 20 tensors (81.6 % of the numbers), "
        "rounded to Q4_0."
    )
    trained = replace(found, pairs=tuple(replace(pair, kind=Kind.TRAINED) for pair in found.pairs))
    assert "20 of 20 tensors (100.0 % of the numbers) have values that no rounding gives" in headline(trained)
    equal = replace(found, pairs=tuple(replace(pair, kind=Kind.EQUAL) for pair in found.pairs))
    assert headline(equal) == "All 20 weight tensors are equal in every value."
