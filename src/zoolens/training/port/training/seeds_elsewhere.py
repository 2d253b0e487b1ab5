"""Seeds of a paired training on other machines: a job is one seed, and both sides' runs come back.

Whoever asks opens both sides too: it draws the first weights of every seed, finds the seeds that are kept, compares the
answers and keeps them. A node that would train something else, because a file, a package, the data, the machine or the
first weights are others there, refuses.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.engine.executors.executor import TITLE, Executor, run_jobs
from zoolens.base.engine.executors.reports import JobBars
from zoolens.base.errors import ConstraintError, ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import fingerprint
from zoolens.inventory.datasets.opening import absolute_spec, parse_spec
from zoolens.training.pairs.data.recording import is_function
from zoolens.training.pairs.loop.single_run import SingleRun

_FUNCTION: Final = "zoolens.training.port.training.seed_node:train_seed_here"


@dataclass(frozen=True)
class SeedJobs:
    """Trains seeds of one pair on an executor. `request`: a `TrainingRequest` as plain data, whose names are valid in
    any folder. `decided`: what decides about the training, as `kept_seeds.decided_by` has it."""

    executor: Executor
    request: Mapping[str, Any]
    decided: Mapping[str, Any]
    gpu: bool

    def train(self, starts: Mapping[int, str], progress: Progress) -> Iterator[tuple[int, tuple[SingleRun, SingleRun]]]:
        """Yields the seeds and their runs as they are trained. `starts`: digests of the first weights, by seed."""
        seeds = list(starts)
        jobs = [
            {
                TITLE: f"seed {seed}",
                "request": {**self.request, "seeds": [seed]},
                "recorded_seeds": max(self.request["seeds"]) + 1,
                "start": starts[seed],
                "decided": digests_of(self.decided),
                "paths": paths_of(self.request),
            }
            for seed in seeds
        ]
        with JobBars(progress, f"on {self.executor.name}", "training", len(jobs)) as bars:
            for number, answer in run_jobs(
                self.executor, _FUNCTION, jobs, whole_machine=True, gpu=self.gpu, told=bars.told
            ):
                bars.finished(number)
                if isinstance(answer, ZoolensError):
                    raise answer
                a, b = (run_of(fields) for fields in answer)
                yield seeds[number], (a, b)


def digests_of(decided: Mapping[str, Any]) -> dict[str, str]:
    return {name: fingerprint([value]) for name, value in decided.items()}


def check_same(expected: Mapping[str, str], here: Mapping[str, Any]) -> None:
    """Refuse, on the node, what would be another training."""
    ours = digests_of(here)
    different = sorted(name for name in {*expected, *ours} if expected.get(name) != ours.get(name))
    if different:
        raise ConstraintError(
            f"The node {platform.node()} would train something else: {', '.join(different)} differ there.",
            hint="Give all nodes the same files, packages and data, and use machines of one kind.",
        )


def check_start(expected: str, here: str) -> None:
    if expected != here:
        raise ConstraintError(
            f"The node {platform.node()} draws other first weights for this seed.",
            hint="Let your function draw them from the framework's generators only, or train here, without --on.",
        )


def absolute_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request whose names of files are valid in any folder; a recording of one's own data is not kept there."""
    data = dict(request["data"])
    for side in ("a", "b"):
        if data[side] is not None:
            named = {name: _absolute_data(data[side][name]) for name in ("data", "test_data")}
            data[side] = {**data[side], **named, "record": None}
    return {**request, "a": _absolute_function(request["a"]), "b": _absolute_function(request["b"]), "data": data}


def paths_of(request: Mapping[str, Any]) -> list[str]:
    """What a node must have."""
    texts = [request["a"], request["b"]]
    for choice in (request["data"]["a"], request["data"]["b"]):
        texts += [choice["data"], choice["test_data"]] if choice is not None else []
    functions = [str(text).rpartition(":")[0] for text in texts if text is not None and ".py:" in str(text)]
    return [path for path in dict.fromkeys(functions) if path.startswith("/")]


def _absolute_function(text: str) -> str:
    file, _, function = text.rpartition(":")
    return f"{Path(file).absolute()}:{function}" if file.endswith(".py") else text


def _absolute_data(text: str | None) -> str | None:
    if text is None or is_function(text):
        return None if text is None else _absolute_function(text)
    return "|".join(_absolute_part(part) for part in text.split("|"))


def _absolute_part(part: str) -> str:
    try:
        location = parse_spec(part)[1]
    except ZoolensError:
        return part
    return absolute_spec(part) if location and Path(location).expanduser().exists() else part


def run_fields(run: SingleRun) -> dict[str, Any]:
    """A run as plain data, for `run_of`."""
    answers = run.answers
    packed = None
    if answers is not None:
        content = np.ascontiguousarray(answers)
        packed = {"dtype": content.dtype.str, "shape": list(content.shape), "content": content.tobytes()}
    return {**vars(run), "losses": list(run.losses), "answers": packed}


def run_of(fields: Mapping[str, Any]) -> SingleRun:
    packed, losses = fields["answers"], tuple(fields["losses"])
    answers = None
    if packed is not None:
        answers = np.frombuffer(packed["content"], packed["dtype"]).reshape(packed["shape"])
    return SingleRun(**{**fields, "losses": losses, "answers": answers})


def refuse_objects(sides: Sequence[Any]) -> None:
    """Objects of this process cannot travel."""
    if not all(isinstance(side, str) for side in sides if side is not None):
        raise ZoolensError(
            "Objects of this process cannot be trained on other machines.",
            hint="Name functions instead, as file.py:function, for both sides and the data; or train here.",
        )
