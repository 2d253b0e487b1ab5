"""Questions with choices, and what is refused of them."""

import json

import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.text_dataset import Choices


@pytest.fixture
def opened(tmp_path):
    def opened(*lines, options=""):
        file = tmp_path / "asked.jsonl"
        file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
        return open_dataset(f"choices:{file}{options}")

    return opened


def asked(**changed):
    return {"context": "The sky is", "choices": ["blue", "a fish"], "answer": 0, **changed}


def test_a_line_is_a_question_with_its_choices(opened):
    dataset = opened(asked(), asked(answer="1", choices=["a", "b", "ñ"]), asked(answer=None))
    assert (len(dataset), dataset.truth_kind, dataset.name) == (3, "choice", "asked")
    sample = dataset.read(0).value[()]
    assert sample == Choices("The sky is", ("blue", "a fish"), " ")
    assert sample.continuations == (" blue", " a fish")
    assert [dataset.truth(place) and int(dataset.truth(place)["answer"][0]) for place in range(3)] == [0, 1, None]


def test_fields_may_have_other_names_and_nothing_may_stand_before_a_choice(opened):
    row = {"ctx": "a", "endings": [" b", " c"], "label": 1}
    dataset = opened(row, options="?context=ctx&choices=endings&answer=label&delimiter=none")
    assert dataset.read(0).value[()].continuations == (" b", " c")
    assert dataset.fingerprint() != opened(row, options="?context=ctx&choices=endings&answer=label").fingerprint()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (asked(choices=[]), "0 choices; 2 to 100"),
        (asked(choices=["only"]), "1 choices; 2 to 100"),
        (asked(choices=["a"] * 101), "101 choices"),
        (asked(choices=["a", ""]), "an empty choice"),
        (asked(choices=["a", 3]), "no list of texts in 'choices'"),
        (asked(choices="ab"), "no list of texts in 'choices'"),
        (asked(context=None), "no text in 'context'"),
        (asked(answer=2), "the answer '2', which is not the place of one of its 2 choices"),
        (asked(answer=-1), "the answer '-1'"),
        (asked(answer=True), "the answer 'True'"),
        (asked(answer=0.5), "the answer '0.5'"),
        (asked(answer="²"), "the answer '²'"),
        (asked(context="x" * (1 << 20)), "1,048,583 bytes in its context and a choice"),
        ({"question": "?"}, "has no 'context', but question"),
        ("[1, 2]", "is not a JSON object"),
        ("{", "is not JSON"),
        (asked(choices=["a"] * 5000), "line 1"),
    ],
)
def test_what_is_no_question_is_refused_with_its_line(opened, line, says):
    with pytest.raises(DatasetError, match=says) as caught:
        opened(line)
    assert "line 1" in str(caught.value)
    assert len(str(caught.value)) < 500
