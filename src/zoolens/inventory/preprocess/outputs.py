"""From a model's raw answer to probabilities, batch × classes, as the manifest's output declares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError, ModelError
from zoolens.base.safety.untrusted import read_text
from zoolens.inventory.manifests.locations import relocated, relocated_path
from zoolens.inventory.manifests.schema import MAX_LABEL_BYTES, Manifest, Output
from zoolens.inventory.manifests.schema_steps import (
    Divide,
    DropLeading,
    L2Normalize,
    Linear,
    OutputStep,
    Select,
    Softmax,
)
from zoolens.inventory.manifests.schema_texts import RECOGNISING
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text

Array = NDArray[Any]
Scores = NDArray[np.float32]

_NO_NUMBERS: Final = "cOSU"  # of numpy's kinds of arrays: complex numbers and texts
ANOTHER_OUTPUT: Final = "Declare other outputs in the manifest, or time it without its answers: --no-accuracy."
MAX_WIDTH: Final = 1 << 16  # numbers kept for each input of an output that is no classification


def build_scores(
    output: Output,
    tensor: TensorSpec,
    classes: int = 0,
    order: Callable[[int], dict[int, int] | None] | None = None,
    *,
    discrete: bool | None = None,
) -> Callable[[Array], Scores]:
    """Raw answers of one batch → float32 scores, batch × the dataset's classes; plain vectors of any other task.

    Logits become probabilities. A single score is that of the second of two classes. Declared probabilities are
    checked before anything else, and brought back to a sum of 1 where steps dropped some of them. With a label_map the
    columns are the dataset's `classes` (at least); those no output maps to are 0. NaN and infinity stay: counting them
    is the caller's work. `order` gives, for a number of outputs, a label_map that puts them in the dataset's order and
    keeps all; it is asked only where the manifest has none. `discrete`: whether the answers of the task are classes;
    None: only those of the task "classification" are.
    """
    if not (output.task == "classification" if discrete is None else discrete):
        normalised = any(isinstance(step, L2Normalize) for step in output.postprocess)
        linear = next((step for step in output.postprocess if isinstance(step, Linear)), None)
        if linear is not None:
            return lambda raw: _weighed(_vectors(dequantised(raw, tensor), normalised=False), linear)
        return lambda raw: _vectors(dequantised(raw, tensor), normalised=normalised)
    declared = _with_softmax(output)
    divisor = next((np.float32(step.by) for step in declared if isinstance(step, Divide)), None)
    steps = [step for step in declared if not isinstance(step, Divide)]
    drops = any(isinstance(step, Select | DropLeading) for step in output.postprocess) or output.label_map is not None
    arrange = _label_mapper(output.label_map, classes) if output.label_map else None
    ordered: dict[int, Callable[[Scores], Scores] | None] = {}

    def reorder(values: Scores) -> Scores:
        """Put the columns in the dataset's order by name; it is asked for once, when the number of outputs is known."""
        columns = values.shape[1]
        if order is not None and columns not in ordered:
            mapping = order(columns)
            ordered[columns] = _label_mapper(mapping, columns) if mapping else None
        by_name = ordered.get(columns)
        return values if by_name is None else by_name(values)

    def scores(raw: Array) -> Scores:
        values = _flat(dequantised(raw, tensor))
        if divisor is not None:
            values = values / divisor
        if values.shape[1] == 1:
            values = _of_two_classes(values, raw, output, tensor)
        if output.scores == "probabilities":
            _check_probabilities(values, tensor)
        for step in steps:
            values = _apply(step, values)
        _check_labels(output, values.shape[1])
        values = arrange(values) if arrange is not None else reorder(values)
        return _renormalised(values) if drops else values

    return scores


def plain_numbers(tensor: TensorSpec) -> Callable[[Array], Scores]:
    """Raw answers of one batch → real numbers, one row an input, however many: what two stacks are compared in."""
    return lambda raw: dequantised(raw, tensor).reshape(len(raw), -1)


def remaining_columns(output: Output, given: int) -> int:
    """How many classes the declared steps leave of the numbers that a network gives for each input."""
    # A single score is that of the second of two classes.
    columns = max(given, 2)
    for step in output.postprocess:
        if isinstance(step, DropLeading):
            columns -= step.count
        elif isinstance(step, Select):
            columns = len(step.indices)
    return columns


