"""Tags of words and answers in a text: how tensors are read, and how they are judged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import DatasetError, ManifestError, ModelError
from zoolens.inventory.datasets.text_dataset import TextPair, Words
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.preprocess.tokenizer_client import TokenPlaces
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.tasks.output_setup import OutputSetup
from zoolens.inventory.tasks.question_answering import QuestionAnswering
from zoolens.inventory.tasks.task import Answers
from zoolens.inventory.tasks.token_classification import TokenClassification
from zoolens.testing.task_contract import N, TaskContract

TAGS = ("O", "B-PER", "I-PER", "B-LOC")


def rows(seed):
    random = np.random.default_rng(seed)
    return [np.array(random.choice(TAGS, place % 5 + 1), object) for place in range(N)]


class TestTokenClassification(TaskContract):
    task_class = TokenClassification

    def values(self, seed):
        return rows(seed)

    def truths(self):
        return [Truth("tags", {"tags": np.array(row, str)}) for row in rows(7)]


class TestQuestionAnswering(TaskContract):
    task_class = QuestionAnswering

    def values(self, seed):
        return ["the answer", "", "42"] * (N // 3) if seed else ["an answer", "", "of 42"] * (N // 3)

    def truths(self):
        texts = [["answer", "the answer"], [], ["42"]] * (N // 3)
        return [Truth("spans", {"texts": np.array(each, str)}) for each in texts]


# --- tags


def places(words, of_tokens, side="right"):
    tokens = np.array(of_tokens)
    zeros = np.zeros(len(tokens), np.int64)
    return TokenPlaces(Words(tuple(words)), zeros, zeros, tokens, zeros, side)


TEXT = Input(modality="text", shape=(None, None), dtype="int64", tokenizer=Tokenizer(max_length=8, vocabulary=9))
EMISSIONS = TensorSpec("out", (None, None, len(TAGS)), "float32")


def reader(**output):
    declared = Output(task="token-classification", **{"labels": list(TAGS), **output})
    return TokenClassification().reader(OutputSetup(declared, (TEXT,), {"emissions": EMISSIONS}))


def scores(*best):
    """One row a token: the scores of the tags, highest for the one that is named."""
    return np.eye(len(TAGS), dtype=np.float32)[[TAGS.index(tag) for tag in best]]


def test_the_first_token_of_a_word_counts_unless_the_last_is_declared():
    emissions = scores("O", "B-PER", "I-PER", "O", "O")[None]  # [CLS] An ##na sings [SEP]
    memo = places(["Anna", "sings"], [-1, 0, 0, 1, -1])
    assert reader()({"emissions": emissions}, [memo])[0].tolist() == ["B-PER", "O"]
    last = reader(postprocess=[{"op": "subwords", "take": "last"}])
    assert last({"emissions": emissions}, [memo])[0].tolist() == ["I-PER", "O"]


def test_padding_on_either_side_is_left_out_and_words_that_were_cut_off_are_outside():
    emissions = np.stack([scores("B-PER", "I-PER", "B-LOC"), scores("B-LOC", "B-PER", "O")])
    memos = [places(["a", "b", "c"], [0, 1]), places(["a", "b"], [0, 1], "left")]
    assert [row.tolist() for row in reader()({"emissions": emissions}, memos)] == [
        ["B-PER", "I-PER", "O"],
        ["B-PER", "O"],
    ]


def test_declared_transitions_choose_the_best_path():
    forbidden = float("-inf")
    between = [[0, 0, forbidden, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, forbidden, 0]]
    emissions = scores("O", "I-PER")[None]
    emissions[0, 0, TAGS.index("B-PER")] = 0.2
    viterbi = reader(postprocess=[{"op": "viterbi", "transitions": between}])
    memo = places(["a", "b"], [0, 1])
    assert reader()({"emissions": emissions}, [memo])[0].tolist() == ["O", "I-PER"]
    assert viterbi({"emissions": emissions}, [memo])[0].tolist() == ["B-PER", "I-PER"]


def test_quantised_scores_are_weighed_against_transitions_as_real_numbers():
    """A score of 5 × 0.1 does not outweigh a transition of −1; one of 5 would."""
    spec = TensorSpec("out", (1, 2, 4), "int8", scale=0.1, zero_point=-3)
    between = [[0, 0, -1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    declared = Output(
        task="token-classification", labels=list(TAGS), postprocess=[{"op": "viterbi", "transitions": between}]
    )
    read = TokenClassification().reader(OutputSetup(declared, (TEXT,), {"emissions": spec}))
    raw = (5 * scores("O", "I-PER") - 3).astype(np.int8)[None]
    raw[0, 1, TAGS.index("O")] = -2
    assert read({"emissions": raw}, [places(["a", "b"], [0, 1])])[0].tolist() == ["O", "O"]


def test_tags_that_cannot_be_read_are_refused_in_words():
    with pytest.raises(ManifestError, match="needs labels"):
        reader(labels=None)
    with pytest.raises(ManifestError, match="'person' is neither O nor"):
        reader(labels=["O", "person"])
    with pytest.raises(ManifestError, match="4 labels, but transitions between 2"):
        reader(postprocess=[{"op": "viterbi", "transitions": [[0, 0], [0, 0]]}])
    with pytest.raises(ModelError, match="not one score for each of 4 labels"):
        reader()({"emissions": np.zeros((1, 2, 3))}, [places(["a"], [0, 0])])
    with pytest.raises(ModelError, match="NaN or infinity"):
        reader()({"emissions": np.full((1, 1, 4), np.nan)}, [places(["a"], [0])])
    text = TokenPlaces("a", *[np.zeros(1, np.int64)] * 4)
    with pytest.raises(DatasetError, match="was not split into words"):
        reader()({"emissions": np.zeros((1, 1, 4))}, [text])


def judged(true, found):
    task = TokenClassification()
    truths = task.keep_truth([Truth("tags", {"tags": np.array(row, str)}) for row in true])
    answers = Answers("out", task.name, task.keep([np.array(row, object) for row in found], None), truths=truths)
    judgement = task.judgement(answers)
    values = judgement.aggregate(np.ones((1, len(true)), np.int64))[0]
    return dict(zip([metric.name for metric in judgement.metrics], values.tolist(), strict=True)), judgement.notes


def test_entities_are_judged_as_seqeval_does():
    """seqeval 1.2.2: f1_score 0.5, precision 0.5, recall 0.5; PER 1.0, LOC 0.0."""
    true = [["B-PER", "I-PER", "O", "B-LOC"], ["O"]]
    found = [["B-PER", "I-PER", "O", "O"], ["B-MISC"]]
    figures, notes = judged(true, found)
    assert figures == pytest.approx({"f1": 0.5, "precision": 0.5, "recall": 0.5, "f1.PER": 1.0, "f1.LOC": 0.0})
    assert notes == (
        "2 true entities of 2 types",
        "the model finds entities of types that the dataset does not have: MISC",
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from(TAGS), min_size=1, max_size=6), min_size=1, max_size=5))
def test_the_truth_itself_has_an_f1_of_1(true):
    figures, _ = judged(true, true)
    assert figures["f1"] == 1 or (np.isnan(figures["f1"]) and not any(tag != "O" for row in true for tag in row))


# --- answers


CONTEXT = "Anna M. sings in Rome."


SPECS = {role: TensorSpec(role, (1, 9), "float32") for role in ("start", "end")}


def asked(starts, ends, specs=None, dtype=np.float32, **step):
    """[CLS] Who ? [SEP] Anna M. sings in Rome. [SEP]: the scores of three tokens before those of the context."""
    begins = np.array([0, 0, 0, 0, 5, 8, 14, 17, 0])
    stops = np.array([0, 3, 0, 4, 7, 13, 16, 22, 0])
    texts = np.array([-1, 0, -1, 1, 1, 1, 1, 1, -1])
    memo = TokenPlaces(TextPair("Who", CONTEXT), begins, stops, texts, texts)
    declared = Output(task="question-answering", parts={"start": "s", "end": "e"}, postprocess=[{"op": "span", **step}])
    read = QuestionAnswering().reader(OutputSetup(declared, (TEXT,), specs or SPECS))
    tensors = {"start": np.zeros((1, 9), dtype), "end": np.zeros((1, 9), dtype)}
    tensors["start"][0, list(starts)] = list(starts.values())
    tensors["end"][0, list(ends)] = list(ends.values())
    return read(tensors, [memo])[0]


def test_the_best_span_of_the_context_is_the_answer():
    assert asked({3: 5}, {4: 5}) == "Anna M."
    assert asked({1: 9, 7: 5}, {7: 5}) == "Rome."  # not in the question
    assert asked({3: 5}, {7: 5}, longest=2) == "Anna"
    assert asked({0: 9, 3: 2}, {0: 9, 4: 2}, no_answer=True) == ""
    assert asked({0: 9, 3: 2}, {0: 9, 4: 2}) == "Anna M."
    with pytest.raises(ModelError, match="NaN or infinity"):
        asked({3: np.nan}, {})


def test_quantised_scores_of_begin_and_end_are_added_as_real_numbers():
    """int8 without dequantising: 120 + 10 overflows or outweighs; really 12 + 10 loses against 1 + 100."""
    specs = {
        "start": TensorSpec("s", (1, 9), "int8", scale=0.1, zero_point=0),
        "end": TensorSpec("e", (1, 9), "int8", scale=10.0, zero_point=0),
    }
    starts, ends = {3: 120, 7: 10}, {3: 1, 7: 10, 4: 0}
    assert asked(starts, ends, specs, np.int8, longest=1) == "Rome."


def test_answers_are_judged_as_squad_does():
    task = QuestionAnswering()
    truths = [["Anna", "Anna M."], [], ["Rome"]]
    kept = task.keep_truth([Truth("spans", {"texts": np.array(each, str)}) for each in truths])
    answers = Answers("out", task.name, task.keep(["the Anna", "noon", "in Rome"], None), truths=kept)
    judgement = task.judgement(answers)
    values = judgement.aggregate(np.ones((1, 3), np.int64))[0]
    figures = dict(zip([metric.name for metric in judgement.metrics], values, strict=True))
    assert figures == pytest.approx(
        {"f1": (1 + 0 + 2 / 3) / 3, "exact_match": 1 / 3, "f1.answerable": 5 / 6, "f1.unanswerable": 0.0}
    )
    assert judgement.notes == ("as SQuAD 2.0 counts",)
    assert task.show(answers, 1) == "'noon'"
    np.testing.assert_array_equal(task.agreement(answers, answers), 1)


def test_steps_of_other_tasks_are_refused():
    with pytest.raises(ValueError, match="viterbi is for task: token-classification, not for task: classification"):
        Output(postprocess=[{"op": "viterbi", "transitions": [[0]]}])
    with pytest.raises(ValueError, match="span is for task: question-answering"):
        Output(task="embedding", postprocess=[{"op": "span"}])
    with pytest.raises(ValueError, match="transitions is a square"):
        Output(task="token-classification", postprocess=[{"op": "viterbi", "transitions": [[0, 1]]}])
