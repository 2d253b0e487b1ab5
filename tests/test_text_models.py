"""Models that take text are evaluated, compared and shown like any other; what would be wrong is said or refused."""

import csv
import json

import numpy as np
import pytest
import yaml
from scripts.write_text_zoo import write_zoo

from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.comparisons.compatibility import compatible
from zoolens.findings.measure.answers import run_predictions
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.run_data import judged_figure
from zoolens.inventory.tasks.scoring.rank_correlation import pair_numbers, spearman
from zoolens.inventory.tasks.vectors import cosine
from zoolens.testing.text_models import (
    MAX_LENGTH,
    VECTORS,
    VOCABULARY,
    write_classifier,
    write_embedder,
    write_tokenizer,
)

pytest.importorskip("tokenizers")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("trusted_models")

TEXTS = ["good film", "bad film", "Good good bad", "not bad bad good", "good " * 30 + "bad " * 60, "ship", "GOOD boat"]
LABELS = ["positive", "negative", "positive", "negative", "negative", "negative", "positive"]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("label\ttext\n" + "".join(f"{a}\t{b}\n" for a, b in zip(LABELS, TEXTS, strict=True)))
    return path


@pytest.fixture
def store(tmp_path, home):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def evaluated(model, data, store, **settings):
    settings = {"runtimes": ["onnxruntime"], "batches": (), "cold": False, "trust": True, **settings}
    (outcome,) = evaluate([model], data, store=store, **settings)
    return outcome


def top1(store, outcome):
    assert outcome.errors == ()
    (found,) = store.observations(outcome.run.id, metric="top1")
    return found.value


def test_words_reach_the_model_and_classes_are_matched_by_name(tmp_path, texts, store):
    """The last text but two is cut before it turns bad, so that the model is wrong on it, and this is said."""
    ways = [
        evaluated(write_classifier(tmp_path, f"model-{padding}", padding=padding), texts, store, batches=batches)
        for padding, batches in (("max_length", ()), ("longest", ()), ("none", (2,)))
    ]
    assert [top1(store, one) for one in ways] == pytest.approx([6 / 7] * 3)
    assert all(f"1 of 7 texts have more than {MAX_LENGTH} tokens and were cut" in one.notes for one in ways)
    assert any("padding: none, so that texts are run one at a time" in note for note in ways[2].notes)
    same = compare(ways[0].run.id, ways[2].run.id, store=store)
    assert same.answers.agreement == 1.0
    notes = compatible(ways[0].run, ways[2].run).notes
    assert "tokens of a text: A at most 8, filled up; B at most 8, not filled up" in notes
    turned = write_classifier(tmp_path, "turned", truncation="left")
    assert top1(store, evaluated(turned, texts, store)) == 1.0


@pytest.mark.slow
def test_padding_that_a_model_sees_changes_its_answers(tmp_path, texts, store):
    """Without a mask each word of padding counts: the same file is right where texts are run as they are."""
    padded = evaluated(write_classifier(tmp_path, "padded", mask=False, tensors={}), texts, store)
    alone = evaluated(write_classifier(tmp_path, "alone", mask=False, tensors={}, padding="none"), texts, store)
    assert top1(store, padded) == pytest.approx(3 / 7)
    assert top1(store, alone) == pytest.approx(6 / 7)


