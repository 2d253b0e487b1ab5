"""Real models on labelled data have the figures that a plain script, written without this package, measured."""

import csv
import json
import re

import numpy as np
import pytest

from zoolens.conftest import ASSETS
from zoolens.inventory.tasks.scoring.entities import entity_parts, f1_by_type, micro_f1
from zoolens.inventory.tasks.scoring.rank_correlation import pair_numbers, pearson, spearman
from zoolens.inventory.tasks.scoring.ranked_scores import rank_scores, roc_auc
from zoolens.inventory.tasks.scoring.sequence_decoding import decode_crf

pytestmark = pytest.mark.assets
TASKS = ASSETS / "tasks"


def measured(file):
    path = TASKS / "MANIFEST.json"
    if not path.is_file():
        pytest.skip(f"REFERENCE MODELS ABSENT: nothing at {path}; set ZOOLENS_ASSETS to test against them")
    entries = json.loads(path.read_text(encoding="utf-8"))["entries"]
    return next(entry["measured"] for entry in entries if entry["file"] == file)


def session(file):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(TASKS / file, options, providers=["CPUExecutionProvider"])


RUSSIAN_PUNCTUATION = "!#$%&()[]\\/*+,.:;<=>?@^_{|}~-‐−‒⁃–—―`\"'«»„“ʼʻ”№…"
KIND = re.compile(
    rf"(?P<RU>[а-яё]+)|(?P<EN>[a-z]+)|(?P<NUM>[+-]?\d+)|(?P<PUNCT>[{re.escape(RUSSIAN_PUNCTUATION)}]+)", re.IGNORECASE
)


def is_title(word):
    return len(word) > 1 and word[0].isupper() and word[1:].islower()


def shape(word):
    """The model's second input, as its library slovnet 0.6.0 derives it from a word."""
    match = KIND.match(word)
    kind = match.lastgroup if match else "OTHER"
    if kind == "PUNCT":
        return f"PUNCT_{word}" if len(word) == 1 else "PUNCT_OTHER"
    if kind in ("NUM", "OTHER"):
        return kind
    left, dash, right = word.partition("-")
    if len(word) == 1:
        outline = "X" if word.isupper() else "x"
    elif word.isupper():
        outline = "XX"
    elif word.islower():
        outline = "xx"
    elif is_title(word):
        outline = "Xx"
    else:
        outline = "Xx-Xx" if dash and is_title(left) and is_title(right) else "OTHER"
    return f"{kind}_{outline}"


def true_tags(text):
    tags = ["O"] * len(text["tokens"])
    begins, ends = (np.array(column) for column in list(zip(*text["tokens"], strict=True))[:2])
    for first, last, kind in text["entities"]:
        inside = np.flatnonzero((begins < last) & (ends > first)).tolist()
        for place in inside:
            tags[place] = f"I-{kind}"
        if inside:
            tags[inside[0]] = f"B-{kind}"
    return tags


@pytest.mark.slow
def test_entities_of_russian_news():
    expected = measured("ner/models/slovnet_ner_factru.onnx")
    vocabulary = json.loads((TASKS / "ner/models/slovnet_ner_factru.vocab.json").read_text(encoding="utf-8"))
    words = {word: number for number, word in enumerate(vocabulary["words"])}
    shapes = {name: number for number, name in enumerate(vocabulary["shapes"])}
    model = session("ner/models/slovnet_ner_factru.onnx")
    true, predicted = [], []
    for line in (TASKS / "ner/data/factrueval2016_test.jsonl").read_text(encoding="utf-8").splitlines():
        text = json.loads(line)
        tokens = [token for _, _, token in text["tokens"]]
        word_ids = np.array([[words.get(token.lower(), words["<unk>"]) for token in tokens]])
        shape_ids = np.array([[shapes[shape(token)] for token in tokens]])
        (emissions,) = model.run(None, {"word_id": word_ids, "shape_id": shape_ids})
        path = decode_crf(emissions[0], np.array(vocabulary["transitions"]))
        predicted.append([vocabulary["tags"][tag] for tag in path.tags])
        true.append(true_tags(text))
    parts = entity_parts(true, predicted)
    by_type = {name: round(100 * score.value, 2) for name, score in f1_by_type(parts).items()}
    assert by_type == expected["entity_F1"]
    assert round(100 * micro_f1(parts).value, 2) == expected["micro_F1"]


SENTIMENT = "text/models/nn_sentiment.onnx"


def sentiment(texts):
    """Probabilities of detractor, neutral and promoter."""
    index = json.loads((TASKS / "text/models/nn_sentiment.word_index.json").read_text(encoding="utf-8"))
    rows = np.zeros((len(texts), 100), np.int64)
    for row, text in zip(rows, texts, strict=True):
        numbers = [index.get(token, 0) for token in re.findall(r"[A-Za-z0-9_']+|[,.?;\-()]", text.lower())][:100]
        row[: len(numbers)] = numbers
    return session(SENTIMENT).run(None, {"tokens": rows})[0].astype(np.float64)


def labelled(name):
    lines = (TASKS / f"text/data/{name}.tsv").read_text(encoding="utf-8").split("\n")[1:]
    pairs = [line.split("\t", 1) for line in lines if line]
    return [text for _, text in pairs], np.array([float(label) for label, _ in pairs])


@pytest.mark.parametrize("name", ["tweets", "amazon"])
def test_sentiment_ranks_texts(name):
    expected = measured(SENTIMENT)[name]
    texts, labels = labelled(f"sentiment_{name}")
    probabilities = sentiment(texts)
    assert len(texts) == expected["n"]
    area = roc_auc(rank_scores(probabilities[:, 2] - probabilities[:, 0], labels == 1))
    assert round(area.value, 4) == expected["auc"]


def test_sentiment_follows_the_rated_intensity():
    expected = measured(SENTIMENT)["tweets_intensity"]
    texts, ratings = labelled("sentiment_intensity_tweets_regression")
    probabilities = sentiment(texts)
    pairs = pair_numbers(probabilities[:, 2] - probabilities[:, 0], ratings)
    assert len(texts) == expected["n"]
    assert round(100 * spearman(pairs).value, 2) == expected["spearman"]
    assert round(100 * pearson(pairs).value, 2) == expected["pearson"]


def test_sentence_embeddings_follow_judged_similarity():
    file = "embeddings/models/wordllama_l2_supercat_64.onnx"
    expected = measured(file)
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(TASKS / "embeddings/models/wordllama.tokenizer.json"))
    with (TASKS / "embeddings/data/stsb-en-test.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch([text for row in rows for text in row[:2]], add_special_tokens=False)
    inputs = {
        "input_ids": np.array([one.ids for one in encoded]),
        "attention_mask": np.array([one.attention_mask for one in encoded]),
    }
    vectors = session(file).run(None, inputs)[0].astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = pair_numbers((vectors[::2] * vectors[1::2]).sum(axis=1), np.array([float(row[2]) for row in rows]))
    assert len(rows) == expected["pairs"]
    assert round(100 * spearman(pairs).value, 2) == expected["stsb_test_spearman"]
    assert round(100 * pearson(pairs).value, 2) == expected["stsb_test_pearson"]
