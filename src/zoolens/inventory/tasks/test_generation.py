"""Texts that models write: where two part and how near a tie that is, and what a tiny model makes of prompts."""

import json

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import DatasetError
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.wording import continuation_words
from zoolens.findings.measure.answers import run_predictions
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.text_dataset import ChatMessage, Prompt, TextDataset, Writing
from zoolens.inventory.tasks.generation import DRAWN, DRAWS, IDS, LOGS, PROMPT, TEXT, WRITTEN, Generation
from zoolens.inventory.tasks.task import Answers
from zoolens.testing import language_models
from zoolens.testing.task_contract import N, TaskContract


def written(tokens, others=None, logs=(-0.5, -0.55), prompt=(1, 2), drawn=None):
    """An answer with two kept tokens at each position: the written one and another."""
    others = [99] * len(tokens) if others is None else others
    return {
        PROMPT: np.array(prompt),
        WRITTEN: np.array(tokens),
        IDS: np.array(list(zip(tokens, others, strict=True))),
        LOGS: np.array([logs] * len(tokens), np.float32),
        TEXT: np.frombuffer(" ".join(map(str, tokens)).encode(), np.uint8),
        DRAWN: np.zeros((0, 4), int) if drawn is None else np.array(drawn),
    }


class TestGeneration(TaskContract):
    task_class = Generation

    def values(self, seed):
        random = np.random.default_rng(seed)
        return [written(random.integers(0, 3, 1 + place % 5).tolist()) for place in range(N)]


def answers(*rows):
    task = Generation()
    return Answers("logits", task.name, task.keep(rows, None))


def test_agreement_is_the_share_before_the_first_other_token():
    ours = answers(written([1, 2, 3, 4]), written([1, 2]), written([7]))
    theirs = answers(written([1, 2, 9, 4]), written([1, 2]), written([8, 1, 1]))
    assert Generation().agreement(ours, theirs).tolist() == [0.5, 1, 0]


def test_a_near_tie_is_told_from_another_opinion():
    ours = answers(written([1, 2, 3], [8, 8, 9]), written([5], [6], (-0.1, -2.4)), written([4], [5]))
    theirs = answers(written([1, 2, 9], [8, 8, 3]), written([6], [5]), written([4], [5]))
    found = Generation().figures(ours, theirs).continuations
    assert (found.prompts, found.identical, found.common_tokens, found.near_ties, found.at_least) == (3, 1, 1.0, 1, 0)
    assert found.gap_a == pytest.approx((0.05 + 2.3) / 2)
    assert found.gap_b == pytest.approx(0.05)


def test_a_token_that_was_not_kept_gives_a_lower_bound_and_is_no_near_tie():
    found = Generation().figures(answers(written([1])), answers(written([2]))).continuations
    assert (found.near_ties, found.at_least) == (0, 1)


def test_a_text_that_goes_on_where_the_other_ends_is_another_text():
    found = Generation().figures(answers(written([5, 2])), answers(written([5, 2, 7, 8]))).continuations
    assert (found.identical, found.common_tokens, found.gap_a, found.near_ties) == (0, 2.0, None, 0)
    assert "0 of 1 prompts; the others part after 2 tokens (median), where one ends" in continuation_words(found)


def test_prompts_in_other_tokens_are_not_compared():
    ours, theirs = answers(written([1])), answers(written([1], prompt=(1, 3)))
    assert np.isnan(Generation().agreement(ours, theirs)).all()
    assert "different tokens" in Generation().unknown_agreement(ours, theirs)
    assert Generation().figures(ours, theirs).continuations is None


def prompts(folder, *texts, options=""):
    (folder / "prompts.jsonl").write_text("\n".join(json.dumps({"prompt": text}) for text in texts))
    return f"prompts:{folder / 'prompts.jsonl'}{options}"


