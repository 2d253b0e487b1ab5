"""Queries over real detectors, taggers and keyword spotters find the replacement that brute force finds.

Each zoo has the reference models and variants of them: other ways to resize, fewer boxes, vocabularies with fewer
words, features that are scaled otherwise. Agreements are computed again here from the stored answers, with other code,
for every pair; budgets are applied to stored figures.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

import zoolens
from zoolens.base.statistics.binomial import binomial_lower
from zoolens.findings.measure.answers import run_predictions
from zoolens.findings.measure.evaluate import evaluate

pytestmark = [pytest.mark.slow, pytest.mark.assets]
ZOO = Path(__file__).parent / "task_zoo"


@pytest.fixture
def tasks(assets):
    if not (assets / "tasks" / "MANIFEST.json").is_file():
        pytest.skip(f"REFERENCE MODELS ABSENT: nothing at {assets / 'tasks'}; set ZOOLENS_ASSETS to test against them")
    return assets / "tasks"


def variant(folder, source, name, change):
    """A manifest of the zoo with something changed; returns its path."""
    manifest = yaml.safe_load((ZOO / f"{source}.yaml").read_text(encoding="utf-8"))
    manifest["name"] = name
    manifest.pop("claims")
    change(manifest)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    return path


def measured(store, paths, data, runtime):
    for path in paths:
        (outcome,) = evaluate([path], data, runtimes=[runtime], batches=(), cold=False, trust=True, store=store)
        assert not outcome.errors, path


def short_name(ref):
    return ref.partition(":")[2].partition("@")[0]


class Zoo:
    """What is stored of each model: its answers and its figures."""

    def __init__(self, store, pair_scores):
        self.answers, self.figures = {}, {}
        for run in store.runs():
            name = short_name(run.ref)
            self.answers[name] = run_predictions(store, run).main
            self.figures[name] = {each.metric: each.value for each in store.observations(run.id) if not each.scope}
        self._pair_scores = pair_scores
        self._known = {}

    def scores(self, a, b):
        if (a, b) not in self._known:
            self._known[a, b] = self._known[b, a] = self._pair_scores(self.answers[a], self.answers[b])
        return self._known[a, b]

    def within(self, reference, metric, share):
        """Models other than the reference whose figure is at most this share of its own."""
        limit = share * self.figures[reference][metric]
        return [name for name in self.answers if name != reference and self.figures[name][metric] <= limit]


def assert_queries_find_what_brute_force_finds(store, zoo, task, shares, lower=None):
    """`lower`: the bound on a share that CONFIDENCE promises; None of tasks whose answers agree in part, which queries
    make no promise about."""
    asked = 0
    for reference in zoo.answers:
        for share in shares:
            fitting = zoo.within(reference, "file_size", share)
            text = f"CORR '{reference}' TASK {task} ON file_size <= {100 * share:g}%"
            answer = zoolens.query(text, store=store)
            ranked = {name: float(zoo.scores(reference, name).mean()) for name in fitting}
            found = {short_name(match.ref): match.equivalence for match in answer.matches}
            assert found == pytest.approx(dict(sorted(ranked.items(), key=lambda each: -each[1])[:10]), abs=1e-9), text
            if not fitting:
                continue
            asked += 1
            assert answer.best.equivalence == pytest.approx(max(ranked.values()), abs=1e-9), text
            if lower is not None:
                check_promise(store, zoo, text, fitting, ranked, lower)
    assert asked >= 5


def check_promise(store, zoo, text, fitting, ranked, lower):
    """With a confidence, those are found whose bound holds, corrected for all candidates of the budget."""
    reference = text.split("'")[1]
    bounds = {name: lower(zoo.scores(reference, name), 0.05 / len(fitting)) for name in fitting}
    least = sorted(bounds.values())[len(bounds) // 2] - 1e-6
    answer = zoolens.query(f"{text} WITHIN {100 * max(least, 0):.6f}% CONFIDENCE 95%", store=store)
    promised = {short_name(match.ref): match.equivalence_lower for match in answer.matches}
    kept = {name: bound for name, bound in bounds.items() if bound >= least}
    best = sorted(kept, key=lambda name: -ranked[name])[:10]
    assert promised == pytest.approx({name: kept[name] for name in best}, abs=1e-6), text


# --- detectors


def box_agreements(a, b):
    return np.array([box_agreement(a, b, place) for place in range(len(a))])


def box_agreement(a, b, place):
    """F1 of the largest matching of boxes of one class with scores of 0.3 or more, over ten thresholds of overlap."""
    sides = []
    for answers in (a, b):
        boxes, classes, scores = (answers.columns[name][place] for name in ("boxes", "classes", "scores"))
        shown = scores >= np.float32(0.3)
        sides.append((boxes.reshape(-1, 4).astype(np.float64)[shown], classes[shown]))
    (ours, our_classes), (theirs, their_classes) = sides
    total = len(ours) + len(theirs)
    if not total:
        return 1.0
    left, top = (np.maximum(ours[:, None, k], theirs[None, :, k]) for k in (0, 1))
    right, bottom = (
        np.minimum((ours[:, k] + ours[:, k + 2])[:, None], (theirs[:, k] + theirs[:, k + 2])[None]) for k in (0, 1)
    )
    shared = np.clip(right - left, 0, None) * np.clip(bottom - top, 0, None)
    areas = (ours[:, 2] * ours[:, 3])[:, None] + (theirs[:, 2] * theirs[:, 3])[None]
    overlap = np.where(our_classes[:, None] == their_classes[None], shared / (areas - shared), 0)
    pairs = [
        int((maximum_bipartite_matching(csr_matrix(overlap >= least), "column") >= 0).sum())
        for least in np.linspace(0.5, 0.95, 10)
    ]
    return 2 * float(np.mean(pairs)) / total


def test_detectors(home, tasks, tmp_path):
    pytest.importorskip("ai_edge_litert")
    data = f"coco:{tasks / 'detection/data/instances_val50.json'}?images=val2017"
    changes = {
        "plain": lambda manifest: None,
        "nearest": lambda manifest: manifest["inputs"][0]["preprocess"][0].update(method="nearest"),
        "bicubic": lambda manifest: manifest["inputs"][0]["preprocess"][0].update(method="bicubic"),
        "sure": lambda manifest: manifest["outputs"][0]["postprocess"][0].update(threshold=0.5),
        "apart": lambda manifest: manifest["outputs"][0]["postprocess"].append({"op": "nms", "iou": 0.3}),
    }
    files = {"ssd": "ssd_mobilenet_v1_coco_300_uint8", "efficientdet": "efficientdet_lite0_coco_320_uint8"}
    paths = [
        variant(tmp_path, source, f"{short}-{name}", change)
        for short, source in files.items()
        for name, change in changes.items()
    ]
    with zoolens.open_store() as store:
        measured(store, paths, data, "litert")
        zoo = Zoo(store, box_agreements)
        # The file of SSD has 92 % of the size of the other.
        assert_queries_find_what_brute_force_finds(store, zoo, "detection", (0.95, 2.0))


# --- taggers


def entity_agreements(a, b):
    return np.array([entity_agreement(*pair) for pair in zip(a.columns["tags"], b.columns["tags"], strict=True)])


def entity_agreement(a, b):
    ours, theirs = entities(a), entities(b)
    return 2 * len(ours & theirs) / (len(ours) + len(theirs)) if ours or theirs else 1.0


def entities(tags):
    """Begin, end and type of each run of words with B- and I- tags, as seqeval reads BIO."""
    found, begin, kind = set(), None, None
    for place, tag in enumerate([*tags, "O"]):
        letter, _, of = tag.partition("-")
        if begin is not None and (letter != "I" or of != kind):
            found.add((begin, place - 1, kind))
            begin = None
        if letter == "B" or (letter == "I" and begin is None):
            begin, kind = place, of
    return found


def fewer_words(tasks, folder, kept):
    """The tagger with so many words of its vocabulary; the others are unknown to it."""
    onnx = pytest.importorskip("onnx")
    vocabulary = json.loads((tasks / "ner/models/slovnet_ner_factru.vocab.json").read_text(encoding="utf-8"))
    words = vocabulary["words"]
    special = [place for place, word in enumerate(words) if word.startswith("<")]
    order = np.random.default_rng(3).permutation(len(words))
    chosen = np.sort(np.union1d(special, order[:kept])).astype(np.int64)
    model = onnx.load(str(tasks / "ner/models/slovnet_ner_factru.onnx"))
    (table,) = (each for each in model.graph.initializer if each.name == "pq")
    table.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(table)[chosen], "pq"))
    onnx.save(model, str(folder / f"tagger-{kept}.onnx"))
    vocabulary["words"] = [words[place] for place in chosen]
    (folder / f"tagger-{kept}.json").write_text(json.dumps(vocabulary), encoding="utf-8")

    def change(manifest):
        tokenizer = manifest["inputs"][0]["tokenizer"]
        tokenizer["vocabulary"] = len(chosen)
        tokenizer["words"]["unknown_id"] = vocabulary["words"].index("<unk>")
        model_file, tokens = manifest["assets"][0]["files"]
        for file, end in ((model_file, "onnx"), (tokens, "json")):
            file.pop("sha256")
            file.pop("bytes")
            file["location"] = f"tagger-{kept}.{end}"

    return variant(folder, "slovnet_ner", f"tagger-{kept}", change)


def test_taggers(home, tasks, tmp_path):
    pytest.importorskip("onnxruntime")
    paths = [fewer_words(tasks, tmp_path, kept) for kept in (14_005, 10_000, 6_000, 3_000, 1_000)]
    with zoolens.open_store() as store:
        measured(store, paths, f"tagged:{tasks / 'ner/data/factrueval2016_test.jsonl'}", "onnxruntime")
        zoo = Zoo(store, entity_agreements)
        shares = (0.6, 0.8, 0.95)
        assert_queries_find_what_brute_force_finds(store, zoo, "token-classification", shares)


# --- keyword spotters


def same_words(a, b):
    return (a.columns["top"][:, 0] == b.columns["top"][:, 0]).astype(np.float64)


def share_lower(same, alpha):
    return binomial_lower(int(same.sum()), len(same), alpha)


def test_keyword_spotters(home, tasks, tmp_path):
    pytest.importorskip("ai_edge_litert")
    paths = []
    for short, source in (("int8", "kws_ref_model"), ("float", "kws_ref_model_float32")):
        for scale in (1.0, 0.9, 1.2, 0.7):

            def scaled(manifest, scale=scale):
                step = manifest["inputs"][0]["preprocess"][0]
                step["scale"], step["mean"] = scale * step["scale"], [scale * step["mean"][0]]

            paths.append(variant(tmp_path, source, f"{short}-{scale:g}", scaled))
    data = f"raw:{tasks / 'audio/data/kws01'}?shape=49x10x1&dtype=int8&labels=y_labels.csv&label=2"
    with zoolens.open_store() as store:
        measured(store, paths, data, "litert")
        zoo = Zoo(store, same_words)
        assert_queries_find_what_brute_force_finds(store, zoo, "classification", (0.9, 1.0, 2.0), share_lower)
