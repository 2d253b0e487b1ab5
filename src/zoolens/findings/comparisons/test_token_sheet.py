"""Contested texts as a page of coloured tokens."""

import html
import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.coloured_tokens import LEVELS
from zoolens.findings.comparisons.disagreements import disagree
from zoolens.findings.comparisons.origins import open_inputs
from zoolens.findings.comparisons.token_sheet import token_sheet
from zoolens.findings.comparisons.token_texts import RunTokenizer
from zoolens.testing.language_model_runs import answered, written_book

HOSTILE = "A<B>&AMP\"'\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    book = written_book(folder, f"AB HELLO WORLD\nWHAT IS IT?\n{HOSTILE}1234 AB+CD, ABBA\n", 16)
    with open_store(folder / "store.sqlite") as store:
        answered(store, book, "mine")
        answered(store, book, "near", 1.0)
        answered(store, book, "far", 3.0)
        return disagree("mine", store=store)


def tokens_of(page):
    """The class, what is said, and the text of each token of a page."""
    found = re.findall(r'<span class="([^"]*)" data-said="([^"]*)">([^<]*)</span>', page)
    return [(kind, html.unescape(said), html.unescape(text)) for kind, said, text in found]


def test_the_tokens_of_a_text_are_the_text(found):
    with closing(open_inputs(found.run)) as dataset, closing(RunTokenizer(found.run)) as tokenizer:
        for text in found.inputs:
            content = dataset.read(text.index).value.item()
            whole = tokenizer.split(content, text.at.following)
            assert len(whole.pieces) == text.positions
            assert whole.split
            assert "".join((whole.before, *whole.pieces, whole.behind)) == content
            words = tokenizer.words(text.at.following.tolist())
            assert [words[number] for number in text.at.following.tolist()] == list(whole.pieces)


def test_colours_are_levels_of_disagreement_and_other_best_tokens_are_underlined(found):
    tokens = tokens_of(token_sheet(found))
    agreement = np.concatenate([text.at.agreement for text in found.inputs])
    differing = np.concatenate([text.at.differing for text in found.inputs])
    assert len(tokens) == len(agreement)
    levels = [int(kind[1]) for kind, _, _ in tokens]
    assert levels == np.searchsorted(LEVELS, 1 - agreement, side="right").tolist()
    assert [kind.endswith(" other") for kind, _, _ in tokens] == differing.tolist()
    assert len(set(levels)) > 2


def test_what_each_model_found_most_likely_is_said(found):
    at = found.inputs[0].at
    _, said, _ = tokens_of(token_sheet(found))[0]
    first, *models = said.splitlines()
    assert f"agreement {100 * at.agreement[0]:.1f} %" in first
    assert [line[0] for line in models] == ["A", "1", "2"]
    assert f"{100 * np.exp(at.best_logs[2, 0]):.3g} % most likely" in models[2]


def test_texts_are_only_text(found):
    page = token_sheet(found)
    assert "<B>" not in page
    assert "&lt;</span>" in page or "&lt;B" in page


def test_another_tokenizer_gives_numbers_and_says_so(found, tmp_path):
    origin = found.run.origin
    tokenizer = next(file for file in origin["manifest"]["assets"][0]["files"] if file["role"] == "tokenizer")
    content = json.loads(Path(origin["folder"], tokenizer["location"]).read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"]
    vocabulary["L"], vocabulary["A"] = vocabulary["A"], vocabulary["L"]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(content), encoding="utf-8")
    page = token_sheet(with_tokenizer(found, {"location": f"file://{other}", "role": "tokenizer"}))
    assert "does not split the texts as run" in page
    assert any(re.fullmatch(r"\[\d+\]", text) for _, _, text in tokens_of(page))


def test_a_tokenizer_that_is_gone_gives_numbers_and_says_so(found, tmp_path):
    page = token_sheet(with_tokenizer(found, {"location": f"file://{tmp_path / 'gone.json'}", "role": "tokenizer"}))
    assert "the tokenizer cannot be read" in page
    assert len(tokens_of(page)) == sum(text.positions for text in found.inputs)


def test_changed_data_are_not_shown_as_the_runs_own(found):
    run = replace(found.run, dataset=replace(found.run.dataset, fingerprint="other"))
    with pytest.raises(DatasetError, match="content has changed"):
        token_sheet(replace(found, panel=(replace(found.panel[0], run=run), *found.panel[1:])))


def with_tokenizer(found, file):
    origin = dict(found.run.origin)
    asset = {**origin["manifest"]["assets"][0], "files": [{"location": "mine.gguf"}, file]}
    origin["manifest"] = {**origin["manifest"], "assets": [asset]}
    run = replace(found.run, resolved={**found.run.resolved, "origin": origin})
    return replace(found, panel=(replace(found.panel[0], run=run), *found.panel[1:]))