@pytest.mark.parametrize(
    ("line", "options", "says"),
    [
        ('{"text": "a"}', "", "has no 'prompt', but text"),
        ('{"prompt": 3}', "", "has no text in 'prompt', but '3'"),
        ('{"prompt": "a", "messages": []}', "", "has both 'prompt' and 'messages'"),
        ('{"messages": []}', "", "has no list of messages"),
        ('{"messages": [{"role": "user"}]}', "", "not {role, content}"),
        ('{"messages": [{"role": "user", "content": "a", "name": "b"}]}', "", "not {role, content}"),
        ('{"prompt": "a"}', "?tokens=0", "tokens is a number from 1 to 65,536, not '0'"),
        ('{"prompt": "a"}', "?tokens=many", "not 'many'"),
        ('{"prompt": "a"}', "?draws=65", "draws is a number from 0 to 64, not '65'"),
        ('{"prompt": "a"}', "?temperature=nan", "temperature is a number from 0.01 to 100, not 'nan'"),
    ],
)
def test_prompts_that_cannot_be_read_are_explained(tmp_path, line, options, says):
    (tmp_path / "prompts.jsonl").write_text(line)
    with pytest.raises(DatasetError, match=says):
        open_dataset(f"prompts:{tmp_path / 'prompts.jsonl'}{options}")


def test_how_much_is_written_belongs_to_the_data(tmp_path):
    few, many = (open_dataset(prompts(tmp_path, "X", options=f"?tokens={count}")) for count in (3, 4))
    assert few.fingerprint() != many.fingerprint()


def evaluated(tmp_path, store, data, **options):
    language_models.gguf(tmp_path)
    (outcome,) = zoolens.evaluate(
        tmp_path / "tiny.gguf", data=data, store=store, runtimes="llamacpp", batches=(), cold=False, **options
    )
    return outcome


def test_a_model_writes_as_numpy_does(tmp_path):
    pytest.importorskip("xllamacpp")
    pytest.importorskip("tokenizers")
    data = prompts(tmp_path, "XYZ", "QRS AB", options="?tokens=6")
    with open_store(tmp_path / "store") as store:
        outcome = evaluated(tmp_path, store, data, precision="float32")
        assert not outcome.errors
        found = run_predictions(store, outcome.run).main
    assert found.task == "generation"
    end = language_models.VOCABULARY - 1
    for place in range(2):
        text = found.columns[PROMPT][place].tolist()
        for number, token in enumerate(found.columns[WRITTEN][place].tolist()):
            logits = language_models.reference(text)[-1]
            assert token == int(np.argmax(logits))
            logs = logits - np.log(np.exp(logits).sum())
            np.testing.assert_allclose(
                found.columns[LOGS][place].reshape(-1, 20)[number], np.sort(logs)[::-1][:20], atol=1e-4
            )
            text.append(token)
        assert len(found.columns[WRITTEN][place]) == 6 or text[-1] == end


def test_conversations_are_prompts_by_the_chat_template(tmp_path):
    pytest.importorskip("xllamacpp")
    pytest.importorskip("tokenizers")
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}:{% endif %}"
    talk = [{"role": "system", "content": "XY"}, {"role": "user", "content": "Z "}]
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"messages": talk}) + '\n{"prompt": "XYZ :"}')
    data = f"prompts:{tmp_path / 'prompts.jsonl'}?tokens=5"
    language_models.gguf(tmp_path, tokenizer__chat_template=template)
    with open_store(tmp_path / "store") as store:
        (outcome,) = zoolens.evaluate(
            tmp_path / "tiny.gguf", data=data, store=store, runtimes="llamacpp", batches=(), cold=False
        )
        assert not outcome.errors
        found = run_predictions(store, outcome.run).main
        for column in (PROMPT, WRITTEN):
            conversation, text = found.columns[column]
            assert conversation.tolist() == text.tolist()
        assert len(found.columns[PROMPT][0]) == 5
        language_models.gguf(tmp_path)
        (outcome,) = zoolens.evaluate(
            tmp_path / "tiny.gguf", data=data, store=store, runtimes="llamacpp", batches=(), cold=False
        )
        assert "the manifest has no chat template" in str(outcome.errors)
    few, other = (TextDataset([Prompt("", Writing(3), talk)], name="a") for talk in (TALK, TALK[:1]))
    assert few.fingerprint() != other.fingerprint()
    assert str(Prompt("", Writing(3), TALK)) == "user: a\nassistant: b"


