"""Where requests come from: a dataset with a model's preprocessing, image files, or tensors that are made up.

A server's own metadata say which tensors it takes. A model of the catalog, named by the user, says how the samples of a
dataset are prepared for it and what its answers mean; where the two contradict each other nothing is sent.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.protocol.address import Address
from zoolens.base.protocol.datatypes import numpy_type
from zoolens.base.protocol.messages import InferRequest, InferResponse, ModelMetadata, Tensor, TensorMetadata
from zoolens.faces.load.exchanges import UNKNOWN
from zoolens.faces.load.workload import Judge, Workload, fitting_count
from zoolens.findings.measure.jobs import Job, plan_jobs
from zoolens.findings.measure.judged_output import JudgedOutput
from zoolens.findings.measure.subject import judge_main_output, prepare_subject
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.text_dataset import TextPair, Words
from zoolens.inventory.runtimes.runtime import Session

MADE_UP: Final = 16  # different requests of made-up tensors
USUAL_LIMIT: Final = 500  # inputs of a dataset that are sent, unless another number is asked for
_LARGEST_INTEGER: Final = 100  # of made-up integers: they may be numbers of words or classes
TEXT: Final = "text"  # the input of services that take texts
SOUND: Final = "sound"  # and of those that take sounds

Array = NDArray[Any]


def made_up_inputs(
    model: ModelMetadata,
    version: str = "",
    *,
    rows: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
) -> Workload:
    """Random tensors of the shapes that the server wants. `shapes`: of inputs whose metadata leave dimensions free,
    without the batch dimension."""
    if not model.inputs:
        raise ZoolensError(
            f"The server does not say which inputs {model.name} takes.",
            hint="Declare inputs and outputs in the server's settings of the model.",
        )
    random = np.random.default_rng(seed)
    first = {tensor.name: _made_up(tensor, rows, (shapes or {}).get(tensor.name), random) for tensor in model.inputs}
    count = fitting_count(list(first.values()), MADE_UP)
    feeds = [first] + [
        {tensor.name: _made_up(tensor, rows, (shapes or {}).get(tensor.name), random) for tensor in model.inputs}
        for _ in range(count - 1)
    ]
    note = "The inputs are made up: latencies are real, but answers mean nothing, and some models are quicker on noise."
    requests = tuple(InferRequest(model.name, inputs, version) for inputs in feeds)
    return Workload(requests, f"{count} made-up inputs of {rows} row{'s' * (rows > 1)}", notes=(note,))


def _made_up(tensor: TensorMetadata, rows: int, shape: Sequence[int] | None, random: np.random.Generator) -> Tensor:
    if tensor.datatype == "BYTES":
        raise ZoolensError(
            f"The input {tensor.name!r} takes texts or files, which cannot be made up.", hint="Give a dataset: --data."
        )
    extents = list(tensor.shape)
    if extents and extents[0] < 0:
        extents[0] = rows
    elif rows != 1:
        raise ZoolensError(f"The input {tensor.name!r} takes batches of {extents[0]} only.", hint="Leave --rows out.")
    if shape is not None:
        extents[1:] = shape
    if any(extent < 0 for extent in extents):
        words = ", ".join("?" if extent < 0 else str(extent) for extent in extents[1:])
        raise ZoolensError(
            f"The server leaves dimensions of the input {tensor.name!r} free: {words}.",
            hint=f"Say how large it shall be: --shape {tensor.name}:3,224,224, or give a dataset: --data.",
        )
    dtype = numpy_type(tensor.datatype)
    if dtype.kind in "iu":
        return random.integers(0, _LARGEST_INTEGER, extents).astype(dtype)
    return random.random(extents).astype(dtype)


def dataset_inputs(
    address: Address,
    model: ModelMetadata,
    session: Session,
    data: str,
    *,
    like: str | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Workload:
    """Samples of a dataset as the server's model takes them, one in each request.

    `like`: the model of the catalog whose manifest says how inputs are prepared and what outputs mean; by default the
    one that has the same name. `session`: of the server, whose inputs and outputs are those of its metadata.
    """
    entry = find(_manifest_name(model.name, like))
    with closing(open_dataset(data, limit=limit or USUAL_LIMIT, seed=seed)) as dataset:
        job = _job(address.at(model.name, address.version), entry.full_ref if like is None else like)
        judged: JudgedOutput | None
        if _takes_files(model):
            name = model.inputs[0].name
            if name == SOUND:
                raise ZoolensError(
                    "The server takes encoded sounds, which `zoolens load` does not send.",
                    hint="Send them with a client of your own.",
                )
            make = _texts(dataset, model.inputs[0]) if name == TEXT else _encoded_image(dataset)
            judged = None if _answers_documents(model) else judge_main_output(job, session, dataset)
            feeds: Callable[[int], dict[str, Array]] = lambda index: {name: make(index)}  # noqa: E731
        else:
            # Contradictions between manifest and server are reported here.
            with job.open() as opened:
                subject = prepare_subject(job, opened, dataset)
            subject.check_answers()
            judged = subject.outputs[0]

            def feeds(index: int) -> dict[str, Array]:
                ready = np.asarray(subject.prepare(dataset.read(index)))
                return subject.named_inputs(np.ascontiguousarray(ready[np.newaxis]))

        count = fitting_count(list(feeds(0).values()), len(dataset))
        requests = tuple(InferRequest(model.name, feeds(index), address.version) for index in range(count))
        labels = dataset.labels()[:count]
    described = f"{count:,} inputs of {dataset.name}, prepared as {entry.ref} declares"
    notes = [f"Only {count:,} of {len(labels):,} inputs fit into memory."] if count < len(labels) else []
    if judged is None:
        notes.append("The answers are documents, which are not judged here.")
    return Workload(requests, described, _judge(judged, labels), tuple(notes))


def _manifest_name(served: str, like: str | None) -> str:
    if like is not None:
        return like
    try:
        return find(served).full_ref
    except UnknownName as error:
        raise UnknownName(
            "model of the catalog", served, hint="Say whose preprocessing and classes apply: --like MODEL."
        ) from error


def _job(address: Address, like: str) -> Job:
    jobs, skipped = plan_jobs([find(like)], RunOptions(runtimes=(f"remote:{address}",)))
    if not jobs:
        raise ZoolensError(skipped[0].reason)
    return jobs[0]


def _takes_files(model: ModelMetadata) -> bool:
    """Whether the server decodes and prepares images itself, as services with `input: image` do."""
    return len(model.inputs) == 1 and model.inputs[0].datatype == "BYTES"


def _answers_documents(model: ModelMetadata) -> bool:
    """Whether answers are JSON, as those of services whose task is not classification."""
    return all(output.datatype == "BYTES" for output in model.outputs)


def _texts(dataset: Dataset, tensor: TensorMetadata) -> Callable[[int], Array]:
    def make(index: int) -> Array:
        value = dataset.read(index).value
        text = value.item() if value.dtype == object else value
        parts = text.parts if isinstance(text, TextPair) else (str(text),)
        if not isinstance(text, str | TextPair | Words) or len(parts) != tensor.shape[-1]:
            raise ZoolensError(
                f"The server takes {tensor.shape[-1]} text{'s' * (tensor.shape[-1] > 1)} for each input, which the "
                "dataset does not have.",
                hint="Give data with texts: --data FILE.csv.",
            )
        return np.array([[part.encode() for part in parts]], object)

    return make


def _encoded_image(dataset: Dataset) -> Callable[[int], Array]:
    def make(index: int) -> Array:
        content = dataset.read_encoded(index) or _as_png(dataset.read(index).value)
        return np.array([[content]], object)

    return make


def _as_png(pixels: Array) -> bytes:
    from PIL import Image

    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ZoolensError("The server takes images, but the dataset has none.", hint="Give a folder of images.")
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return file.getvalue()


def _judge(judged: JudgedOutput | None, labels: NDArray[np.int64]) -> Judge | None:
    if judged is None or (labels == UNLABELLED).all():
        return None

    def judge(number: int, response: InferResponse) -> int:
        raw = response.outputs.get(judged.tensor.name)
        if raw is None:
            raise ZoolensError(f"The answer has no output {judged.tensor.name!r}.")
        if labels[number] == UNLABELLED:
            return UNKNOWN
        return int(judged.read(np.asarray(judged.raw(response.outputs)))[0].argmax() == labels[number])

    return judge
