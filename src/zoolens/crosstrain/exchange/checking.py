"""Whether a folder from somebody else is what it says it is. Nothing in it is run, unpickled or followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from zoolens.crosstrain.exchange.contents import Contents
from zoolens.crosstrain.exchange.files import Files, Refused, read_files, shown
from zoolens.crosstrain.exchange.reading import read_contents
from zoolens.crosstrain.exchange.recomputing import metric_problems
from zoolens.crosstrain.loading import TYPES
from zoolens.crosstrain.weights import read_weights
from zoolens.errors import ModelError

MAX_SHOWN: Final = 100


@dataclass(frozen=True)
class Check:
    """`problems`: one sentence each; none: the folder is in order. `counts`: of trials, sides and so on."""

    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def fine(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Examined:
    """What was checked, so that nobody reads it a second time, when it may have changed."""

    contents: Contents
    digests: Mapping[str, str]


def check_submission(folder: Path | str) -> Check:
    """Files, checksums, schema, references, and every figure that the stored predictions can give, recomputed."""
    try:
        examined = examine(Path(folder))
    except Refused as refused:
        return Check(refused.problems)
    return Check((), examined.contents.counts())


def examine(folder: Path) -> Examined:
    """Refused, with the problems of the first step that finds any."""
    files = read_files(folder)
    contents = read_contents(files)
    problems = tuple(islice(_problems(contents, files), MAX_SHOWN))
    if problems:
        raise Refused(problems)
    return Examined(contents, files.digests)


def _problems(contents: Contents, files: Files) -> Iterator[str]:
    yield from metric_problems(contents)
    for number, path in sorted(files.weights.items()):
        try:
            arrays = read_weights(path)
        except ModelError as error:
            yield f"weights/{number}.safetensors: {error.message}"
        else:
            yield from (
                f"weights/{number}.safetensors: {shown(name)} holds {array.dtype}, not numbers as weights are."
                for name, array in arrays.items()
                if array.dtype.name not in TYPES
            )
