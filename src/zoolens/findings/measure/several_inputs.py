"""A model with several inputs: parts of a sample, sizes of its image, and constants that its manifest declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.measure.jobs import Job
from zoolens.inventory.datasets.dataset import Dataset, Sample
from zoolens.inventory.datasets.loader import Preparation
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_inputs import GIVEN
from zoolens.inventory.preprocess.array_inputs import Prepare
from zoolens.inventory.preprocess.given_inputs import constant_values, image_sizes
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.runtimes.runtime import Session, TensorSpec
from zoolens.inventory.tasks.output_setup import named_tensor

Array = NDArray[Any]


@dataclass(frozen=True)
class SeveralInputs:
    """How a sample becomes a record with a field for each input that depends on it, and what the others are."""

    prepares: Mapping[str, Prepare]  # by the name of the input that takes a part of the sample
    sizes: Mapping[str, tuple[Input, TensorSpec]]
    constants: Mapping[str, Array]
    repeated: frozenset[str]  # constants with a row for each sample of a batch
    whole: bool  # the sample is one array, for the only input that takes a sample

    def preparation(self) -> Preparation:
        uneven = any(prepare.uneven for prepare in self.prepares.values())
        memo = self.memo if len(self.prepares) == 1 else None
        return Preparation(self.record, memo=memo, uneven=uneven)

    def record(self, sample: Sample) -> Array:
        """All inputs of one sample that depend on it, each prepared as the manifest declares."""
        parts = {name: self._part(sample, name) for name in self.prepares}
        ready = {name: prepare(parts[name]) for name, prepare in self.prepares.items()}
        for name, (declared, spec) in self.sizes.items():
            image = next(iter(self.prepares))
            ready[name] = image_sizes(declared, spec, self.prepares[image], parts[image])
        record = np.empty((), np.dtype([(name, value.dtype, value.shape) for name, value in ready.items()]))
        for name, value in ready.items():
            record[name] = value
        return record

    def memo(self, sample: Sample) -> Any:
        ((name, prepare),) = self.prepares.items()
        return prepare.memo(self._part(sample, name))

    def feeds(self, records: Array) -> dict[str, Array]:
        """What the model is fed for a batch of records."""
        constants = {
            name: np.repeat(value, len(records), axis=0) if name in self.repeated else value
            for name, value in self.constants.items()
        }
        assert records.dtype.names is not None
        return {**{name: np.ascontiguousarray(records[name]) for name in records.dtype.names}, **constants}

    def _part(self, sample: Sample, name: str) -> Array:
        return np.asarray(sample.value if self.whole else sample.value[name])


def several_inputs(job: Job, session: Session, dataset: Dataset) -> SeveralInputs | None:
    """How the inputs of a model are filled; None: the dataset does not have a sample for each that takes one. A dataset
    may have more parts, which other models take."""
    declared = job.manifest.inputs
    if len(declared) != len(session.inputs) or (job.manifest.code and job.manifest.code.preprocess):
        return None
    specs = [named_tensor(session.inputs, spec.name, "input", place) for place, spec in enumerate(declared)]
    pairs = list(zip(declared, specs, strict=True))
    taking = [(given, spec) for given, spec in pairs if given.modality not in GIVEN]
    fields = sample_fields(dataset)
    whole = fields is None and len(taking) == 1 and len(dataset) > 0
    if not whole and (fields is None or not {spec.name for _, spec in taking} <= set(fields)):
        return None
    constants = {spec.name: (given, spec) for given, spec in pairs if given.modality == "constant"}
    return SeveralInputs(
        prepares={spec.name: build_prepare(given, spec) for given, spec in taking},
        sizes={spec.name: (given, spec) for given, spec in pairs if given.modality == "size"},
        constants={
            name: constant_values(spec.with_extents(given.shape), _value(given))
            for name, (given, spec) in constants.items()
        },
        repeated=frozenset(
            name for name, (given, spec) in constants.items() if _repeats(given) and spec.shape[:1] == (None,)
        ),
        whole=whole,
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
