"""Texts of language models, token by token, as the gallery of a run is told of them."""

import time

import pytest

pytest.importorskip("starlette")

from zoolens.base.store.records import Observation
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.test_app import client, home
from zoolens.findings.measure.generation_speed import DECODE, FIRST
from zoolens.testing.language_model_runs import answered, written_book

__all__ = ["client", "home"]  # fixtures


@pytest.fixture
def runs(home, tmp_path):
    book = written_book(tmp_path, "AB HELLO WORLD\nWHAT IS <IT>?\n", 16)
    return book, [answered(home, book, name, noise).id for name, noise in (("mine", 0.0), ("near", 1.0), ("twin", 0.0))]


def asked(ask, run, **params):
    """The answer, once the data are open."""
    for _ in range(60):
        answer = ask.get(f"{PREFIX}/runs/{run}/tokens", params={"index": [0, 1], **params})
        assert answer.status_code == 200, answer.text
        if answer.json()["state"] != "opening":
            break
        time.sleep(0.5)
    return answer.json()


def test_tokens_are_the_text_with_what_was_expected(client, runs, tmp_path):
    book, (mine, *_) = runs
    told = asked(client(allowed=[tmp_path]), mine)
    assert (told["state"], told["sentence"], len(told["legend"])) == ("ready", "", 6)
    for row, text, scores in zip(told["rows"], book.texts, book.scores, strict=True):
        assert (row["before"] + "".join(token["text"] for token in row["tokens"])).replace("↵", "") == text
        assert len(row["tokens"]) == len(scores)
        assert row["more"] == 0
        for token in row["tokens"]:
            assert token["said"].splitlines()[1].count(" %") == 3
            assert token["level"] in range(6)
    levels = {token["level"] for row in told["rows"] for token in row["tokens"]}
    assert len(levels) > 2


def test_two_runs_are_compared_token_by_token(client, runs, tmp_path):
    _, (mine, near, twin) = runs
    ask = client(allowed=[tmp_path])
    told = asked(ask, mine, other=near)
    assert "agreement" in told["title"]
    tokens = [token for row in told["rows"] for token in row["tokens"]]
    assert {token["other"] for token in tokens} == {True, False}
    assert tokens[0]["said"].splitlines()[2].startswith("B: ")
    same = [token for row in asked(ask, mine, other=twin)["rows"] for token in row["tokens"]]
    assert {(token["level"], token["other"]) for token in same} == {(0, False)}


def test_the_page_of_answers_says_that_there_are_tokens(client, runs):
    _, (mine, *_) = runs
    assert client().get(f"{PREFIX}/runs/{mine}/predictions").json()["foresees"] is True


def test_texts_are_sorted_by_bits_per_byte_and_have_no_truth_of_their_own(client, runs):
    book, (mine, *_) = runs
    ask = client()
    rows = ask.get(f"{PREFIX}/runs/{mine}/predictions", params={"order": "loss"}).json()["rows"]
    bits = [float(row["ours"]["words"].partition(" ")[0]) for row in rows]
    assert len(bits) == len(book.texts)
    assert bits == sorted(bits, reverse=True)
    assert {row["truth"] for row in rows} == {""}


def test_nothing_of_classes_is_said_of_a_language_model(client, runs):
    _, (mine, *_) = runs
    told = client().get(f"{PREFIX}/runs/{mine}").json()
    assert (told["of_classes"], told["has_classes"]) == (False, False)
    listed = client().get(f"{PREFIX}/runs/{mine}/classes").json()
    assert (listed["foresees"], listed["judged"]) == (True, True)


def test_speeds_are_listed_by_context(client, home, runs):
    _, (mine, near, _) = runs
    speeds = [Observation(FIRST, 0.25, "context=128", "s"), Observation(DECODE, 40.0, "context=128", "tokens/s")]
    home.finish_stage(mine, "generation:context=128", speeds)
    ask = client()
    latency = ask.get(f"{PREFIX}/runs/{near}/latency").json()
    assert (latency["writing"], latency["writes"]) == (None, True)
    (row,) = ask.get(f"{PREFIX}/runs/{mine}/latency").json()["writing"]["rows"]
    assert row == ["128 tokens", "250 ms", "–", "40 tokens/s / –", "–", "–"]
    figures = ask.get(f"{PREFIX}/runs/{mine}").json()["figures"]
    assert ("time to the first token", "128 tokens", "250 ms") in [(f["title"], f["part"], f["words"]) for f in figures]


def test_data_outside_the_allowed_folders_are_not_read(client, runs):
    _, (mine, *_) = runs
    told = asked(client(), mine)
    assert (told["state"], told["rows"]) == ("unavailable", [])
    assert "may not read" in told["sentence"]