def labels_of(output: Output, folder: Path | None) -> tuple[str, ...] | None:
    """The class names an output declares, in place or in a file inside the manifest's folder."""
    if output.labels is not None or output.labels_file is None:
        return output.labels
    if folder is None:
        raise ManifestError(
            f"The labels file {output.labels_file!r} is relative, but the manifest is not in a folder.",
            hint="List the names under labels instead.",
        )
    try:
        path = (folder / output.labels_file).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a null character, links in a circle
        raise ManifestError(f"{output.labels_file!r} is not a name that a labels file can have.") from error
    if not path.is_relative_to(folder.resolve()):
        raise ManifestError(
            f"The labels file {output.labels_file!r} lies outside the manifest's folder.", hint="Move it beside."
        )
    try:
        content = read_text(path, MAX_LABEL_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ManifestError(
            f"The labels file {path} cannot be read: {reason}.", hint="It has one class name per line."
        ) from error
    if output.task == RECOGNISING:
        return _symbols(content)
    lines = content.splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    return tuple(line.strip() for line in lines)


def _symbols(content: str) -> tuple[str, ...]:
    """Symbols of a text, one a line. A space is one of them, also at the end; so are signs at which Python, and no
    editor, begins a line."""
    lines = content.split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)


def relocated_manifest(manifest: Manifest, source: Path, target: Path) -> Manifest:
    """The manifest with its files named from the folder `target` instead of from `source`.

    A labels file has to lie below the manifest: the names in one that would not are written into the manifest.
    """
    if source == target:
        return manifest
    return manifest.model_copy(
        update={
            "assets": tuple(relocated(asset, source, target) for asset in manifest.assets),
            "outputs": tuple(_relocated_labels(output, source, target) for output in manifest.outputs),
        }
    )


def _relocated_labels(output: Output, source: Path, target: Path) -> Output:
    if output.labels_file is None:
        return output
    if source.is_relative_to(target):
        return output.model_copy(update={"labels_file": relocated_path(source / output.labels_file, target)})
    return output.model_copy(update={"labels": labels_of(output, source), "labels_file": None})


def softmax(logits: Array, temperature: float = 1.0) -> Scores:
    scaled = np.asarray(logits, np.float32) / np.float32(temperature)
    # inf − inf: the NaN is what the caller counts.
    with np.errstate(invalid="ignore"):
        powers: Scores = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        powers /= powers.sum(axis=1, keepdims=True)
    return powers


def _with_softmax(output: Output) -> tuple[OutputStep, ...]:
    """The declared steps; logits without a softmax step get one at the end, over the classes that remain."""
    explicit = any(isinstance(step, Softmax) for step in output.postprocess)
    if output.scores == "logits" and not explicit:
        return (*output.postprocess, Softmax(op="softmax"))
    return output.postprocess


def dequantised(raw: Array, tensor: TensorSpec) -> Scores:
    """Raw answers as the real numbers that they stand for, in float32."""
    if raw.dtype.kind in _NO_NUMBERS:
        what = "complex numbers" if raw.dtype.kind == "c" else "texts"
        raise ModelError(f"The output {tensor.name} gives {what}, which cannot be stored.", hint=ANOTHER_OUTPUT)
    if not tensor.quantised or raw.dtype.kind == "f":
        return _single(raw, tensor)
    return (raw.astype(np.float32) - np.float32(tensor.zero_point or 0)) * np.float32(tensor.scale)


def _single(raw: Array, tensor: TensorSpec) -> Scores:
    """Returns outputs as float32, in which they are stored; raises if a number overflows or a whole row underflows."""
    with np.errstate(over="ignore", under="ignore"):
        values = raw.astype(np.float32, copy=False)
    if raw.dtype == np.float64 and raw.ndim and raw.size:
        rows, kept = raw.reshape(len(raw), -1), values.reshape(len(raw), -1)
        lost = np.isinf(kept) & np.isfinite(rows) | ~kept.any(axis=1, keepdims=True) & (rows != 0)
        if lost.any():
            raise ModelError(
                f"The output {tensor.name} gives {rows[lost][0]:.4g}, but answers are kept in float32, which does not "
                "hold such a number.",
                hint="Scale the output in the file, or time it without its answers: --no-accuracy.",
            )
    return values


def _flat(values: Scores) -> Scores:
    """(N, C), from (N, C, 1, 1), (N, 1, 1, C) and the like; (N, 1) from (N,)."""
    if values.ndim == 2:
        return values
    if not values.ndim or sum(extent > 1 for extent in values.shape[1:]) > 1:
        raise ModelError(
            f"The output has shape {shape_text(values.shape)}, which is not one score per class.",
            hint="Name the output that has the class scores under outputs in the manifest.",
        )
    return values.reshape(len(values), -1)


def _of_two_classes(values: Scores, raw: Array, output: Output, tensor: TensorSpec) -> Scores:
    """The scores of two classes from the only one that such a network gives, which is that of the second class."""
    if raw.dtype.kind != "f" and not tensor.quantised:
        raise ModelError(
            f"The output {tensor.name} is one integer for each input ({raw.dtype}), not a score for each class.",
            hint="Name the output that has the class scores under outputs in the manifest.",
        )
    if output.scores == "logits":
        return np.concatenate([np.zeros_like(values), values], axis=1)
    outside = values[(values < -0.001) | (values > 1.001)]
    if len(outside):
        raise ModelError(
            f"The manifest declares a probability, but the model answered {outside[0]:.4g}.",
            hint="Declare scores: logits for this output, or task: regression.",
        )
    return np.concatenate([1 - values, values], axis=1)


