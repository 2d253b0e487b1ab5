"""The page of a run whose task is not classification."""

import pytest

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store
from zoolens.findings.measure.evaluation_page import run_page
from zoolens.findings.measure.generation_speed import DECODE, FIRST
from zoolens.testing.language_model_runs import answered, written_book


@pytest.mark.parametrize(("task", "listed"), [("detection", True), ("classification", False)])
def test_classes_have_their_names_and_the_lowest_comes_first(tmp_path, task, listed):
    manifest = {"name": "net", "outputs": [{"task": task}]}
    facts = [
        Observation("ap", 0.5, unit="fraction", low=0.4, high=0.6),
        Observation("class_ap", 0.75, scope="class=3", unit="fraction", details={"class": "cat"}),
        Observation("class_ap", 0.25, scope="class=7", unit="fraction", details={"class": "<b>dog"}),
    ]
    with open_store(tmp_path / "store.sqlite") as store:
        stack = StackRecord("s", "fake", {"version": "1"}, {})
        run = store.begin_run(ModelRecord("m", "zoo:net@1", "fake", manifest), DatasetRecord("d", "data", 3), stack)
        store.finish_stage(run.id, "metric:task", facts)
        page = run_page(store, store.run(run.id))
    tables = {section.title: section.tables[0][1].rows for section in page.sections if section.tables}
    assert [row[0] for row in tables["Figures"]] == ["average precision (AP)"]
    classes = [(row[0], row[2]) for row in tables.get("Classes", ())]
    assert classes == ([("<b>dog", "25.0 %"), ("cat", "75.0 %")] if listed else [])


def test_the_mean_score_is_on_a_card_where_the_dataset_does_not_define_the_main_metric(tmp_path):
    """The AUC of frames needs times: of sounds that say only whether anybody speaks, the score judges the run."""
    manifest = {"name": "vad", "outputs": [{"task": "voice-activity"}]}
    score = Observation("score", 0.5, unit="fraction", low=0.4, high=0.6)
    with open_store(tmp_path / "store.sqlite") as store:
        stack = StackRecord("s", "fake", {"version": "1"}, {})
        run = store.begin_run(ModelRecord("m", "zoo:vad@1", "fake", manifest), DatasetRecord("d", "data", 3), stack)
        store.finish_stage(run.id, "metric:task", [score])
        tiles = run_page(store, store.run(run.id)).tiles
    assert [(tile.figure, tile.caption) for tile in tiles] == [("50.0 % [40.0, 60.0]", "mean score")]


def test_a_run_of_texts_begins_with_perplexity_and_says_nothing_of_classes(tmp_path):
    book = written_book(tmp_path, "AB HELLO WORLD\nWHAT IS <IT>?\n", 16)
    figures = [Observation("bits_per_byte", 1.7, unit="bits"), Observation("perplexity", 12.5)]
    speeds = [Observation(FIRST, 0.25, "context=128", "s"), Observation(DECODE, 40.0, "context=128", "tokens/s")]
    with open_store(tmp_path / "store.sqlite") as store:
        run = answered(store, book, "mine")
        store.finish_stage(run.id, "metric:task", figures)
        store.finish_stage(run.id, "generation:context=128", speeds)
        page = run_page(store, store.run(run.id))
    captions = [tile.caption for tile in page.tiles]
    assert captions[:2] == ["perplexity", "bits per byte"]
    assert "time to the first token, 128 tokens" in captions
    assert [section.title for section in page.sections] == ["Reading and writing", "Figures"]
