"""A model with inputs of several kinds: texts beside images, numbers, other texts and constants."""

import json

import numpy as np
import pytest
import yaml
from PIL import Image

import zoolens
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.manifests.schema import Manifest
from zoolens.testing.text_models import MAX_LENGTH, VOCABULARY, scores, write_tokenizer

pytest.importorskip("tokenizers")

pytestmark = pytest.mark.usefixtures("trusted_models")

QUICK = {"cold": False, "trust": True, "runtimes": "onnxruntime"}
TABLE = ", ".join(f"{number:g}" for number in scores().ravel())
# What words count, masked; the brightness of a photo and an age count towards class 1.
HEADER = f"""<ir_version: 8, opset_import: ["" : 17]>
net ({{inputs}}) => (float[N, 2] out)
<float[{len(VOCABULARY)}, 2] table = {{{{{TABLE}}}}}, int64[1] last = {{{{-1}}}}, int64[1] one = {{{{1}}}},
 float[1, 2] sign = {{{{-1, 1}}}}>
"""
WORDS = """ {0}r = Gather <axis = 0> (table, {0}ids)
  {0}c = Cast <to = 1> ({0}mask)
  {0}w = Unsqueeze ({0}c, last)
  {0}t = Mul ({0}r, {0}w)
  {0}s = ReduceSum <keepdims = 0> ({0}t, one)
"""
MIXED = (
    HEADER.format(inputs="int64[N, T] ids, float[N, 3, 2, 2] photo, float[N, 1] age, int64[N, T] mask")
    + "{"
    + WORDS.format("")
    + """  bright = ReduceMean <axes = [1, 2, 3], keepdims = 0> (photo)
  b = Unsqueeze (bright, last)
  more = Add (b, age)
  signed = Mul (more, sign)
  out = Add (s, signed)
}"""
)
TWO = (
    HEADER.format(inputs="int64[N, T] ids, int64[N, T] mask, int64[N, S] q_ids, int64[N, S] q_mask")
    + "{"
    + WORDS.format("")
    + WORDS.format("q_")
    + "  out = Sub (s, q_s)\n}"
)


def text(name, prefix="", **changes):
    tensors = {"input_ids": f"{prefix}ids", "attention_mask": f"{prefix}mask"}
    tokenizer = {"max_length": MAX_LENGTH, "vocabulary": len(VOCABULARY), "padding": "longest", "tensors": tensors}
    return {"name": name, "modality": "text", "shape": [None, None], "dtype": "int64",
            "tokenizer": {**tokenizer, **changes}}  # fmt: skip


PHOTO = {"name": "photo", "shape": [None, 3, 2, 2],
         "preprocess": [{"op": "resize", "size": [2, 2]}, {"op": "normalize", "scale": 1 / 255}]}  # fmt: skip
AGE = {"name": "age", "modality": "array", "shape": [None, 1]}


def described(inputs, output=None):
    return {
        "name": "net",
        "inputs": inputs,
        "outputs": [output or {}],
        "assets": [
            {"format": "onnx", "files": [{"location": "net.onnx"}, {"location": "tokenizer.json", "role": "tokenizer"}]}
        ],
    }


def saved(folder, network, inputs, output=None):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    onnx.save(onnx.parser.parse_model(network), folder / "net.onnx")
    write_tokenizer(folder / "tokenizer.json")
    (folder / "net.yaml").write_text(yaml.safe_dump(described(inputs, output), sort_keys=False))
    return folder / "net.yaml"


def figures(outcome):
    assert not outcome.errors
    with zoolens.open_store() as store:
        return {one.metric: one.value for one in store.observations(outcome.run.id)}


def rows(folder):
    """Texts, photos of several sizes and ages, with the class that all three together make."""
    random = np.random.default_rng(0)
    found = []
    for place in range(40):
        words = ["good"] * int(random.integers(0, 4)) + ["bad"] * int(random.integers(0, 4)) + ["film"]
        grey = int(random.integers(0, 256))
        Image.new("RGB", (2 + place % 3, 4), (grey,) * 3).save(folder / f"{place}.png")
        age = round(float(random.normal()), 2)
        score = words.count("good") - words.count("bad") + 2 * (grey / 255 + age)
        found.append({"caption": " ".join(words), "photo": f"{place}.png", "age": age, "label": int(score > 0)})
    return found


@pytest.mark.parametrize("padding", ["longest", pytest.param("max_length", marks=pytest.mark.slow), "none"])
def test_a_text_an_image_and_a_number(home, tmp_path, padding):
    table = rows(tmp_path)
    (tmp_path / "table.jsonl").write_text("\n".join(map(json.dumps, table)))
    data = f"records:{tmp_path / 'table.jsonl'}?images=photo&texts=caption&numbers=age"
    model = saved(tmp_path, MIXED, [text("caption", padding=padding), PHOTO, AGE])
    (outcome,) = evaluate(model, data, batches=(1,), **QUICK)
    assert figures(outcome)["top1"] == 1
    assert not any("made-up" in note for note in outcome.notes)
    for part, other in (("caption", "film"), ("photo", "0.png"), ("age", 0)):
        changed = tmp_path / f"{part}.jsonl"
        changed.write_text("\n".join(json.dumps({**row, part: other}) for row in table))
        (outcome,) = evaluate(model, data.replace("table.jsonl", changed.name), batches=(), **QUICK)
        assert figures(outcome)["top1"] < 1