def _vectors(values: Scores, *, normalised: bool) -> Scores:
    """One row of numbers an input, whatever the shape; `normalised`: of length 1, unless all of them are 0."""
    if not values.size:
        raise ModelError("The output has no numbers at all for an input.", hint=ANOTHER_OUTPUT)
    flat = values.reshape(len(values), -1)
    if flat.shape[1] > MAX_WIDTH:
        raise ModelError(
            f"The output has {flat.shape[1]:,} numbers for each input; at most {MAX_WIDTH:,} are stored.",
            hint="Declare a smaller output in the manifest, or time it without its answers: --no-accuracy.",
        )
    if not normalised:
        return flat
    lengths = np.linalg.norm(flat.astype(np.float64), axis=1, keepdims=True)
    return (flat / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _weighed(vectors: Scores, step: Linear) -> Scores:
    if vectors.shape[1] != len(step.weights):
        raise ManifestError(f"linear has {len(step.weights)} weights, but the output has {vectors.shape[1]} numbers.")
    return np.asarray(vectors.astype(np.float64) @ np.array(step.weights)[:, None] + step.bias, np.float32)


def _apply(step: OutputStep, values: Scores) -> Scores:
    if isinstance(step, Softmax):
        return softmax(values, step.temperature)
    if isinstance(step, DropLeading):
        if step.count >= values.shape[1]:
            raise ManifestError(f"drop_leading of {step.count} leaves nothing of {values.shape[1]} outputs.")
        return values[:, step.count :]
    if not isinstance(step, Select):
        raise ManifestError(f"The step {step.op} is for vectors, not for the scores of classes.")
    if not step.indices or not all(0 <= index < values.shape[1] for index in step.indices):
        raise ManifestError(f"select names outputs that are not among 0 to {values.shape[1] - 1}.")
    return values[:, list(step.indices)]


def _check_probabilities(values: Scores, tensor: TensorSpec) -> None:
    finite = values[np.isfinite(values).all(axis=1)]
    if not len(finite):
        return
    sums = finite.sum(axis=1)
    worst = float(sums[np.abs(sums - 1).argmax()])
    off = abs(worst - 1)
    if float(finite.min()) < -0.001 or (off > 0.01 and off > 0.01 + _rounding(finite, tensor)):
        what = f"a score of {finite.min():.4g}" if finite.min() < -0.001 else f"scores that add up to {worst:.4g}"
        sigmoids = float(finite.min()) >= 0 and float(finite.max()) <= 1
        raise ModelError(
            f"The manifest declares probabilities, but the model answered {what}.",
            hint="Where each is a sigmoid, an input may have several labels: declare task: multilabel."
            if sigmoids
            else "Declare scores: logits for this output.",
        )


def _rounding(values: Scores, tensor: TensorSpec) -> float:
    """How far from 1 the sum of quantised scores may lie: each may be half a step off.

    A model that ends with a dequantise layer answers floats that are still whole steps of 1/256.
    """
    classes = int(values.shape[1])
    if tensor.quantised:
        return 0.5 * float(tensor.scale or 0) * classes
    steps = values * 256
    whole = bool(np.abs(steps - np.round(steps)).max() < 1e-3)
    # 1,000 softmax scores rounded to 1/256 lose most of a flat tail, which is no mistake of the manifest.
    return classes / 512 if whole else 0.0


def _check_labels(output: Output, columns: int) -> None:
    if output.labels is not None and len(output.labels) != columns:
        raise ManifestError(
            f"The manifest has {len(output.labels)} labels but the model has {columns} outputs.",
            hint="Correct labels, or drop outputs with a postprocess step such as drop_leading.",
        )
    if output.label_map and max(output.label_map) >= columns:
        raise ManifestError(f"label_map names output {max(output.label_map)}, but the model has {columns} outputs.")


def _label_mapper(mapping: dict[int, int], at_least: int) -> Callable[[Scores], Scores]:
    if min(mapping) < 0 or min(mapping.values()) < 0:
        raise ManifestError("label_map has a negative index.", hint="Outputs and classes count from 0.")
    pairs = sorted(mapping.items())
    classes = max(at_least, *(target + 1 for target in mapping.values()))

    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    unique = len(set(targets)) == len(targets)

    def arrange(values: Scores) -> Scores:
        arranged = np.zeros((len(values), classes), np.float32)
        if unique:
            arranged[:, targets] = values[:, sources]
            return arranged
        for source, target in pairs:
            # Several outputs may stand for one class.
            arranged[:, target] += values[:, source]
        return arranged

    return arrange


def _renormalised(values: Scores) -> Scores:
    total = values.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, values / total, values).astype(np.float32, copy=False)
