"""Metrics and scopes in words: "top-1 accuracy" for `top1`, "one input at a time, all calls" for `batch=1,raw`.

The keys stay what they are in queries, in JSON and in the store; whoever shows a figure to people names it by these
words. `explorer/DESIGN.md` has the rules for pages, reports and charts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zoolens.base.store.records import Observation
from zoolens.base.store.scopes import Dimension, Scope, parse_scope

# In the order in which a reader wants them: how good it is, how quick, how large, then what explains the former.
_TITLES: Final = {
    "top1": "top-1 accuracy",
    "accuracy": "accuracy",
    "map": "mean average precision (mAP)",
    "ap": "average precision (AP)",
    "ap50": "average precision at IoU 0.5 (AP50)",
    "ap75": "average precision at IoU 0.75 (AP75)",
    "miou": "mean intersection over union (mIoU)",
    "f1": "F1",
    "exact_match": "exact match",
    "wer": "word error rate",
    "cer": "character error rate",
    "perplexity": "perplexity",
    "bits_per_byte": "bits per byte",
    "next_token_accuracy": "next-token accuracy",
    "choice_accuracy": "accuracy of choices",
    "choice_accuracy_bytes": "accuracy of choices by likelihood per byte",
    "auc": "area under the ROC curve (AUC)",
    "mae": "mean absolute error",
    "rmse": "root mean square error",
    "score": "mean score",
    "top5": "top-5 accuracy",
    "latency_p50": "median latency",
    "latency_p90": "90th percentile of latency",
    "latency_p95": "95th percentile of latency",
    "latency_p99": "99th percentile of latency",
    "latency": "median latency",
    "throughput": "throughput",
    "latency_first_token": "time to the first token",
    "latency_token": "time of a written token",
    "prefill_speed": "reading of prompts",
    "decode_speed": "writing of texts",
    "memory_context": "memory with keys and values",
    "energy_token": "energy of a written token",
    "file_size": "file size",
    "size": "file size",
    "parameters": "parameters",
    "peak_memory": "peak memory",
    "peak_device_memory": "peak memory of the device",
    "energy": "energy",
    "macs": "multiply-accumulates",
    "flops": "operations",
    "agreement": "agreement",
    "churn": "churn",
    "cold_start": "cold start",
    "recall": "recall",
    "precision": "precision",
    "class_ap": "average precision of a class",
    "ece": "calibration error (ECE)",
    "brier": "Brier score",
    "nll": "negative log-likelihood",
    "clean_share": "undisturbed calls",
    "roundtrip_p50": "median round trip",
    "activation_bytes": "activations",
    "training_time": "training time",
    "epoch_time": "time of an epoch",
    "export_time": "time of the export",
    **{f"ap_{size}": f"average precision of {size} boxes" for size in ("small", "medium", "large")},
    **{f"ar_{size}": f"average recall of {size} boxes" for size in ("small", "medium", "large")},
    **{f"ar{most}": f"average recall of {most} boxes an image" for most in (10, 100)},
    "ar1": "average recall of one box an image",
}
_RANKS: Final = {metric: rank for rank, metric in enumerate(_TITLES)}
# Free scopes that the house writes itself.
_PHASES: Final = {
    "process": "of the whole process",
    "total": "in all",
    "import": "importing the runtime",
    "load": "loading the file",
    "compile": "compiling",
    "first_run": "first answer",
    "start": "starting the process",
}


def metric_title(metric: str) -> str:
    """What a metric is called; one that is not known here keeps its name, with spaces for underlines."""
    return _TITLES.get(metric) or metric.replace("_", " ")


def scope_title(scope: str, class_name: str = "") -> str:
    """Which part of a run a figure is about, in words; empty of the whole run. `class_name`: where it is known."""
    parsed = parse_scope(scope)
    words = _part(parsed, class_name)
    return f"{words}, all calls" if parsed.raw and words else "all calls" if parsed.raw else words


def _part(scope: Scope, class_name: str) -> str:
    if scope.dimension is None:
        return _PHASES.get(scope.value, scope.value)
    if scope.dimension is Dimension.BATCH:
        return "one input at a time" if scope.number == 1 else f"batches of {scope.value}"
    if scope.dimension is Dimension.CONTEXT:
        tokens, _, sequences = scope.value.partition("x")
        return f"{tokens} tokens, {sequences} at once" if sequences else f"{tokens} tokens"
    if scope.dimension is Dimension.CLASS:
        return class_name or f"class {scope.value}"
    return f"{'with run' if scope.dimension is Dimension.WITH else scope.dimension.value} {scope.value}"


def figure_title(metric: str, scope: str = "", class_name: str = "") -> str:
    """Metric and scope together: "median latency, batches of 8"."""
    part = scope_title(scope, class_name)
    return f"{metric_title(metric)}, {part}" if part else metric_title(metric)


def important_first(observations: Iterable[Observation]) -> list[Observation]:
    """How good, how quick, how large, and then the rest; what is of all calls follows what is of the clean ones."""
    return sorted(observations, key=lambda observation: (_rank(observation), len(observation.scope), observation.scope))


def _rank(observation: Observation) -> tuple[bool, int, str]:
    raw = parse_scope(observation.scope).raw
    return raw, _RANKS.get(observation.metric, len(_RANKS)), observation.metric
