"""Texts of a CTC output: how symbols become a text, how texts are judged, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.preprocess.outputs import labels_of
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.tasks.documents import AnswerClasses
from zoolens.inventory.tasks.output_setup import OutputSetup
from zoolens.inventory.tasks.task import Answers
from zoolens.inventory.tasks.text_recognition import ROLE, TextRecognition
from zoolens.testing.task_contract import N, TaskContract

TEXTS = ("a cat", "", "seven dogs", "ä\u3000b")


class TestTextRecognition(TaskContract):
    task_class = TextRecognition

    def values(self, seed):
        return [TEXTS[(place * (seed + 1)) % len(TEXTS)] for place in range(N)]

    def truths(self):
        texts = ["a hat", "x", "seven dogs", None] * (N // 4)
        return [None if text is None else Truth("text", {"text": np.array([text])}) for text in texts]


def reader(step=None, scale=None, **output):
    declared = Output(task="text-recognition", postprocess=[{"op": "ctc", **(step or {})}], **output)
    tensors = {ROLE: TensorSpec("out", (None, None, None), "float32" if scale is None else "int8", scale, 0)}
    return TextRecognition().reader(OutputSetup(declared, (), tensors))


def scores(numbers, symbols, dtype=np.float32):
    """One input whose best symbol at each step is the given one."""
    return np.eye(symbols, dtype=dtype)[list(numbers)][None]


def read(numbers, symbols, step=None, **output):
    (text,) = reader(step, **output)({ROLE: scores(numbers, symbols)}, [None])
    return text


def collapsed(numbers, blank):
    """CTC's collapse, one step at a time."""
    kept, before = [], None
    for number in numbers:
        if number not in (before, blank):
            kept.append(number)
        before = number
    return kept


@settings(max_examples=60, deadline=None)
@given(numbers=st.lists(st.integers(0, 3), min_size=1, max_size=12), blank=st.integers(0, 3))
def test_repeats_are_merged_and_blanks_left_out(numbers, blank):
    alphabet = "abc"
    named = [*alphabet[:blank], "-", *alphabet[blank:]]
    expected = "".join(named[number] for number in collapsed(numbers, blank))
    assert read(numbers, 4, {"blank": blank, "alphabet": alphabet}) == expected
    # Labels may name the blank too.
    assert read(numbers, 4, {"blank": blank}, labels=named) == expected


def test_the_blank_may_be_the_last_symbol_and_symbols_may_have_several_letters():
    assert read([0, 0, 2, 0, 1], 3, {"blank": -1, "alphabet": "lo"}) == "llo"
    assert read([1, 0, 2], 4, {"blank": 0}, labels=["ch", "sch", "x"]) == "chsch"


def test_spaces_delimiters_and_symbols_that_no_text_has():
    labels = ["<pad>", "<s>", "|", "E", "T"]
    step = {"word_delimiter": "|", "skip": ["<s>"], "case": "lower"}
    assert read([1, 4, 0, 3, 2, 3], 5, step, labels=labels) == "te e"
    assert read([1, 3, 2], 4, {"use_space_char": True}, labels=["a", "b"]) == "a b"


def test_axes_and_quantised_scores():
    values = scores([1, 2], 3)
    by_steps = reader({"layout": "NCT", "alphabet": "ab"})
    assert by_steps({ROLE: values.transpose(0, 2, 1)}, [None]) == ["ab"]
    quantised = reader({"alphabet": "ab"}, scale=0.5)
    assert quantised({ROLE: scores([1, 2], 3, np.int8)}, [None]) == ["ab"]
    assert reader({"alphabet": "ab"})({ROLE: np.zeros((1, 0, 3), np.float32)}, [None]) == [""]


def judged(texts, true):
    task = TextRecognition()
    truths = task.keep_truth([Truth("text", {"text": np.array([text])}) for text in true])
    return task.judgement(Answers("out", task.name, task.keep(texts, None), truths=truths))


def test_answers_that_a_reader_would_call_right_are_told():
    found = judged(["caf\u00e9", "ABC", "Ab", "x"], ["cafe\u0301", "abc", "ab", "y"])
    assert found.notes[1:] == (
        "1 wrong answer differs from the true text in the Unicode normal form (NFC or NFD) alone",
        "2 wrong answers differ from the true text in upper and lower case alone",
    )


def test_the_commonest_text_may_be_the_best_blind_answer():
    assert judged(["x"] * 4, ["abcd", "abcd", "abcd", "ab"]).main.blind == 2 / 14
    assert judged(["x"] * 40, [f"{number:04}" for number in range(40)]).main.blind == 1
    assert judged(["x"] * 2, ["", ""]).main.blind == 0  # whose rate is not defined


