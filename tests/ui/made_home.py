"""A home with something on every page of the explorer: a store, a zoo and jobs, made of given words. Figures of
different things are different numbers, so that one in the place of another is seen.

Tests of what holds for all pages use it: with plain words, and with words that are attacks.
"""

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from browsing import at_home, serving
from made_jobs import write_jobs
from made_zoo import write_zoo

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, RunKind, StackRecord

# Every page and every tab of it, with a text that must be there. {names} are those that `write_home` gives. Add the
# views of a new page here.
VIEWS = {
    "#/home": "{one}",
    "#/home?data={dataset}": None,
    "#/reports": "{one}",
    "#/reports/{report}": "As it was",
    "#/folder": "No folder is named.",
    "#/models": "{one}",
    "#/models?columns=ref,formats,licence,runtimes,datasets,version,description,runs,on": "{one}",
    "#/model/{model}": "multiply-accumulates",
    "#/model/{model}?tab=claims": "top1",
    "#/model/{model}?tab=history": "over time",
    "#/model/{model}?tab=namesakes": "name",
    "#/model/{model}?tab=manifest": "name: model0",
    "#/model/{stored}": "{one}",
    "#/choose": "{one}",
    "#/choose?q=ON+accuracy+%3E%3D+1%25&tab=why": "Rows left after each condition",
    "#/runs": "{one}",
    "#/run/{a}": "What it confuses",
    "#/run/{a}?tab=figures": "Value [95 %]",
    "#/run/{a}?tab=inputs": None,
    "#/run/{a}?tab=confusion": None,
    "#/run/{a}?tab=calibration": None,
    "#/run/{a}?tab=classes": None,
    "#/run/{a}?tab=latency": None,
    "#/run/{a}?tab=observations": None,
    "#/run/{a}?tab=stack": None,
    "#/compare": "{one}",
    "#/compare?a={a}": "Run B",
    "#/compare?a={a}&b={b}&shown=all&unfold=figures.classes.environment.notes&compare={compare}&diverge={diverge}": (
        "Environment difference"
    ),
    "#/compare?a={a}&b={b}&part=confusion": "Confusion",
    "#/compare?a={a}&b={b}&part=calibration": "Calibration",
    "#/networks?a={model}&b={model}": "Swap A and B",
    "#/diverge": "{one}",
    "#/diverge/{diverge}": "Layer by layer",
    "#/audit": "{one}",
    "#/audit/{audit}": "findings, the gravest first",
    "#/traces": "{one}",
    "#/traces/{trace}?span=3": "Zoom to it",
    "#/traces/{trace}?tab=levels": "Traced with",
    "#/traces/{trace}?tab=layers": "hottest first",
    "#/traces/{trace}?tab=roofline": None,
    "#/traces/{trace}?tab=compare&with={other}": "All differences",
    "#/studies": "{one}",
    "#/studies/{study}": "The whole space",
    "#/studies/{study}?tab=trials": "Hyperparameters",
    "#/studies/{study}?tab=distributions": None,
    "#/studies/{study}?tab=explanations&trial={trial}": "Share of the gap",
    "#/services": "{one}",
    "#/services/{session}": "Events",
    "#/endpoints": "{one}",
    "#/endpoints/{endpoint}": "Models that were considered",
    "#/fleet": "{one}",
    "#/fleet?tab=jobs": "{one}",
    "#/fleet?tab=jobs&job=job0": "What it said",
    "#/fleet?tab=grid": "{one}",
    "#/fleet?tab=grid&quantity=latency&sort=spread": "not comparable",
    "#/jobs": "{one}",
    "#/live?with=folder:live": "Waits for an image.",
    "#/live?input=text&model=folder:sentiment": "Waits for a text.",
    "#/api": "/api/v1/models",
}


@dataclass(frozen=True)
class Words:
    """`all` stands where there is one text, `each` where there are several; `one` is a part that lists show."""

    all: str
    each: tuple[str, ...]
    one: str

    def cut(self, length):
        """Each of them with its place, so that no two are the same, and no longer than this."""
        return [f"{text[:length]}{place}" for place, text in enumerate(self.each)]


