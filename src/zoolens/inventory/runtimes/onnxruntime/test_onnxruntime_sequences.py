"""Language models in ONNX with past keys and values: what they answer to texts, how they go on, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.inventory.runtimes.onnxruntime import onnxruntime_sequences
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.runtimes.sequences import log_probabilities
from zoolens.testing import language_models
from zoolens.testing.language_models import HEADS, KEY_HEADS, LAYERS, VOCABULARY, WIDTH
from zoolens.testing.onnx_language_models import onnx_copy

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

IDS = [7, 3, 60, 1, 0, 22, 9]
_HEAD = WIDTH // HEADS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("decoder")
    language_models.gguf(made)
    for name, positions in (("with.onnx", True), ("without.onnx", False)):
        onnx_copy(made / "tiny.gguf", made / name, position_ids=positions)
    return made


def opened(path):
    return OnnxRuntime().open(ModelFiles("onnx", {"model": path}))


@pytest.fixture(params=["with.onnx", "without.onnx"])
def session(folder, request):
    with opened(folder / request.param) as made:
        yield made


def reference(ids):
    """Of the last position."""
    return log_probabilities(language_models.reference(ids)[-1:].astype(np.float32))[0]


def feeds(*texts):
    ids = np.array(texts, np.int64)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def ids(*texts):
    return np.array(texts, np.int32)


def test_texts_are_fed_without_caches_and_positions(session):
    assert [spec.name for spec in session.inputs] == ["input_ids", "attention_mask"]
    assert [spec.name for spec in session.outputs] == ["logits"]
    answer = session.predict(feeds(IDS, IDS[::-1]))["logits"]
    np.testing.assert_allclose(answer[0], language_models.reference(IDS), atol=2e-5)
    np.testing.assert_allclose(answer[1], language_models.reference(IDS[::-1]), atol=2e-5)


def padded(padding):
    mask = np.ones((1, len(IDS) + 2), np.int64)
    mask[:, padding] = 0
    tokens = np.full(mask.shape, 5, np.int64)
    tokens[mask == 1] = IDS
    return {"input_ids": tokens, "attention_mask": mask}


BEFORE, BEHIND = slice(0, 2), slice(-2, None)


def test_padding_changes_no_text(session, folder):
    given = padded(BEHIND)
    answer = session.predict(given)["logits"]
    np.testing.assert_allclose(answer[:, : len(IDS)][0], language_models.reference(IDS), atol=2e-5)
    with opened(folder / "with.onnx") as placed:
        answer = placed.predict(padded(BEFORE))["logits"]
    np.testing.assert_allclose(answer[:, 2:][0], language_models.reference(IDS), atol=2e-5)
    with opened(folder / "without.onnx") as counting, pytest.raises(ModelError, match="padding may only follow"):
        counting.predict(padded(BEFORE))


def test_sequences_go_on_are_cut_and_begin_anew(session, monkeypatch):
    monkeypatch.setattr(onnxruntime_sequences, "_PIECE", 4)
    np.testing.assert_allclose(session.extend(ids(IDS), 0)[0], reference(IDS), atol=2e-5)
    np.testing.assert_allclose(session.extend(ids([2]))[0], reference([*IDS, 2]), atol=2e-5)
    # A text in between changes nothing.
    session.predict(feeds([1, 2, 3]))
    np.testing.assert_allclose(session.extend(ids([4]), len(IDS))[0], reference([*IDS, 4]), atol=2e-5)
    np.testing.assert_allclose(session.extend(ids([4, 8]), 3)[0], reference([*IDS[:3], 4, 8]), atol=2e-5)
    both = session.extend(ids([1, 2], [3, 4]), 0)
    both = session.extend(ids([5], [6]))
    np.testing.assert_allclose(both, [reference([1, 2, 5]), reference([3, 4, 6])], atol=2e-5)


def test_what_is_refused_changes_nothing(session):
    session.extend(ids(IDS), 0)
    for wrong, kept, words in (
        (ids([VOCABULARY]), None, "hold the id 64"),
        (ids([-1]), None, "hold the id -1"),
        (ids([1], [2]), None, "cannot be continued with 2 rows"),
        (np.empty((1, 0), np.int32), None, "one token at least"),
    ):
        with pytest.raises(ModelError, match=words):
            session.extend(wrong, kept)
    np.testing.assert_allclose(session.extend(ids([2]))[0], reference([*IDS, 2]), atol=2e-5)
    with pytest.raises(ModelError, match="holds the id -1, and the vocabulary ends at 63"):
        session.predict(feeds([1, -1]))
    with pytest.raises(ModelError, match="without tokens"):
        session.predict(feeds([]))


def test_a_failed_call_keeps_the_sequence(session, monkeypatch):
    session.extend(ids(IDS), 0)
    caches = session._sequences
    run, calls = caches._continued, []

    def torn(*given):
        calls.append(given)
        raise ModelError("torn")

    monkeypatch.setattr(caches, "_continued", torn)
    with pytest.raises(ModelError, match="torn"):
        session.extend(ids([2]))
    monkeypatch.setattr(caches, "_continued", run)
    np.testing.assert_allclose(session.extend(ids([2]))[0], reference([*IDS, 2]), atol=2e-5)


# --- files that are otherwise


def changed(folder, change, source="with.onnx"):
    model = onnx.load(str(folder / source))
    change(model.graph)
    path = folder / "changed.onnx"
    onnx.save(model, str(path))
    return path


def dimension(graph, name, axis, extent):
    (value,) = (value for value in (*graph.input, *graph.output) if value.name == name)
    value.type.tensor_type.shape.dim[axis].dim_value = extent


def without(values, name):
    (value,) = (value for value in values if value.name == name)
    values.remove(value)


def with_input(name, kind, shape):
    return lambda graph: graph.input.append(onnx.helper.make_tensor_value_info(name, kind, shape))


def constant_past(graph):
    """A file whose last value is a constant of no tokens instead of an input."""
    name = f"past_key_values.{LAYERS - 1}.value"
    without(graph.input, name)
    graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1, KEY_HEADS, 0, _HEAD), np.float32), name))


def last_position(graph):
    """Logits of the last position, which the file does not declare."""
    (node,) = (node for node in graph.node if node.output[0] == "logits")
    node.output[0] = "all_logits"
    ends = {"begin": [-1], "end": [2**31], "axis": [1]}
    for key, value in ends.items():
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(value, np.int64), f"last_{key}"))
    taken = ["all_logits", *(f"last_{key}" for key in ends)]
    graph.node.append(onnx.helper.make_node("Slice", taken, ["logits"]))


def two_of_three(graph):
    for part in ("key", "value"):
        dimension(graph, f"past_key_values.1.{part}", 1, 3)


def merged(graph):
    with_input("use_cache_branch", onnx.TensorProto.BOOL, [1])(graph)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (constant_past, "lacks the input past_key_values.1.value"),
        (lambda graph: without(graph.output, "present.1.key"), "lacks the output present.1.key, which goes on with"),
        (lambda graph: dimension(graph, "past_key_values.0.key", 2, 16), "2×16×8, and always has 16 tokens"),
        (lambda graph: dimension(graph, "past_key_values.1.key", 1, 3), "1.key has 3 heads, and past_key_values.1.val"),
        (two_of_three, r"present.1.key is \?×2×\?×8 of float32, which its input past_key_values.1.key, \?×3×"),
        (lambda graph: dimension(graph, "logits", 1, 1), "the logits of the last position only"),
        (merged, "merged decoder, whose input use_cache_branch chooses"),
        (with_input("pixel_values", 1, [1, 3, 8, 8]), "what fills its input 'pixel_values' is not known here"),
    ],
)
def test_files_of_another_form_are_refused_in_a_sentence(folder, change, words):
    with pytest.raises(ModelError, match=words) as refused:
        opened(changed(folder, change))
    assert refused.value.message.startswith("changed.onnx is no language model that can be run here: ")


def test_heads_that_the_network_does_not_have_are_refused(folder):
    def three(graph):
        for kind in ("past_key_values", "present"):
            for part in ("key", "value"):
                dimension(graph, f"{kind}.1.{part}", 1, 3)

    with pytest.raises(ModelError, match=r"changed\.onnx"):
        opened(changed(folder, three))


def test_the_last_position_alone_is_refused_though_the_file_hides_it(folder):
    with opened(changed(folder, last_position)) as session:
        with pytest.raises(ModelError, match="the logits of the last position only"):
            session.predict(feeds(IDS))
        assert session.predict(feeds([4]))["logits"].shape == (1, 1, VOCABULARY)
        with pytest.raises(ModelError, match="the logits of the last position only"):
            session.extend(ids(IDS), 0)


def blind(graph):
    """Keys of earlier tokens count as nought."""
    (node,) = (node for node in graph.node if node.output[0] == "present.0.key")
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(0, np.float32), "nought"))
    graph.node.insert(0, onnx.helper.make_node("Mul", [node.input[0], "nought"], ["blinded"]))
    node.input[0] = "blinded"


def test_a_network_that_makes_nothing_of_its_caches_does_not_go_on(folder):
    with opened(changed(folder, blind)) as session:
        np.testing.assert_allclose(session.predict(feeds(IDS))["logits"][0], language_models.reference(IDS), atol=2e-5)
        with pytest.raises(UnsupportedAbility, match=r"answers with a cache are up to .* nats from those without"):
            session.extend(ids(IDS), 0)


def with_bias(*numbers):
    """These numbers are added to the logits."""

    def change(graph):
        (node,) = (node for node in graph.node if node.output[0] == "logits")
        node.output[0] = "logits_without"
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(numbers, np.float32), "bias"))
        graph.node.append(onnx.helper.make_node("Add", ["logits_without", "bias"], ["logits"]))

    return change


def test_tokens_may_be_ruled_out(folder):
    path = changed(folder, with_bias(-np.inf, *[0.0] * (VOCABULARY - 1)))
    with opened(path) as session:
        session.extend(ids(IDS), 0)
        found = session.extend(ids([2]))
        assert np.isneginf(found[0, 0])
        np.testing.assert_allclose(
            found, log_probabilities(session.predict(feeds([*IDS, 2]))["logits"][:, -1]), atol=2e-5
        )


def counting(graph):
    """An attention beside the network that is given lengths only."""
    constants = {
        "q": np.zeros((1, 1, 16), np.float32), "past": np.zeros((1, 1, 0, 8), np.float32),
        "k": np.zeros((1, 1, 8), np.float32), "ends": np.array([0], np.int32), "total": np.array(1, np.int32),
    }  # fmt: skip
    for name, value in constants.items():
        graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    inputs = ["q", "k", "k", "past", "past", "ends", "total"]
    numbers = {"num_heads": 2, "kv_num_heads": 1}
    made = ["attended", "kept_keys", "kept_values"]
    node = onnx.helper.make_node("GroupQueryAttention", inputs, made, domain="com.microsoft", **numbers)
    graph.node.append(node)


def test_padding_before_a_text_is_refused_where_attention_knows_lengths_only(folder):
    with opened(changed(folder, counting)) as session:
        answer = session.predict(padded(BEHIND))["logits"]
        np.testing.assert_allclose(answer[:, : len(IDS)][0], language_models.reference(IDS), atol=2e-5)
        with pytest.raises(ModelError, match=r"GroupQueryAttention, which takes the first .* may only follow a text"):
            session.predict(padded(BEFORE))


def test_inner_values_and_times_need_no_caches_either(session):
    assert session.profile(feeds(IDS))
    name = next(point.name for point in session.capture_points() if point.name == "present.0.key")
    captured = session.capture(feeds(IDS), [name])
    assert captured.tensors[name].shape == (1, KEY_HEADS, len(IDS), _HEAD)


def test_other_networks_do_not_go_on(tmp_path):
    from zoolens.testing import models

    with (
        OnnxRuntime().open(models.onnx(tmp_path)) as session,
        pytest.raises(UnsupportedAbility, match="no keys and values"),
    ):
        session.extend(ids(IDS), 0)


def test_a_profiled_continuation_changes_no_sequence(session):
    session.extend(ids(IDS), 0)
    for kept in (0, 4):
        profiles = session.profile_extend(ids(IDS), kept, 2)
        assert len(profiles) == 2
        for profile in profiles:
            made = {shape for operator in profile.operators for shape in operator.shapes if shape[2:] == (VOCABULARY,)}
            assert made == {(1, len(IDS) - kept, VOCABULARY)}
            assert sum(operator.duration for operator in profile.operators) <= profile.duration
    np.testing.assert_allclose(session.extend(ids([2]))[0], reference([*IDS, 2]), atol=2e-5)
