"""Evaluate models: from a plan to stored observations, on this machine or on others.

import zoolens
outcomes = zoolens.evaluate(["demo:*"], "demo", runtimes=["onnxruntime", "litert"])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from zoolens.base.engine.executors.current_executor import current_executor
from zoolens.base.engine.executors.executor import Executor
from zoolens.base.engine.retry_policy import retry_policy
from zoolens.base.engine.sandbox import trusting
from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.records import Run
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.measure.fanout import Evaluation, counting, evaluate_elsewhere
from zoolens.findings.measure.fastest_mode import FASTEST
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import CONTEXTS, EvaluationPlan, Outcome
from zoolens.findings.measure.shards import predict_shards
from zoolens.inventory.catalog.lookup import Model, find_all
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.datasets.opening import Data, named_data
from zoolens.inventory.fleet.placing import places, places_by_kind
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.zoos.zoo import Entry


def evaluate(
    models: Model | Sequence[Model],
    data: Data | None = None,
    *,
    runtimes: Sequence[str] | str = (),
    environments: Sequence[str] | str = (),
    require: str = "",
    batches: Sequence[int] = (1,),
    contexts: Sequence[int] = CONTEXTS,
    device: str = "cpu",
    threads: int | None = None,
    precision: str = "default",
    mode: str = "default",
    limit: int | None = None,
    seed: int | None = None,
    accuracy: bool = True,
    cold: bool = True,
    fresh: bool = False,
    isolate: bool = False,
    allow_code: bool = False,
    trust: bool = False,
    store: Store | str | Path | None = None,
    progress: Progress | None = None,
    shards: int = 1,
) -> list[Outcome]:
    """Measure every model in every runtime asked for (default: every installed one that can run it).

    `data` may be left out where `accuracy` is False: models are then timed with made-up inputs. `trust`: open them in
    this process, without the sandbox. `contexts`: tokens, at which language models are timed
    that write. `shards`: into how many slices the dataset is cut for other machines
    (`zoolens.running_on`); on this machine it is answered as a whole.
    """
    chosen = named_data(data, limit, seed)
    plan = EvaluationPlan(
        models=[models] if isinstance(models, str | Path | Entry) else list(models),
        data=chosen.data,
        limit=chosen.limit,
        seed=chosen.seed,
        wanted=RunOptions(
            runtimes=_several(runtimes),
            environments=_several(environments),
            require=require,
            options=Options(threads=threads, device=device, precision=precision, mode=mode),
            isolate=isolate,
            allow_code=allow_code,
        ),
        batches=tuple(batches),
        contexts=tuple(contexts),
        accuracy=accuracy,
        cold=cold,
        fresh=fresh,
        shards=shards,
    )
    with trusting(trust), borrowed_store(store) as opened:
        return list(carry_out(plan, opened, progress or Silent()))


def _several(given: Sequence[str] | str) -> tuple[str, ...]:
    """One name may be given where several are expected."""
    return (given,) if isinstance(given, str) else tuple(given)


def carry_out(plan: EvaluationPlan, store: Store, progress: Progress) -> Iterator[Outcome]:
    """Outcomes one by one, as they are stored."""
    if not plan.models:
        raise ZoolensError("No model is named.", hint="Give zoo:name, a pattern such as 'demo:*', or a path.")
    if plan.shards < 1:
        raise ZoolensError(f"{plan.shards} slices of a dataset make no sense.", hint="There is at least 1.")
    if any(batch < 1 for batch in plan.batches):
        raise ZoolensError(f"A batch size of {min(plan.batches)} makes no sense.", hint="Batch sizes start at 1.")
    if any(tokens < 1 for tokens in plan.contexts):
        raise ZoolensError(f"A context of {min(plan.contexts)} tokens makes no sense.", hint="There is at least 1.")
    if plan.data is None and (plan.accuracy or plan.limit is not None or plan.seed is not None):
        raise ZoolensError(
            "No dataset given.", hint="Add --data; only timing (--no-accuracy, without --limit or --seed) needs none."
        )
    store.sweep_folder()
    entries, executor = find_all(plan.models), current_executor(each_kind=True)
    if plan.budget is not None and not executor.elsewhere:
        raise ZoolensError("A budget is kept for jobs on other machines.", hint="Add --on ray or --on each-kind.")
    if executor.elsewhere:
        yield from _carry_out_elsewhere(executor, entries, plan, store, progress)
    else:
        yield from carry_out_entries(entries, plan, store, progress)


def _carry_out_elsewhere(
    executor: Executor, entries: Sequence[Entry], plan: EvaluationPlan, store: Store, progress: Progress
) -> Iterator[Outcome]:
    evaluations: list[Evaluation] = []
    for evaluation in placed_evaluations(executor, entries, plan, store):
        if evaluation.places and not evaluation.places[0].within_reach:
            yield Outcome(evaluation.title, errors=(evaluation.places[0].out_of_reach,))
        else:
            evaluations.append(evaluation)

    def known(entry: Entry) -> list[Run]:
        return store.runs(model=entry.full_ref, trials=True)

    if plan.shards > 1:
        _check_shards(executor, plan)
        predict_shards(executor, evaluations, store, progress, known)
    for _, outcomes in evaluate_elsewhere(executor, evaluations, store, progress, known):
        yield from outcomes


def _check_shards(executor: Executor, plan: EvaluationPlan) -> None:
    if plan.fresh:
        raise ZoolensError("A fresh run is not shared out in slices.", hint="Leave --shards or --fresh out.")
    if plan.wanted.options.mode == FASTEST:
        raise ZoolensError("Slices of a dataset are all answered in one mode.", hint="Name a mode instead of fastest.")
    if executor.each_kind or plan.wanted.require:
        raise ZoolensError(
            "Slices of a dataset go to any node.", hint="Leave --shards out, or --on each-kind and --require."
        )
    if not plan.accuracy:
        raise ZoolensError("Without accuracy no dataset is answered.", hint="Leave --shards out.")


def placed_evaluations(
    executor: Executor, entries: Sequence[Entry], plan: EvaluationPlan, store: Store
) -> Iterator[Evaluation]:
    """Every model once on each kind of machine; or once, on a machine that meets the demands, where agents tell what
    machines have. Otherwise a node finds out by itself whether it meets them."""
    # A job that kills its process must not visit a whole fleet.
    wanted, most = plan.wanted, retry_policy().attempts
    if executor.each_kind:
        kinds = places_by_kind(store, wanted.require, **counting(wanted))
        # A kind that nobody can reach keeps one of its machines, of which that is told.
        reached = [[place for place in alike if place.within_reach] or alike[:1] for alike in kinds.values()]
        for entry in entries:
            yield from (Evaluation(entry, plan, places=tuple(alike[:most])) for alike in reached)
        return
    fitting = places(store, wanted.require, wanted.runtimes) if wanted.require and executor.knows_nodes else []
    nodes = [place for place in fitting if place.facts.node]
    for number, entry in enumerate(entries):
        # The next machine for the next model, and all the others if it is lost.
        turn = number % len(nodes) if nodes else 0
        yield Evaluation(entry, plan, places=(*nodes[turn:], *nodes[:turn])[:most])