PLAIN = Words("A plain sentence, not short", tuple(f"plain sentence {place}" for place in range(9)), "plain sentence")


@contextmanager
def explored(home, words):
    """Fills a home and gives the address of an explorer over it, and the names in `VIEWS`."""
    from zoolens.faces.ui.settings import Settings

    with at_home(home), pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_ZOO_PATH", str(home / "zoo"))
        names = write_home(home, words)
        with serving(Settings()) as url:
            yield url, names


def write_home(home, words):
    """Fill the home that is in force; the zoo is to be named in ZOOLENS_ZOO_PATH before. Gives the names in `VIEWS`,
    as they stand in an address."""
    import zoolens
    from zoolens import open_store

    write_zoo(home / "zoo", words)
    with open_store() as store:
        write_evaluations(store, words)
        write_kinds(store, words)
        write_agents(store, words)
        a, b = write_pair(store, words)
        names = {"a": a, "b": b, "stored": store.run(a).ref, "study": write_study(store, words)}
        names |= {"trace": write_trace(store, words, "quick"), "other": write_trace(store, words, "slow", 60_000)}
        entry = zoolens.find_model("folder:model0")
        zoolens.graph_of(entry, store=store)
        names |= {"report": write_report(store, words, a), "dataset": store.run(a).dataset.name}
        names |= {"endpoint": write_verifications(store, words)}
    names |= {"model": entry.full_ref, "trial": trial_name(words, 0), "session": write_session(words)}
    names |= write_jobs(words, {"a": a, "b": b})
    return {"one": words.one, **{name: quote(value, safe="") for name, value in names.items()}}


def write_evaluations(store, words):
    for place, text in enumerate(words.each):
        some = text[:100_000]
        run = store.begin_run(
            ModelRecord(f"m{place}", f"file:{text}@0.0.0", some, {"description": some, "labels": [some]}),
            DatasetRecord(f"d{place}", text, 10, {"classes": [some]}),
            StackRecord(f"s{place}", some, {"version": some}, {}),
            resolved={"origin": {"ref": some}, "precision": some},
        )
        facts = [Observation("top1", 0.5 + place / 50, unit="fraction"), Observation(some, 1.0, unit=some)]
        store.finish_stage(run.id, "metric:topk", facts)
        store.fail_stage(run.id, some, some)


def write_kinds(store, words):
    """A model on three kinds of machine: slower in older software, faster elsewhere, and disturbed."""
    data = DatasetRecord("kinds", f"kinds {words.all[:1_000]}", 10)
    model = ModelRecord("kinds", f"file:{words.all}@9", "onnx", {})
    for machine, version, seconds in (("m1", "1", 0.015), ("m1", "2", 0.01), ("m2", "2", 0.002), ("m2", "3", 0.003)):
        about = {
            "version": f"{version} {words.all[:100]}",
            "machine": {"cpu": f"{machine} {words.all[:1_000]}", "cores": 4},
        }
        run = store.begin_run(model, data, StackRecord(f"k{machine}{version}", f"first {words.all}", about, {}))
        busy = {"disturbed": version == "3"}
        timing = Observation(
            "latency_p50", seconds, scope="batch=1", unit="s", low=0.99 * seconds, high=1.01 * seconds, details=busy
        )
        store.finish_stage(run.id, "latency:batch=1", [timing])
        store.finish_stage(run.id, "metric:topk", [Observation("top1", 0.7, unit="fraction", low=0.6, high=0.8, n=10)])


