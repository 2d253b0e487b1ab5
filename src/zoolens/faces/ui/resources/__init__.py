"""The resources of the API, one module each. To add one, write a module with `ENDPOINTS` and put its name here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from zoolens.faces.ui.endpoint import Endpoint

RESOURCES: Final = (
    "about",
    "home",
    "datasets",
    "search",
    "reports",
    "folder",
    "models",
    "runs",
    "run",
    "run_answers",
    "run_inputs",
    "run_drawings",
    "run_tokens",
    "comparisons",
    "audits",
    "divergences",
    "choose",
    "query_completions",
    "model",
    "measured",
    "networks",
    "traces",
    "trace_timeline",
    "trace_layers",
    "trace_comparison",
    "studies",
    "jobs",
    "services",
    "verifications",
    "fleet",
    "fleet_grid",
    "live",
)  # fmt: skip


@cache
def endpoints() -> dict[str, tuple[Endpoint, ...]]:
    """What each resource answers."""
    return {name: tuple(import_module(f"{__name__}.{name}").ENDPOINTS) for name in RESOURCES}
