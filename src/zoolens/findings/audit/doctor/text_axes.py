"""The axes of a text: how it becomes tokens, and how answers to tokens are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from zoolens.findings.audit.doctor.variants import (
    Axis,
    AxisChoice,
    Change,
    NotSwept,
    axis_or_none,
    with_input,
    with_output,
)
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.manifests.schema_steps import Pool
from zoolens.inventory.manifests.schema_texts import PREDICTING, Subwords
from zoolens.inventory.manifests.tokenizer import Tokenizer

OUTSIDE: Final = "O"
SPECIAL: Final = "special tokens"
_SIDES: Final = ("right", "left")
_POOLS: Final = ("mean", "first", "last")
_TAKES: Final = ("first", "last")


def text_axes(manifest: Manifest) -> list[Axis | NotSwept]:
    """The axes of an input of modality text; empty for all others."""
    declared = manifest.inputs[0].tokenizer
    if declared is None:
        return []
    return [
        _casing(manifest, declared),
        _padding(manifest, declared),
        _truncation(manifest, declared),
        *([] if manifest.task == PREDICTING else [special_tokens_axis(declared)]),
        *_pooling(manifest),
    ]


def _casing(manifest: Manifest, declared: Tokenizer) -> Axis | NotSwept:
    if declared.words is None:
        return NotSwept("casing", "it is that of the tokenizer's own file.")
    names = {True: "lower case", False: "case as written"}
    words, other = declared.words, not declared.words.lower_case
    choice = AxisChoice(
        "casing", "casing", names[other], _tokenized(words=words.model_copy(update={"lower_case": other}))
    )
    return Axis("casing", names[words.lower_case], (choice,))


def _padding(manifest: Manifest, declared: Tokenizer) -> Axis | NotSwept:
    if declared.padding == "none":
        return NotSwept("padding side", "texts are not filled up.")
    other = _SIDES[1 - _SIDES.index(declared.padding_side)]
    choice = AxisChoice("padding", "padding side", other, _tokenized(padding_side=other))
    return Axis("padding", declared.padding_side, (choice,))


def _truncation(manifest: Manifest, declared: Tokenizer) -> Axis | NotSwept:
    if manifest.task == PREDICTING:
        return NotSwept("truncation", "it decides which part of a text is to be foreseen.")
    if declared.truncation == "refuse":
        return NotSwept("truncation", "longer texts are refused.")
    other = _SIDES[1 - _SIDES.index(declared.truncation)]
    choice = AxisChoice("truncation", "truncation", f"at the {other}", _tokenized(truncation=other))
    return Axis("truncation", f"at the {declared.truncation}", (choice,))


def special_tokens_axis(declared: Tokenizer) -> Axis | NotSwept:
    if declared.words is not None:
        return NotSwept(SPECIAL, "a vocabulary of words has none.")
    names = {True: "added", False: "not added"}
    other = not declared.special_tokens
    choice = AxisChoice(SPECIAL, SPECIAL, names[other], _tokenized(special_tokens=other))
    return Axis(SPECIAL, names[declared.special_tokens], (choice,))


def _pooling(manifest: Manifest) -> list[Axis | NotSwept]:
    declared = manifest.outputs[0].pooling
    if declared is None:
        return []
    rest = manifest.outputs[0].postprocess[1:]
    choices = [
        AxisChoice(
            "pooling", "pooling", method, _postprocessed(Pool.model_validate({"op": "pool", "method": method}), rest)
        )
        for method in _POOLS
        if method != declared.method
    ]
    return [Axis("pooling", declared.method, tuple(choices))]


def tag_axes(manifest: Manifest, labels: Sequence[str]) -> list[Axis | NotSwept]:
    """The axes of tags of words: which score is which tag, and which token of a word counts."""
    return [_tags(manifest, labels), _subwords(manifest)]


def _tags(manifest: Manifest, labels: Sequence[str]) -> Axis | NotSwept:
    orders: dict[tuple[str, ...], tuple[str, str]] = {}
    orders[(*labels[1:], labels[0])] = ("label offset", "every output one tag higher")
    orders[(labels[-1], *labels[:-1])] = ("label offset", "every output one tag lower")
    orders.setdefault(tuple(_swapped(tag) for tag in labels), ("tag scheme", "B and I exchanged"))
    orders.setdefault(tuple(_one_tag_each(labels)), ("label order", "B and I of each type together"))
    orders.setdefault(tuple(_all_begins_first(labels)), ("label order", "all B before all I"))
    orders.setdefault(tuple(sorted(labels)), ("label order", "the tags in the order of the alphabet"))
    choices = [
        AxisChoice("labels", factor, name, _tagged(order))
        for order, (factor, name) in orders.items()
        if order != tuple(labels)
    ]
    return axis_or_none("labels", f"{', '.join(labels[:3])} …", choices, manifest) or NotSwept("tags", "there is one.")


def _swapped(tag: str) -> str:
    return {"B": "I", "I": "B"}.get(tag[:1], tag[:1]) + tag[1:] if tag != OUTSIDE else tag


def _types(labels: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(tag[2:] for tag in labels if tag[1:2] == "-"))


def _one_tag_each(labels: Sequence[str]) -> list[str]:
    """O, B-PER, I-PER, B-LOC, I-LOC."""
    named = [tag for type_ in _types(labels) for tag in labels if tag[1:2] == "-" and tag[2:] == type_]
    return [*(tag for tag in labels if tag[1:2] != "-"), *named]


def _all_begins_first(labels: Sequence[str]) -> list[str]:
    """O, B-PER, B-LOC, I-PER, I-LOC."""
    letters = list(dict.fromkeys(tag[0] for tag in labels if tag[1:2] == "-"))
    named = [tag for letter in letters for tag in labels if tag[1:2] == "-" and tag[0] == letter]
    return [*(tag for tag in labels if tag[1:2] != "-"), *named]


def _subwords(manifest: Manifest) -> Axis | NotSwept:
    if manifest.inputs[0].tokenizer is None or manifest.inputs[0].tokenizer.words is not None:
        return NotSwept("subwords", "each word is one token.")
    steps = manifest.outputs[0].postprocess
    declared = next((step.take for step in steps if isinstance(step, Subwords)), "first")
    others = tuple(step for step in steps if not isinstance(step, Subwords))
    choices = [
        AxisChoice(
            "subwords",
            "subwords",
            f"the {take} token of a word",
            _postprocessed(Subwords.model_validate({"op": "subwords", "take": take}), others),
        )
        for take in _TAKES
        if take != declared
    ]
    return Axis("subwords", f"the {declared} token of a word", tuple(choices))


def _tokenized(**changes: Any) -> Change:
    def change(manifest: Manifest) -> Manifest:
        tokenizer = manifest.inputs[0].tokenizer
        assert tokenizer is not None  # the axis is one of texts
        return with_input(manifest, tokenizer=tokenizer.model_copy(update=changes))

    return change


def _tagged(labels: Sequence[str]) -> Change:
    return lambda manifest: with_output(manifest, labels=tuple(labels), labels_file=None)


def _postprocessed(*steps: Any) -> Change:
    first, rest = steps
    return lambda manifest: with_output(manifest, postprocess=(first, *rest))
