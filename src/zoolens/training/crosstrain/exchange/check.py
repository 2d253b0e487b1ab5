"""Whether a folder from somebody else is what it says it is. Nothing in it is run, unpickled or followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.present.results import Result
from zoolens.training.crosstrain.exchange.assembly import read_contents
from zoolens.training.crosstrain.exchange.consistency import consistency_problems, weight_problems
from zoolens.training.crosstrain.exchange.contents import Contents, DatasetEntry, ExportedSide
from zoolens.training.crosstrain.exchange.exchange_figures import metric_problems
from zoolens.training.crosstrain.exchange.files import Files, FolderRefused, read_files, shown
from zoolens.training.crosstrain.exchange.rerun import CannotRun, answers_problem
from zoolens.training.crosstrain.training.kept_weights import TYPES
from zoolens.training.crosstrain.training.weights import read_weights

MAX_SHOWN: Final = 100


@dataclass(frozen=True, repr=False)
class Check(Result):
    """Whether a folder that others can use is in order."""

    problems: tuple[str, ...] = ()  # one sentence each; none: the folder is in order
    counts: Mapping[str, int] = field(default_factory=dict)  # of trials, sides and so on

    @property
    def fine(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class ExaminedFolder:
    """What was checked, so that nobody reads it a second time, when it may have changed."""

    contents: Contents
    digests: Mapping[str, str]
    ran: int = 0  # weights that were run on the test images, and gave the stored answers


def check_submission(folder: Path | str) -> Check:
    """Files, checksums, schema, references; every figure that the stored predictions can give, recomputed; recipes
    against hyperparameters, semantics, counts, versions and tensors; weights against answers, where the images are at
    hand."""
    try:
        examined = examine(Path(folder))
    except FolderRefused as refused:
        return Check(refused.problems)
    return Check((), {**examined.contents.counts(), "weights run": examined.ran})


def examine(folder: Path) -> ExaminedFolder:
    """Refused, with the problems of the first step that finds any."""
    files = read_files(folder)
    contents = read_contents(files)
    ran: list[int] = []
    problems = tuple(islice(_problems(contents, files, ran), MAX_SHOWN))
    if problems:
        raise FolderRefused(problems)
    return ExaminedFolder(contents, files.digests, len(ran))


def _problems(contents: Contents, files: Files, ran: list[int]) -> Iterator[str]:
    yield from metric_problems(contents)
    yield from consistency_problems(contents)
    sides = list(contents.sides)
    for number, path in sorted(files.weights.items()):
        trial, facts = sides[number]
        try:
            arrays = read_weights(path)
        except ModelError as error:
            yield f"weights/{number}.safetensors: {error.message}"
        else:
            dataset = contents.study.datasets[trial.dataset]
            for problem in _weights_problems(arrays, facts, dataset, number, ran):
                yield f"weights/{number}.safetensors: {problem}."


def _weights_problems(
    arrays: Mapping[str, Any], facts: ExportedSide, dataset: DatasetEntry, number: int, ran: list[int]
) -> Iterator[str]:
    """`ran`: gets the number of weights that gave their answers."""
    strange = [name for name, array in arrays.items() if array.dtype.name not in TYPES]
    yield from (f"{shown(name)} holds {arrays[name].dtype}, not numbers as weights are" for name in strange)
    problems = list(weight_problems(facts, dataset, {name: array.shape for name, array in arrays.items()}))
    yield from problems
    if strange or problems:
        return
    try:
        problem = answers_problem(facts, dataset, arrays)
    except CannotRun:
        return
    except (ZoolensError, ValidationError) as error:
        problem = f"they cannot be run: {error.message if isinstance(error, ZoolensError) else 'no such semantics'}"
    if problem is None:
        ran.append(number)
    else:
        yield problem.removesuffix(".")
