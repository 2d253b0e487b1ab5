"""Studies for users of Python, in a few lines.

    from zoolens import crosstrain

    crosstrain.trials("fashion")                                  # a DataFrame, one row a pair
    best, *_ = crosstrain.find("fashion", learning_rate=1e-3)     # nearest first
    net = crosstrain.model(best, "torch")                         # a live torch.nn.Module
    more = crosstrain.continue_training(best, "torch", epochs=2)

`store`: an open one, its path or address; None is the user's own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ModelError, UnknownName, ZoolensError
from zoolens.base.store.store import Store, borrowed_store
from zoolens.training.crosstrain.exchange.check import Check, check_submission
from zoolens.training.crosstrain.exchange.exchange_export import export_study
from zoolens.training.crosstrain.exchange.merge import Merged, import_study, submit
from zoolens.training.crosstrain.study.frame import find_trials, trials_frame
from zoolens.training.crosstrain.study.stored_studies import read_study, study_names
from zoolens.training.crosstrain.training.job import Job, LoopKind
from zoolens.training.crosstrain.training.kept_weights import weights_of
from zoolens.training.crosstrain.training.side_recipe import SideRecipe, side_recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trainer_process import WEIGHTS
from zoolens.training.crosstrain.training.trainers.registry import trainer_named
from zoolens.training.crosstrain.training.trainers.trainer import Trained
from zoolens.training.crosstrain.training.trial_runner import apply
from zoolens.training.crosstrain.training.trials import Hyperparameter, Study, Trial
from zoolens.training.crosstrain.training.weights import read_weights, write_weights
from zoolens.training.pairs.data.prepared_data import prepared

__all__ = [
    "Check", "Merged", "check_submission", "continue_training", "export_study", "find", "import_study", "model",
    "studies", "study", "submit", "trials", "weights",
]  # fmt: skip
StoreLike = Store | str | Path | None
_ANOTHER_ORDER: Final = 1 << 20  # added to the seed where training goes on, so that no batch order is repeated


def studies(store: StoreLike = None) -> list[str]:
    """The names of all studies."""
    with borrowed_store(store, must_exist=True) as opened:
        return study_names(opened)


def study(name: str, store: StoreLike = None) -> Study:
    """A study with its trials, as plain values."""
    with borrowed_store(store, must_exist=True) as opened:
        return read_study(opened, name)


def trials(name: Study | str, store: StoreLike = None) -> Any:
    """A pandas DataFrame with one row for each trial and pair of its sides."""
    return trials_frame(_study(name, store))


def find(
    name: Study | str, /, *, tolerance: float = 0.05, store: StoreLike = None, **hyperparameters: Hyperparameter
) -> tuple[Trial, ...]:
    """The trials whose hyperparameters are within this share of those given, nearest first."""
    return find_trials(_study(name, store), tolerance, **hyperparameters)


def weights(trial: Trial, framework: str, store: StoreLike = None) -> dict[str, NDArray[Any]]:
    """The trained weights of a side, where they were kept."""
    with borrowed_store(store, must_exist=True) as opened:
        return _weights(opened, trial, framework)


def model(trial: Trial, framework: str, store: StoreLike = None) -> Any:
    """A live network of the framework (a torch.nn.Module or a keras.Model) with the trained weights. It takes images
    divided by 255, channels first in torch and last in Keras, and answers logits."""
    with borrowed_store(store, must_exist=True) as opened:
        side = side_recipe(opened, _run(trial, framework))
        return trainer_named(framework)().live_model(side, _weights(opened, trial, framework))


def continue_training(
    trial: Trial,
    framework: str,
    *,
    epochs: int,
    store: StoreLike = None,
    workers: Workers | None = None,
    loop: LoopKind | None = None,
    device: str = "cpu",
    threads: int | None = None,
) -> Trained:
    """Train a side for more epochs, by its recipe, from its trained weights; the result is not filed. The optimizer
    starts anew: its moments were not kept, and so the first steps differ from those of a training without a break.
    Batches come in an order of their own. Without `workers`, a process is started for it."""
    with borrowed_store(store, must_exist=True) as opened:
        side, given = side_recipe(opened, _run(trial, framework)), _weights(opened, trial, framework)
    trainer = trainer_named(framework)
    if side.recipe.shipped and not trainer.starts_shipped:
        raise ModelError(
            f"The trainer {framework} cannot start a network as its library ships it from given weights.",
            hint="Load it with `model`, and train it with a loop of your own.",
        )
    seed = (side.recipe.seed + _ANOTHER_ORDER) % (1 << 31)
    recipe = apply(side.recipe, {"epochs": epochs, "seed": seed})
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_weights(work / "start.safetensors", given)
        job = Job(
            recipe=recipe,
            framework=framework,
            semantics=side.semantics,
            data=_data(side),
            output=work / "trained",
            weights=work / "start.safetensors",
            loop=loop or trainer.usual_loop(device),
            device=device,
            threads=threads,
            keep_weights=True,
        )
        return _trained(job, workers)


def _trained(job: Job, workers: Workers | None) -> Trained:
    if workers is None:
        with Workers() as own:
            return _trained(job, own)
    outcome, answers = workers.train(job)
    kept = job.output / WEIGHTS
    return Trained(outcome, answers, read_weights(kept) if kept.is_file() else None)


def _data(side: SideRecipe) -> Path:
    data = prepared(side.recipe)
    if data.record.fingerprint != side.dataset.fingerprint:
        raise DatasetError(
            f"{side.recipe.dataset} is not the data that this trial was trained on.", hint="Has it changed since?"
        )
    return data.folder


def _study(name: Study | str, store: StoreLike) -> Study:
    return name if isinstance(name, Study) else study(name, store)


def _run(trial: Trial, framework: str) -> str:
    sides = {side.framework: side for side in trial.sides}
    if framework not in sides:
        raise UnknownName("side", framework, sides)
    run = sides[framework].run
    if run is None:
        raise ZoolensError(f"Trial {trial.id} is in no store.", hint="Take it from a study of a store.")
    return run


def _weights(store: Store, trial: Trial, framework: str) -> dict[str, NDArray[Any]]:
    return weights_of(store, _run(trial, framework))
