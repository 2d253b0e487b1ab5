"""Models that take text are evaluated, compared and shown like any other; what would be wrong is said or refused."""

import csv
import json

import numpy as np
import pytest
from scripts.write_text_zoo import write_zoo

from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.comparisons.compatibility import compatible
from zoolens.findings.measure.answers import run_predictions
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.tasks.vectors import cosine
from zoolens.testing.text_models import (
    MAX_LENGTH,
    VECTORS,
    VOCABULARY,
    write_classifier,
    write_embedder,
    write_tokenizer,
)

pytest.importorskip("tokenizers")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

TEXTS = ["good film", "bad film", "Good good bad", "not bad bad good", "good " * 30 + "bad " * 60, "ship", "GOOD boat"]
LABELS = ["positive", "negative", "positive", "negative", "negative", "negative", "positive"]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("label\ttext\n" + "".join(f"{a}\t{b}\n" for a, b in zip(LABELS, TEXTS, strict=True)))
    return path


@pytest.fixture
def store(tmp_path, home):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def evaluated(model, data, store, **settings):
    settings = {"runtimes": ["onnxruntime"], "batches": (), "cold": False, "trust": True, **settings}
    (outcome,) = evaluate([model], data, store=store, **settings)
    return outcome


def top1(store, outcome):
    assert outcome.errors == ()
    (found,) = store.observations(outcome.run.id, metric="top1")
    return found.value


def test_words_reach_the_model_and_classes_are_matched_by_name(tmp_path, texts, store):
    """The last text but two is cut before it turns bad, so that the model is wrong on it, and this is said."""
    ways = [
        evaluated(write_classifier(tmp_path, f"model-{padding}", padding=padding), texts, store, batches=batches)
        for padding, batches in (("max_length", ()), ("longest", ()), ("none", (2,)))
    ]
    assert [top1(store, one) for one in ways] == pytest.approx([6 / 7] * 3)
    assert all(f"1 of 7 texts have more than {MAX_LENGTH} tokens and were cut" in one.notes for one in ways)
    assert any("padding: none, so that texts are run one at a time" in note for note in ways[2].notes)
    same = compare(ways[0].run.id, ways[2].run.id, store=store)
    assert same.answers.agreement == 1.0
    notes = compatible(ways[0].run, ways[2].run).notes
    assert "tokens of a text: A at most 8, filled up; B at most 8, not filled up" in notes
    turned = write_classifier(tmp_path, "turned", truncation="left")
    assert top1(store, evaluated(turned, texts, store)) == 1.0


@pytest.mark.slow
def test_padding_that_a_model_sees_changes_its_answers(tmp_path, texts, store):
    """Without a mask each word of padding counts: the same file is right where texts are run as they are."""
    padded = evaluated(write_classifier(tmp_path, "padded", mask=False, tensors={}), texts, store)
    alone = evaluated(write_classifier(tmp_path, "alone", mask=False, tensors={}, padding="none"), texts, store)
    assert top1(store, padded) == pytest.approx(3 / 7)
    assert top1(store, alone) == pytest.approx(6 / 7)


def test_vectors_of_tokens_become_one_of_a_text(tmp_path, texts, store):
    model = write_embedder(tmp_path, steps=("mean", "l2_normalize"), special_tokens=False)
    outcome = evaluated(model, texts, store)
    assert outcome.errors == ()
    assert any("its answers are not classes (task: embedding)" in note for note in outcome.notes)
    kept = run_predictions(store, outcome.run).main.columns["vector"]
    mean = VECTORS[[VOCABULARY.index(word) for word in ("good", "film")]].mean(axis=0)
    assert kept[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    whole = evaluated(write_embedder(tmp_path, "whole", padding="longest"), texts, store)
    assert "numbers for each token, of which texts have different counts" in whole.errors[0]


def test_what_does_not_belong_together_is_refused_in_words(tmp_path, texts, store):
    model = write_classifier(tmp_path)
    assert "The sample is 28×28×1 of uint8, but the model takes text" in evaluated(model, "demo", store).errors[0]
    said = evaluated("demo:lenet-torch", texts, store).errors[0]
    assert "The sample is a text, but the model takes numbers" in said
    write_tokenizer(tmp_path / "tokenizer.json", (*VOCABULARY, "zebra", "gnu"))
    texts.write_text("label\ttext\n1\tzebra gnu\n")
    assert (
        "gives a token the id 11, but the model knows the ids 0 to 9 only" in evaluated(model, texts, store).errors[0]
    )
    unchecked = write_classifier(tmp_path, "unchecked", vocabulary=99)
    assert "onnxruntime failed while running the model" in evaluated(unchecked, texts, store).errors[0]


@pytest.mark.slow
def test_another_tokenizer_is_another_model(tmp_path, texts, store):
    model = write_classifier(tmp_path)
    first = evaluated(model, texts, store)
    assert evaluated(model, texts, store).measured == ()
    write_tokenizer(tmp_path / "tokenizer.json", normalizer=None)  # upper case is unknown now
    second = evaluated(model, texts, store)
    assert second.run.id != first.run.id
    assert top1(store, second) < top1(store, first)
    assert not any("unknown to its tokenizer" in note for note in first.notes)


@pytest.mark.slow
def test_fewer_numbers_of_classes_than_outputs_are_told(tmp_path, store):
    """Labels that are numbers do not say which of three classes the second one is."""
    data = tmp_path / "numbers.csv"
    data.write_text("text,label\n" + "good,0\nbad,0\n" * 30)
    told = evaluated(write_classifier(tmp_path), data, store).notes
    assert any("no label of the data is above 0, but the model has 2 outputs" in note for note in told)


@pytest.mark.slow
def test_real_models_are_as_right_as_others_measured_them(tmp_path, store, assets):
    """The figures were measured independently of zoolens, with other code."""
    pytest.importorskip("ai_edge_litert")
    from scipy.stats import spearmanr

    zoo = {path.stem: path for path in write_zoo(assets, tmp_path / "zoo")}
    data = assets / "tasks" / "text" / "data"
    for model, name, expected in (
        ("word-average", "tweets", 0.7748), ("word-average", "amazon", 0.7104), ("word-average", "imdb400", 0.73),
        ("bi-gru", "tweets", 0.6398), ("bi-gru", "amazon", 0.6116), ("bi-gru", "imdb400", 0.7325),
    ):  # fmt: skip
        runtime = "litert" if model == "word-average" else "onnxruntime"
        outcome = evaluated(zoo[model], data / f"sentiment_{name}.tsv", store, runtimes=[runtime])
        assert top1(store, outcome) == pytest.approx(expected, abs=0.0006), (model, name)
    pairs = list(csv.reader((assets / "tasks" / "embeddings" / "data" / "stsb-en-test.csv").open(encoding="utf-8")))
    for model, expected in (("wordllama", 72.98), ("minilm", 81.95)):
        sides = []
        for side in (0, 1):
            table = tmp_path / f"side{side}.jsonl"
            table.write_text("".join(json.dumps({"text": pair[side]}) + "\n" for pair in pairs))
            outcome = evaluated(zoo[model], table, store)
            assert outcome.errors == ()
            sides.append(run_predictions(store, outcome.run).main.columns["vector"])
        alike = spearmanr(cosine(*sides), [float(pair[2]) for pair in pairs]).statistic
        assert 100 * alike == pytest.approx(expected, abs=0.1)