def test_texts_that_were_cut_are_counted_beside_other_inputs_too(home, tmp_path):
    (tmp_path / "table.csv").write_text("caption,age,label\n" + "good bad good bad good bad good,1,1\nfilm,0,0\n" * 3)
    inputs = [text("caption"), {**AGE, "shape": [None, 1]}, {**PHOTO, "modality": "constant", "value": 0}]
    del inputs[2]["preprocess"]
    data = f"records:{tmp_path / 'table.csv'}?texts=caption&numbers=age"
    (outcome,) = evaluate(saved(tmp_path, MIXED, inputs), data, batches=(), **QUICK)
    assert any("3 of 6 texts have more than 8 tokens and were cut" in note for note in outcome.notes)


def test_two_texts_of_one_sample_and_values(home, tmp_path):
    """A network with a tower for each of two texts: their names tell them apart, and not their order."""
    answers, questions = ["good", "bad film", "good good boat"], ["bad", "bad bad good", "film"]
    counted = [a.split().count("good") - q.split().count("good") for a, q in zip(answers, questions, strict=True)]
    negative = [a.split().count("bad") - q.split().count("bad") for a, q in zip(answers, questions, strict=True)]
    np.savez(tmp_path / "pairs.npz", q=questions, a=answers, truth=np.stack([negative, counted], axis=1))
    model = saved(tmp_path, TWO, [text("a"), text("q", "q_")], {"task": "regression"})
    (outcome,) = evaluate(model, f"npz:{tmp_path / 'pairs.npz'}?x=q,a&value=truth", batches=(2,), **QUICK)
    assert figures(outcome)["mae"] == 0


def test_a_text_with_a_constant_is_pooled_and_tagged(home, tmp_path):
    network = """<ir_version: 8, opset_import: ["" : 17]>
    net (int64[N, T] ids, int64[N, T] mask, float[1] times) => (float[N, T, 2] out)
    <float[10, 2] table = {TABLE}, int64[1] last = {-1}>
    { r = Gather <axis = 0> (table, ids)
      c = Cast <to = 1> (mask)
      w = Unsqueeze (c, last)
      m = Mul (r, w)
      out = Mul (m, times) }""".replace("TABLE", TABLE)
    inputs = [text("words"), {"name": "times", "modality": "constant", "value": 2, "shape": [1]}]
    (tmp_path / "texts.csv").write_text("text,value\ngood film,1\nbad good,-1\n")
    output = {"task": "embedding", "postprocess": [{"op": "pool", "method": "mean"}]}
    model = saved(tmp_path, network, inputs, output)
    (outcome,) = evaluate(model, f"{tmp_path / 'texts.csv'}?label=none", batches=(), **QUICK)
    assert not outcome.errors
    with zoolens.open_store() as store:
        (kept,) = store.iter_tables(outcome.run.id, "predictions")
    np.testing.assert_allclose(kept["vector"].to_pylist(), [[0, 2 / 4], [2 / 4, 2 / 4]])
    output = {"task": "token-classification", "labels": ["B-BAD", "B-GOOD"]}
    inputs[0]["tokenizer"]["special_tokens"] = False
    (tmp_path / "words.jsonl").write_text('{"tokens": ["good", "bad"], "tags": ["B-GOOD", "B-BAD"]}\n')
    model = saved(tmp_path, network, inputs, output)
    (outcome,) = evaluate(model, f"tagged:{tmp_path / 'words.jsonl'}", batches=(), **QUICK)
    assert figures(outcome)["f1"] == 1


# --- refused


@pytest.mark.parametrize(
    ("inputs", "output", "words"),
    [
        ([text(None), AGE], {}, "every input has a name"),
        ([text("a", tensors={}, padding="none"), AGE], {}, "say under tokenizer which ones it fills"),
        ([text("a", pair="only_first"), AGE], {}, "pair is for a text alone"),
        ([text("a"), text("b")], {}, "the input ids is filled twice"),
        ([text("a"), {**AGE, "name": "mask"}], {}, "the input mask is filled twice"),
        ([text("a"), text("b", "q_")], {"task": "embedding", "postprocess": [{"op": "pool", "method": "mean"}]},
         "pool is for models that take one text"),
    ],
)  # fmt: skip
def test_declarations_without_a_meaning_are_refused(inputs, output, words):
    with pytest.raises(ValueError, match=words):
        Manifest.model_validate(described(inputs, output))


def test_data_and_tasks_that_do_not_fit_are_refused_in_words(home, tmp_path):
    (tmp_path / "table.csv").write_text("caption,age,label\ngood,1,1\n")
    data = f"records:{tmp_path / 'table.csv'}?texts=caption&numbers=age"

    def refused(inputs, output=None):
        (outcome,) = evaluate(saved(tmp_path, MIXED, inputs, output), data, batches=(), **QUICK)
        return outcome.errors[0]

    said = refused([text("caption"), PHOTO, AGE], {"task": "other"})
    assert "has 4 inputs (ids, photo, age, mask), but datasets give one per example" in said
    assert "records:FILE.csv?images=…&texts=…&numbers=…" in said
    still = {"name": "photo", "modality": "constant", "value": 0, "shape": [None, 3, 2, 2]}
    assert "fills the input 'q_ids' with tokens, but the model has ids" in refused([text("caption", "q_"), still, AGE])
    tags = {"task": "token-classification", "labels": ["O", "B-X"]}
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    data = data.replace("table.csv?", "more.csv?images=photo&")
    (tmp_path / "more.csv").write_text("caption,age,label,photo\ngood,1,1,a.png\n")
    assert "are places in a text, but the model takes text, image" in refused([text("caption"), PHOTO, AGE], tags)
