"""A model with several inputs: parts of a sample (images, arrays, texts), sizes of its image, and constants that its
manifest declares. A text may fill several tensors of the model; every other part fills one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.datasets.dataset import Dataset, Sample
from zoolens.inventory.datasets.loader import Preparation
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_inputs import GIVEN
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.inventory.preprocess.array_inputs import Prepare
from zoolens.inventory.preprocess.given_inputs import constant_values, image_sizes
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.preprocess.text import PrepareText, check_vocabulary
from zoolens.inventory.runtimes.runtime import Session, TensorSpec
from zoolens.inventory.tasks.output_setup import named_tensor

Array = NDArray[Any]


@dataclass(frozen=True)
class SeveralInputs:
    """How a sample becomes a record with a field for each input that depends on it, and what the others are."""

    prepares: Mapping[str, Prepare]  # by the name of the input that takes a part of the sample
    texts: Mapping[str, PrepareText]  # by the name of the part
    sizes: Mapping[str, tuple[Input, TensorSpec]]
    constants: Mapping[str, Array]
    repeated: frozenset[str]  # constants with a row for each sample of a batch
    whole: bool  # the sample is one array or text, for the only input that takes a sample
    located: str | None = None  # the only part in which answers may have places: an image, or a text

    def preparation(self) -> Preparation:
        uneven = any(prepare.uneven for prepare in self.prepares.values())
        return Preparation(self.record, memo=None if self.located is None else self.memo, uneven=uneven)

    @property
    def alone(self) -> bool:
        """Whether samples are run one at a time, because a text is not filled up."""
        return any(text.declared.padding == "none" for text in self.texts.values())

    def record(self, sample: Sample) -> Array:
        """All inputs of one sample that depend on it, each prepared as the manifest declares."""
        parts = {name: self._part(sample, name) for name in self.prepares}
        ready = {name: prepare(parts[name]) for name, prepare in self.prepares.items()}
        ready |= {name: text(self.text_part(sample, name)) for name, text in self.texts.items()}
        for name, (declared, spec) in self.sizes.items():
            image = next(iter(self.prepares))
            ready[name] = image_sizes(declared, spec, self.prepares[image], parts[image])
        record = np.empty((), np.dtype([(name, value.dtype, value.shape) for name, value in ready.items()]))
        for name, value in ready.items():
            record[name] = value
        return record

    def memo(self, sample: Sample) -> Any:
        assert self.located is not None
        if self.located in self.texts:
            return self.texts[self.located].places(self.text_part(sample, self.located))
        return self.prepares[self.located].memo(self._part(sample, self.located))

    def feeds(self, records: Array) -> dict[str, Array]:
        """What the model is fed for a batch of records."""
        constants = {
            name: np.repeat(value, len(records), axis=0) if name in self.repeated else value
            for name, value in self.constants.items()
        }
        assert records.dtype.names is not None
        plain = (name for name in records.dtype.names if name not in self.texts)
        fed = {name: np.ascontiguousarray(records[name]) for name in plain}
        for name, text in self.texts.items():
            fed |= text.feeds(records[name])
        return {**fed, **constants}

    def text_part(self, sample: Sample, name: str) -> Any:
        """The text of a sample, as a Python object."""
        value = sample.value if self.whole else sample.value[name]
        return value.item() if isinstance(value, np.ndarray) else value

    def _part(self, sample: Sample, name: str) -> Array:
        return np.asarray(sample.value if self.whole else sample.value[name])


def several_inputs(job: Job, session: Session, dataset: Dataset) -> SeveralInputs | None:
    """How the inputs of a model are filled; None: the dataset does not have a sample for each that takes one. A dataset
    may have more parts, which other models take."""
    declared = [spec for spec in job.manifest.inputs if spec.tokenizer is None]
    texts = {spec.name or "": spec for spec in job.manifest.inputs if spec.tokenizer is not None}
    filled = len(declared) + sum(len(spec.tokenizer.tensors.names) for spec in texts.values() if spec.tokenizer)
    if filled != len(session.inputs) or (job.manifest.code and job.manifest.code.preprocess):
        return None
    specs = [named_tensor(session.inputs, spec.name, "input", place) for place, spec in enumerate(declared)]
    pairs = list(zip(declared, specs, strict=True))
    taking = [(given, spec) for given, spec in pairs if given.modality not in GIVEN]
    parts = {*texts, *(spec.name for _, spec in taking)}
    fields = sample_fields(dataset)
    whole = fields is None and len(parts) == 1 and len(dataset) > 0
    if not whole and (fields is None or not parts <= set(fields)):
        return None
    _check_decoders([given for given, _ in taking], dataset)
    constants = {spec.name: (given, spec) for given, spec in pairs if given.modality == "constant"}
    return SeveralInputs(
        prepares={spec.name: build_prepare(given, spec) for given, spec in taking},
        texts={name: _text(job, session, spec) for name, spec in texts.items()},
        sizes={spec.name: (given, spec) for given, spec in pairs if given.modality == "size"},
        constants={
            name: constant_values(spec.with_extents(given.shape), _value(given))
            for name, (given, spec) in constants.items()
        },
        repeated=frozenset(
            name for name, (given, spec) in constants.items() if _repeats(given) and spec.shape[:1] == (None,)
        ),
        whole=whole,
        located=_located(taking, list(texts)),
    )


def _text(job: Job, session: Session, declared: Input) -> PrepareText:
    """How a text fills the tensors that its tokenizer names."""
    assert declared.tokenizer is not None
    names = declared.tokenizer.tensors.names.values()
    check_vocabulary(declared, job.files(), session.inputs)
    known = [spec.name for spec in session.inputs]
    if missing := next((name for name in names if name not in known), None):
        listed = ", ".join(known)
        raise ManifestError(f"The manifest fills the input {missing!r} with tokens, but the model has {listed}.")
    own = [spec for spec in session.inputs if spec.name in names]
    return PrepareText(declared, own, job.paths[TOKENIZER])


def _located(taking: Sequence[tuple[Input, TensorSpec]], texts: Sequence[str]) -> str | None:
    """The only part in which an answer may have a place. A single part has it also where it is an array, which then
    says that it cannot."""
    images = [spec.name for given, spec in taking if given.modality == "image"]
    parts = [*images, *texts] or [spec.name for _, spec in taking]
    return parts[0] if len(parts) == 1 else None


def _check_decoders(taking: Sequence[Input], dataset: Dataset) -> None:
    decoders = sorted({spec.decoder for spec in taking if spec.modality == "image"})
    if dataset.encoded and len(decoders) > 1:
        raise ManifestError(
            f"The images of a sample are decoded by one library, but the manifest names {' and '.join(decoders)}.",
            hint="Name one decoder for all of them.",
        )


def _value(declared: Input) -> float | tuple[float, ...]:
    assert declared.value is not None  # the schema sees to it
    return declared.value


def _repeats(declared: Input) -> bool:
    return bool(declared.shape) and declared.shape[0] is None


def sample_fields(dataset: Dataset) -> tuple[str, ...] | None:
    """The names of a sample's parts; None where it is a single array, or where there is no sample."""
    value = dataset.read(0).value if len(dataset) else None
    return value.dtype.names if isinstance(value, np.ndarray | np.void) else None


def lacks_batch_axis(declared: Input, spec: TensorSpec) -> bool:
    """Whether the file takes one sample without an axis that counts samples. A file that says no shape has one."""
    if not spec.shape or len(spec.shape) != len(declared.shape) - 1 or spec.shape[0] is None:
        return False
    return all(None in (own, said) or own == said for own, said in zip(spec.shape, declared.shape[1:], strict=True))
