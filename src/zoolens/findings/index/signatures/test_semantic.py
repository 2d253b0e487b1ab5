"""The semantic index against brute force, in every way it may keep its signatures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.findings.index.signatures import vector_agreement
from zoolens.findings.index.signatures.journal import Damaged
from zoolens.findings.index.signatures.memory import memory_budget
from zoolens.findings.index.signatures.semantic import open_semantic
from zoolens.findings.index.signatures.transitivity import MAX_MODELS, infer

MEMORIES = [10**9, 9_000, 400, 0]  # all answers, all bits, some bits, nothing in memory


def family(models, probes, classes, seed=0):
    """Answers that differ from a common one in 0 to 30 % of the probes, and which are right."""
    random = np.random.default_rng(seed)
    base = random.integers(0, classes, probes)
    answers = np.tile(base, (models, 1))
    for row in answers:
        changed = random.random(probes) < random.uniform(0, 0.3)
        row[changed] = random.integers(0, classes, changed.sum())
    return answers, answers == base


def filled(answers, correct=None, *, memory=10**9, path=None, task="classification"):
    index = open_semantic(path, dataset="d", probes=answers.shape[1], task=task, memory=memory)
    for number, row in enumerate(answers):
        index.insert(f"m{number}", row, None if correct is None else correct[number])
    return index


def brute(answers, one):
    return np.array([np.mean(row == answers[one]) for row in answers])


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("classes", [10, 1_000, 100_000])
def test_everything_equals_brute_force(memory, classes):
    answers, correct = family(70, 300, classes)
    index = filled(answers, correct, memory=memory)
    assert index.sketched == (memory < answers.size)
    expected = brute(answers, 3)
    np.testing.assert_array_equal(index.agreement("m3"), expected)
    order = [i for i in np.lexsort((np.arange(70), -expected)) if i != 3]
    assert index.nearest("m3", 7) == [(f"m{i}", expected[i]) for i in order[:7]]
    for share in (0.5, 0.9, float(expected[order[2]])):
        assert index.at_least("m3", share) == [(f"m{i}", expected[i]) for i in order if expected[i] >= share]
    np.testing.assert_array_equal(index.accuracy(), correct.mean(axis=1))
    only_mine, only_theirs = index.paired("m3")
    np.testing.assert_array_equal(only_mine, (correct[3] & ~correct).sum(axis=1))
    np.testing.assert_array_equal(only_theirs, (~correct[3] & correct).sum(axis=1))


@settings(max_examples=60, deadline=None)
@given(
    moves=st.lists(st.tuples(st.sampled_from("iur"), st.integers(0, 7), st.integers(0, 400)), max_size=30),
    memory=st.sampled_from(MEMORIES),
    reopen=st.booleans(),
)
def test_any_history_ends_as_its_last_states(tmp_path_factory, moves, memory, reopen):
    path = tmp_path_factory.mktemp("history") / "x.zli"
    index = open_semantic(path, dataset="d", probes=20, memory=memory)
    state = {}
    for move, name, seed in moves:
        key = f"k{name}"
        if move == "r" and key in state:
            index.remove(key)
            del state[key]
        elif move != "r":
            state[key] = np.random.default_rng(seed).integers(0, 3 if seed < 200 else 70_000, 20)
            index.insert(key, state[key])
    if reopen:
        index = open_semantic(path, dataset="d", probes=20, memory=memory)
    assert sorted(index.keys) == sorted(state)
    for key in state:
        expected = [np.mean(state[other] == state[key]) for other in index.keys]
        np.testing.assert_array_equal(index.agreement(key), expected)
        np.testing.assert_array_equal(index.answers(key), state[key])


def test_a_second_object_sees_what_the_first_writes(tmp_path):
    answers, _ = family(4, 50, 10)
    path = tmp_path / "x.zli"
    one = filled(answers[:2], path=path)
    two = open_semantic(path, dataset="d", probes=50)
    one.insert("m2", answers[2])
    two.insert("m3", answers[3])
    one.refresh()
    assert one.keys == two.keys == ["m0", "m1", "m2", "m3"]
    np.testing.assert_array_equal(one.agreement("m0"), brute(answers, 0))
    two.remove("m1")
    one.remove("m1")  # somebody was first
    assert one.keys == ["m0", "m2", "m3"]


def test_replacing_and_removing_shrinks_the_file(tmp_path):
    answers, _ = family(30, 5_000, 10)
    index = filled(answers, path=tmp_path / "x.zli")
    largest = index.file_bytes
    for number in range(25):
        index.remove(f"m{number}")
    assert index.file_bytes < largest / 2
    assert (tmp_path / "x.zli").stat().st_size == index.file_bytes
    again = open_semantic(tmp_path / "x.zli", dataset="d", probes=5_000)
    assert again.keys == [f"m{number}" for number in range(25, 30)]
    np.testing.assert_array_equal(again.agreement("m29"), brute(answers, 29)[25:])


def test_a_damaged_file_is_announced_and_made_anew(tmp_path):
    path = tmp_path / "x.zli"
    answers, _ = family(3, 50, 10)
    filled(answers, path=path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    said = []
    index = open_semantic(path, dataset="d", probes=50, say=said.append)
    assert len(index) == 0
    assert len(said) == 1
    assert "damaged" in said[0]
    index.insert("m0", answers[0])
    assert open_semantic(path, dataset="d", probes=50).keys == ["m0"]


def test_damage_while_open_is_noticed_before_writing(tmp_path):
    answers, _ = family(3, 50, 10)
    index = filled(answers, path=tmp_path / "x.zli")
    with (tmp_path / "x.zli").open("ab") as file:
        file.write(b"\x07" * 40)
    with pytest.raises(Damaged):
        index.insert("m9", answers[0])


def test_memory_stays_within_the_budget():
    answers, _ = family(400, 640, 300)
    whole = filled(answers, memory=10**9)
    assert not whole.sketched
    small = filled(answers, memory=20_000)
    assert small.sketched
    assert small.nbytes <= 20_000 * 9 / 8 + 400 * 8  # sketches with room to grow, places
    np.testing.assert_array_equal(small.agreement("m7"), whole.agreement("m7"))
    assert small.nearest("m7", 3) == whole.nearest("m7", 3)


@pytest.mark.parametrize("text", ["-5", "nan", "1e400", "much"])
def test_a_budget_that_makes_no_sense_is_refused(monkeypatch, text):
    monkeypatch.setenv("ZOOLENS_INDEX_MB", text)
    with pytest.raises(ZoolensError, match=r"not a number|makes no sense"):
        memory_budget()


def test_vectors_agree_by_their_relative_distance():
    random = np.random.default_rng(0)
    base = random.normal(size=(40, 8)).astype(np.float32)
    index = open_semantic(None, dataset="d", probes=40, task="embedding")
    index.insert("a", base)
    index.insert("b", (base * 1.1).astype(np.float32))
    index.insert("c", -base)
    index.insert("short", base[:, :5])
    index.insert("zero", np.zeros((40, 8), np.float32))
    found = index.agreement("a")
    assert found[0] == 1
    assert found[1] == pytest.approx(1 - 0.1 / 1.1, abs=1e-6)
    assert found[2] == 0
    assert np.isnan(found[3])
    assert index.agreement("zero")[4] == 1
    assert [near.key for near in index.nearest("a", 9)] == ["b", "c", "zero"]
    assert np.isnan(index.accuracy()).all()
    assert (index.paired("a")[0] == -1).all()


def test_vectors_are_compared_piece_by_piece(monkeypatch):
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, 11, 3)).astype(np.float32) + 3
    whole = vector_agreement.vector_agreement(a, b)
    apart = np.linalg.norm(a - b, axis=1) / np.maximum(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    assert whole == pytest.approx(1 - apart.mean(), abs=1e-6)
    monkeypatch.setattr(vector_agreement, "_PIECE", 6)
    assert vector_agreement.vector_agreement(a, b) == pytest.approx(whole, abs=1e-12)


def test_refusals_say_what_is_wrong(tmp_path):
    index = filled(family(2, 50, 10)[0], path=tmp_path / "x.zli")
    with pytest.raises(ZoolensError, match="50 probes"):
        index.insert("short", np.zeros(49, int))
    with pytest.raises(ZoolensError, match="below 0"):
        index.insert("negative", np.full(50, -1))
    with pytest.raises(ZoolensError, match="index of classification"):
        index.insert("vectors", np.zeros((50, 3), np.float32))
    with pytest.raises(UnknownName, match="m7"):
        index.agreement("m7")
    with pytest.raises(UnknownName):
        index.remove("m7")
    assert index.keys == ["m0", "m1"]


def test_transitivity_compares_with_five_and_bounds_the_rest():
    answers, _ = family(40, 400, 10)
    index = filled(answers)
    exact = np.array([index.agreement(key) for key in index.keys])
    inferred = np.array([index.agreement(key, approximate="transitivity") for key in index.keys])
    assert (inferred <= exact + 1e-6).all()  # a bound of the difference from above
    direct = [np.isclose(inferred[39, :39], exact[39, :39], atol=1e-6)]
    assert np.sum(direct) >= 5
    assert np.sum(direct) < 39
    best = index.nearest("m39", 1, approximate="transitivity")[0]
    assert np.isclose(best.agreement, exact[39][index.keys.index(best.key)], atol=1e-6)  # one of the five


def test_transitivity_refuses_what_it_cannot_hold():
    with pytest.raises(ZoolensError, match="too much"):
        infer(lambda *_: np.zeros(0), MAX_MODELS + 1)
