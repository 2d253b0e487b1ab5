"""What is wrong in the manifest of a language model is found, and a right one is called right."""

import json

import numpy as np
import pytest
import yaml

from zoolens.findings.audit.doctor.diagnose import doctor
from zoolens.findings.audit.doctor.diagnosis import Status
from zoolens.findings.audit.doctor.next_token_sense import Works
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.preprocess.tokenizer_client import OpenTokenizer
from zoolens.inventory.tasks.foreseen_columns import Foreseen
from zoolens.inventory.tasks.language_model import LanguageModel, foreseen_tokens
from zoolens.inventory.tasks.scoring.next_tokens import kept_tokens
from zoolens.inventory.tasks.task import Answers
from zoolens.testing import language_models
from zoolens.testing.next_token_models import MAX_LENGTH, write_model, write_texts

pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("circle")


@pytest.fixture
def examine(folder):
    def examined(name, *, texts=120, **declared):
        path = write_model(folder, name, **declared)
        return doctor(str(path), write_texts(folder, texts, 12), runtime="onnxruntime", store=folder / "store.sqlite")

    return examined


def reasons(diagnosis):
    return {one.factor: one.reason for one in diagnosis.not_swept}


def test_the_right_manifest_is_right(examine):
    found = examine("right", texts=240)
    assert (found.status, found.metric, found.faults) == (Status.RIGHT, "bits_per_byte", ())
    assert found.sense.works is Works.YES
    (other,) = found.trials[1:]
    assert other.change > 0.1
    assert other.change_interval.low > 0
    assert reasons(found)["context length"] == f"no text has more than the {MAX_LENGTH} tokens of max_length."
    assert "truncation" in reasons(found)
    assert "casing" in reasons(found)
    assert any("on the tokens that both foresee" in note for note in found.notes)


@pytest.mark.parametrize(
    ("declared", "fault"),
    [
        ({"special_tokens": False}, ("special tokens", "not added", "added")),
        pytest.param({"begins": False}, ("special tokens", "added", "not added"), marks=pytest.mark.slow),
    ],
)
def test_a_wrong_beginning_is_found(examine, declared, fault):
    found = examine("-".join(declared), **declared)
    assert found.status is Status.WRONG
    assert [(one.factor, one.declared, one.correct) for one in found.faults] == [fault]
    assert found.confirmation.fresh
    assert found.confirmation.after < found.confirmation.before
    assert found.corrected.inputs[0].tokenizer.special_tokens is (fault[2] == "added")


@pytest.mark.slow
def test_a_context_that_is_too_short_is_found(examine):
    found = examine("short", max_length=4)
    assert found.status is Status.IMPROVABLE  # how much of a text is given is a matter of protocol
    assert [one.factor for one in found.faults] == ["context length"]
    assert found.corrected.inputs[0].tokenizer.max_length > 12


def test_few_texts_decide_nothing(examine):
    found = examine("few", texts=4)
    assert found.status is Status.UNDECIDED
    assert "do not rule out" in found.sentence
    assert found.sense.works is Works.UNKNOWN


def answers(following, seed):
    """Of one text for each row of tokens."""
    kept = [
        Foreseen(row, kept_tokens(np.random.default_rng(seed).normal(size=(len(row), 9)), row, 4), 10 + len(row))
        for row in map(np.array, following)
    ]
    return Answers("", "language-model", LanguageModel().keep(kept, None))


def test_only_the_first_token_is_left_out_of_a_comparison():
    task = LanguageModel()
    longer, shorter = answers([[5, 1, 2], [7, 3]], 0), answers([[1, 2], [3]], 1)
    a, b = task.on_common_ground(longer, shorter)
    assert b is shorter
    np.testing.assert_array_equal(a.columns["following"].values, [1, 2, 3])
    np.testing.assert_array_equal(a.columns["true_logprob"][0], longer.columns["true_logprob"][0][1:])
    np.testing.assert_array_equal(a.columns["top_ids"][1], longer.columns["top_ids"][1][4:])
    np.testing.assert_array_equal(a.columns["bytes"], shorter.columns["bytes"])
    assert task.on_common_ground(shorter, longer)[1].columns["following"].values.tolist() == [1, 2, 3]
    other = answers([[1, 2], [4]], 1)
    assert task.on_common_ground(longer, other) == (longer, other)
    assert task.on_common_ground(longer, longer) == (longer, longer)