TALK = (ChatMessage("user", "a"), ChatMessage("assistant", "b"))


def test_what_cannot_be_continued_is_said(tmp_path):
    pytest.importorskip("xllamacpp")
    pytest.importorskip("tokenizers")
    with open_store(tmp_path / "store") as store:
        outcome = evaluated(tmp_path, store, prompts(tmp_path, "X" * 590, options="?tokens=20"))
        assert "would have 601 tokens, and the context of tiny.gguf has 600" in str(outcome.errors)
        outcome = evaluated(tmp_path, store, prompts(tmp_path, "X" * 700))
        assert "A prompt has more than the 600 tokens" in str(outcome.errors)


def test_drawn_texts_of_other_models_are_told_apart():
    random = np.random.default_rng(0)
    ours, theirs, others = (
        answers(*(written([1], drawn=random.integers(low, low + 3, (6, 5)), prompt=(n,)) for n in range(12)))
        for low in (0, 0, 2)
    )
    assert Generation().figures(ours, theirs).samples.same is None
    found = Generation().figures(ours, others).samples
    assert (found.same, found.draws, found.prompts) == (False, 6, 12)
    assert Generation().figures(answers(written([1])), answers(written([1]))).samples is None


def test_prompts_that_come_again_are_counted_once():
    random = np.random.default_rng(0)
    ours, theirs = ([written([1], drawn=random.integers(0, 3, (4, 5)), prompt=(n,)) for n in range(3)] for _ in "ab")
    once = Generation().figures(answers(*ours), answers(*theirs)).samples
    assert once.prompts == 3
    assert Generation().figures(answers(*ours, *ours[::-1]), answers(*theirs, *theirs[::-1])).samples == once


def test_the_same_tokens_of_another_tokenizer_are_not_compared():
    ours, other = written([1, 2]), written([1, 2])
    blank = {**ours, TEXT: np.frombuffer(b" 1 2", np.uint8)}
    assert Generation().unknown_agreement(answers(ours), answers(blank)) == ""
    other[TEXT] = np.frombuffer(b"b c", np.uint8)
    assert "the same tokens are different texts" in Generation().unknown_agreement(answers(ours), answers(other))
    assert np.isnan(Generation().agreement(answers(ours), answers(other))).all()
    assert Generation().figures(answers(ours), answers(other)).continuations is None


def test_a_model_draws_from_its_distribution(tmp_path):
    pytest.importorskip("xllamacpp")
    pytest.importorskip("tokenizers")
    data = prompts(tmp_path, "XYZ", "ABC", options="?tokens=1&draws=64&seed=5")
    with open_store(tmp_path / "store") as store:
        found = run_predictions(store, evaluated(tmp_path, store, data).run).main
        again = run_predictions(store, evaluated(tmp_path, store, data, threads=1).run).main
    assert found.columns[DRAWS].tolist() == [64, 64]
    for place in range(2):
        draws = found.columns[DRAWN][place]
        logits = language_models.reference(found.columns[PROMPT][place].tolist())[-1]
        chances = np.exp(logits - logits.max())
        best = int(np.argmax(chances))
        expected = chances[best] / chances.sum()
        # Five standard deviations of a count among 64.
        assert abs(np.mean(draws == best) - expected) < 5 * np.sqrt(expected * (1 - expected) / 64) + 1e-9
    # Another run draws from a stream of its own.
    assert not np.array_equal(found.columns[DRAWN][0], again.columns[DRAWN][0])
