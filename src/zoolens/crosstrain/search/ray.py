"""Trials on Ray Tune: its searcher asks and tells what the local way asks and tells, in the same journal.

Ray keeps no state of ours: the journal is the search, and a killed one is gone on with by asking it again. The
objective travels to Ray's processes by cloudpickle, from our own process to our own processes.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from zoolens.crosstrain.search.asking import Asking, Objective, Progress, carry_out
from zoolens.crosstrain.search.journal import Asked, Told
from zoolens.errors import MissingDependency, ZoolensError

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def run_on_ray(asking: Asking, objective: Objective, workers: int, report: Callable[[Progress], None]) -> None:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        from ray import tune
    except ImportError as error:
        raise MissingDependency("Searching on Ray", "ray", "ray") from error
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    _check_picklable(objective)
    searcher = _searcher(asking, report)

    def trainable(config: dict[str, Any]) -> dict[str, str]:
        return _answer(objective, Asked.model_validate_json(config["asked"]))

    with _cluster(ray, workers), tempfile.TemporaryDirectory(prefix="zoolens-ray-") as folder:
        gpus = float(ray.cluster_resources().get("GPU", 0.0))
        needs = {"cpu": 1.0, "gpu": min(1.0, gpus / workers)}
        tuner = tune.Tuner(
            tune.with_resources(trainable, needs),
            tune_config=tune.TuneConfig(
                search_alg=searcher,
                num_samples=-1,
                max_concurrent_trials=workers,
                reuse_actors=True,  # starting a process takes seconds
                trial_dirname_creator=lambda trial: str(trial.trial_id),
            ),
            run_config=tune.RunConfig(storage_path=folder, name="search", verbose=0),
        )
        tuner.fit()
    if searcher.problem is not None:
        raise searcher.problem


def _answer(objective: Objective, asked: Asked) -> dict[str, str]:
    """In Ray's process. Errors that are meant for the user come back as words."""
    try:
        return {"told": carry_out(objective, asked).model_dump_json()}
    except ZoolensError as error:
        return {"problem": json.dumps([error.message, error.hint])}


def _searcher(asking: Asking, report: Callable[[Progress], None]) -> Any:
    from ray.tune.search import Searcher

    class JournalSearcher(Searcher):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()  # no metric: Tune ranks nothing here
            self.problem: ZoolensError | None = None
            self._asked: dict[str, Asked] = {}

        def suggest(self, trial_id: str) -> dict[str, str] | str:
            asked = asking.next()
            if asked is None:
                return str(Searcher.FINISHED)
            self._asked[trial_id] = asked
            return {"asked": asked.model_dump_json()}

        def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
            asked = self._asked.pop(trial_id, None)
            if asked is None:
                return
            if result and "told" in result:
                report(asking.tell(asked, Told.model_validate_json(result["told"])))
                return
            message, hint = json.loads((result or {}).get("problem", "null")) or (
                f"Trial {asked.trial} broke off in a process of Ray.",
                "Run it with backend local to see why.",
            )
            self.problem = self.problem or ZoolensError(message, hint=hint)
            asking.stop("A trial broke off.")

        def __reduce__(self) -> tuple[type[object], tuple[()]]:
            """Tune writes its searcher down beside its own state; ours is in the journal."""
            return object, ()

        def __deepcopy__(self, memo: object) -> Searcher:
            return self

        def save(self, checkpoint_path: str) -> None:
            """Nothing to save: the journal has it."""

        def restore(self, checkpoint_path: str) -> None:
            """Nothing to restore."""

    return JournalSearcher()


def _check_picklable(objective: Objective) -> None:
    from ray import cloudpickle

    try:
        cloudpickle.dumps(objective)
    except Exception as error:
        raise ZoolensError(
            f"The objective cannot be sent to Ray's processes: {error}.",
            hint="Start what it holds (processes, open files) on its first call, or use backend local.",
        ) from error


@contextmanager
def _cluster(ray: Any, workers: int) -> Iterator[None]:
    """The cluster that is there or that RAY_ADDRESS names, or one on this machine for as long as we need it."""
    if ray.is_initialized():
        yield
        return
    here = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers, "include_dashboard": False}
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **here)
    try:
        yield
    finally:
        ray.shutdown()
