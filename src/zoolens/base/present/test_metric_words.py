import pytest

from zoolens.base.present.metric_words import figure_title, important_first, metric_title, scope_title
from zoolens.base.store.records import Observation


@pytest.mark.parametrize(
    ("metric", "scope", "words"),
    [
        ("top1", "", "top-1 accuracy"),
        ("ece", "", "calibration error (ECE)"),
        ("latency_p50", "batch=1", "median latency, one input at a time"),
        ("latency_p99", "batch=8,raw", "99th percentile of latency, batches of 8, all calls"),
        ("cold_start", "first_run", "cold start, first answer"),
        ("recall", "class=3", "recall, class 3"),
        ("epoch_time", "epoch=4", "time of an epoch, epoch 4"),
        ("my_metric", "elsewhere", "my metric, elsewhere"),
    ],
)
def test_metrics_and_scopes_have_words(metric, scope, words):
    assert figure_title(metric, scope) == words


def test_a_class_is_called_by_its_name_where_it_is_known():
    assert scope_title("class=3", "dog") == "dog"
    assert scope_title("batch=2", "") == "batches of 2"


def test_how_good_comes_before_how_quick_and_both_before_what_explains_them():
    stored = [
        ("brier", ""), ("ece", ""), ("latency_p50", "batch=8"), ("latency_p50", "batch=1,raw"), ("mine", ""),
        ("latency_p50", "batch=1"), ("file_size", ""), ("top1", ""),
    ]  # fmt: skip
    ordered = important_first([Observation(metric, 1.0, scope=scope) for metric, scope in stored])
    assert [(known.metric, known.scope) for known in ordered] == [
        ("top1", ""), ("latency_p50", "batch=1"), ("latency_p50", "batch=8"), ("file_size", ""), ("ece", ""),
        ("brier", ""), ("mine", ""), ("latency_p50", "batch=1,raw"),
    ]  # fmt: skip
    assert metric_title("a_b") == "a b"
