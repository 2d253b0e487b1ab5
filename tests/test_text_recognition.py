"""Readers of text lines and of speech, from a manifest to their error rates."""

import re
import wave
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import zoolens
from zoolens.findings.comparisons.equivalence import equiv
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.manifests.schema import Manifest

PAGE = Path(__file__).parent.parent / "docs" / "recognition.md"
QUICK = {"cold": False, "trust": True, "runtimes": "onnxruntime"}
ALPHABET = "abc "
SHADE = 40  # grey levels between two symbols

# The mean of each column, or a sample, is the number of a symbol; the nearest symbol has the highest score.
READER = """<ir_version: 8, opset_import: ["" : 17]>
net ({input} x) => (float[A, B, 5] out)
<int64[1] last = {{-1}}, float[1, 1, 5] numbers = {{0, 1, 2, 3, 4}}>
{{
  line = {line}
  steps = Unsqueeze (line, last)
  away = Sub (steps, numbers)
  squared = Mul (away, away)
  scores = Neg (squared)
  out = {out}
}}
"""


def saved(folder, name, inputs, steps, output=None, **network):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    onnx.save(
        onnx.parser.parse_model(READER.format(**{"out": "Identity (scores)", **network})), folder / f"{name}.onnx"
    )
    manifest = {
        "name": name,
        "inputs": [inputs],
        "outputs": [{"task": "text-recognition", "postprocess": [{"op": "ctc", **steps}], **(output or {})}],
        "assets": [{"format": "onnx", "files": [{"location": f"{name}.onnx"}]}],
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    return folder / f"{name}.yaml"


def line_reader(folder, name="lines", steps=None, output=None, **network):
    inputs = {
        "shape": [None, 1, 4, None],
        "color": "gray",
        "preprocess": [
            {"op": "resize_height", "height": 4, "width": [1, 64], "method": "nearest"},
            {"op": "normalize", "scale": 1 / SHADE},
        ],
    }
    known = {"input": "float[N, 1, 4, W]", "line": "ReduceMean <axes = [1, 2], keepdims = 0> (x)"}
    return saved(folder, name, inputs, {"alphabet": ALPHABET, **(steps or {})}, output, **known, **network)


@pytest.fixture
def lines(tmp_path):
    """Images whose columns are symbols; the true text of the second is one character longer than what it shows."""
    shown = {"0.png": "1122033", "1.png": "11010", "2.png": "344101"}
    for name, symbols in shown.items():
        columns = np.array([int(symbol) * SHADE for symbol in symbols], np.uint8)
        Image.fromarray(np.tile(columns, (4, 1))).save(tmp_path / name)
    (tmp_path / "texts.csv").write_text("file,text\n0.png,abc\n1.png,aab\n2.png,c aa\n")
    return f"imagefolder:{tmp_path}?text=texts.csv"


def figures(outcome):
    assert not outcome.errors
    with zoolens.open_store() as store:
        return {one.metric: one.value for one in store.observations(outcome.run.id)}


def test_images_of_several_widths_are_read_one_at_a_time(home, tmp_path, lines):
    (outcome,) = evaluate(line_reader(tmp_path), lines, batches=(1, 2), **QUICK)
    found = figures(outcome)
    assert found["cer"] == pytest.approx(1 / (3 + 3 + 4))
    assert found["wer"] == pytest.approx(1 / (1 + 1 + 2))
    assert found["exact_match"] == pytest.approx(2 / 3)
    assert found["score"] == pytest.approx((1 + 2 / 3 + 1) / 3)
    assert "10 characters and 4 words in the true texts" in " ".join(outcome.notes)


def test_an_output_whose_second_axis_counts_the_inputs(home, tmp_path, lines):
    first = {"out": "Transpose <perm = [1, 0, 2]> (scores)"}
    (outcome,) = evaluate(line_reader(tmp_path, output={"batch_axis": 1}, **first), lines, batches=(), **QUICK)
    assert figures(outcome)["cer"] == pytest.approx(0.1)
    (outcome,) = evaluate(line_reader(tmp_path, "wrong", **first), lines, batches=(), **QUICK)
    assert "has 7 rows for a batch of 1" in outcome.errors[0]
    (outcome,) = evaluate(line_reader(tmp_path, "deep", output={"batch_axis": 3}, **first), lines, batches=(), **QUICK)
    assert "but its batch_axis is 3" in outcome.errors[0]


def test_two_readers_are_compared_by_their_texts(home, tmp_path, lines):
    evaluate(line_reader(tmp_path, "one"), lines, batches=(), **QUICK)
    evaluate(line_reader(tmp_path, "other", {"alphabet": "xbc "}), lines, batches=(), **QUICK)
    report = equiv(tmp_path / "one.yaml", tmp_path / "other.yaml")
    # Every a is an x: one of three characters, both of two, two of four.
    assert report.worst.worst.agreement == pytest.approx((2 / 3 + 0 + 2 / 4) / 3)


def test_a_wrong_alphabet_is_said_in_a_sentence(home, tmp_path, lines):
    (outcome,) = evaluate(line_reader(tmp_path, steps={"alphabet": "ab"}), lines, batches=(), **QUICK)
    assert "scores 5 symbols, but the manifest names 2" in outcome.errors[0]


def test_speech_of_any_length(home, tmp_path):
    for name, symbols in {"a": [1, 1, 0, 2], "b": [3, 0, 3, 3, 3, 0]}.items():
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(np.array(symbols, "<i2").tobytes())
    (tmp_path / "said.tsv").write_text("path\tsentence\na.wav\tab\nb.wav\tcc\n")
    sound = {"modality": "sound", "shape": [None, None], "sound": {"rate": 8000}}
    sound["preprocess"] = [{"op": "waveform", "scale": "int16"}]
    model = saved(tmp_path, "speech", sound, {"alphabet": ALPHABET}, input="float[N, T]", line="Identity (x)")
    (outcome,) = evaluate(model, f"sounds:{tmp_path}?text=said.tsv", batches=(1,), **QUICK)
    found = figures(outcome)
    assert (found["cer"], found["wer"], found["exact_match"]) == (0, 0, 1)


def test_manifests_in_the_documentation_are_valid():
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    whole = [yaml.safe_load(block) for block in blocks if block.startswith("zoolens:")]
    assert len(whole) >= 2
    for manifest in whole:
        Manifest.model_validate(manifest)
