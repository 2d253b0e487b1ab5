"""What is kept of distributions over the next token, how two models agree on them, and what is judged."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import DatasetError, ModelError
from zoolens.inventory.datasets.text_dataset import TextPair
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.preprocess.tokenizer_client import TokenPlaces
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.tasks.documents import AnswerClasses, as_json
from zoolens.inventory.tasks.foreseen_columns import NO_SEED, SAMPLE, Foreseen
from zoolens.inventory.tasks.language_model import ROLE, LanguageModel, _constant
from zoolens.inventory.tasks.output_setup import OutputSetup
from zoolens.inventory.tasks.scoring.next_tokens import compare_tokens, kept_tokens, most_likely
from zoolens.inventory.tasks.scoring.token_samples import position_seeds, text_seed
from zoolens.inventory.tasks.task import Answers
from zoolens.testing.task_contract import N, TaskContract

VOCABULARY = 30


def log_softmax(scores):
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def foreseen(seed, place, top=5):
    """A text of `place` tokens; which ones follow does not depend on the seed."""
    following = np.random.default_rng(place).integers(0, VOCABULARY, place)
    scores = np.random.default_rng((seed, place)).normal(size=(place, VOCABULARY)).astype(np.float32) * 3
    return Foreseen(following, kept_tokens(scores, following, top), 3 * place)


class TestLanguageModel(TaskContract):
    task_class = LanguageModel

    def values(self, seed):
        return [foreseen(seed, place) for place in range(N)]

    def truths(self):
        return [None if place == 3 else Truth("continuation", {"whole": np.array([True])}) for place in range(N)]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30), top=st.integers(1, 12), scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_what_is_told_of_a_pair_bounds_what_all_tokens_would_tell(seed, top, scale):
    random = np.random.default_rng(seed)
    scores = random.normal(size=(2, 7, VOCABULARY)) * scale
    scores[1] = scores[0] + random.normal(size=(7, VOCABULARY)) * random.choice([0.01, 1.0])
    following = random.integers(0, VOCABULARY, 7)
    pairs = compare_tokens(*(kept_tokens(each, following, top) for each in scores))
    p, q = (np.exp(log_softmax(each)) for each in scores)
    true = np.minimum(p, q).sum(axis=1)
    divergence = (p * np.log(p / q)).sum(axis=1)
    assert (pairs.least <= true + 1e-5).all()
    assert (pairs.agreement >= true - 1e-5).all()
    assert (pairs.divergence <= divergence + 1e-4).all()
    np.testing.assert_array_equal(pairs.same_best, p.argmax(axis=1) == q.argmax(axis=1))


def test_nothing_is_left_open_where_all_tokens_are_kept():
    scores = np.random.default_rng(0).normal(size=(2, 9, VOCABULARY)) * 2
    following = np.arange(9)
    pairs = compare_tokens(*(kept_tokens(each, following, VOCABULARY) for each in scores))
    p, q = (np.exp(log_softmax(each)) for each in scores)
    for found in (pairs.least, pairs.agreement):
        np.testing.assert_allclose(found, np.minimum(p, q).sum(axis=1), atol=2e-6)
    np.testing.assert_allclose(pairs.divergence, (p * np.log(p / q)).sum(axis=1), atol=2e-5)


def test_of_tokens_that_are_as_likely_the_lowest_numbers_are_kept():
    scores = np.zeros((1, 9))
    scores[0, 7] = 1.0
    kept = kept_tokens(scores, np.array([3]), 3)
    assert kept.ids.tolist() == [[7, 0, 1]]
    assert kept.true[0] == pytest.approx(log_softmax(scores)[0, 3])


def test_positions_can_be_chosen_and_types_are_those_of_any_session():
    scores = np.random.default_rng(5).integers(0, 200, (40, 9)).astype(np.uint8)
    places, following = np.array([37, 2, 19]), np.array([0, 8, 3])
    found = kept_tokens(scores, following, 4, places)
    wanted = kept_tokens(scores[places].astype(np.float32), following, 4)
    for name in ("true", "ids", "logs"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_no_scores_are_refused(bad):
    scores = np.zeros((2, 4))
    scores[1, 2] = bad
    with pytest.raises(ModelError, match="NaN or infinity"):
        kept_tokens(scores, np.array([0, 1]), 2)


def test_a_token_that_the_model_does_not_score_is_refused():
    with pytest.raises(ModelError, match="the token 9, but the model scores 4 tokens"):
        kept_tokens(np.zeros((1, 4)), np.array([9]), 2)


TEXT = "añb c"


def places(ids, ends, special=0, *, text=TEXT, cut=False, side="right"):
    """Each token begins where the one before ends; so many at the start are special."""
    count = len(ids)
    texts = np.array([-1] * special + [0] * (count - special))
    begins = np.array([0, *ends[:-1]])
    return TokenPlaces(text, begins, np.array(ends), texts, texts, side, np.array(ids), cut)


def read(scores, memo, *, likeliest_only=False, **step):
    tokenizer = Tokenizer(max_length=8, vocabulary=VOCABULARY)
    declared = Input(modality="text", shape=[None, None], dtype="int64", tokenizer=tokenizer)
    output = Output(task="language-model", postprocess=[{"op": "next_tokens", **step}])
    tensors = {ROLE: TensorSpec("logits", (None, None, None), "float32", likeliest_only=likeliest_only)}
    (found,) = LanguageModel().reader(OutputSetup(output, (declared,), tensors))({ROLE: scores}, [memo])
    return found


def scored(positions):
    return np.random.default_rng(1).normal(size=(1, positions, VOCABULARY)).astype(np.float32)


def test_each_position_foresees_the_next_token_and_the_first_token_is_foreseen_by_none():
    scores = scored(3)
    found = read(scores, places([5, 6, 7], [1, 3, 5]), top=4)
    assert found.following.tolist() == [6, 7]
    np.testing.assert_allclose(found.kept.true, log_softmax(scores[0].astype(float))[[0, 1], [6, 7]], rtol=1e-6)
    assert found.kept.ids.shape == (2, 4)
    assert found.bytes == len("ñb c".encode())


def test_behind_a_token_for_the_beginning_the_whole_text_is_foreseen():
    found = read(scored(3), places([1, 6, 7], [0, 2, 5], special=1))
    assert (found.following.tolist(), found.bytes) == ([6, 7], len(TEXT.encode()))


def test_of_a_text_that_was_cut_only_what_was_seen_counts():
    found = read(scored(3), places([5, 6, 7], [1, 2, 3], cut=True))
    assert found.bytes == len("ñb".encode())


def test_padding_is_not_foreseen():
    scores = scored(5)
    right = read(scores, places([5, 6], [2, 5]))
    left = read(scores[:, ::-1], places([5, 6], [2, 5], side="left"))
    assert right.following.tolist() == left.following.tolist() == [6]
    assert right.kept.true[0] == pytest.approx(log_softmax(scores[0, 0].astype(float))[6], rel=1e-6)
    assert left.kept.true[0] == pytest.approx(log_softmax(scores[0, 1].astype(float))[6], rel=1e-6)


def test_a_text_of_one_token_has_nothing_to_foresee():
    found = read(scored(1), places([5], [5]))
    assert (len(found.following), found.bytes) == (0, 0)


@pytest.mark.parametrize(
    ("scores", "memo", "error", "says"),
    [
        (scored(1)[0], places([5, 6], [1, 5]), ModelError, "not a score for each token"),
        (scored(1), places([5, 6], [1, 5]), ModelError, "1 positions for a text of 2 tokens"),
        (scored(2), places([5, 6], [1, 5], text=TextPair("a", "b")), DatasetError, "goes on with one text"),
    ],
)
def test_what_is_no_language_model_is_refused(scores, memo, error, says):
    with pytest.raises(error, match=says):
        read(scores, memo)


def answers(texts):
    task = LanguageModel()
    return Answers("out", task.name, task.keep(texts, None))


def test_figures_are_those_of_all_tokens_and_bytes_together():
    texts = [foreseen(1, place) for place in (2, 5, 1)]
    judgement = LanguageModel().judgement(answers(texts))
    nats = -sum(float(each.kept.true.sum()) for each in texts)
    right = sum(int((each.kept.ids[:, 0] == each.following).sum()) for each in texts)
    bits, perplexity, accuracy = judgement.aggregate(np.ones((1, 3), np.int64))[0]
    assert bits == pytest.approx(nats / math.log(2) / 24, rel=1e-6)
    assert perplexity == pytest.approx(math.exp(nats / 8), rel=1e-6)
    assert accuracy == right / 8
    assert judgement.notes == ("8 tokens of 24 bytes",)


def test_how_far_models_with_different_tokens_agree_is_not_known():
    a, b = answers([foreseen(1, 4), foreseen(1, 3)]), answers([foreseen(1, 5), foreseen(1, 3)])
    task = LanguageModel()
    assert np.isnan(task.agreement(a, b)).all()
    assert "different tokens" in task.unknown_agreement(a, b)
    assert task.figures(a, b).next_tokens is None
    assert not task.unknown_agreement(a, a)
    assert (task.incomparable(a, b), task.incomparable(a, a)) == (("perplexity", "next_token_accuracy"), ())


def test_a_network_that_sees_what_it_should_foresee_is_named():
    following = np.arange(9)
    scores = np.eye(VOCABULARY)[following] * 20
    judgement = LanguageModel().judgement(answers([Foreseen(following, kept_tokens(scores, following, 3), 9)]))
    assert "may see what it should foresee" in judgement.notes[1]


def test_a_pair_is_told_with_what_is_not_known():
    a, b = answers([foreseen(1, 4), foreseen(1, 9)]), answers([foreseen(2, 4), foreseen(2, 9)])
    task = LanguageModel()
    found = task.figures(a, b).next_tokens
    low, high = found.agreement
    assert high == pytest.approx(task.agreement(a, b).mean())
    assert 0 <= low < high < 1
    assert (found.kept, found.divergence > 0) == (5, True)
    same = task.figures(a, a).next_tokens
    assert (same.divergence, same.same_best, same.agreement.high) == (0, 1, 1)


def sampled_text(scores, text="a text"):
    following = np.zeros(len(scores), np.int64)
    seed = text_seed(text)
    seeds = position_seeds(np.array([seed]), np.array([len(scores)]))
    return Foreseen(following, kept_tokens(scores, following, 5, seeds=seeds), 9, seed)


def noisy_pair(seed, lengths, noise):
    random = np.random.default_rng(seed)
    first = [3 * random.normal(size=(count, VOCABULARY)) for count in lengths]
    return first, [scores + noise * random.normal(size=scores.shape) for scores in first]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 30), noise=st.sampled_from([0.0, 0.01, 0.3, 3.0]))
def test_limits_hold_what_all_tokens_would_tell(seed, noise):
    sides = noisy_pair(seed, (1, 4, 0, 40), noise)
    a, b = (answers([sampled_text(each, str(place)) for place, each in enumerate(side)]) for side in sides)
    task, true = LanguageModel(), []
    for ours, theirs in zip(*sides, strict=True):
        p, q = (np.exp(log_softmax(each)) if len(each) else each for each in (ours, theirs))
        true.append(np.minimum(p, q).sum(axis=1).mean() if len(p) else 1.0)
    assert (task.least_agreement(a, b) <= np.array(true) + 1e-5).all()
    estimate, found = task.agreement(a, b), task.figures(a, b).next_tokens
    assert (task.least_agreement(a, b) <= estimate).all()
    assert found.agreement.low <= estimate.mean() <= found.agreement.high
    assert task.mean_agreement(a, b) == found.agreement
    assert found.sampled
    assert found.agreement.low - 1e-5 <= np.mean(true) <= found.agreement.high + 1e-5


def test_a_sample_makes_the_limits_narrow():
    sides = noisy_pair(0, (200, 300), 0.01)
    a, b = (answers([sampled_text(each, str(place)) for place, each in enumerate(side)]) for side in sides)
    task = LanguageModel()
    narrow, wide = (task.figures(*pair).next_tokens.agreement for pair in ((a, b), (without(a), without(b))))
    assert wide.low <= narrow.low < narrow.high <= wide.high
    assert wide.high - wide.low > 0.08
    assert narrow.high - narrow.low < 0.02


def without(kept, *names):
    """As a run of before samples were kept."""
    gone = names or SAMPLE
    return replace(kept, columns={name: each for name, each in kept.columns.items() if name not in gone})


def test_samples_of_one_side_and_of_other_texts_are_left_aside():
    ours, theirs = noisy_pair(1, (30,), 0.1)
    a, b = answers([sampled_text(ours[0])]), answers([sampled_text(theirs[0])])
    other = answers([sampled_text(theirs[0], "another text")])
    task = LanguageModel()
    wanted = task.least_agreement(without(a), without(b))
    for pair in ((a, without(b)), (without(a), b), (a, without(b, "seed")), (a, other)):
        np.testing.assert_array_equal(task.least_agreement(*pair), wanted)
        assert not task.figures(*pair).next_tokens.sampled
    assert (task.least_agreement(a, b) > wanted + 0.05).all()


def test_a_token_for_the_beginning_takes_its_sample_with_it():
    """Of a text that one model foresees from its first token on, the other positions are compared."""
    scores, _ = noisy_pair(2, (12, 1, 7), 0.0)
    longer = answers([sampled_text(each, str(place)) for place, each in enumerate(scores)])
    shorter = answers([sampled_text(each[1:], str(place)) for place, each in enumerate(scores)])
    task = LanguageModel()
    ours, theirs = task.on_common_ground(longer, shorter)
    for name in SAMPLE:
        for mine, other in zip(ours.columns[name], theirs.columns[name], strict=True):
            np.testing.assert_array_equal(mine, other)
    assert task.least_agreement(ours, theirs)[0] > 0.9


def test_of_scores_that_are_not_the_models_no_sample_is_kept():
    scores, memo = scored(3), places([5, 6, 7], [1, 3, 5])
    assert read(scores, memo).kept.sample is not None
    assert read(scores, memo, likeliest_only=True).kept.sample is None
    (seed,) = answers([read(scores, memo, likeliest_only=True)]).columns["seed"]
    assert seed == NO_SEED


def test_tokens_without_any_probability_are_null_in_documents():
    scores = np.full((2, 9), -np.inf)
    scores[:, :2] = np.log([0.75, 0.25])
    following = np.array([0, 5])
    kept = answers([Foreseen(following, kept_tokens(scores, following, 3), 4)])
    document = json.loads(as_json(LanguageModel().document(kept, 0, AnswerClasses({}, {}))))
    assert document["bits_per_byte"] is None
    first, second = document["positions"]
    assert (first["logprob"], second["logprob"]) == (pytest.approx(math.log(0.75)), None)
    assert [each["logprob"] for each in first["top"]] == [*map(pytest.approx, np.log([0.75, 0.25])), None]


@pytest.mark.parametrize("count", [600, 5000, 50_000])
def test_blind_answers_do_not_know_the_shares_of_a_short_text(count):
    """Tokens as frequent as words are, of which a text has its own shares: with 600 of them 3 bits too few."""
    chances = 1 / np.arange(1, 50_001)
    chances /= chances.sum()
    truth = -(chances * np.log2(chances)).sum()
    drawn = np.random.default_rng(5).choice(50_000, count, p=chances)
    bits, _ = _constant(drawn, count)
    assert truth < bits < truth + 2


def test_blind_answers_with_few_tokens():
    assert _constant(np.array([3]), 5) == (None, None)
    assert _constant(np.tile(np.arange(4), 500), 1000)[0] == pytest.approx(4.0, abs=0.02)
    assert _constant(np.zeros(50, np.int64), 100)[0] < 0.1
    assert _constant(np.array([0, 1]), 1)[0] > 0


@pytest.mark.parametrize(("count", "wanted"), [(3, [1, 2, 0]), (1, [1]), (9, [1, 2, 0]), (0, [])])
def test_of_equally_likely_tokens_the_first_is_kept(count, wanted):
    ids, logs = most_likely(np.log(np.array([[0.2, 0.4, 0.4]])), count)
    assert ids[0].tolist() == wanted
    np.testing.assert_allclose(np.exp(logs[0]), [0.4, 0.4, 0.2][: len(wanted)])
