"""Choices by log-likelihood: which is chosen, what is judged, and what a tiny model makes of a file of them."""

import json

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import DatasetError
from zoolens.base.store.store import open_store
from zoolens.findings.measure.answers import run_predictions
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.datasets.text_dataset import Choices
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.preprocess.tokenizer_client import OpenTokenizer
from zoolens.inventory.tasks.multiple_choice import ACCURACY, ANSWER, BY_BYTES, Chosen, MultipleChoice, chosen
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers
from zoolens.testing import language_models
from zoolens.testing.task_contract import N, TaskContract


class TestMultipleChoice(TaskContract):
    task_class = MultipleChoice

    def values(self, seed):
        random = np.random.default_rng(seed)
        return [Chosen(-random.random(2 + place % 3) * 9, np.arange(1, 3 + place % 3)) for place in range(N)]

    def truths(self):
        return [None if place == 3 else Truth("choice", {ANSWER: np.array([place % 2])}) for place in range(N)]


def answers(*rows, right=()):
    task = MultipleChoice()
    kept = task.keep([Chosen(np.array(logs, float), np.array(sizes)) for logs, sizes in rows], None)
    truths = {ANSWER: np.array(right, np.int64), TRUTH_KNOWN: np.ones(len(right), np.int8)}
    return Answers("logits", task.name, kept, None, truths)


def test_the_likeliest_is_chosen_and_for_each_byte_another_one():
    found = answers(([-4.0, -6.0], [2, 8]), ([-1.0, -1.0], [1, 1]), right=[1, 0])
    assert chosen(found).tolist() == [0, 0]
    assert chosen(found, by_bytes=True).tolist() == [1, 0]
    judged = MultipleChoice().judgement(found)
    assert [metric.name for metric in judged.metrics] == [ACCURACY, BY_BYTES]
    assert judged.aggregate(np.ones((1, 2), np.int64)).tolist() == [[0.5, 1.0]]
    assert judged.main.blind == 0.5
    assert "choice 0 (-4.00 nats, 2.00 before the next)" in MultipleChoice().show(found, 0)


tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    draft_manifest(language_models.gguf(folder).path())
    declared = Tokenizer(max_length=8, vocabulary=language_models.VOCABULARY, padding="none")
    with_file = OpenTokenizer(declared, folder / "tiny.tokenizer.json")
    yield with_file
    with_file.close()


def ids(text):
    tokens = language_models.tokens()
    return [tokens.index({" ": "Ġ"}.get(letter, letter)) for letter in text]


def test_a_context_and_a_choice_are_split_together(tokenizer):
    # "AB" is one token, of which the context has the first letter: what stands behind its number of tokens counts.
    found = tokenizer.continued(Choices("XA", ("BC", "CD")))
    assert [choice.tolist() for choice in found.choices] == [ids("C"), ids("CD")]
    assert [row.tolist() for row in found.given] == [[*ids("X"), language_models.tokens().index("AB")], ids("XAC")]


def test_blanks_at_the_end_of_a_context_belong_to_the_choice(tokenizer):
    found = tokenizer.continued(Choices("X ", ("Y", "Z")))
    assert [choice.tolist() for choice in found.choices] == [ids(" Y"), ids(" Z")]


def test_a_long_context_loses_its_beginning(tokenizer):
    found = tokenizer.continued(Choices("XYZXYZXYZ", ("CD", "E")))
    assert [row.tolist() for row in found.given] == [ids("ZXYZXYZC")[-8:], ids("YZXYZXYZ")]
    assert found.cut == (True, True)


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        (Choices("", ("a", "b")), "Nothing stands before the choice 'a'"),
        (Choices("X", ("CDCDCDCDC", "b")), "9 tokens, more than the 8 that the model takes"),
        (Choices("XA", ("B", "C")), "The choice 'B' has no token of its own behind its context"),
        (Choices("XA", ("BC", "\udc80")), "half of a character"),
    ],
)
def test_choices_that_cannot_be_scored_are_refused(tokenizer, sample, says):
    with pytest.raises(DatasetError, match=says):
        tokenizer.continued(sample)


def test_a_model_chooses_as_numpy_does(tmp_path):
    pytest.importorskip("xllamacpp")
    (tmp_path / "models").mkdir()
    language_models.gguf(tmp_path / "models")
    asked = [
        {"context": "XYZ ", "choices": ["CD", "E", "HIJK"], "answer": 0},
        {"context": "QRS", "choices": ["TU", "VWX"], "answer": 1},
    ]
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, asked)))
    with open_store(tmp_path / "store") as store:
        (outcome,) = zoolens.evaluate(
            tmp_path / "models" / "tiny.gguf",
            data=f"choices:{tmp_path / 'asked.jsonl'}?delimiter=none",
            store=store,
            runtimes="llamacpp",
            precision="float32",
            batches=(),
            cold=False,
        )
        assert not outcome.errors
        assert outcome.run.model.manifest["outputs"][0]["task"] == "language-model"
        found = run_predictions(store, outcome.run).main
        figures = {each.metric: each.value for each in store.observations(outcome.run.id)}
    # The tokenizer of a bare file is not written beside it.
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["tiny.gguf"]
    assert found.task == "multiple-choice"
    expected = [[likelihood(one["context"], choice) for choice in one["choices"]] for one in asked]
    for place, logs in enumerate(expected):
        np.testing.assert_allclose(found.columns["choice_logprobs"][place], logs, atol=1e-4)
    right = [int(np.argmax(logs)) == one["answer"] for logs, one in zip(expected, asked, strict=True)]
    assert figures[ACCURACY] == np.mean(right)


def likelihood(context, choice):
    """As numpy computes it from the whole text; blanks at the end of the context belong to the choice."""
    start, whole = len(ids(context.rstrip())), ids(context + choice)
    logits = language_models.reference(whole[:-1])
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return sum(logs[place - 1, whole[place]] for place in range(start, len(whole)))
