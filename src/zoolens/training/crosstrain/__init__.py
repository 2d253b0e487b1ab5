"""One recipe, several frameworks: where they train apart, by how much more than seed noise, and why.

The public names are imported on first use, as those of `zoolens` are. `study` and `weights` of `crosstrain_api` are
`load_study` and `load_weights` here, where `study` is a package.

Its three packages import one way: `exchange` (folders for others) from `study` (plans, search, store, reports) from
`training` (networks, data, trainers).
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "studies": "crosstrain_api.studies",
    "load_study": "crosstrain_api.study",
    "trials": "crosstrain_api.trials",
    "find": "crosstrain_api.find",
    "load_weights": "crosstrain_api.weights",
    "model": "crosstrain_api.model",
    "continue_training": "crosstrain_api.continue_training",
    "export_study": "crosstrain_api.export_study",
    "import_study": "crosstrain_api.import_study",
    "check_submission": "crosstrain_api.check_submission",
    "submit": "crosstrain_api.submit",
    "import_published": "study.published.import_published",
    "load_recipe": "study.yaml_files.load_recipe",
    "load_plan": "study.yaml_files.load_plan",
    "static_diff": "training.diff.static_diff.static_diff",
    "run_plan": "study.plan_runner.run_plan",
    "explain": "study.explanation.explain.explain",
    "report_study": "study.store_report.report_study",
    "Recipe": "training.recipe.Recipe",
    "Semantics": "zoolens.training.pairs.semantics.Semantics",
    "Plan": "study.study_plan.Plan",
    "Workers": "training.trainer_pool.Workers",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        module, _, attribute = _PUBLIC[name].rpartition(".")
        full = module if module.startswith("zoolens.") else f"{__name__}.{module}"
        return getattr(importlib.import_module(full), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
