"""Whether two runs can be compared at all: what goes in, what comes out, and which class is which.

How a model wants its inputs (size, layout, colours, normalisation) is its own affair: its manifest sees to that, and
differences are notes. Another modality, task or set of classes is a reason to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from zoolens.base.errors import ManifestError
from zoolens.base.store.records import Run, RunKind
from zoolens.findings.measure.class_order import data_classes, matched_by_name, other_class_names
from zoolens.inventory.manifests.schema import MODALITIES, Input, Manifest, Output
from zoolens.inventory.manifests.tokenizer import ROLE, Tokenizer
from zoolens.inventory.preprocess.classes import Translation, class_mismatch, plain_name, translation
from zoolens.inventory.preprocess.outputs import labels_of
from zoolens.inventory.tasks.generation import Generation
from zoolens.inventory.tasks.task import DEFAULT_TASK, task_named

_NUMBERING: Final = re.compile(r"[\W\d_]+")  # what exporters add to names of outputs, and signs between words


@dataclass(frozen=True)
class Head:
    """One output as a run has it. `names`: what its classes are called, in the order of its answers, where the
    manifest says so."""

    task: str
    width: int | None = None
    names: tuple[str, ...] | None = None
    output: str = ""  # what the model calls it; empty: the run does not say


@dataclass(frozen=True)
class Interface:
    """What a run takes and gives."""

    run: Run
    inputs: tuple[Input, ...]
    heads: tuple[Head, ...]
    data_names: tuple[str, ...] | None  # the dataset's classes
    unread: tuple[str, ...] = ()  # what could not be read
    tokenizers: frozenset[str] = frozenset()  # digests of its tokenizer's files, as its manifest states them

    @property
    def main(self) -> Head:
        return self.heads[0]


@dataclass(frozen=True)
class Compatibility:
    """Whether two runs can be compared, and how their outputs and classes are matched."""

    reasons: tuple[str, ...] = ()  # why they cannot be compared; empty: they can
    notes: tuple[str, ...] = ()
    translation_a: Translation | None = None  # brings A's classes into the common order; None: they are in it
    translation_b: Translation | None = None
    outputs: int = 1  # how many outputs both have in common
    places: tuple[int, ...] | None = None  # where B has the outputs of A, if it has them in another order

    def __bool__(self) -> bool:
        return not self.reasons


def compatible(a: Run, b: Run) -> Compatibility:
    return compare_interfaces(interface_of(a), interface_of(b))


# --- what one run takes and gives


def interface_of(run: Run) -> Interface:
    # A model of a recipe: its inputs are the dataset's own.
    if run.kind is RunKind.TRAINING:
        classes = run.dataset.details.get("classes")
        return Interface(run, (), (Head(DEFAULT_TASK, classes if isinstance(classes, int) else None),), None)
    manifest, unread = _manifest(run)
    data_names = data_classes(run)
    inputs = manifest.inputs if manifest else ()
    declared = manifest.outputs if manifest else ()
    measured: Sequence[Any] = run.resolved.get("outputs") or [{}] * max(1, len(declared))
    heads = []
    for number, about in enumerate(measured):
        output = declared[number] if number < len(declared) else None
        matched = number == 0 and matched_by_name(run)
        names, problem = (_as_wide(data_names, about), ()) if matched else _names(output, run)
        unread += problem
        heads.append(_head(about, output, names, data_names))
    files = [file for asset in manifest.assets for file in asset.files] if manifest else []
    tokenizers = frozenset(file.sha256 for file in files if file.role == ROLE and file.sha256)
    return Interface(run, inputs, tuple(heads), data_names, unread, tokenizers)


def _as_wide(names: tuple[str, ...] | None, about: Any) -> tuple[str, ...] | None:
    """The data's names where they name all classes of the answers: a model may have more, behind them."""
    return names if names is not None and about.get("width") in (None, len(names)) else None


def _manifest(run: Run) -> tuple[Manifest | None, tuple[str, ...]]:
    for described in (run.origin.get("manifest"), run.model.manifest):
        try:
            return Manifest.model_validate(described), ()
        except ValidationError:
            continue
    return None, (f"{run.ref} has no readable manifest: its inputs are not compared.",)


def _names(output: Output | None, run: Run) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Class names in the order of the stored answers. A label_map has brought those into the dataset's order."""
    if output is None or output.label_map:
        return None, ()
    folder = run.origin.get("folder")
    try:
        return labels_of(output, Path(folder) if folder else None), ()
    except ManifestError as error:
        return None, (f"{run.ref}: {error.message}",)