def write_agents(store, words):
    """Machines: one that works, one whose words cannot be read, and one that is lost."""
    from zoolens.base.store.agents import AgentRecord, publish_agent
    from zoolens.base.store.jobs import write_jobs
    from zoolens.inventory.fleet.agent_facts import describe_agent
    from zoolens.testing.job_contract import job

    facts = describe_agent()
    told = replace(
        facts, machine=replace(facts.machine, cpu=words.all[:100_000]), gpus=tuple(words.cut(1_000)[:2]),
        runtimes={f"first {words.all}": words.all[:100]}, environment=words.all[:1_000], node=words.all[:100],
    ).as_data()  # fmt: skip
    for place, text in enumerate(words.cut(1_000)):
        publish_agent(store, AgentRecord(f"a{place}", text, text[:100], told, 3_600.0, tuple(words.cut(1_000))))
    publish_agent(store, AgentRecord("odd", words.all, "odd", {"machine": words.all}, 3_600.0))
    attempts = [{"host": words.all[:100], "node": "", "started": 9.0, "ended": 1.0, "reason": words.all[:1_000]}]
    driver = {"id": "d", "name": words.all[:1_000], "command": words.all[:100], "lease": 3_600.0}
    told_of_jobs = {"error": words.all[:1_000], "attempts": attempts, "log": [[1.0, text] for text in words.cut(1_000)]}
    given = zip(words.cut(1_000), ("running", "waiting", "failed", "done", "lost", "cancelled"), strict=False)
    write_jobs(
        store,
        driver,
        [job(f"job{at}", title=text, state=state, **told_of_jobs) for at, (text, state) in enumerate(given)],
    )
    publish_agent(store, AgentRecord("lost", f"lost {words.all}", "k", told, 0.001))


def write_pair(store, words):
    """Two runs of one model on the same inputs that answer differently."""
    from zoolens.findings.comparisons.conftest import class_columns, one_hot, write_run

    classes = words.cut(90_000)
    labels = np.arange(2 * len(classes)) % len(classes)
    inputs = {"input": [f"{text}{again}" for again in "ab" for text in classes]}
    runs = []
    for runtime, answers, seconds in (("first", labels, 0.01), ("second", (labels + 1) % len(classes), 0.013)):
        columns = class_columns(one_hot(answers, len(classes)), labels)
        run = write_run(
            store, words.all, {**columns, **inputs}, labels,
            dataset=words.all, classes=classes, runtime=f"{runtime} {words.all}",
        )  # fmt: skip
        store.finish_stage(run.id, "metric:topk", [Observation("top1", 0.5, unit="fraction", low=0.4, high=0.6)])
        low, high = 0.9 * seconds, 1.1 * seconds
        timing = Observation("latency_p50", seconds, scope="batch=1", unit="s", low=low, high=high)
        store.finish_stage(run.id, "latency:batch=1", [timing])
        runs.append(run.id)
    return runs


def write_verifications(store, words):
    """An endpoint that was asked twice, and has another model since. Gives the second run."""
    from zoolens.testing.endpoint_runs import Teller, verification_run

    named, other = f"file:{words.all[:1_000]}", f"other {words.all[:1_000]}"
    address = f"http://127.0.0.1/{words.all[:1_000]}"
    teller = Teller(address, stated={words.all[:40]: words.all[:200]}, failure=words.all[:1_000])
    verification_run(store, {named: 0.001, other: 0.2}, teller)
    return verification_run(store, {named: 0.2, other: 0.001}, teller).id


def write_report(store, words, run):
    """A report with a note, a table and a chart."""
    from zoolens.base.present.charts import Chart, themed, values
    from zoolens.base.store.composed_reports import add_report

    about = {"title": words.all[:1_000], "caption": words.all[:1_000], "page": f"#/run/{run}"}
    about |= {"added": "2026-11-19T01:00:00+00:00"}
    cells = {"total": 2, "columns": [{"title": words.one, "number": False}], "rows": [[text] for text in words.each]}
    spec = {"data": values([{"x": 1}]), "mark": "point", "encoding": {"x": {"field": "x", "type": "quantitative"}}}
    pieces = [
        {"kind": "note", "text": f"# {words.all[:1_000]}\n\n- {words.all[:1_000]}\n- [here]({words.all[:100]})"},
        {"kind": "table", "table": cells, **about},
        {"kind": "chart", "chart": themed(Chart("c", words.all[:100], spec)), **about},
    ]
    return add_report(store, words.all[:1_000], pieces).id


