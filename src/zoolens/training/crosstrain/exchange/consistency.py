"""Whether what a folder says of each training fits together: recipe, hyperparameters, semantics, counts, versions and
weights. Checksums say that a file is whole; these say that it is not made up."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from zoolens.base.errors import ZoolensError
from zoolens.training.crosstrain.exchange.contents import Contents, DatasetEntry, ExportedSide, TrialFacts
from zoolens.training.crosstrain.training.architectures import build, parameters, tensor_shapes
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainers.registry import builds_common_networks, trainer_named
from zoolens.training.crosstrain.training.trial_runner import HYPERPARAMETERS, contradicted
from zoolens.training.crosstrain.training.trials import Hyperparameter
from zoolens.training.pairs.data.epoch_order import steps
from zoolens.training.pairs.semantics import USUAL, Semantics

Shapes = Mapping[str, tuple[int, ...]]
_VERSION: Final = re.compile(r"\d+(\.\d+)*([.+-]?[a-z0-9]+)*", re.IGNORECASE)
_SEMANTICS: Final = "semantics."
_SLACK: Final = 1.01  # clocks of a whole and of its parts


def consistency_problems(contents: Contents) -> Iterator[str]:
    """One sentence for each contradiction."""
    used = {facts.side.framework for _, facts in contents.sides}
    for framework in contents.study.frameworks:
        if contents.trials and framework not in used:
            yield f"study.json names the framework {framework}, and no side was trained by it."
    for place, dataset in enumerate(contents.study.datasets):
        recipes = [side.recipe for trial, side in contents.sides if trial.dataset == place and side.recipe is not None]
        yield from (f"study.json: {dataset.name!r} {problem}." for problem in _dataset_problems(dataset, recipes))
    for trial in contents.trials:
        dataset = contents.study.datasets[trial.dataset]
        yield from (f"Trial {trial.trial.id!r}: {problem}." for problem in _trial_problems(trial, dataset))
        for facts in trial.sides:
            where = f"Trial {trial.trial.id!r}, {facts.side.framework}"
            yield from (f"{where}: {problem}." for problem in _side_problems(facts, trial, dataset))


def weight_problems(facts: ExportedSide, dataset: DatasetEntry, shapes: Shapes) -> Iterator[str]:
    """Names and shapes of a side's tensors against those of the network of its recipe. Networks as a library ships them
    have tensors of the library's own, which are not known here."""
    if facts.recipe is None or facts.recipe.shipped or not builds_common_networks(facts.side.framework):
        return
    try:
        wanted = tensor_shapes(_network(facts.recipe, facts.told, dataset))
    except ZoolensError:
        return  # said of the side already
    if strange := sorted(set(shapes) ^ set(wanted)):
        whose = "the network of its recipe has no such tensor" if strange[0] in shapes else "it is missing"
        yield f"{strange[0][:60]!r}: {whose}"
    for name in sorted(set(shapes) & set(wanted)):
        if shapes[name] != wanted[name]:
            yield f"{name!r} has the shape {shapes[name]}, and the network of its recipe {wanted[name]}"


def _dataset_problems(dataset: DatasetEntry, recipes: list[Recipe]) -> Iterator[str]:
    if not recipes:
        return
    trained, tested = (_whole(dataset.details.get(name)) for name in ("train", "test"))
    if trained is None:
        yield "does not say how many training samples it has"
    if tested is not None and tested != dataset.size:
        yield f"has {dataset.size} test samples, and {tested} by its details"
    for name, count in (("train_limit", trained), ("test_limit", dataset.size)):
        limits = {getattr(recipe, name) for recipe in recipes} - {None}
        if count is not None and any(limit < count for limit in limits):
            yield f"has {count} samples, more than the {name} {min(limits)} of a recipe that it was made for"


def _trial_problems(trial: TrialFacts, dataset: DatasetEntry) -> Iterator[str]:
    recipes = {facts.recipe for facts in trial.sides if facts.recipe is not None}
    if len(recipes) > 1:
        yield "its sides were trained by different recipes"
    details = trial.trial.details
    for recipe in recipes:
        for name, value in trial.trial.hyperparameters.items():
            if name in HYPERPARAMETERS and not name.startswith(_SEMANTICS):
                ours = _setting(recipe, name)
                if not _equal(value, ours):
                    yield f"its hyperparameter {name} is {value}, and that of its recipe {ours}"
        if "recipe" in details and details["recipe"] != recipe.model_dump(mode="json"):
            yield "the recipe in its details is not the one in recipes.json"
        if details.get("dataset", dataset.fingerprint) != dataset.fingerprint:
            yield "the dataset in its details is not the one in study.json"
    answered = [facts.side.framework for facts in trial.sides if facts.answers is not None]
    pairs = {frozenset(pair) for pair in trial.trial.churn}
    for place, framework in enumerate(answered):
        for other in answered[place + 1 :]:
            if frozenset((framework, other)) not in pairs:
                yield f"pairs.parquet does not say how differently {framework} and {other} answer"


def _side_problems(facts: ExportedSide, trial: TrialFacts, dataset: DatasetEntry) -> Iterator[str]:
    side, recipe = facts.side, facts.recipe
    if side.status == "failed" and (facts.answers is not None or side.losses or side.accuracy is not None):
        yield "it failed, and has results"
    if facts.answers is not None and not side.exact:
        yield "its accuracy is counted from its predictions, and is said to be no quotient of counts"
    if recipe is None or side.status == "failed":
        return
    yield from _version_problems(facts)
    yield from _semantics_problems(facts, recipe, trial)
    yield from _curve_problems(facts, recipe)
    yield from _count_problems(facts, recipe, dataset)


