"""What a runtime may be able to do beside running a model. Each says in `Runtime.cannot` what it lacks, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ABILITIES: Final[Mapping[str, str]] = {
    "dynamic_batch": "runs any batch size, whatever the file was exported with, as long as the model allows it",
    "set_threads": "uses the requested number of threads",
    "force_precision": "can be restricted to float32 arithmetic",
    "report_precision": "reports in which precision the layers were computed",
    "count_parameters": "counts the model's parameters",
    "compile_mode": "has a compiled mode beside the eager one",
    "run_here": "computes on this machine from the model's own files, so that size, cold start and energy are its own",
    "profile": "reports the time of each operator of the model",
    "kernels": "reports which library primitives or device kernels compute the operators",
    "capture": "returns the values of tensors inside the model",
    "extend": "continues a sequence of tokens, with the keys and values of earlier ones kept",
}
# The reason of most runtimes that lack the last one.
NO_SEQUENCES: Final = "a session of it takes whole inputs and keeps nothing between two calls"
# What a runtime that lacks the ability cannot do, where the ability's name is no verb.
DOING: Final = {
    "profile": "profile operators",
    "kernels": "report which kernels it runs",
    "capture": "capture tensors",
    "extend": "continue a sequence of tokens",
    "profile_extend": "profile how a sequence is continued",
}
