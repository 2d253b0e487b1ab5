"""zoolens: the truth about neural-network models, and the means to act on it.

The public names are imported on first use, so that `import zoolens` costs nothing and an isolated runtime
process, which has numpy and one framework only, can import `zoolens.inventory.runtimes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoolens.base.present.display_hook import show_results_with
from zoolens.base.public.lazy_names import public_names
from zoolens.base.version import __version__ as __version__

if TYPE_CHECKING:
    from zoolens.base.engine.executors.current_executor import running_on as running_on
    from zoolens.base.engine.sandbox import trusting as trusting
    from zoolens.base.errors import ZoolensError as ZoolensError
    from zoolens.base.present.notebook import Shown
    from zoolens.base.store.copying import copy_store as copy_store
    from zoolens.base.store.store import Store as Store
    from zoolens.base.store.store import open_store as open_store
    from zoolens.faces.load.run_load import run_load as run_load
    from zoolens.faces.notebook.showing import show as show
    from zoolens.faces.serving.serve import serve as serve
    from zoolens.faces.ui.bundle.bundle_export import export_bundle as export_bundle
    from zoolens.findings import tracing as tracing
    from zoolens.findings.audit.auditing import audit_models as audit_models
    from zoolens.findings.audit.doctor.diagnose import doctor as doctor
    from zoolens.findings.audit.identification import identify as identify
    from zoolens.findings.comparisons.compare import compare as compare
    from zoolens.findings.comparisons.disagreements import disagree as disagree
    from zoolens.findings.comparisons.equivalence import equiv as equiv
    from zoolens.findings.comparisons.matrix import agreement_matrix as agreement_matrix
    from zoolens.findings.comparisons.pooled_runs import pooled_runs as pooled_runs
    from zoolens.findings.comparisons.reproduce import reproduce as reproduce
    from zoolens.findings.divergence.diverging import diverge as diverge
    from zoolens.findings.endpoints.verify_endpoint import verify_endpoint as verify_endpoint
    from zoolens.findings.graph.cost.cost import cost as cost
    from zoolens.findings.graph.diff.report import diff as diff
    from zoolens.findings.graph.segments.common_segments import common_segments as common_segments
    from zoolens.findings.graph.structures.structure import graph_of as graph_of
    from zoolens.findings.index.opener import build_index as build_index
    from zoolens.findings.measure.evaluate import evaluate as evaluate
    from zoolens.findings.measure.plan import EvaluationPlan as EvaluationPlan
    from zoolens.findings.plans.running import run_plan as run_plan
    from zoolens.findings.queries.query import prepare as prepare
    from zoolens.findings.queries.query import query as query
    from zoolens.findings.tracing.recorder import span as span
    from zoolens.findings.tracing.trace_models import trace as trace
    from zoolens.findings.twins.making import make_twins as make_twins
    from zoolens.inventory.catalog import lookup
    from zoolens.inventory.catalog.sessions import open_session as open_session
    from zoolens.inventory.datasets.opening import open_dataset as open_dataset
    from zoolens.inventory.fleet.job_listing import cancel_jobs as cancel_jobs
    from zoolens.inventory.fleet.job_listing import job_log as job_log
    from zoolens.inventory.fleet.job_listing import jobs as jobs
    from zoolens.inventory.fleet.placing import agents as agents
    from zoolens.inventory.manifests.schema import Manifest as Manifest
    from zoolens.inventory.zoos.listing import models as models
    from zoolens.training import crosstrain as crosstrain
    from zoolens.training import port as port

    find_model = lookup.find

# Where each name lies. `port`, `crosstrain` and `tracing` are rooms with several public names of their own.
_WHERE = {
    "evaluate": "zoolens.findings.measure.evaluate:evaluate",
    "EvaluationPlan": "zoolens.findings.measure.plan:EvaluationPlan",
    "compare": "zoolens.findings.comparisons.compare:compare",
    "pooled_runs": "zoolens.findings.comparisons.pooled_runs:pooled_runs",
    "reproduce": "zoolens.findings.comparisons.reproduce:reproduce",
    "trace": "zoolens.findings.tracing.trace_models:trace",
    "span": "zoolens.findings.tracing.recorder:span",
    "graph_of": "zoolens.findings.graph.structures.structure:graph_of",
    "cost": "zoolens.findings.graph.cost.cost:cost",
    "diff": "zoolens.findings.graph.diff.report:diff",
    "audit_models": "zoolens.findings.audit.auditing:audit_models",
    "doctor": "zoolens.findings.audit.doctor.diagnose:doctor",
    "identify": "zoolens.findings.audit.identification:identify",
    "equiv": "zoolens.findings.comparisons.equivalence:equiv",
    "diverge": "zoolens.findings.divergence.diverging:diverge",
    "agreement_matrix": "zoolens.findings.comparisons.matrix:agreement_matrix",
    "disagree": "zoolens.findings.comparisons.disagreements:disagree",
    "verify_endpoint": "zoolens.findings.endpoints.verify_endpoint:verify_endpoint",
    "common_segments": "zoolens.findings.graph.segments.common_segments:common_segments",
    "make_twins": "zoolens.findings.twins.making:make_twins",
    "build_index": "zoolens.findings.index.opener:build_index",
    "query": "zoolens.findings.queries.query:query",
    "prepare": "zoolens.findings.queries.query:prepare",
    "serve": "zoolens.faces.serving.serve:serve",
    "run_load": "zoolens.faces.load.run_load:run_load",
    "show": "zoolens.faces.notebook.showing:show",
    "export_bundle": "zoolens.faces.ui.bundle.bundle_export:export_bundle",
    "trusting": "zoolens.base.engine.sandbox:trusting",
    "running_on": "zoolens.base.engine.executors.current_executor:running_on",
    "Store": "zoolens.base.store.store:Store",
    "open_store": "zoolens.base.store.store:open_store",
    "copy_store": "zoolens.base.store.copying:copy_store",
    "agents": "zoolens.inventory.fleet.placing:agents",
    "jobs": "zoolens.inventory.fleet.job_listing:jobs",
    "job_log": "zoolens.inventory.fleet.job_listing:job_log",
    "cancel_jobs": "zoolens.inventory.fleet.job_listing:cancel_jobs",
    "run_plan": "zoolens.findings.plans.running:run_plan",
    "models": "zoolens.inventory.zoos.listing:models",
    "find_model": "zoolens.inventory.catalog.lookup:find",
    "open_session": "zoolens.inventory.catalog.sessions:open_session",
    "open_dataset": "zoolens.inventory.datasets.opening:open_dataset",
    "Manifest": "zoolens.inventory.manifests.schema:Manifest",
    "ZoolensError": "zoolens.base.errors:ZoolensError",
    "crosstrain": "zoolens.training.crosstrain",
    "port": "zoolens.training.port",
    "tracing": "zoolens.findings.tracing",
}

__all__ = ["__version__", *_WHERE]


def _shown(result: object) -> Shown:
    from zoolens.faces.notebook.showing import show

    return show(result)


show_results_with(_shown)

if not TYPE_CHECKING:  # a module with a `__getattr__` has every name, to a type checker
    __getattr__, __dir__ = public_names(__name__, _WHERE)