def _version_problems(facts: ExportedSide) -> Iterator[str]:
    main = _distribution(facts.side.framework)
    if main is not None and next(iter(facts.versions), None) != main:
        yield f"its versions do not begin with that of {main}"
    for name, version in facts.versions.items():
        if not _VERSION.fullmatch(version):
            yield f"{version[:40]!r} is no version of {name[:60]}"


def _semantics_problems(facts: ExportedSide, recipe: Recipe, trial: TrialFacts) -> Iterator[str]:
    try:
        read = Semantics.model_validate(dict(facts.side.semantics))
    except ValidationError as error:
        first = error.errors()[0]
        yield f"its semantics are none: {'.'.join(map(str, first['loc']))[:60]}: {first['msg']}"
        return
    if builds_common_networks(facts.side.framework) and read == Semantics():
        yield "it does not say which semantics its live objects had"
    switched = _switched(facts, trial)
    if switched is None:
        yield "the overrides in its trial's details are none"
        return
    if facts.told != switched.over(recipe.wanted):
        names = [name for name, value in facts.told if value != getattr(switched.over(recipe.wanted), name)]
        yield f"it was told {names[0]} {getattr(facts.told, names[0])}, which neither its recipe nor its trial says"
    for name in contradicted(recipe, facts.told, switched, read):
        yield f"it was told {name} {getattr(facts.told, name)}, and its live objects had {getattr(read, name)}"


def _switched(facts: ExportedSide, trial: TrialFacts) -> Semantics | None:
    """What this side alone was told: by the trial's details, or by hyperparameters that are semantics."""
    overrides = trial.trial.details.get("overrides") or {}
    settings = trial.trial.hyperparameters.items()
    named = {name.removeprefix(_SEMANTICS): value for name, value in settings if name.startswith(_SEMANTICS)}
    try:
        override = Semantics.model_validate(overrides.get(facts.side.framework) or {})
        return Semantics.model_validate(named).over(override) if facts.recipe is not None else override
    except (ValidationError, AttributeError):
        return None


def _curve_problems(facts: ExportedSide, recipe: Recipe) -> Iterator[str]:
    side = facts.side
    counts = {"losses": len(side.losses), "accuracies": len(side.accuracies)}
    for name, count in counts.items():
        if count > recipe.epochs or (side.status == "finished" and count != recipe.epochs):
            yield f"it has {name} of {count} epochs, and its recipe {recipe.epochs}"
    if side.status == "finished" and any(loss is None for loss in side.losses):
        yield "it finished, and a loss of it is not finite"
    if any(loss is not None and loss < 0 for loss in side.losses):
        yield "a loss of it is below 0, which a cross-entropy cannot be"
    spent = sum(seconds for seconds in facts.epoch_seconds if seconds is not None)
    if side.seconds is not None and spent > _SLACK * side.seconds:
        yield f"its epochs took {spent:g} s, more than the {side.seconds:g} s of the whole training"


def _count_problems(facts: ExportedSide, recipe: Recipe, dataset: DatasetEntry) -> Iterator[str]:
    samples = _whole(dataset.details.get("train"))
    if facts.steps is not None and samples is not None:
        most = steps(recipe, samples) * recipe.epochs
        if facts.steps > most or (facts.side.status == "finished" and facts.steps != most):
            yield f"it took {facts.steps} steps, and its recipe makes {most} of {samples} training samples"
    if recipe.shipped or not builds_common_networks(facts.side.framework):
        return
    try:
        expected = parameters(_network(recipe, facts.told, dataset))
    except ZoolensError as error:
        yield f"its recipe cannot be built: {error.message.removesuffix('.')}"
        return
    if facts.parameters is not None and facts.parameters != expected:
        yield f"it has {facts.parameters} parameters, and the network of its recipe {expected}"


def _network(recipe: Recipe, semantics: Semantics, dataset: DatasetEntry) -> Network:
    image, classes = dataset.details.get("image"), _whole(dataset.details.get("classes"))
    if not isinstance(image, list) or len(image) != 3 or not all(map(_whole, image)) or not classes:
        raise ZoolensError(f"{dataset.name!r} does not say how large its images are.")
    height, width, channels = image
    return _built(recipe.architecture, semantics.over(USUAL), (channels, height, width), classes)


@lru_cache(maxsize=64)
def _built(architecture: str, semantics: Semantics, shape: tuple[int, int, int], classes: int) -> Network:
    return build(architecture, semantics, shape, classes)


@lru_cache(maxsize=64)
def _distribution(framework: str) -> str | None:
    """The package whose version is the framework's; None: such a trainer is not installed here."""
    try:
        names = trainer_named(framework).distributions
    except ZoolensError:
        return None
    return names[0] if names else None


def _setting(recipe: Recipe, name: str) -> Any:
    part, dot, field = name.rpartition(".")
    return getattr(getattr(recipe, part) if dot else recipe, field)


def _equal(value: Hyperparameter, ours: Any) -> bool:
    if isinstance(value, int | float) and isinstance(ours, int | float):
        return math.isclose(value, ours, rel_tol=1e-12, abs_tol=0.0)
    return bool(value == ours)


def _whole(value: Any) -> int | None:
    """A count; None: none, or no number."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
