"""The axes of a model's answer: which class an output stands for, and whether outputs are probabilities."""

from __future__ import annotations

from typing import Final

from zoolens.findings.audit.doctor.variants import PROVES_A_RANGE, Axis, AxisChoice, with_output
from zoolens.inventory.manifests.schema import Manifest, Output
from zoolens.inventory.manifests.schema_steps import DropLeading, OutputStep, Softmax
from zoolens.inventory.preprocess.outputs import remaining_columns

_DOUBLED: Final = (
    "it declares logits, but the outputs are probabilities already, so that softmax is applied twice; top-1 does not "
    "suffer, every probability does."
)
_SIGMOID_TWICE: Final = (
    "it declares logits, but the outputs lie between 0 and 1 already, so that the sigmoid is applied twice; the order "
    "of scores does not suffer, every probability does."
)


def label_axis(manifest: Manifest, outputs: int | None, classes: int, labels: tuple[str, ...] | None) -> Axis:
    """Two choices: outputs stand for the class below, and for the class above, the one declared.

    `outputs`: how many the file has, where it says; `classes`: of the data; `labels`: as the manifest names them.
    """
    declared = manifest.outputs[0]
    drops = _dropped(declared)
    raw = outputs if outputs is not None else classes + drops
    columns = remaining_columns(declared, raw)
    spare = columns > classes
    lower = _drop(drops + 1, raw, labels) if spare else _shift(columns, -1)
    higher = _drop(drops - 1, raw, labels) if drops else _shift(columns, 1)
    mapped = f"a label_map of {len(declared.label_map)} outputs" if declared.label_map else _dropping(drops)
    return Axis("labels", mapped, (lower, higher))


def scores_axis(manifest: Manifest, outputs: int | None) -> Axis:
    """A softmax more or less leaves the best class as it is. A single score is another matter: as a probability it is
    held against 0.5, and as a logit against 0."""
    declared = manifest.outputs[0].scores
    other = "logits" if declared == "probabilities" else "probabilities"

    def change(manifest: Manifest) -> Manifest:
        steps = tuple(step for step in manifest.outputs[0].postprocess if not isinstance(step, Softmax))
        return with_output(manifest, scores=other, postprocess=steps)

    ranked = outputs == 1
    proof = _DOUBLED if declared == "logits" and not ranked else None
    return Axis("scores", declared, (AxisChoice("scores", "scores", other, change, proof=proof),), ranked)


def probability_axis(manifest: Manifest) -> Axis:
    """Whether scores that stand for themselves are probabilities already. A sigmoid more leaves them in their order."""
    declared = manifest.outputs[0].scores
    other = "logits" if declared == "probabilities" else "probabilities"
    proof = _SIGMOID_TWICE if declared == "logits" else None
    choice = AxisChoice(
        "scores",
        "scores",
        other,
        lambda manifest: with_output(manifest, scores=other),
        proof=proof,
        proven_by=PROVES_A_RANGE,
    )
    return Axis("scores", declared, (choice,), ranked=False)


def _dropped(output: Output) -> int:
    return sum(step.count for step in output.postprocess if isinstance(step, DropLeading))


def _dropping(count: int) -> str:
    return f"the first {'output' if count == 1 else f'{count} outputs'} dropped" if count else "outputs as they come"


def _drop(count: int, raw: int, labels: tuple[str, ...] | None) -> AxisChoice:
    def change(manifest: Manifest) -> Manifest:
        output = manifest.outputs[0]
        others: tuple[OutputStep, ...] = tuple(s for s in output.postprocess if not isinstance(s, DropLeading))
        steps = (DropLeading(op="drop_leading", count=count), *others) if count else others
        changed = output.model_copy(update={"postprocess": steps})
        fitted = _fitted(labels, remaining_columns(changed, raw)) if labels else None
        return with_output(manifest, postprocess=steps, labels=fitted, labels_file=None)

    return AxisChoice("labels", "label offset", _dropping(count), change)


def _fitted(labels: tuple[str, ...], columns: int) -> tuple[str, ...] | None:
    """The names that still stand for something; None where they cannot be told."""
    missing = columns - len(labels)
    if missing <= 0:
        return labels[-missing:]
    return ("background", *labels) if missing == 1 else None


def _shift(columns: int, by: int) -> AxisChoice:
    def change(manifest: Manifest) -> Manifest:
        before = manifest.outputs[0].label_map or {index: index for index in range(columns)}
        moved = {source: target + by for source, target in before.items() if target + by >= 0}
        as_they_come = moved == {index: index for index in range(columns)}
        return with_output(manifest, label_map=None if as_they_come else moved)

    return AxisChoice("labels", "label offset", f"every output one class {'lower' if by < 0 else 'higher'}", change)