def test_vectors_of_tokens_become_one_of_a_text(tmp_path, texts, store):
    model = write_embedder(tmp_path, steps=("mean", "l2_normalize"), special_tokens=False)
    outcome = evaluated(model, texts, store)
    assert outcome.errors == ()
    assert any("no similarities of pairs that could judge the task embedding" in note for note in outcome.notes)
    kept = run_predictions(store, outcome.run).main.columns["vector"]
    mean = VECTORS[[VOCABULARY.index(word) for word in ("good", "film")]].mean(axis=0)
    assert kept[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    whole = evaluated(write_embedder(tmp_path, "whole", padding="longest"), texts, store)
    assert "numbers for each token, of which texts have different counts" in whole.errors[0]


def test_vectors_of_pairs_are_judged_by_how_alike_their_texts_are(tmp_path, store):
    """Both texts are embedded one by one, each scaled to length 1: the cosines rank the pairs as the scores do."""
    lines = ["good film,good film,5", "ship,boat,4", "good,bad,0", "film,boat not,1"]
    (tmp_path / "pairs.csv").write_text("\n".join(["a,b,score", *lines]))
    data = f"{tmp_path / 'pairs.csv'}?text=a,b&similarity=score"
    steps = ("mean", "l2_normalize")
    ways = [
        evaluated(write_embedder(tmp_path, f"by-{padding}", steps=steps, padding=padding), data, store)
        for padding in ("none", "longest")
    ]
    assert [one.errors for one in ways] == [(), ()]
    vectors = run_predictions(store, ways[0].run).main.columns["vector"]
    assert vectors.shape == (4, 8)
    assert np.linalg.norm(vectors.reshape(8, 4), axis=1) == pytest.approx(np.ones(8))
    cosines = cosine(vectors[:, :4], vectors[:, 4:])
    (found,) = store.observations(ways[0].run.id, metric="spearman")
    assert found.value == pytest.approx(spearman(pair_numbers(cosines, np.array([5.0, 4, 0, 1]))).value)
    assert found.details["no_interval"] == "fewer than 30 inputs"
    assert compare(ways[0].run.id, ways[1].run.id, store=store).vectors[0].agreement == 1.0
    said = evaluated(write_classifier(tmp_path), data, store).errors[0]
    assert "The sample is a pair of texts, but the model takes one text" in said


def test_vectors_are_judged_by_the_documents_that_they_find(tmp_path, store):
    folder = tmp_path / "search"
    (folder / "qrels").mkdir(parents=True)
    documents = {"d1": "boat", "d2": "good film", "d3": "not bad"}
    lines = [json.dumps({"_id": name, "text": text}) for name, text in documents.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "ship"}\n{"_id": "q2", "text": "film"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n")
    outcome = evaluated(write_embedder(tmp_path, steps=("mean",), padding="none"), f"beir:{folder}", store)
    assert outcome.errors == ()
    (found,) = store.observations(outcome.run.id, metric="ndcg_at_10")
    vectors = run_predictions(store, outcome.run).main.columns["vector"]
    ranks = [(cosine(vectors[:3], vectors[[query] * 3]) > cosine(vectors[[own]], vectors[[query]])).sum() + 1
             for query, own in ((3, 0), (4, 1))]  # fmt: skip
    assert found.value == pytest.approx(np.mean([1 / np.log2(rank + 1) for rank in ranks]))
    assert "2 queries, 3 documents" in " ".join(outcome.notes)
    assert judged_figure(store.run(outcome.run.id), store.observations(outcome.run.id)).startswith("ndcg_at_10 ")


def test_pairs_that_a_model_takes_together_and_numbers_that_judge_it(tmp_path, store):
    """The sum of what the words of both texts count: the true value is that of the first alone."""
    around = [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]
    processor = {"type": "TemplateProcessing", "single": around[:1], "pair": around, "special_tokens": {}}
    write_tokenizer(tmp_path / "tokenizer.json", post_processor=processor)
    (tmp_path / "pairs.csv").write_text("a,b,bad,good\ngood,good,0,1\nbad good,film,1,1\nfilm,bad bad,0,0\n")
    model = write_classifier(tmp_path, "both", pair="longest_first", special_tokens=False)
    declared = yaml.safe_load(model.read_text())
    declared["outputs"] = [{"task": "regression"}]
    model.write_text(yaml.safe_dump(declared))
    outcome = evaluated(model, f"{tmp_path / 'pairs.csv'}?text=a,b&value=bad,good", store)
    assert outcome.errors == ()
    assert run_predictions(store, outcome.run).main.columns["vector"].tolist() == [[0, 2], [1, 1], [2, 0]]
    (found,) = store.observations(outcome.run.id, metric="mae")
    assert found.value == pytest.approx((1 / 3 + 2 / 3) / 2)
    alone = evaluated(model, f"{tmp_path / 'pairs.csv'}?text=a&value=bad,good", store)
    assert "The sample is one text, but the model takes pairs" in alone.errors[0]
    write_tokenizer(tmp_path / "tokenizer.json")  # its template of pairs has the first text alone
    half = evaluated(model, f"{tmp_path / 'pairs.csv'}?text=a,b&value=bad,good", store)
    assert "template of pairs has no place for text B, which would never reach the model" in half.errors[0]


def test_words_are_tagged(tmp_path, store):
    """A model that scores each word: "good" as an entity, all others as none."""
    (tmp_path / "words.conll").write_text("Good B-X\nfilm O\n\nbad O\ngood O\n\nunseen B-X\n")
    model = write_embedder(tmp_path, "tagger", padding="longest")
    declared = yaml.safe_load(model.read_text())
    declared["outputs"] = [{"task": "token-classification", "labels": ["O", "B-X", "B-Y", "B-Z"]}]
    model.write_text(yaml.safe_dump(declared))
    outcome = evaluated(model, tmp_path / "words.conll", store)
    assert outcome.errors == ()
    tags = run_predictions(store, outcome.run).main.columns["tags"]
    best = [["O", "B-X", "B-Y", "B-Z"][VECTORS[VOCABULARY.index(word)].argmax()] for word in ("good", "film")]
    assert tags[0].tolist() == best
    metrics = {each.metric for each in store.observations(outcome.run.id)}
    assert {"f1", "f1.X", "score"} <= metrics
    assert compare(outcome.run.id, outcome.run.id, store=store).vectors[0].agreement == 1.0


def test_what_does_not_belong_together_is_refused_in_words(tmp_path, texts, store):
    model = write_classifier(tmp_path)
    assert "The sample is 28×28×1 of uint8, but the model takes text" in evaluated(model, "demo", store).errors[0]
    said = evaluated("demo:lenet-torch", texts, store).errors[0]
    assert "The sample is a text, but the model takes numbers" in said
    write_tokenizer(tmp_path / "tokenizer.json", (*VOCABULARY, "zebra", "gnu"))
    texts.write_text("label\ttext\n1\tzebra gnu\n")
    assert (
        "gives a token the id 11, but the model knows the ids 0 to 9 only" in evaluated(model, texts, store).errors[0]
    )
    unchecked = write_classifier(tmp_path, "unchecked", vocabulary=99)
    said = evaluated(unchecked, texts, store).errors[0]
    assert "declares a vocabulary of 99 ids, but the table of the model has 10 rows" in said


@pytest.mark.slow
def test_another_tokenizer_is_another_model(tmp_path, texts, store):
    model = write_classifier(tmp_path)
    first = evaluated(model, texts, store)
    assert evaluated(model, texts, store).measured == ()
    write_tokenizer(tmp_path / "tokenizer.json", normalizer=None)  # upper case is unknown now
    second = evaluated(model, texts, store)
    assert second.run.id != first.run.id
    assert top1(store, second) < top1(store, first)
    assert not any("unknown to its tokenizer" in note for note in first.notes)


@pytest.mark.slow
def test_fewer_numbers_of_classes_than_outputs_are_told(tmp_path, store):
    """Labels that are numbers do not say which of three classes the second one is."""
    data = tmp_path / "numbers.csv"
    data.write_text("text,label\n" + "good,0\nbad,0\n" * 30)
    told = evaluated(write_classifier(tmp_path), data, store).notes
    assert any("no label of the data is above 0, but the model has 2 outputs" in note for note in told)


@pytest.mark.slow
def test_real_models_are_as_right_as_others_measured_them(tmp_path, store, assets):
    """The figures were measured independently of zoolens, with other code. Those of bi-gru-right rest on zeros behind
    the texts; those of bi-gru on zeros before them, as 15 lines with onnxruntime, re and numpy give them: ids of
    re.findall(r"[A-Za-z0-9_']+|[,.?;\\-()]", text.lower()), the first 100, and promoter > detractor."""
    pytest.importorskip("ai_edge_litert")
    from scipy.stats import spearmanr

    zoo = {path.stem: path for path in write_zoo(assets, tmp_path / "zoo")}
    zoo["bi-gru-right"] = zoo["bi-gru"].with_name("bi-gru-right.yaml")
    zoo["bi-gru-right"].write_text(zoo["bi-gru"].read_text().replace("padding_side: left", "padding_side: right"))
    data = assets / "tasks" / "text" / "data"
    for model, name, expected in (
        ("word-average", "tweets", 0.7748), ("word-average", "amazon", 0.7104), ("word-average", "imdb400", 0.73),
        ("bi-gru-right", "tweets", 0.6398), ("bi-gru-right", "amazon", 0.6116), ("bi-gru-right", "imdb400", 0.7325),
        ("bi-gru", "tweets", 1397 / 1674), ("bi-gru", "amazon", 1504 / 1882), ("bi-gru", "imdb400", 0.735),
    ):  # fmt: skip
        runtime = "litert" if model == "word-average" else "onnxruntime"
        outcome = evaluated(zoo[model], data / f"sentiment_{name}.tsv", store, runtimes=[runtime])
        assert top1(store, outcome) == pytest.approx(expected, abs=0.0006), (model, name)
    pairs = list(csv.reader((assets / "tasks" / "embeddings" / "data" / "stsb-en-test.csv").open(encoding="utf-8")))
    for model, expected in (("wordllama", 72.98), ("minilm", 81.95)):
        sides = []
        for side in (0, 1):
            table = tmp_path / f"side{side}.jsonl"
            table.write_text("".join(json.dumps({"text": pair[side]}) + "\n" for pair in pairs))
            outcome = evaluated(zoo[model], table, store)
            assert outcome.errors == ()
            sides.append(run_predictions(store, outcome.run).main.columns["vector"])
        alike = spearmanr(cosine(*sides), [float(pair[2]) for pair in pairs]).statistic
        assert 100 * alike == pytest.approx(expected, abs=0.1)
