"""What the names of metrics in a query stand for: columns of figures, or figures relative to the reference."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zoolens.base import plugins
from zoolens.base.store.scopes import Dimension, batch_scope
from zoolens.findings.queries.language.errors import UnknownQueryName
from zoolens.findings.queries.language.syntax import EQUIVALENCE

ALIASES: Final = {
    "memory": "peak_memory", "latency": "latency_p50", "params": "parameters", "size": "file_size", "accuracy": "top1",
    "mem": "peak_memory", "agreement": EQUIVALENCE,
}  # fmt: skip

ACCURACY: Final = "top1"
EQUIVALENCE_LEAST: Final = "equivalence_least"
EQUIVALENCE_LOWER: Final = "equivalence_lower"
ACCURACY_LOWER: Final = "accuracy_lower"
ACCURACY_DROP: Final = "accuracy_drop"
ACCURACY_DROP_UPPER: Final = "accuracy_drop_upper"
L2: Final = "l2"

# Computed from the answers on the probes, for this reference and confidence: name -> unit.
DERIVED: Final = {
    EQUIVALENCE: "fraction", EQUIVALENCE_LEAST: "fraction", EQUIVALENCE_LOWER: "fraction", ACCURACY_LOWER: "fraction",
    ACCURACY_DROP: "fraction", ACCURACY_DROP_UPPER: "fraction", L2: "",
}  # fmt: skip
WITHOUT_REFERENCE: Final = frozenset({ACCURACY_LOWER})
BOUNDED: Final = frozenset({EQUIVALENCE_LOWER, ACCURACY_LOWER, ACCURACY_DROP_UPPER})  # they depend on the confidence

# Figures that do not depend on what a model answers. Every other one may, so a query's confidence counts the
# candidates before it: that errs on the safe side.
_RESOURCES: Final = frozenset({
    "parameters", "file_size", "peak_memory", "cold_start", "throughput", "energy", "clean_share", "flops", "macs",
    "activation_bytes", "peak_bytes", "nodes", "peak_device_memory", "prefill_speed", "decode_speed",
})  # fmt: skip
# Figures of a model's structure, which is read when a query first asks for one.
STRUCTURAL: Final = frozenset({"flops", "macs", "activation_bytes", "peak_bytes", "nodes"})
_RESOURCE_KINDS: Final = ("latency_", "roundtrip_", "device_", "energy_", "memory_")

# Resources of which more is better.
_MORE_IS_BETTER: Final = frozenset({
    "throughput", "roundtrip_throughput", "clean_share", "prefill_speed", "decode_speed",
})  # fmt: skip
# Figures of answers of which less is better: errors and distances.
_ERRORS: Final = frozenset({
    "ece", "brier", "nll", ACCURACY_DROP, ACCURACY_DROP_UPPER, L2, "mae", "rmse", "wer", "cer", "false_alarms",
    "bits_per_byte", "perplexity",
})  # fmt: skip

_OTHER_SCOPES: Final = ("process", "total")  # what is meant by peak_memory and by cold_start without more


@dataclass(frozen=True)
class ResolvedMetric:
    """`name` as asked, `column` where its values are; `answers`: it looks at what models answered on the probes."""

    name: str
    column: str
    unit: str
    derived: bool
    answers: bool


def resolved_metric(name: str, units: Mapping[str, str], batch: int = 1) -> ResolvedMetric:
    """What a name stands for, given the index's columns with their units and the batch size of EXEC."""
    metric = unaliased(name)
    if metric in DERIVED:
        return ResolvedMetric(name, metric, DERIVED[metric], derived=True, answers=True)
    column = _column(metric, units, batch, asked=name)
    return ResolvedMetric(name, column, units[column], derived=False, answers=looks_at_answers(column))


def unaliased(name: str) -> str:
    """Replace an alias by the store's own name: latency@batch=8 is latency_p50@batch=8."""
    metric, at, scope = name.partition("@")
    return f"{ALIASES.get(metric, metric)}{at}{scope}"


def looks_at_answers(column: str) -> bool:
    """Whether a figure may depend on a model's answers. A plug-in's metric that is a resource does not."""
    metric = column.partition("@")[0]
    if metric in _RESOURCES or metric.startswith(_RESOURCE_KINDS):
        return False
    return metric == ACCURACY or metric not in plugins.registered(plugins.RESOURCES)  # asking for plug-ins takes long


def higher_is_better(column: str) -> bool:
    """Whether more of a figure is better, as of accuracy and of what tasks measure; of times and sizes less is."""
    metric = column.partition("@")[0]
    return metric in _MORE_IS_BETTER or (looks_at_answers(column) and metric not in _ERRORS)


def _column(metric: str, units: Mapping[str, str], batch: int, asked: str) -> str:
    if metric in units:
        return metric
    for scope in (batch_scope(batch), *_OTHER_SCOPES):
        if f"{metric}@{scope}" in units:
            return f"{metric}@{scope}"
    scoped = sorted(column for column in units if column.startswith(f"{metric}@"))
    if len(scoped) == 1 and not scoped[0].startswith(f"{metric}@{Dimension.BATCH.prefix}"):
        return scoped[0]
    if scoped:
        raise _which(asked, scoped, batch)
    raise _unknown(asked, metric, units)


def _which(asked: str, scoped: list[str], batch: int) -> UnknownQueryName:
    listed = ", ".join(scoped[:8]) + (", …" if len(scoped) > 8 else "")
    if any(f"@{Dimension.BATCH.prefix}" in column for column in scoped):
        hint = f"At batch {batch} it is unknown; there are {listed}. Name another batch size: EXEC (batch=…)."
    else:
        hint = f'There are {listed}. Write one of them in quotes: "{scoped[0]}".'
    return UnknownQueryName("metric", asked, (), hint=hint)


def _unknown(asked: str, metric: str, units: Mapping[str, str]) -> UnknownQueryName:
    if not units:
        return UnknownQueryName("metric", asked, (), hint="Nothing is indexed yet: measure models with `zoolens eval`.")
    names = {column.partition("@")[0] for column in units} | DERIVED.keys()
    names |= {alias for alias, target in ALIASES.items() if target in names}
    close = difflib.get_close_matches(asked, names, n=3)
    suggestion = f"Did you mean {' or '.join(close)}?" if close else f"No model of this index has its {metric} known."
    return UnknownQueryName("metric", asked, (), hint=f"{suggestion} The index has {', '.join(sorted(names))}.")
