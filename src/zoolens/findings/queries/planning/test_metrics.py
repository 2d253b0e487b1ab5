import pytest

from zoolens.findings.queries.language.errors import QueryError, UnknownQueryName
from zoolens.findings.queries.language.parser import pointed
from zoolens.findings.queries.planning.metrics import higher_is_better, resolved_metric
from zoolens.findings.queries.planning.reference import task_category

UNITS = {
    "latency_p50@batch=1": "s", "latency_p50@batch=8": "s", "latency_p95@batch=1": "s", "peak_memory@process": "B",
    "cold_start@total": "s", "cold_start@load": "s", "parameters": "", "top1": "fraction", "recall@class=1": "fraction",
    "recall@class=2": "fraction", "odd@only": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "batch", "column"),
    [
        ("memory", 1, "peak_memory@process"),
        ("latency", 1, "latency_p50@batch=1"),
        ("latency", 8, "latency_p50@batch=8"),
        ("latency_p95", 1, "latency_p95@batch=1"),
        ("params", 1, "parameters"),
        ("accuracy", 1, "top1"),
        ("cold_start", 1, "cold_start@total"),
        ("cold_start@load", 1, "cold_start@load"),
        ("odd", 1, "odd@only"),
        ("latency@batch=8", 1, "latency_p50@batch=8"),
        ("memory@process", 1, "peak_memory@process"),
        ("agreement", 1, "equivalence"),
    ],
)
def test_names_stand_for_columns(name, batch, column):
    assert resolved_metric(name, UNITS, batch).column == column


def test_what_looks_at_answers():
    assert not resolved_metric("memory", UNITS).answers
    assert not resolved_metric("latency_p95", UNITS).answers
    for name in ("accuracy", "equivalence", "accuracy_drop_upper", "odd"):  # what is not known to be a resource may
        assert resolved_metric(name, UNITS).answers


@pytest.mark.parametrize(
    ("name", "batch", "told"),
    [
        ("latancy", 1, "Did you mean latency"),
        ("latency_p95", 8, "At batch 8 it is unknown; there are latency_p95@batch=1"),
        ("recall", 1, 'Write one of them in quotes: "recall@class=1"'),
        ("flops", 1, "The index has .*parameters"),
    ],
)
def test_unknown_names(name, batch, told):
    with pytest.raises(UnknownQueryName, match=told):
        resolved_metric(name, UNITS, batch)


def test_nothing_is_indexed():
    with pytest.raises(UnknownQueryName, match="Nothing is indexed yet"):
        resolved_metric("memory", {})


def test_the_place_is_pointed_at():
    text = "SELECT MODELS ON latancy < 3 ms"
    with pytest.raises(UnknownQueryName) as caught:
        resolved_metric("latancy", UNITS)
    error = pointed(caught.value, text)
    assert isinstance(error, QueryError)
    assert text[error.start : error.end] == "latancy"
    assert pointed(caught.value, None) is caught.value


@pytest.mark.parametrize("column", ["top1", "ap", "miou", "f1", "throughput@batch=1", "equivalence", "recall"])
def test_more_is_better_of_what_models_get_right(column):
    assert higher_is_better(column)


@pytest.mark.parametrize(
    "column",
    [
        "latency_p50@batch=1", "roundtrip_p99@batch=1", "device_compute_p50", "peak_device_memory", "peak_memory",
        "file_size", "flops", "cold_start@total", "energy", "ece", "nll", "mae", "false_alarms", "accuracy_drop",
    ],
)  # fmt: skip
def test_less_is_better_of_times_sizes_and_errors(column):
    assert not higher_is_better(column)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("image-classification", "classification"),
        ("token classification", "token-classification"),
        ("voice_activity", "voice-activity"),
        ("question-answering", "question-answering"),
        ("Object Detection", "detection"),
        (None, "classification"),
    ],
)
def test_a_task_is_known_by_its_whole_name(asked, meant):
    assert task_category(asked) == meant
