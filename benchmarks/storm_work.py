"""The work of `storm.py`: models, a study, the commands that a user runs, and what their store must hold at the end.

As a program, `python benchmarks/storm_work.py WHERE MODEL…` evaluates without timing, which commands cannot ask for:
such evaluations pack the cores of the cluster. It trusts its models, so that 200 of them take minutes; those that are
timed are opened in sandboxed processes.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoolens.base.store.checking import check_store
from zoolens.base.store.records import Run, RunKind
from zoolens.base.store.store import Store, open_store
from zoolens.findings.comparisons.reproduce import DRIFTING

LIMIT = 40  # inputs of each evaluation
TRIALS = 6
STUDY = "storm"
KINDS = (RunKind.EVALUATION, RunKind.TRAINING, RunKind.LABELS)
TIMES = (*DRIFTING, "seconds", "time", "energy")
_MEASURED = re.compile(r"✓ (\S+) in \S+: measured (\d+) stages?")
_PLAN = f"""
name: {STUDY}
frameworks: [torch, jax]
recipe: {{architecture: mlp, mode: library, dataset: demo, learning_rate: 0.001, batch_size: 100, epochs: 2}}
space:
  - {{name: learning_rate, low: 1e-4, high: 3e-2, log: true}}
  - {{name: batch_size, low: 50, high: 200, integer: true}}
