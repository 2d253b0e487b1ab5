"""Real models for texts run from a manifest alone, with the figures that a plain script measured."""

import json

import pytest
import yaml

from zoolens.base.store.store import open_store
from zoolens.conftest import ASSETS
from zoolens.findings.measure.evaluate import evaluate

pytestmark = [pytest.mark.assets, pytest.mark.slow]
TASKS = ASSETS / "tasks"


@pytest.fixture
def measured(tmp_path, home):
    """The metrics of a manifest on a dataset."""
    if not (TASKS / "MANIFEST.json").is_file():
        pytest.skip(f"REFERENCE MODELS ABSENT: nothing at {TASKS}; set ZOOLENS_ASSETS to test against them")

    def run(files, tokenizer, output, data, runtime="onnxruntime"):
        pytest.importorskip("onnxruntime" if runtime == "onnxruntime" else "ai_edge_litert")
        model, tokens = (f"file://{TASKS / file}" for file in files)
        manifest = {
            "name": "real",
            "inputs": [{"modality": "text", "shape": [None, None], "dtype": "int64", "tokenizer": tokenizer}],
            "outputs": [output],
            "assets": [
                {
                    "format": model.rpartition(".")[2],
                    "files": [{"location": model}, {"location": tokens, "role": "tokenizer"}],
                }
            ],
        }
        (tmp_path / "real.yaml").write_text(yaml.safe_dump(manifest))
        settings = {"runtimes": [runtime], "batches": (), "cold": False, "trust": True}
        with open_store(tmp_path / "store.sqlite") as store:
            (outcome,) = evaluate([tmp_path / "real.yaml"], data, store=store, **settings)
            assert outcome.errors == ()
            return {found.metric: round(100 * found.value, 2) for found in store.observations(outcome.run.id)}

    return run


WORDAVG = (
    "text/models/tflite_support_sentiment_wordavg.tflite",
    "text/models/tflite_support_sentiment_wordavg.vocab.txt",
)


@pytest.mark.parametrize(("name", "expected"), [("tweets", 77.48), ("amazon", 71.04), ("imdb400", 73.0)])
def test_sentiment_of_averaged_words(measured, name, expected):
    words = {"pattern": r"[^\w']+", "matches": "separators", "unknown_id": 2, "start_id": 1}
    tokenizer = {"max_length": 256, "vocabulary": 10003, "pad_id": 0, "words": words}
    output = {"scores": "probabilities", "labels": ["negative", "positive"]}
    data = f"{TASKS / f'text/data/sentiment_{name}.tsv'}?classes=negative,positive"
    assert measured(WORDAVG, tokenizer, output, data, "litert")["top1"] == expected


NN = ("text/models/nn_sentiment.onnx", "text/models/nn_sentiment.word_index.json")


@pytest.mark.parametrize(("name", "expected"), [("tweets", 63.98), ("amazon", 61.16), ("imdb400", 73.25)])
def test_sentiment_of_two_of_three_classes(measured, name, expected):
    words = {"pattern": r"[A-Za-z0-9_']+|[,.?;\-()]", "unknown_id": 0}
    tokenizer = {"max_length": 100, "vocabulary": 30000, "pad_id": 0, "words": words}
    steps = [{"op": "select", "indices": [0, 2]}]
    output = {"scores": "probabilities", "postprocess": steps, "labels": ["detractor", "promoter"]}
    data = f"{TASKS / f'text/data/sentiment_{name}.tsv'}?classes=detractor,promoter"
    assert measured(NN, tokenizer, output, data)["top1"] == expected


def test_sentiment_as_a_quantity(measured):
    words = {"pattern": r"[A-Za-z0-9_']+|[,.?;\-()]", "unknown_id": 0}
    tokenizer = {"max_length": 100, "vocabulary": 30000, "pad_id": 0, "words": words}
    output = {"task": "regression", "postprocess": [{"op": "linear", "weights": [-1, 0, 1]}]}
    data = f"{TASKS / 'text/data/sentiment_intensity_tweets_regression.tsv'}?value=mean_rating_-4_to_4"
    found = measured(NN, tokenizer, output, data)
    assert (found["spearman"], found["pearson"]) == (70.07, 66.28)


PAIRS = f"text:{TASKS / 'embeddings/data/stsb-en-test.csv'}?columns=a,b,score&text=a,b&similarity=score"


def test_static_vectors_of_pairs(measured):
    files = ("embeddings/models/wordllama_l2_supercat_64.onnx", "embeddings/models/wordllama.tokenizer.json")
    tensors = {"input_ids": "input_ids", "attention_mask": "attention_mask"}
    tokenizer = {
        "max_length": 512, "vocabulary": 32000, "padding": "longest", "pad_id": 0, "special_tokens": False,
        "tensors": tensors,
    }  # fmt: skip
    found = measured(files, tokenizer, {"task": "embedding"}, PAIRS)
    assert (found["spearman"], found["pearson"]) == (72.98, 74.23)


def test_sentence_vectors_of_pairs(measured):
    """Scales of activations are found at run time in this file, and kernels differ between machines."""
    files = ("embeddings/models/all-MiniLM-L6-v2_int8.onnx", "embeddings/models/all-MiniLM-L6-v2.tokenizer.json")
    tensors = {name: name for name in ("input_ids", "attention_mask", "token_type_ids")}
    tokenizer = {"max_length": 128, "vocabulary": 30522, "padding": "none", "tensors": tensors}
    found = measured(files, tokenizer, {"task": "embedding", "postprocess": [{"op": "pool"}]}, PAIRS)
    assert found["spearman"] == pytest.approx(81.95, abs=0.05)
    assert found["pearson"] == pytest.approx(82.73, abs=0.05)


def test_entities_of_russian_news(measured):
    files = ("ner/models/slovnet_ner_factru.onnx", "ner/models/slovnet_ner_factru.vocab.json")
    vocabulary = json.loads((TASKS / files[1]).read_text(encoding="utf-8"))
    words = {
        "key": "words",
        "unknown_id": vocabulary["words"].index("<unk>"),
        "shapes": {"rule": "slovnet", "key": "shapes"},
    }
    tokenizer = {
        "max_length": 8192, "vocabulary": len(vocabulary["words"]), "padding": "none", "words": words,
        "tensors": {"input_ids": "word_id", "shape_ids": "shape_id"},
    }  # fmt: skip
    steps = [{"op": "viterbi", "transitions": vocabulary["transitions"]}]
    output = {"task": "token-classification", "labels": vocabulary["tags"], "postprocess": steps}
    found = measured(files, tokenizer, output, f"tagged:{TASKS / 'ner/data/factrueval2016_test.jsonl'}")
    assert (found["f1"], found["f1.PER"], found["f1.LOC"], found["f1.ORG"]) == (75.19, 91.7, 82.76, 56.1)