def test_a_file_of_symbols_keeps_its_spaces(tmp_path):
    (tmp_path / "keys.txt").write_bytes("a\r\n\u3000\n \u2028\n \n".encode())
    output = Output(task="text-recognition", labels_file="keys.txt")
    assert labels_of(output, tmp_path) == ("a", "\u3000", " \u2028", " ")
    assert labels_of(Output(labels_file="keys.txt"), tmp_path)[0] == "a"  # of classes, names are stripped


@pytest.mark.parametrize(
    ("step", "output", "words"),
    [
        ({}, {}, "needs the symbols that the network knows"),
        ({"alphabet": "ab"}, {"labels": ["a", "b"]}, "either labels or alphabet"),
        ({"alphabet": "ab", "word_delimiter": "|"}, {}, r"names the symbol '\|', which is not among the labels"),
    ],
)
def test_what_the_manifest_lacks_is_said_before_anything_runs(step, output, words):
    with pytest.raises(ManifestError, match=words):
        reader(step, **output)


def test_what_cannot_be_decoded_is_refused_in_words():
    with pytest.raises(
        ManifestError, match="scores 5 symbols, but the manifest names 2; there must be as many, or one"
    ):
        read([1], 5, {"alphabet": "ab"})
    with pytest.raises(ManifestError, match="The blank is symbol 9, but the model scores 3 symbols"):
        read([1], 3, {"alphabet": "ab", "blank": 9})
    with pytest.raises(ModelError, match="has shape 1×3, not a score for each symbol at each step"):
        reader({"alphabet": "ab"})({ROLE: np.zeros((1, 3), np.float32)}, [None])
    for wrong in (np.nan, np.inf):
        with pytest.raises(ModelError, match="NaN or infinity for a symbol"):
            reader({"alphabet": "ab"})({ROLE: np.full((1, 2, 3), wrong, np.float32)}, [None])
    masked = scores([1, 2], 3)
    masked[masked == 0] = -np.inf
    assert reader({"alphabet": "ab"})({ROLE: masked}, [None]) == ["ab"]
    with pytest.raises(ValueError, match="prefix beam search is not done"):
        reader({"alphabet": "ab", "beam": 5})
    with pytest.raises(ValueError, match="ctc is for task: text-recognition, not for task: classification"):
        Output(postprocess=[{"op": "ctc"}])
    plain = Output(task="text-recognition", labels=["a"])
    with pytest.raises(ManifestError, match="needs a step that says how symbols become a text"):
        TextRecognition().reader(OutputSetup(plain, (), {}))


# --- figures


def answers(texts, truths):
    columns, true = (np.array(each, object) for each in (texts, truths))
    return Answers("out", "text-recognition", {"text": columns}, None, {"text": true, "known": np.ones(len(texts))})


def test_error_rates_are_those_of_jiwer():
    """jiwer 4.0.0: `jiwer.cer(true, found)` is 0.20833333333333334, `jiwer.wer(true, found)` 0.5714285714285714."""
    true = ["the cat sat", "on a mat", "hello "]
    found = ["the bat sad", "on mat", "hallo"]
    judged = TextRecognition().judgement(answers(found, true))
    cer, wer, exact = judged.aggregate(np.ones((1, 3), np.int64))[0]
    assert (cer, wer) == (pytest.approx(0.20833333333333334), pytest.approx(0.5714285714285714))
    assert exact == 0
    # A resample that has the last input only.
    assert judged.aggregate(np.array([[0, 0, 4]]))[0].tolist() == pytest.approx([1 / 5, 1, 0])
    assert judged.main.name == "cer"
    assert judged.main.lower_is_better


def test_empty_texts_are_no_division_by_zero():
    judged = TextRecognition().judgement(answers(["ab", ""], ["", ""]))
    assert "2 true texts are empty" in " ".join(judged.notes)
    cer, wer, exact = judged.aggregate(np.ones((1, 2), np.int64))[0]
    assert np.isnan([cer, wer]).all()
    assert exact == 0.5
    both = answers(["", "abcd"], ["", "abxy"])
    assert TextRecognition().agreement(both, both).tolist() == [1, 1]
    assert TextRecognition().scores(both, np.zeros(2)).tolist() == [1, 0.5]


def test_two_readers_agree_as_far_as_their_texts_do():
    task = TextRecognition()
    a, b = answers(["kitten", "a", ""], [""] * 3), answers(["sitting", "b", "xyz"], [""] * 3)
    np.testing.assert_allclose(task.agreement(a, b), [1 - 3 / 7, 0, 0])
    np.testing.assert_allclose(task.agreement(a, b), task.agreement(b, a))
    assert task.show(a, 0) == "'kitten'"
    assert task.show(a, 2) == "no text"


def test_a_server_sends_the_text_as_it_is():
    assert TextRecognition().document(answers([" a\nb "], [""]), 0, AnswerClasses()) == {"text": " a\nb "}
