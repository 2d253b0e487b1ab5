"""On the machine that runs a job: the files that it names are found or fetched, and put where it can read them."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.executors.executor import TITLE, Job, check_reachable
from zoolens.base.engine.executors.reports import job_progress
from zoolens.base.errors import AssetError, Lacking, StoreError
from zoolens.base.progress import Progress
from zoolens.base.store.file_cache import FileCache
from zoolens.base.store.shared_files import SharedFiles, named_place, shared_files
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.fleet.parcels import Parcel, read_parcel, same_here
from zoolens.inventory.fleet.travel import TRAVEL, identity_of

WAYS_OUT: Final = (
    "Put it there under the same path, or set ZOOLENS_BULK to an object store or a folder that this machine and the "
    "nodes reach: files then travel by content."
)
_checked: set[tuple[Any, ...]] = set()  # datasets that this process found to be what their sender has


class Arrived:
    """A job whose paths are those of this machine."""

    def __init__(self, job: Job) -> None:
        self.job = dict(job)
        self._here: dict[str, str] = {}  # paths of this machine, by how they were sent
        self._there: dict[str, str] = {}  # how the sender writes them

    def add(self, parcel: Parcel, folder: Path | None) -> None:
        """The files of a parcel are in this folder; None: they are where the sender has them."""
        for root in parcel.roots:
            if root.sent in self._here:
                raise AssetError(f"The list of files that came with the job is refused: it has {root.inside!r} twice.")
            path = root.path if folder is None else f"{folder}/{root.inside}"
            self._here[root.sent] = path
            self._there[path] = root.path
        for sent, written in parcel.written:
            self._there[_replaced(sent, self._here)] = written
        self.job |= {name: self.named(value) for name, value in self.job.items() if name != TRAVEL}

    def named(self, sent: Any) -> Any:
        """What the sender wrote, with the paths of this machine."""
        return _replaced(sent, self._here)

    def restored(self, answer: Any) -> Any:
        """What the job answers, with the sender's paths."""
        # A file before the folder that it lies in.
        return _replaced(answer, dict(sorted(self._there.items(), key=lambda pair: -len(pair[0]))))


@contextmanager
def arrived(job: Job, progress: Progress | None = None) -> Iterator[Arrived]:
    """The job with its files. AssetError says what this machine lacks; `Lacking`, that the sender can help.
    `progress`: default is that which the sender sees."""
    check_reachable(job["paths"], WAYS_OUT)
    travel = job.get(TRAVEL) or {"parcels": [], "expected": []}
    found = Arrived(job)
    with ExitStack() as stack:
        for parcel in map(read_parcel, travel["parcels"]):
            here = same_here(parcel)
            title = str(job.get(TITLE, parcel.title))
            fetched = _fetched(parcel, travel, title, progress or job_progress())
            found.add(parcel, None if here else stack.enter_context(fetched))
        for expected in travel["expected"]:
            _check_data(found.named(expected["data"]), expected)
        yield found


@contextmanager
def _fetched(parcel: Parcel, travel: Mapping[str, Any], title: str, progress: Progress) -> Iterator[Path]:
    node = platform.node()
    progress.begin(title, "fetching files", parcel.files.bytes, "B")
    with ExitStack() as stack:
        try:
            laid_out = FileCache().laid_out(parcel.files, _source(travel), progress.advance)
            folder = stack.enter_context(laid_out).resolve()
        except Lacking as error:
            raise Lacking(f"The node {node} lacks files of {parcel.title}: {error.message}", hint=WAYS_OUT) from error
        except (AssetError, StoreError, OSError) as error:
            said = error.message if isinstance(error, AssetError | StoreError) else f"{error.strerror or error}."
            hint = WAYS_OUT if isinstance(error, OSError) else error.hint
            raise AssetError(f"The node {node} cannot fetch the files of {parcel.title}: {said}", hint=hint) from error
        yield folder


def _source(travel: Mapping[str, Any]) -> SharedFiles:
    """The place that this machine names, which may reach it in another way than the sender; else the sender's."""
    named = str(named_place() or travel["place"])
    source = shared_files(named)
    if not source.reached and travel["sent"]:
        raise AssetError(f"It has no folder {named}, through which files travel.", hint=WAYS_OUT)
    return source


def _check_data(data: str, expected: Mapping[str, Any]) -> None:
    """Refuses a dataset that is another one here: its reader may look for files that did not travel with it."""
    key = (data, expected["limit"], expected["seed"], expected["fingerprint"])
    if key in _checked:
        return
    with closing(open_dataset(data, limit=expected["limit"], seed=expected["seed"])) as dataset:
        found = identity_of(dataset)
    different = [name for name in found if found[name] != expected[name]]
    if different:
        raise AssetError(
            f"The dataset has another {' and '.join(different)} on the node {platform.node()} than where the job comes "
            "from: it reads files outside of its folder.",
            hint="Put all of it into one folder, or all of it under the same paths on the node.",
        )
    _checked.add(key)


def _replaced(value: Any, paths: Mapping[str, str]) -> Any:
    """Plain data in whose texts paths are replaced."""
    if isinstance(value, str):
        for path, other in paths.items():
            value = value.replace(path, other)
        return value
    if isinstance(value, Mapping):
        return {_replaced(name, paths): _replaced(inner, paths) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, paths) for inner in value]
    if isinstance(value, tuple):
        return tuple(_replaced(inner, paths) for inner in value)
    return value