def _head(about: Any, output: Output | None, names: tuple[str, ...] | None, data: tuple[str, ...] | None) -> Head:
    task = str(about.get("task") or (output.task if output else DEFAULT_TASK))
    width = about.get("width")
    # Answers that are read by role are in the dataset's numbers already, however many classes the model has.
    in_data_numbers = bool(task_named(task).roles)
    if width is None and names is not None and not in_data_numbers:
        width = len(names)
    if width is None and output is not None and output.label_map and data is not None and not in_data_numbers:
        width = max(len(data), 1 + max(output.label_map.values()))
    return Head(task, None if width is None else int(width), names, str(about.get("name") or ""))


# --- two runs


def compare_interfaces(a: Interface, b: Interface) -> Compatibility:
    places = places_by_name(*([(head.output, head.task) for head in side.heads] for side in (a, b)))
    if places is None:
        return _compare_in_order(a, b)
    fit = _compare_in_order(a, replace(b, heads=tuple(b.heads[place] for place in places)))
    note = "B has the outputs of A in another order: matched by name"
    return replace(fit, notes=(*fit.notes, note), places=places)


def places_by_name(a: Sequence[tuple[str, str]], b: Sequence[tuple[str, str]]) -> tuple[int, ...] | None:
    """Where B has each of A's outputs, by their names and tasks; None: they are in one order, or names do not tell, as
    those that an exporter has numbered (Identity_1, StatefulPartitionedCall:0). The data's labels are about the main
    output, so that one which they judge stays the main one."""
    words = {_NUMBERING.sub("", name) for name, _ in a}
    if [*a] == [*b] or {*a} != {*b} or len(words) < len(a) or "" in words:
        return None
    main = task_named(a[0][1])
    if (main.judged or main.truth is not None) and a[0] != b[0]:
        return None
    return tuple([*b].index(output) for output in a)


def _compare_in_order(a: Interface, b: Interface) -> Compatibility:
    reasons = [*_input_reasons(a, b), *_output_reasons(a, b)]
    notes = [*a.unread, *b.unread, *_input_notes(a, b), *_output_notes(a, b)]
    if reasons:
        return Compatibility(tuple(reasons), tuple(notes))
    if not task_named(a.main.task).discrete:
        return Compatibility(notes=tuple(notes), outputs=_outputs_alike(a, b))
    order = _class_order(a, b)
    return Compatibility(
        order.reasons, (*notes, *order.notes), order.translation_a, order.translation_b, _outputs_alike(a, b)
    )


def _input_reasons(a: Interface, b: Interface) -> Iterator[str]:
    if a.run.dataset.fingerprint != b.run.dataset.fingerprint:
        yield (
            f"A was run on {a.run.dataset.name} ({a.run.dataset.size:,} inputs) and B on {b.run.dataset.name} "
            f"({b.run.dataset.size:,} inputs)"
        )
    if a.inputs and b.inputs:
        if len(a.inputs) != len(b.inputs):
            yield f"A takes {len(a.inputs)} inputs and B {len(b.inputs)}"
        elif a.inputs[0].modality != b.inputs[0].modality:
            yield f"A takes {MODALITIES[a.inputs[0].modality]} and B {MODALITIES[b.inputs[0].modality]}"


def _output_reasons(a: Interface, b: Interface) -> Iterator[str]:
    if a.run.key.dataset == b.run.key.dataset and other_class_names(a.run, b.run):
        yield "the dataset's class names differ between the runs of A and B (evaluate both again)"
    if a.main.task != b.main.task:
        yield f"A does {a.main.task} and B does {b.main.task}"
    elif a.main.width is not None and b.main.width is not None and a.main.width != b.main.width:
        yield f"A has {a.main.width:,} {task_named(a.main.task).unit} and B has {b.main.width:,}"


