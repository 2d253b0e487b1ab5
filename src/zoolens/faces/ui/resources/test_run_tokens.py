"""Texts of language models, token by token, as the gallery of a run is told of them."""

import time

import pytest

pytest.importorskip("starlette")

from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.test_app import client, home
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


def test_data_outside_the_allowed_folders_are_not_read(client, runs):
    _, (mine, *_) = runs
    told = asked(client(), mine)
    assert (told["state"], told["rows"]) == ("unavailable", [])
    assert "may not read" in told["sentence"]
