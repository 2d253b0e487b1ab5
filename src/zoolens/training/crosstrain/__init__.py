"""One recipe, several frameworks: where they train apart, by how much more than seed noise, and why.

The public names are imported on first use, as those of `zoolens` are. `study` and `weights` of `crosstrain_api` are
`load_study` and `load_weights` here, where `study` is a package.

Its three packages import one way: `exchange` (folders for others) from `study` (plans, search, store, reports) from
`training` (networks, data, trainers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoolens.base.public.lazy_names import public_names

if TYPE_CHECKING:
    from zoolens.training.crosstrain import crosstrain_api
    from zoolens.training.crosstrain.crosstrain_api import check_submission as check_submission
    from zoolens.training.crosstrain.crosstrain_api import continue_training as continue_training
    from zoolens.training.crosstrain.crosstrain_api import export_study as export_study
    from zoolens.training.crosstrain.crosstrain_api import find as find
    from zoolens.training.crosstrain.crosstrain_api import import_study as import_study
    from zoolens.training.crosstrain.crosstrain_api import model as model
    from zoolens.training.crosstrain.crosstrain_api import studies as studies
    from zoolens.training.crosstrain.crosstrain_api import submit as submit
    from zoolens.training.crosstrain.crosstrain_api import trials as trials
    from zoolens.training.crosstrain.study.explanation.explain import explain as explain
    from zoolens.training.crosstrain.study.plan_runner import run_plan as run_plan
    from zoolens.training.crosstrain.study.published import import_published as import_published
    from zoolens.training.crosstrain.study.store_report import report_study as report_study
    from zoolens.training.crosstrain.study.study_plan import Plan as Plan
    from zoolens.training.crosstrain.study.yaml_files import load_plan as load_plan
    from zoolens.training.crosstrain.study.yaml_files import load_recipe as load_recipe
    from zoolens.training.crosstrain.training.diff.static_diff import static_diff as static_diff
    from zoolens.training.crosstrain.training.recipe import Recipe as Recipe
    from zoolens.training.crosstrain.training.trainer_pool import Workers as Workers
    from zoolens.training.pairs.semantics import Semantics as Semantics

    load_study, load_weights = crosstrain_api.study, crosstrain_api.weights

_WHERE = {
    "studies": "zoolens.training.crosstrain.crosstrain_api:studies",
    "load_study": "zoolens.training.crosstrain.crosstrain_api:study",
    "trials": "zoolens.training.crosstrain.crosstrain_api:trials",
    "find": "zoolens.training.crosstrain.crosstrain_api:find",
    "load_weights": "zoolens.training.crosstrain.crosstrain_api:weights",
    "model": "zoolens.training.crosstrain.crosstrain_api:model",
    "continue_training": "zoolens.training.crosstrain.crosstrain_api:continue_training",
    "export_study": "zoolens.training.crosstrain.crosstrain_api:export_study",
    "import_study": "zoolens.training.crosstrain.crosstrain_api:import_study",
    "check_submission": "zoolens.training.crosstrain.crosstrain_api:check_submission",
    "submit": "zoolens.training.crosstrain.crosstrain_api:submit",
    "import_published": "zoolens.training.crosstrain.study.published:import_published",
    "load_recipe": "zoolens.training.crosstrain.study.yaml_files:load_recipe",
    "load_plan": "zoolens.training.crosstrain.study.yaml_files:load_plan",
    "static_diff": "zoolens.training.crosstrain.training.diff.static_diff:static_diff",
    "run_plan": "zoolens.training.crosstrain.study.plan_runner:run_plan",
    "explain": "zoolens.training.crosstrain.study.explanation.explain:explain",
    "report_study": "zoolens.training.crosstrain.study.store_report:report_study",
    "Recipe": "zoolens.training.crosstrain.training.recipe:Recipe",
    "Semantics": "zoolens.training.pairs.semantics:Semantics",
    "Plan": "zoolens.training.crosstrain.study.study_plan:Plan",
    "Workers": "zoolens.training.crosstrain.training.trainer_pool:Workers",
}

# To a type checker a module with a `__getattr__` has every name, and one with this `__all__` none for `import *`.
if not TYPE_CHECKING:
    __all__ = [*_WHERE]
    __getattr__, __dir__ = public_names(__name__, _WHERE)