def write_trace(store, words, runtime, slow=0):
    """A trace of a model with an operator for each of the words."""
    from zoolens.base.store.series import write_series
    from zoolens.findings.tracing.runner import series_name
    from zoolens.findings.tracing.spans import Level, SpanColumns, add_profiles
    from zoolens.findings.tracing.trace_context import TraceContext
    from zoolens.inventory.runtimes.observing import OperatorTime, Profile

    def spans(observed, *operators):
        columns = SpanColumns(TraceContext("ab" * 16, 7), observed)
        add_profiles(columns, [Profile(1000, 1_000_000 + slow, operators)] * 10, [True] * 10)
        return columns.table()

    run = store.begin_run(
        ModelRecord("traced", f"file:{words.all}@1", "onnx", {}),
        DatasetRecord("t", f"trace: {words.all}", 1),
        StackRecord(
            f"t:{runtime}", f"trace:{runtime} {words.all}", {"machine": {"cpu": words.all}, "version": words.all}, {}
        ),
        kind=RunKind.TRACE,
        resolved={"precision": words.all},
    )
    operators = [
        OperatorTime(
            text[:5_000], text[:500], 40_000 + 1_000 * place, 100_000 * place, nodes=(text[:500],), kernel=text[:500]
        )
        for place, text in enumerate(words.each)
    ]
    model = spans(Level.MODEL)
    layers = pa.concat_tables([spans(Level.LAYER, *operators), model])
    for level, table in ((Level.MODEL, model), (Level.LAYER, layers)):
        write_series(store, run.id, series_name(level), table)
        store.finish_stage(run.id, f"trace:{level}", [])
    store.fail_stage(run.id, "trace:library", words.all)
    return run.id


def trial_name(words, number):
    return f"t{number} {words.each[number][:1_000]}"


def write_study(store, words):
    """Trials in two frameworks, of which one side of the second failed, and the first is explained."""
    from zoolens.training.crosstrain.study.explanation.stored_explanations import file_explanation
    from zoolens.training.crosstrain.study.explanation.test_stored_explanations import made_explanation
    from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial
    from zoolens.training.crosstrain.training.recipe import Recipe
    from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
    from zoolens.training.pairs.semantics import ALIGNED

    name, sides = f"study {words.all}", {"torch": {"torch": words.all}, "jax": {"jax": "1"}}
    file_study(store, name, tuple(sides), {"source": words.all})
    for number, text in enumerate(words.each):
        some = text[:1_000]
        made = [
            TrainedSide(
                side, accuracy=(0.9 - number / 50) / (place + 1), losses=(2.0, 1.0), accuracies=(0.1, 0.5), seconds=1.5
            )
            for place, side in enumerate(sides)
        ]
        made[1] = TrainedSide("jax", status="failed", message=some) if number == 1 else made[1]
        recipe = Recipe(architecture="mlp", learning_rate=0.1, batch_size=8, epochs=number + 1)
        file_trial(
            store,
            name,
            Trial(trial_name(words, number), {"rate": 0.1 * (number + 1), "optimizer": some}, tuple(made)),
            TrialFiling(
                recipe_of=dict.fromkeys(sides, (recipe, ALIGNED)),
                dataset=DatasetRecord("d", words.all, 10),
                versions=sides,
            ),
        )
    file_study(store, "explain-1", ("a", "b"), {})
    file_explanation(store, made_explanation(), name, trial_name(words, 0))
    return name


def write_session(words):
    """A service that was stopped. Gives the id of its session."""
    from zoolens import open_store
    from zoolens.faces.serving.services.definition import Service
    from zoolens.faces.serving.services.events import (
        AnswerCounts,
        EventKind,
        EventLog,
        ObjectiveCounts,
        ServiceEvent,
        sessions,
    )

    now, second = time.time_ns(), 10**9
    log = EventLog(None, {words.all: Service.model_construct(reference=words.all)})
    log.record(words.all, ServiceEvent(EventKind.START, words.all, model=words.all, time=now - 20 * second))
    log.record(words.all, AnswerCounts(words.all, words.all, 900, 900, time=now - 10 * second))
    for place, text in enumerate(words.cut(10_000)):
        log.record(words.all, ServiceEvent(EventKind.SWITCH, text, text, words.all, 40, now - 9 * second + place))
    log.record(words.all, ObjectiveCounts(1000, 990, 0, 0.02, 95.0, time=now - second))
    log.record(words.all, ServiceEvent(EventKind.STOP, words.all, time=now))
    log.close()
    with open_store() as store:
        (session,) = sessions(store, words.all, 1)
    return session.run.id
