import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ZoolensError
from zoolens.training.crosstrain.study.search.journal import Journal, TrialResult

POINTS = [{"learning_rate": 0.1 * n + 1e-17, "epochs": n} for n in range(1, 5)]


@pytest.fixture
def written(tmp_path, plan):
    """Three trials asked, two of them answered."""
    path = tmp_path / "journal.jsonl"
    with Journal(path, plan()) as journal:
        asked = [journal.ask(0, point) for point in POINTS[:3]]
        journal.tell(asked[0], TrialResult(delta=0.25, accuracies={"torch": 0.5, "jax": 0.25}, seconds=2))
        journal.tell(asked[2], TrialResult(status="out-of-memory", message="no room", seconds=1))
    return path


def read(path, plan):
    with Journal(path, plan) as journal:
        return journal


def test_what_was_written_is_read(written, plan):
    journal = read(written, plan())
    assert [asked.hyperparameters for asked in journal.asked.values()] == POINTS[:3]
    assert [asked.trial for asked in journal.pending] == ["0002"]
    assert journal.finished["0001"].told.accuracies == {"torch": 0.5, "jax": 0.25}
    assert journal.finished["0003"].told.delta is None
    assert not journal.warnings


def test_numbers_that_are_not_finite_are_none(written, plan):
    with Journal(written, plan()) as journal:
        journal.tell(
            journal.pending[0], TrialResult(delta=math.nan, accuracies={"torch": math.inf}, message="\ud800" * 9000)
        )
    told = read(written, plan()).finished["0002"].told
    assert (told.delta, told.accuracies) == (None, {"torch": None})
    assert len(told.message) == 2000


def test_the_first_answer_stays(written, plan):
    with Journal(written, plan()) as journal:
        journal.tell(journal.asked["0001"], TrialResult(delta=0.9))
    assert read(written, plan()).finished["0001"].told.delta == 0.25


def test_a_file_cut_anywhere_goes_on(written, plan):
    """Whatever was written when the process was killed: whole lines count, the rest is written anew."""
    whole = written.read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == ord("\n")]
    for length in sorted({0, 1, *range(0, len(whole), 61), *(end + near for end in ends for near in (-1, 0, 1))}):
        written.write_bytes(whole[:length])
        lines = [json.loads(line) for line in whole[:length].split(b"\n")[:-1]]
        if whole[length : length + 1] == b"\n":
            lines.append(json.loads(whole[:length].split(b"\n")[-1]))  # all of it but its end
        with Journal(written, plan()) as journal:
            assert len(journal.asked) == sum(line["kind"] == "asked" for line in lines)
            assert len(journal.finished) == sum(line["kind"] == "told" for line in lines)
            assert not journal.warnings
            added = journal.ask(0, POINTS[3])
            journal.tell(added, TrialResult(delta=0.75))
        again = read(written, plan())
        assert again.finished[added.trial].told.delta == 0.75
        assert not again.warnings


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_line_is_reported_and_the_rest_used(written, plan, data):
    whole = written.read_bytes()
    lines = whole.split(b"\n")[:-1]
    number = data.draw(st.integers(0, len(lines) - 1))
    column = data.draw(st.integers(0, len(lines[number]) - 1))
    byte = data.draw(st.integers(32, 126).filter(lambda value: value != lines[number][column]))
    lines[number] = lines[number][:column] + bytes([byte]) + lines[number][column + 1 :]
    try:
        written.write_bytes(b"\n".join(lines) + b"\n")
        journal = read(written, plan())
        assert journal.warnings == [f"Line {number + 1} of {written} is damaged and left out."]
        for trial in {"0001", "0003"} if number < 4 else {"0001"} if number == 5 else {"0003"}:
            assert journal.finished[trial].asked.hyperparameters == POINTS[int(trial) - 1]
        assert ("0002" in journal.asked) == (number != 2)
    finally:
        written.write_bytes(whole)


