"""What is said of the weights of two files, and which file of a model has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.base.phrases import first_few
from zoolens.findings.graph.weights.onnx_weights import SUFFIX as ONNX
from zoolens.findings.graph.weights.rounding import Kind, Reason
from zoolens.findings.graph.weights.weight_diff import SUFFIXES, TensorPair, WeightDiff
from zoolens.inventory.manifests.locations import resolve_asset
from zoolens.inventory.zoos.zoo import Entry

_SHOWN: Final = 3
_COMPARED: Final = (*SUFFIXES, ONNX)
_REASONS: Final[Mapping[Reason, str]] = {
    Reason.NEAR: "they are no plain rounding, and near enough for further training or another way to quantise",
    Reason.NO_STEPS: "the steps of one of their types are not known, so that any values would look so",
    Reason.NOT_FINITE: "they contain infinities or values that are no numbers",
    Reason.WHOLE_NUMBERS: "they are whole numbers that differ, or whole numbers beside other types",
    Reason.NONE: "they have no values",
}


def weight_files(entry: Entry) -> tuple[Path, ...]:
    """The file of a model whose weights can be compared by value, and those in which it keeps them; ModelError where it
    has none."""
    files = entry.manifest.attributes.get("files") or {}
    named = {role: (entry.folder or Path()) / str(name) for role, name in files.items()}
    for found in (*(resolve_asset(asset, entry.folder, fetch=False) for asset in entry.manifest.assets), named):
        path = found.get("model")
        if path is not None and path.suffix in _COMPARED and path.is_file():
            return path, *(beside for role, beside in found.items() if role == "weights")
    raise ModelError(
        f"The weights of {entry.ref} cannot be compared by value.",
        hint="GGUF, safetensors and ONNX files can be compared.",
    )


def headline(found: WeightDiff, names: tuple[str, str] = ("A", "B"), *, alone: bool = True) -> str:
    """One sentence on all weights. `alone`: whether nothing but the weights differs."""
    a, b = names
    if not found.pairs:
        return f"{a} and {b} have no weights of the same name and shape."
    if found.equal:
        return f"All {len(found.pairs)} weight tensors are equal in every value."
    if found.is_rounding and found.repeated:
        what = "Nothing but quantisation lies" if alone else "Quantisation explains the difference"
        return f"{what} between the weights of {a} and {b}: {_rounded(found)}."
    if found.is_rounding:
        return (
            f"Quantisation explains the difference between the weights of {a} and {b}: {_rounded(found)}; training "
            f"that changes weights by less than about {_limit(found.unseen)} would look the same."
        )
    trained = found.count(Kind.TRAINED)
    parts = []
    if trained:
        parts.append(
            f"{_tensors(trained, found)} ({_percent(found.share(Kind.TRAINED))} of the numbers) have values that no "
            "rounding gives: another training, or weights that were rewritten, such as norms multiplied in"
        )
    parts += list(_unknown(found))
    if found.count(Kind.ROUNDED):
        parts.append(f"rounding explains {_rounded(found)}")
    parts += list(_apart(found, names))
    return f"The weights differ: {'; '.join(parts)}."


def _unknown(found: WeightDiff) -> Iterator[str]:
    for reason, words in _REASONS.items():
        pairs = [pair for pair in found.pairs if pair.kind is Kind.UNKNOWN and pair.reason is reason]
        if pairs:
            share = _percent(sum(pair.values for pair in pairs) / max(1, found.values))
            yield f"of {_tensors(len(pairs), found)} ({share} of the numbers) it is not known: {words}"


def _rounded(found: WeightDiff) -> str:
    """Which types the rounded tensors have, with the share of all numbers."""
    pairs = [pair for pair in found.pairs if pair.kind is Kind.ROUNDED]
    types = dict.fromkeys(pair.types[0] if pair.rounded == "A" else pair.types[1] for pair in pairs)
    share = _percent(found.share(Kind.ROUNDED))
    return f"{_tensors(len(pairs), found)} ({share} of the numbers), rounded to {' and '.join(types)}"


def _apart(found: WeightDiff, names: tuple[str, str]) -> Iterator[str]:
    if found.reshaped:
        yield f"{len(found.reshaped)} have other shapes ({first_few(found.reshaped, _SHOWN)})"
    for side, alone in zip(names, found.only, strict=True):
        if alone:
            yield f"{len(alone)} are in {side} alone ({first_few(alone, _SHOWN)})"


def group_row(pairs: Sequence[TensorPair], whole: int) -> tuple[str, ...]:
    """One row of a table: tensors of one kind and the same types."""
    first = pairs[0]
    values = sum(pair.values for pair in pairs)
    same = first.kind is Kind.EQUAL
    return (
        first.kind.value,
        *first.types,
        f"{len(pairs)}",
        _percent(values / max(1, whole)),
        "0" if same else _range([pair.error for pair in pairs]),
        _range([pair.predicted for pair in pairs]) if first.rounded and not same else "–",
    )


def _tensors(count: int, found: WeightDiff) -> str:
    return f"{count} of {len(found.pairs)} tensors"


def _percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


def _limit(share: float) -> str:
    return f"{100 * share:.1g} %"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"