# --- GGUF files, which hold a tokenizer of their own


LETTERS = "CDEFGHIJKL"


def letters_model(folder):
    """Letters that follow each other in a circle: attention and the inner layers add nothing."""
    tensors = {name: np.zeros_like(values) for name, values in language_models.weights().items()}
    tensors |= {name: np.ones_like(values) for name, values in tensors.items() if "norm" in name}
    numbers = {letter: language_models.tokens().index(letter) for letter in LETTERS}
    output = np.zeros_like(tensors["token_embd.weight"])
    for place, letter in enumerate(LETTERS):
        tensors["token_embd.weight"][numbers[letter], place] = 1
        output[numbers[LETTERS[(place + 1) % len(LETTERS)]], place] = 4 / np.sqrt(language_models.WIDTH)
    tensors["token_embd.weight"][tensors["token_embd.weight"].sum(axis=1) == 0, -1] = 1
    path = folder / "letters.gguf"
    path.write_bytes(language_models.gguf_bytes(language_models.metadata(), {**tensors, "output.weight": output}))
    return path


def letters_text(folder, lines):
    random, text = np.random.default_rng(2), []
    for _ in range(lines):
        place, line = 0, ""
        for _ in range(15):
            line += LETTERS[place]
            place = (place + 1) % len(LETTERS) if random.random() < 0.7 else int(random.integers(len(LETTERS)))
        text.append(line + "\n")
    (folder / "letters.txt").write_text("".join(text))
    return f"passages:{folder / 'letters.txt'}?size=16"


@pytest.mark.slow
def test_the_tokenizer_of_another_model_is_found(tmp_path):
    pytest.importorskip("xllamacpp")
    manifest = draft_manifest(letters_model(tmp_path))
    write_manifest(manifest, tmp_path / "right.yaml")
    data = letters_text(tmp_path, 120)
    right = doctor(str(tmp_path / "right.yaml"), data, store=tmp_path / "store.sqlite")
    assert (right.status, right.sense.works) == (Status.UNDECIDED, Works.YES)  # there is nothing to try
    assert reasons(right)["special tokens"] == "the tokenizer adds none to these texts."
    assert reasons(right)["tokenizer"] == "it is the one that the GGUF file holds."

    content = json.loads((tmp_path / "letters.tokenizer.json").read_text())
    words = content["model"]["vocab"]
    words["C"], words["F"] = words["F"], words["C"]
    (tmp_path / "other.json").write_text(json.dumps(content))
    declared = yaml.safe_load((tmp_path / "right.yaml").read_text())
    declared["name"] = "other"
    declared["assets"][0]["files"][1] = {"location": "other.json", "role": "tokenizer"}
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(declared))
    found = doctor(str(tmp_path / "other.yaml"), data, store=tmp_path / "store.sqlite")
    assert found.status is Status.WRONG
    assert [(one.factor, one.declared, one.correct) for one in found.faults] == [
        ("tokenizer", "other.json", "the one in the GGUF file")
    ]
    own = next(file for file in found.corrected.assets[0].files if file.role == "tokenizer")
    assert own.sha256 == next(file for file in manifest.assets[0].files if file.role == "tokenizer").sha256


def test_tokens_that_are_to_be_foreseen(tmp_path):
    """The numbers that a run keeps are those of the tokenizer, behind the first one."""
    manifest = draft_manifest(letters_model(tmp_path))
    tokenizer = OpenTokenizer(manifest.inputs[0].tokenizer, tmp_path / "letters.tokenizer.json")
    (places,) = tokenizer.encode(["CDE"], places=True).places
    tokenizer.close()
    assert foreseen_tokens(places).tolist() == [1, 2]
