"""One recipe, several frameworks: where they train apart, by how much more than seed noise, and why.

The public names are imported on first use, as those of `zoolens` are. `api.study` and `api.weights` are `load_study`
and `load_weights` here, where `study` and `weights` are modules.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "studies": "api.studies",
    "load_study": "api.study",
    "trials": "api.trials",
    "find": "api.find",
    "load_weights": "api.weights",
    "model": "api.model",
    "continue_training": "api.continue_training",
    "export_study": "api.export_study",
    "import_study": "api.import_study",
    "check_submission": "api.check_submission",
    "submit": "api.submit",
    "import_published": "published.import_published",
    "load_recipe": "planfiles.load_recipe",
    "load_plan": "planfiles.load_plan",
    "static_diff": "diff.comparing.static_diff",
    "run_plan": "studying.run_plan",
    "explain": "explaining.running.explain",
    "report_study": "reporting.report_study",
    "Recipe": "recipe.Recipe",
    "Semantics": "semantics.Semantics",
    "Plan": "plan.Plan",
    "Workers": "workers.Workers",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        module, _, attribute = _PUBLIC[name].rpartition(".")
        return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