def _input_notes(a: Interface, b: Interface) -> Iterator[str]:
    if not (a.inputs and b.inputs):
        return
    ours, theirs = a.inputs[0], b.inputs[0]
    if _sample(ours) != _sample(theirs):
        yield f"input shape: A {_shape(ours)}, B {_shape(theirs)}"
    for what, of_a, of_b in (
        ("input layout", ours.layout, theirs.layout),
        ("input type", ours.dtype, theirs.dtype),
        ("colour order", ours.color, theirs.color),
        ("image decoder", ours.decoder, theirs.decoder),
    ):
        if of_a != of_b:
            yield f"{what}: A {of_a}, B {of_b}"
    if ours.tokenizer != theirs.tokenizer and ours.tokenizer and theirs.tokenizer:
        yield f"tokens of a text: A {_tokens(ours.tokenizer)}; B {_tokens(theirs.tokenizer)}"
    if a.main.task == Generation.name and _other_tokenizer(a.tokenizers, b.tokenizers):
        yield (
            "the tokenizers of A and B are different files: that they split the prompts alike does not show that a "
            "token is the same text in both"
        )
    if ours.preprocess != theirs.preprocess:
        yield f"preprocessing: A {_steps(ours)}; B {_steps(theirs)}"


def _other_tokenizer(ours: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether both are stated and none is the same. A manifest may state the first digits of a digest alone."""
    same = any(one.startswith(other) or other.startswith(one) for one in ours for other in theirs)
    return bool(ours and theirs) and not same


def _tokens(tokenizer: Tokenizer) -> str:
    padding = {"max_length": "filled up", "longest": "filled up to the longest", "none": "not filled up"}
    return f"at most {tokenizer.max_length:,}, {padding[tokenizer.padding]}"


def _output_notes(a: Interface, b: Interface) -> Iterator[str]:
    alike, most = _outputs_alike(a, b), max(len(a.heads), len(b.heads))
    if alike < most and a.main.task == b.main.task:
        which = "first output is" if alike == 1 else f"first {alike} outputs are"
        yield f"A has {len(a.heads)} outputs and B {len(b.heads)}: only the {which} compared"
    pairs = [(ours.output, theirs.output) for ours, theirs in zip(a.heads[:alike], b.heads[:alike], strict=False)]
    if alike > 1 and any(ours != theirs for ours, theirs in pairs):
        listed = ", ".join(f"{ours} with {theirs}" for ours, theirs in pairs)
        yield f"outputs are compared in the order of the manifests: {listed}"


def _outputs_alike(a: Interface, b: Interface) -> int:
    """How many outputs, from the first on, do the same thing at the same width.

    Classes are brought into one order for the main output only: further ones must have them in the same.
    """
    alike = 1
    for head_a, head_b in zip(a.heads[1:], b.heads[1:], strict=False):
        same_classes = (
            head_a.names is None
            or head_b.names is None
            or [*map(plain_name, head_a.names)] == [*map(plain_name, head_b.names)]
        )
        if (
            head_a.task != head_b.task
            or (head_a.width and head_b.width and head_a.width != head_b.width)
            or not same_classes
        ):
            break
        alike += 1
    return alike


def _sample(declared: Input) -> tuple[int | None, ...]:
    """The shape without its batch axis, channels last: layouts have a note of their own."""
    shape = declared.shape[1:]
    return (*shape[1:], shape[0]) if declared.layout == "NCHW" and len(shape) == 3 else shape


def _shape(declared: Input) -> str:
    return "×".join("?" if extent is None else str(extent) for extent in declared.shape[1:])


def _steps(declared: Input) -> str:
    def written(step: Any) -> str:
        given = step.model_dump(exclude_defaults=True, exclude={"op"})
        return f"{step.op}({', '.join(f'{name}={_value(value)}' for name, value in given.items())})"

    return ", ".join(map(written, declared.preprocess)) or "none"


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "/".join(map(_value, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# --- which class is which


def _class_order(a: Interface, b: Interface) -> Compatibility:
    """Match the classes of both sides by name: into the dataset's order where its names are used, else into A's."""
    ours, theirs = a.main.names, b.main.names
    if ours is not None and theirs is not None and (problem := class_mismatch(ours, theirs)):
        return Compatibility((problem,))
    known = ours or theirs
    if known is None:
        return Compatibility(notes=("A and B name no classes: theirs are taken in the dataset's order",))
    by_data = a.data_names is not None and class_mismatch(known, a.data_names) is None
    target, whose = (a.data_names, "the dataset") if by_data else (known, "A")
    notes: list[str] = []
    translations: list[Translation | None] = []
    for side, names in (("A", ours), ("B", theirs)):
        translations.append(translation(names, target or ()) if names is not None else None)
        if names is None:
            notes.append(f"{side} names no classes: its own are taken in the dataset's order")
        elif translations[-1] is not None:
            notes.append(f"{side}'s classes are in another order than {whose}'s: matched by name")
    return Compatibility(notes=tuple(notes), translation_a=translations[0], translation_b=translations[1])
