"""Whether a language model works: yes, no, or not to be told from these texts."""

import numpy as np
import pytest

from zoolens.findings.audit.doctor.evidence import Evidence
from zoolens.findings.audit.doctor.evidence_figures import JudgedAnswers
from zoolens.findings.audit.doctor.next_token_sense import Works, next_token_sense
from zoolens.inventory.tasks.foreseen_columns import Foreseen
from zoolens.inventory.tasks.language_model import LanguageModel
from zoolens.inventory.tasks.scoring.next_tokens import kept_tokens
from zoolens.inventory.tasks.task import Answers

VOCABULARY = 50
OFTEN = 1 / np.arange(1, VOCABULARY + 1)  # how often each token is there
OFTEN /= OFTEN.sum()


def sense_of(texts, scored):
    """Of texts of 40 tokens each. `scored(random, following)`: scores of the vocabulary at each position."""
    random = np.random.default_rng(texts)
    values = []
    for _ in range(texts):
        following = random.choice(VOCABULARY, 40, p=OFTEN)
        values.append(Foreseen(following, kept_tokens(scored(random, following), following, 4), 120))
    answers = Answers("", "language-model", LanguageModel().keep(values, None))
    figure = JudgedAnswers(answers, np.zeros(texts, np.int32))
    found = next_token_sense(Evidence(None, np.arange(texts), figure), "texts")
    assert found is not None
    return found


def good(random, following):
    """Every third token is foreseen for certain."""
    scores = np.tile(np.log(OFTEN), (len(following), 1))
    seen = np.flatnonzero(np.arange(len(following)) % 3 == 0)
    scores[seen, following[seen]] = 12
    return scores.astype(np.float32)


def constant(random, following):
    return np.tile(np.log(OFTEN), (len(following), 1)).astype(np.float32)


def noise(random, following):
    return (3 * random.normal(size=(len(following), VOCABULARY))).astype(np.float32)


def test_a_model_that_foresees_tokens_works():
    found = sense_of(24, good)
    assert found.works is Works.YES
    assert found.sentence.startswith("The model works on these texts: ")
    assert "of 960 next tokens are right" in found.sentence


@pytest.mark.parametrize("texts", [1, 3, 5])
def test_few_texts_do_not_tell(texts):
    found = sense_of(texts, good)
    assert found.works is Works.UNKNOWN
    assert f"cannot be told from {'one text' if texts == 1 else f'{texts} texts'}: " in found.sentence
    assert "6 texts are the fewest" in found.sentence


def test_noise_does_not_work():
    assert sense_of(24, noise).works is Works.NO


@pytest.mark.parametrize("scored", [constant, noise])
@pytest.mark.parametrize("texts", range(6, 26))
def test_answers_that_do_not_depend_on_the_text_never_work(texts, scored):
    """A constant answer has the probabilities of the tokens better than these few texts tell them, and so fewer bits
    than the blind answers that they are compared with."""
    assert sense_of(texts, scored).works is not Works.YES


def test_tokens_that_are_foreseen_with_too_much_certainty_elsewhere_are_not_called_dead():
    """A third of the tokens are foreseen; the others cost more bits than blind answers do."""

    def sure(random, following):
        scores = (30 * random.normal(size=(len(following), VOCABULARY))).astype(np.float32)
        scores[::3] = 0
        scores[::3][np.arange(len(following[::3])), following[::3]] = 40
        return scores

    assert sense_of(24, sure).works is Works.UNKNOWN


def test_right_tokens_in_a_few_texts_alone_are_not_called_nothing():
    """Three of 24 texts are foreseen whole, which texts as they differ do not prove to be no chance."""
    texts = iter(range(24))

    def some(random, following):
        known = next(texts) < 3
        wanted = following if known else random.integers(0, VOCABULARY, len(following))
        scores = np.zeros((len(following), VOCABULARY), np.float32)
        scores[np.arange(len(following)), wanted] = 40
        return scores

    found = sense_of(24, some)
    assert found.works is Works.UNKNOWN, found.sentence
