"""Jobs whose files travel by content: a job carries lists of files, and what its machine lacks is published for it.

`ZOOLENS_BULK` names the place through which files travel. A file is put there when a machine says that it lacks it: one
that shares our file system, or has it from an earlier job, needs nothing. Without a place, and for what cannot travel,
a machine needs the files under the same paths.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.executors.executor import Executor, Job, run_jobs
from zoolens.base.errors import Lacking, ZoolensError
from zoolens.base.progress import Progress, beside
from zoolens.base.store.shared_files import named_place, shared_files
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.opening import NamedData, absolute_spec, open_dataset, parse_spec
from zoolens.inventory.fleet.parcels import Parcel, Stays, data_parcel, files_parcel, model_parcel, read_parcel
from zoolens.inventory.zoos.zoo import Entry

TRAVEL: Final = "travel"  # of a job: its parcels and the place that they come from
_MOST_SENT: Final = 2  # times that the files of a job are published: what is lacking, and what seemed to be there


@dataclass(frozen=True)
class Load:
    """A model or a dataset as it is sent. `paths`: what a machine must have under the same path."""

    sent: Any
    parcel: Parcel | None = None
    paths: tuple[str, ...] = ()
    expected: Mapping[str, Any] | None = None  # what a dataset must be where it is opened again


class Travel:
    """What the jobs of one command carry. A dataset is listed once for all of them."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._place = progress, named_place()
        if self._place is not None:
            shared_files(self._place)  # one that cannot be read is an error at once
        self._data: dict[NamedData, Load] = {}

    def model(self, entry: Entry, prefix: str = "m") -> Load:
        """`sent` is an `Entry`. `prefix`: see `model_parcel`."""
        at_home = Load(entry, paths=_paths_of_entry(entry))
        found = self._packed(entry.ref, lambda hashed: model_parcel(entry, hashed, prefix))
        return at_home if found is None else Load(*found)

    def data(self, named: NamedData) -> Load:
        """`sent` is the name of the dataset, or None."""
        if named not in self._data:
            self._data[named] = self._load_data(named)
        return self._data[named]

    def files(self, title: str, paths: Sequence[str]) -> Load:
        """`sent`: by each of these files and whole folders, which are named by absolute paths, how it is sent; empty
        where they do not travel, and a machine needs them under the same paths."""
        there = [path for path in dict.fromkeys(paths) if Path(path).exists()]
        found = self._packed(title, lambda hashed: files_parcel(title, there, hashed)) if there else None
        return Load({}, paths=tuple(paths)) if found is None else Load(*found)

    def fields(self, *loads: Load) -> dict[str, Any]:
        """What a job carries of them, for `arrival.arrived`."""
        parcels = [load.parcel.as_data() for load in loads if load.parcel is not None]
        expected = [load.expected for load in loads if load.expected is not None]
        paths = [path for load in loads for path in load.paths]
        return {"paths": paths, TRAVEL: {"place": self._place, "sent": 0, "parcels": parcels, "expected": expected}}

    def _load_data(self, named: NamedData) -> Load:
        if named.data is None:
            return Load(None)
        spec = absolute_spec(named.data)
        found = self._packed(named.data, lambda hashed: data_parcel(spec, hashed))
        expected = None if found is None else expected_of(NamedData(spec, named.limit, named.seed))
        if found is None or expected is None:
            return Load(spec, paths=_paths_of_data(spec))
        sent, parcel = found
        return Load(sent, parcel, expected={**expected, "data": sent})

    def _packed(self, title: str, pack: Callable[[Callable[[int], None]], Any]) -> Any:
        if self._place is None:
            return None
        bar = beside(self._progress)
        bar.begin(title, "listing files", None, "B")
        try:
            return pack(bar.advance)
        except Stays as reason:
            self._progress.say(f"{title} does not travel, and nodes need it under the same path: {reason}")
            return None
        finally:
            bar.end()


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Plain data in which texts that are one of these names are replaced."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {names.get(name, name): renamed(inner, names) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [renamed(inner, names) for inner in value]
    return value


def expected_of(named: NamedData) -> dict[str, Any] | None:
    """What a dataset is here, so that it is the same elsewhere. None: it cannot be opened, as the node will say."""
    assert named.data is not None
    try:
        with closing(open_dataset(named.data, limit=named.limit, seed=named.seed)) as dataset:
            return {"limit": named.limit, "seed": named.seed, **identity_of(dataset)}
    except ZoolensError:
        return None


def identity_of(dataset: Dataset) -> dict[str, Any]:
    return {"fingerprint": dataset.fingerprint(), "size": len(dataset), "classes": list(dataset.classes or ())}


def run_travelling(
    executor: Executor,
    function: str,
    jobs: Iterable[Job],
    progress: Progress,
    *,
    node_of: Callable[[int], str] | None = None,
    told: Callable[[int, Any], None] | None = None,
    **needs: bool,
) -> Iterator[tuple[int, Any]]:
    """Does what `run_jobs` does. Where a machine lacks files of a job, they are published and the job is sent again."""
    waiting: Iterable[tuple[int, Job]] = enumerate(jobs)
    while waiting:
        numbers: list[int] = []
        running: dict[int, Job] = {}
        again: list[tuple[int, Job]] = []

        def taken(
            waiting: Iterable[tuple[int, Job]] = waiting,
            numbers: list[int] = numbers,
            running: dict[int, Job] = running,
        ) -> Iterator[Job]:
            for number, job in waiting:
                numbers.append(number)
                running[number] = job
                yield job

        place_of = None if node_of is None else lambda place, numbers=numbers: node_of(numbers[place])
        heard = None if told is None else lambda place, message, numbers=numbers: told(numbers[place], message)
        for place, answer in run_jobs(executor, function, taken(), node_of=place_of, told=heard, **needs):
            number = numbers[place]
            job = running.pop(number)
            sendable = published(job, answer, progress)
            if isinstance(sendable, Mapping):
                again.append((number, sendable))
            else:
                yield number, sendable or answer
        waiting = again


def published(job: Job, answer: Any, progress: Progress) -> Job | ZoolensError | None:
    """The job once more, whose files are published now; or the error that kept them from it. None: what its machine
    answered is no lack of files, or nothing helps."""
    if not isinstance(answer, Lacking) or TRAVEL not in job or job[TRAVEL]["sent"] >= _MOST_SENT:
        return None
    travel = job[TRAVEL]
    parcels = [read_parcel(data) for data in travel["parcels"]]
    files = {file: path for parcel in parcels for file, path in parcel.sources().items()}
    bar, lock = beside(progress), threading.Lock()

    def moved(count: int) -> None:
        with lock:
            bar.advance(count)

    bar.begin(" and ".join(parcel.title for parcel in parcels), "publishing files", sum(f.size for f in files), "B")
    try:
        shared_files(travel["place"]).publish(files, moved, again=travel["sent"] > 0)
    except ZoolensError as error:
        return error
    finally:
        bar.end()
    return {**job, TRAVEL: {**travel, "sent": travel["sent"] + 1}}


def _paths_of_entry(entry: Entry) -> tuple[str, ...]:
    return (str(entry.folder.absolute()),) if entry.folder is not None and entry.folder.exists() else ()


def _paths_of_data(spec: str) -> tuple[str, ...]:
    """What a node must have to open a dataset that does not travel, which is named as `absolute_spec` does."""
    location = parse_spec(spec)[1]
    return (location,) if location.startswith("/") and Path(location).exists() else ()
