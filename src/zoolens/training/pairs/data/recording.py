"""Records the user's own data for a paired training: those of a function, or what a user of Python holds.

A function is the user's code: it runs because it is named on the command line or in Python, once, in a process of its
own. A recording that is killed leaves nothing that looks finished.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.engine.scratch import make_scratch, remove_scratch
from zoolens.base.errors import DatasetError, ZoolensError
from zoolens.base.paths import new_folder
from zoolens.base.progress import Progress, Silent
from zoolens.inventory.datasets.kinds import kind_names
from zoolens.training.pairs.data.recording_steps import BatchRecording, RecordingPlan
from zoolens.training.pairs.data.returned_data import DataSource, sorted_data
from zoolens.training.pairs.data.stream import ChannelOrder, RecordedStream
from zoolens.training.pairs.data.stream_writer import LIMIT, BatchRecorder
from zoolens.training.pairs.sides.network_sides import TIMEOUT, InputShape, SideName

_VARIABLES: Final = (("TF_CPP_MIN_LOG_LEVEL", "3"), ("CUDA_VISIBLE_DEVICES", "-1"), ("JAX_PLATFORMS", "cpu"))
_FUNCTION: Final = re.compile(r".+\.py:\w+|\w+(\.\w+)*:\w+", re.DOTALL)


@dataclass(frozen=True)
class StreamRequest:
    """What is to be recorded, and how much of it."""

    # `file.py:function` or `module:function`, or in Python arrays, a function that makes a generator, a DataLoader, a
    # tf.data.Dataset.
    data: Any
    inputs: Sequence[InputShape]
    plan: RecordingPlan
    test_data: Any = None  # the held-out part, in the same ways, where `data` has none
    order: ChannelOrder | None = None
    limit: int = LIMIT  # bytes of the recording
    timeout: float = TIMEOUT


@contextmanager
def record(
    data: Any,
    inputs: Sequence[str | InputShape],
    *,
    epochs: int,
    seeds: int = 1,
    batch_size: int = 32,
    test_data: Any = None,
    order: ChannelOrder | None = None,
    epoch_steps: int | None = None,
    augmentation: str = "none",
    folder: Path | str | None = None,
    limit: int = LIMIT,
    timeout: float = TIMEOUT,
    progress: Progress | None = None,
) -> Iterator[RecordedStream]:
    """Record the stream that both sides of a pair replay. Without a `folder` it is gone afterwards; a `folder` that
    holds a finished recording of the same data is replayed, and the user's code is not run again. `inputs`: one shape
    for each input, such as "3x32x32"."""
    shapes = [InputShape.parse(given) if isinstance(given, str) else given for given in inputs]
    plan = RecordingPlan(epochs, seeds, batch_size, epoch_steps, augmentation)
    request = StreamRequest(data, shapes, plan, test_data, order, limit, timeout)
    with recorded(request, None if folder is None else Path(folder), progress) as stream:
        yield stream


@contextmanager
def recorded(
    request: StreamRequest, folder: Path | None = None, progress: Progress | None = None
) -> Iterator[RecordedStream]:
    """Record or replay a stream; see `record`."""
    watcher = progress or Silent()
    if folder is not None:
        yield kept_recording(request, folder, watcher)
        return
    scratch = make_scratch()
    try:
        yield _recorded(request, scratch, watcher)
    finally:
        remove_scratch(scratch)


def kept_recording(request: StreamRequest, folder: Path, progress: Progress) -> RecordedStream:
    """The recording in `folder`, which is made where there is none; it appears there whole."""
    if folder.exists() and not folder.is_dir():
        raise DatasetError(f"{folder} is a file, and a recording is a folder.", hint="Name a new folder.")
    if folder.exists() and any(folder.iterdir()):
        return _replayed(request, RecordedStream.open(folder))
    try:
        with new_folder(folder) as building:
            _recorded(request, building, progress)
    except OSError as error:
        raise DatasetError(f"The recording cannot be written to {folder}: {error.strerror or error}.") from error
    return RecordedStream.open(folder)


def _replayed(request: StreamRequest, stream: RecordedStream) -> RecordedStream:
    """A kept recording is taken where it is of the same data and has as much as is needed."""
    about, plan, source = stream.about, request.plan, _source_text(request)
    wanted = [(tuple(given.shape), given.kind) for given in request.inputs]
    differences = [
        what
        for what, same in (
            (f"it is of {about.source}, not of {source}", about.source == source),
            ("it has other inputs", [(given.shape, given.kind) for given in about.inputs] == wanted),
            (f"it has {about.epochs} epochs", about.shuffled or about.epochs == plan.epochs),
            (f"it has {about.seeds} seeds", about.shuffled or about.seeds >= plan.seeds),
            (f"its batches have {about.batch_size}", not about.shuffled or about.batch_size == plan.batch_size),
            (f"its epochs have {about.epoch_steps} steps", about.epoch_steps == plan.epoch_steps),
            (f"its augmentation is {about.augmentation}", about.augmentation == plan.augmentation),
            ("its channels are in the other order", request.order in (None, *(shape.order for shape in about.inputs))),
        )
        if not same
    ]
    if differences:
        raise DatasetError(
            f"The recording in {stream.folder} is not the one that is asked for: {'; '.join(differences)}.",
            hint="Name another folder with --record, or delete this one.",
        )
    note = f"The recording of {about.recorded} is replayed; {about.source} was not read again."
    if about.code != _code_digest(request.data):
        note += " Its code has changed since."
    return RecordedStream(stream.folder, about.model_copy(update={"notes": (*about.notes, note)}))


def _recorded(request: StreamRequest, folder: Path, progress: Progress) -> RecordedStream:
    progress.begin("Data", "recording", None, "batches")
    try:
        if is_function(request.data):
            _record_in_worker(request, folder, progress)
        else:
            _record_here(request, folder, progress)
    finally:
        progress.end()
    return RecordedStream.open(folder)


def is_function(data: Any) -> bool:
    """Whether the user names a function of their own; a kind of dataset before the colon is a dataset."""
    if not isinstance(data, str) or _FUNCTION.fullmatch(data) is None:
        return False
    return data.partition(":")[0] not in kind_names()


def _record_in_worker(request: StreamRequest, folder: Path, progress: Progress) -> None:
    name = SideName.parse(request.data)
    kind = WorkerKind(
        f"process of {name.text}",
        "zoolens.training.pairs.data.stream_worker",
        "zoolens.training.pairs.data.stream_worker",
        variables=_VARIABLES,
        own_folder=True,
    )
    worker = WorkerProcess(kind)
    try:
        opening = {"do": "open", "code": name.code, "function": name.function, "source": _source_text(request)}
        settings = {
            "inputs": [[list(given.shape), given.kind] for given in request.inputs],
            "plan": asdict(request.plan),
            "test": _test_function(request.test_data),
            "order": request.order,
            "limit": request.limit,
            "folder": str(folder.absolute()),
            "digest": _code_digest(request.data),
        }
        worker.ask({**opening, **settings}, f"calling {name.function}", timeout=request.timeout)
        finished = False
        while not finished:
            answer = worker.ask({"do": "record"}, "waiting for its batches", timeout=request.timeout)
            progress.advance(int(answer["batches"]))
            finished = bool(answer["finished"])
    finally:
        worker.stop()


def _test_function(test_data: Any) -> tuple[str, str] | None:
    if test_data is None:
        return None
    if not is_function(test_data):
        raise DatasetError(
            "The data come from a function, and the held-out part does not.",
            hint="Name a function with --test-data, or return both parts as (train, test).",
        )
    name = SideName.parse(test_data)
    return name.code, name.function


def _record_here(request: StreamRequest, folder: Path, progress: Progress) -> None:
    with BatchRecorder(folder, request.inputs, order=request.order, limit=request.limit) as recorder:
        recording = BatchRecording(recorder, _source(request), request.plan)
        for _ in recording.steps():
            progress.advance(1)
        recording.finish(_source_text(request), None)


def _source(request: StreamRequest) -> DataSource:
    source = sorted_data(_made_again(request.data))
    if request.test_data is None:
        return source
    return DataSource(source.train, sorted_data(_made_again(request.test_data), held_out=True).train)


def _made_again(data: Any) -> Any:
    """A function gives its data whenever it is called; anything else is what it is."""
    if isinstance(data, str):
        raise DatasetError(f"{data[:80]!r} names no function.", hint="Write file.py:function or module:function.")
    if not callable(data) or hasattr(data, "__iter__") or hasattr(data, "__getitem__"):
        if hasattr(data, "__next__"):
            raise DatasetError(
                "A generator can be read once, and every epoch reads it again.", hint="Give the function that makes it."
            )
        return lambda: data
    return data


def _source_text(request: StreamRequest) -> str:
    def text(data: Any) -> str:
        return data if isinstance(data, str) else type(data).__qualname__

    both = [request.data] if request.test_data is None else [request.data, request.test_data]
    return " and ".join(map(text, both))


def _code_digest(data: Any) -> str | None:
    """Returns the digest of the file that the user named. What it imports is not in it."""
    if not is_function(data):
        return None
    code = SideName.parse(data).code
    try:
        return hashlib.sha256(Path(code).read_bytes()).hexdigest() if code.endswith(".py") else None
    except OSError as error:
        raise ZoolensError(f"{code} cannot be read: {error.strerror}.") from error