search: {{split: [], sampler: design, initial: {TRIALS}, trials: {TRIALS}}}
"""


@dataclass(frozen=True)
class Work:
    """`models`: manifests, of which the last `timed` are timed too."""

    folder: Path
    models: tuple[Path, ...]
    timed: int

    def commands(self, on: str) -> dict[str, list[list[str]]]:
        """By driver, the commands that it runs one after the other."""
        untimed, timed = self.models[: -self.timed], self.models[-self.timed :]
        zoolens = [sys.executable, "-m", "zoolens"]
        evaluate = [*zoolens, "eval", *map(str, timed), "--data", "demo", "--limit", str(LIMIT), "--batch", "1"]
        evaluate += ["--runtime", "onnxruntime", "--no-cold", "--latency-seconds", "0.05", "--on", on]
        study = [*zoolens, "crosstrain", "run", str(self.folder / "plan.yaml"), "--threads", "1", "--on", on]
        return {
            "evaluations": [[sys.executable, __file__, on, *map(str, untimed)], evaluate],
            "study": [study],
        }


def prepare(folder: Path, evaluations: int) -> Work:
    """So many networks: one of the demo's with noise on its weights, so that each answers differently."""
    import onnx
    from onnx import numpy_helper

    from zoolens.inventory import catalog

    entry = catalog.find("demo:lenet-narrow")
    assert entry.folder is not None
    network = onnx.load(entry.folder / "lenet-narrow.onnx")
    manifest = (entry.folder / "lenet-narrow.yaml").read_text()
    head, _, rest = manifest.partition("assets:")
    head = head.partition("inputs:")[2]
    del rest
    paths = []
    for number in range(evaluations):
        draw = np.random.default_rng(number)
        noisy = onnx.ModelProto()
        noisy.CopyFrom(network)
        for weights in noisy.graph.initializer:
            values = numpy_helper.to_array(weights)
            if values.dtype == np.float32:
                noise = draw.normal(0, 0.01, values.shape).astype(np.float32)
                weights.CopyFrom(numpy_helper.from_array(values + noise, weights.name))
        name = f"storm-{number:03d}"
        onnx.save(noisy, folder / f"{name}.onnx")
        text = f"zoolens: 1\nname: {name}\nversion: 1.0.0\ninputs:{head}"
        text += f"assets:\n- format: onnx\n  files:\n  - location: {name}.onnx\n"
        (folder / f"{name}.yaml").write_text(text)
        paths.append(folder / f"{name}.yaml")
    (folder / "plan.yaml").write_text(_PLAN)
    return Work(folder, tuple(paths), max(1, evaluations // 8))


# --- what the store holds


def facts(store: Store) -> dict[str, Any]:
    """By run, everything that does not depend on the clock, and the names of what does."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        for run in store.runs(kind=kind):
            stages = store.stages(run.id)
            found[run.id] = {
                "key": (kind.value, run.key),
                "model": run.ref,
                "unfinished": sorted(stage for stage, state in stages.items() if not state.done),
                "stages": sorted(stages),
                "observations": _observations(store, run),
                "parts": {name: _rows(store, run, name) for name in store.kinds(run.id)},
            }
    return found


def _observations(store: Store, run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counted = Counter((one.metric, one.scope) for one in store.observations(run.id))
    doubled = sorted(f"{metric} {scope}" for (metric, scope), count in counted.items() if count > 1)
    for one in store.observations(run.id):
        timed = any(word in one.metric for word in TIMES)
        found[f"{one.metric} {one.scope}"] = "a time" if timed else (one.value, one.low, one.high, one.n)
    return {**found, "doubled": doubled}


def _rows(store: Store, run: Run, name: str) -> Any:
    """The rows of predictions; of samples of times only that they are there, each part once."""
    table = store.table(run.id, name)
    parts = [part.part for part in store.parts(run.id, name)]
    whole = parts == list(range(len(parts))) and table.num_rows > 0
    return whole if "latency" in name else (whole, table.to_pydict())


def trials(store: Store) -> dict[str, Any]:
    """By trial, what was asked for and what each side reached."""
    from zoolens.training.crosstrain.study.stored_studies import read_study

    names = Counter(trial.id for trial in read_study(store, STUDY).trials)
    return {
        trial.id: (
            names[trial.id],
            dict(trial.hyperparameters),
            {side.framework: (side.status, side.accuracy) for side in trial.sides},
        )
        for trial in read_study(store, STUDY).trials
    }


def differences(here: Store, there: Store) -> Iterator[str]:
    """Sentences about everything in which two stores differ, or that is not as it should be in the second."""
    ours, theirs = facts(here), facts(there)
    for run in sorted(ours.keys() - theirs.keys()):
        yield f"Lost: run {run} ({ours[run]['model']})."
    for run in sorted(theirs.keys() - ours.keys()):
        yield f"Too many: run {run} ({theirs[run]['model']}, attempt {theirs[run]['key'][1].attempt})."
    for run in sorted(ours.keys() & theirs.keys()):
        if theirs[run]["unfinished"] or theirs[run]["observations"]["doubled"]:
            yield f"Run {run}: unfinished {theirs[run]['unfinished']}, twice {theirs[run]['observations']['doubled']}."
        yield from (f"Run {run}: {name} differs." for name in ours[run] if ours[run][name] != theirs[run][name])
    if trials(here) != trials(there):
        yield "The trials of the study differ."
    yield from check_store(there).damage
    yield from _broken_objects(there)


def _broken_objects(store: Store) -> Iterator[str]:
    """Of all objects, also those that no row names: what a killed driver left behind is whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in store.bulk.place.names():
        try:
            pq.read_table(pa.BufferReader(store.bulk.place.get(name)))
        except (OSError, pa.ArrowException) as error:
            yield f"The object {name} is half-written: {error}."


def litter(store: Store) -> int:
    """Objects that no row names."""
    named = {
        part.name for kind in KINDS for run in store.runs(kind=kind) for of in store.kinds(run.id)
        for part in store.parts(run.id, of)
    }  # fmt: skip
    return len(set(store.bulk.place.names()) - named)


def told_twice(journal: Path) -> list[str]:
    """Trials that a journal was told more than once."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    told = Counter(line["asked"]["trial"] for line in lines if line["kind"] == "told")
    return sorted(trial for trial, count in told.items() if count > 1)


def repeated(output: str) -> list[str]:
    """Models whose stages were measured more often than there are stages, by what the drivers said."""
    measured: Counter[str] = Counter()
    most: dict[str, int] = {}
    for model, stages in _MEASURED.findall(output):
        measured[model] += int(stages)
        most[model] = max(most.get(model, 0), int(stages))
    highest = max(most.values(), default=0)
    return sorted(model for model, count in measured.items() if count > highest)


def leaks(texts: Mapping[str, Sequence[Path]], secrets: Sequence[str]) -> Iterator[str]:
    """Files that hold one of these secrets, by the name of what they are."""
    for what, paths in texts.items():
        for path in paths:
            content = path.read_bytes()
            yield from (f"{what} {path.name} holds a password." for secret in secrets if secret.encode() in content)


def main() -> None:
    from zoolens.base.engine.executors.current_executor import running_on
    from zoolens.base.engine.sandbox import trusting
    from zoolens.base.errors import ZoolensError
    from zoolens.base.progress import Silent
    from zoolens.findings.measure.evaluate import carry_out
    from zoolens.findings.measure.plan import EvaluationPlan
    from zoolens.inventory.catalog.sessions import RunOptions

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    on, *models = sys.argv[1:]
    wanted = RunOptions(runtimes=("onnxruntime",))
    plan = EvaluationPlan(models=models, data="demo", limit=LIMIT, wanted=wanted, batches=(), cold=False)
    failed = False
    try:
        with running_on(on), trusting(), open_store() as store:
            for outcome in carry_out(plan, store, Silent()):
                failed |= bool(outcome.errors)
                state = f"measured {len(outcome.measured)} stages" if outcome.measured else "already measured"
                print(f"✓ {outcome.title}: {state}" if not outcome.errors else f"✗ {outcome.title}: {outcome.errors}")
    except ZoolensError as error:
        sys.exit(f"Error: {error}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