def test_names_of_lost_trials_are_not_given_again(written, plan):
    lines = written.read_bytes().split(b"\n")
    written.write_bytes(b"\n".join([lines[0], lines[1], b"?", b""]))
    with Journal(written, plan()) as journal:
        assert journal.ask(0, POINTS[3]).trial == "0003"


def test_a_lost_header_is_written_again_once(written, plan):
    whole = written.read_bytes()
    written.write_bytes(b"?" + whole)
    assert read(written, plan()).finished.keys() == {"0001", "0003"}
    healed = written.read_bytes()
    assert read(written, plan()).finished.keys() == {"0001", "0003"}
    assert written.read_bytes() == healed != b"?" + whole


def test_another_plan_is_refused_in_words(written, plan):
    before = written.read_bytes()
    with pytest.raises(
        ZoolensError, match=r"another plan: search\.seed, search\.overlap differ|search\.overlap, search\.seed"
    ):
        read(written, plan(seed=5, overlap=0.5))
    assert written.read_bytes() == before
    assert len(read(written, plan(trials=500)).asked) == 3  # more trials are the same search


def test_lines_of_another_plan_do_not_pass(written, plan, tmp_path):
    other = tmp_path / "other.jsonl"
    read(other, plan(seed=5))
    other.write_bytes(other.read_bytes() + written.read_bytes().split(b"\n")[1] + b"\n")
    journal = read(other, plan(seed=5))
    assert not journal.asked
    assert len(journal.warnings) == 1


def test_a_newer_format_is_refused(tmp_path, plan):
    path = tmp_path / "journal.jsonl"
    with Journal(path, plan()) as journal:
        journal._header = journal._header.model_copy(update={"format": 99})
        path.write_bytes(journal._line(journal._header))
    with pytest.raises(ZoolensError, match="format 99"):
        read(path, plan())


@pytest.mark.parametrize("content", [b"name,accuracy\nvgg,0.5\n", b"my thesis", b"\0" * 100, b"[" * 100_000 + b"\n"])
def test_a_file_of_something_else_is_not_touched(tmp_path, plan, content):
    path = tmp_path / "precious"
    path.write_bytes(content)
    with pytest.raises(ZoolensError, match="no journal"):
        read(path, plan())
    assert path.read_bytes() == content


def test_a_journal_that_could_not_be_opened_is_closed(tmp_path, plan, monkeypatch):
    """Without the lock, what it wrote would stand between the lines of another search."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    journal = Journal(tmp_path / "journal.jsonl", plan())
    with monkeypatch.context() as patched:
        patched.setattr("zoolens.training.crosstrain.study.search.journal.append_at", full)
        with pytest.raises(ZoolensError, match="No space left"), journal:
            pass
    with pytest.raises(ZoolensError, match="is closed"):
        journal.ask(0, POINTS[0])


def test_only_one_writes(written, plan):
    with Journal(written, plan()), pytest.raises(ZoolensError, match="Another search"):
        Journal(written, plan()).__enter__()
    assert read(written, plan()).asked


def test_names_that_are_taken_elsewhere_are_not_given_again(tmp_path, plan):
    path = tmp_path / "new.jsonl"
    for first, point, expected in ((7, POINTS[0], "0007"), (7, POINTS[1], "0008"), (1, POINTS[2], "0009")):
        with Journal(path, plan(), first) as journal:
            assert journal.ask(0, point).trial == expected


def test_another_plan_is_refused_without_a_word_in_the_file(written, plan, tmp_path):
    before = written.read_bytes()
    with pytest.raises(ZoolensError, match=r"another plan: search\.seed differ"):
        Journal(written, plan(seed=1)).check()
    Journal(written, plan(trials=99)).check()
    Journal(tmp_path / "none.jsonl", plan()).check()
    assert written.read_bytes() == before
    assert not (tmp_path / "none.jsonl").exists()
