"""How the weights of two files differ, tensor by tensor. The files are read in a sandbox."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.function_process import call_in_process
from zoolens.base.engine.policy import Rights
from zoolens.base.engine.sandbox import trusted
from zoolens.base.errors import ModelError, first_line
from zoolens.base.present.results import Result, frame
from zoolens.findings.graph.weights.onnx_weights import keyed_weights, left_out
from zoolens.findings.graph.weights.rounding import Kind, Reason, Tally, rounded_again, tally
from zoolens.findings.graph.weights.stored_weights import StoredTensor, both_weights, piece_rows

SUFFIXES: Final = (".gguf", ".safetensors")
_OUTPUT, _TOKENS = "lm_head.weight", "model.embed_tokens.weight"
_SECONDS: Final = 1800.0
_MEMORY: Final = 6 << 30  # bytes; tensors are read in pieces of 2 million values
_MOST_ROWS: Final = 1 << 17
KeyPair = tuple[str, str]  # what two graphs call one tensor


@dataclass(frozen=True)
class TensorPair:
    """One tensor of both files. `rounded`: the side whose type may have rounded the other's values; "" for neither."""

    name: str
    types: tuple[str, str]
    values: int
    kind: Kind
    error: float
    predicted: float
    rounded: str
    reason: Reason = Reason.NONE  # why the kind is not known
    repeated: bool = False  # whether the values rounded again give the same numbers
    unseen: float = 0.0  # relative changes that would look the same as this rounding

    @property
    def group(self) -> tuple[Kind, tuple[str, str], str]:
        return self.kind, self.types, self.rounded

    def as_data(self) -> dict[str, Any]:
        """Plain values; None for an error that is no finite number."""
        plain = {"kind": self.kind.value, "reason": self.reason.value, "types": list(self.types)}
        measured = {name: _finite(getattr(self, name)) for name in ("error", "predicted", "unseen")}
        return vars(self) | plain | measured


@dataclass(frozen=True, repr=False)
class WeightDiff(Result):
    """What is known of the weights of two files."""

    pairs: tuple[TensorPair, ...]
    reshaped: tuple[str, ...]  # names of tensors whose shapes differ
    only: tuple[tuple[str, ...], tuple[str, ...]]  # names that one side has alone

    @property
    def values(self) -> int:
        return sum(pair.values for pair in self.pairs)

    def share(self, *kinds: Kind) -> float:
        """The share of all compared numbers in tensors of these kinds."""
        return sum(pair.values for pair in self.pairs if pair.kind in kinds) / max(1, self.values)

    def count(self, kind: Kind) -> int:
        return sum(pair.kind is kind for pair in self.pairs)

    @property
    def whole(self) -> bool:
        """Whether every tensor of both sides was compared."""
        return bool(self.pairs) and not self.reshaped and not any(self.only)

    @property
    def equal(self) -> bool:
        return self.whole and self.count(Kind.EQUAL) == len(self.pairs)

    @property
    def is_rounding(self) -> bool:
        """Whether nothing but rounding to other types lies between the two."""
        known = self.count(Kind.EQUAL) + self.count(Kind.ROUNDED)
        return self.whole and known == len(self.pairs) and self.count(Kind.ROUNDED) > 0

    @property
    def repeated(self) -> bool:
        """Whether every tensor that was rounded gave the same numbers when it was rounded again."""
        return all(pair.repeated for pair in self.pairs if pair.kind is Kind.ROUNDED)

    @property
    def unseen(self) -> float:
        """The largest relative change that would look the same as the rounding of its tensor."""
        return max((pair.unseen for pair in self.pairs), default=0.0)

    def groups(self) -> Iterator[tuple[TensorPair, ...]]:
        """Pairs of one kind and the same types, those with most numbers first."""
        grouped: dict[tuple[Any, ...], list[TensorPair]] = {}
        for pair in self.pairs:
            grouped.setdefault(pair.group, []).append(pair)
        yield from sorted(map(tuple, grouped.values()), key=lambda pairs: -sum(pair.values for pair in pairs))

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each tensor that both files have."""
        rows = ({**vars(pair), "kind": pair.kind.value, "reason": pair.reason.value} for pair in self.pairs)
        return frame(rows, "WeightDiff.frame")

    def as_data(self) -> dict[str, Any]:
        return {
            "tensors": [pair.as_data() for pair in self.pairs],
            "shares": {kind.value: self.share(kind) for kind in Kind},
            "other_shapes": list(self.reshaped),
            "only_a": list(self.only[0]),
            "only_b": list(self.only[1]),
        }


def weight_diff(a: Path, b: Path, *, keys: Sequence[KeyPair] = (), beside: Sequence[Path] = ()) -> WeightDiff:
    """Compares the weights of two files (GGUF, safetensors of a llama, ONNX). Strangers' bytes are read in a sandbox.

    `keys`: what the graphs of both call each tensor, which files in ONNX need (`tensor_pairs`). `beside`: files in
    which these keep values.
    """
    job = {"a": str(a), "b": str(b), "keys": [list(pair) for pair in keys]}
    if trusted():
        return _checked(compare_files(job))
    answer = call_in_process(
        f"{__name__}:compare_files",
        job,
        f"comparing the weights of {a.name} and {b.name}",
        timeout=_SECONDS,
        rights=Rights(tuple(map(str, (a, b, *beside))), memory=_MEMORY),
    )
    try:
        return _checked(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"The process that compares weights answered nonsense: {first_line(error)}.") from error


def _checked(said: Mapping[str, Any]) -> WeightDiff:
    """Values of the types that they should have: a process that was taken over may say anything."""
    if len(said["pairs"]) > _MOST_ROWS:
        raise ModelError(
            f"Of {len(said['pairs']):,} tensors the weights are not compared; {_MOST_ROWS:,} are the most."
        )
    pairs = tuple(
        TensorPair(
            name=str(pair["name"])[:200],
            types=(str(pair["types"][0])[:20], str(pair["types"][1])[:20]),
            values=int(pair["values"]),
            kind=Kind(pair["kind"]),
            error=float(pair["error"]),
            predicted=float(pair["predicted"]),
            rounded=pair["rounded"] if pair["rounded"] in ("A", "B") else "",
            reason=Reason(pair["reason"]),
            repeated=bool(pair["repeated"]),
            unseen=float(pair["unseen"]),
        )
        for pair in said["pairs"]
    )
    names = [tuple(str(name)[:200] for name in said[key]) for key in ("reshaped", "only_a", "only_b")]
    return WeightDiff(pairs, names[0], (names[1], names[2]))


def compare_files(job: Mapping[str, Any]) -> dict[str, Any]:
    """Runs in the sandbox."""
    if job.get("keys"):
        return _compared_by_keys(Path(job["a"]), Path(job["b"]), job["keys"])
    ours, theirs = both_weights(Path(job["a"]), Path(job["b"]))
    common = [name for name in ours if name in theirs]
    reshaped = [name for name in common if ours[name].shape != theirs[name].shape]
    pairs = [_compared(ours[name], theirs[name]) for name in common if name not in reshaped]
    tied = _tied(ours, theirs)
    if tied is not None:
        pairs.append(tied)
    alone = [[name for name in own if name not in other] for own, other in ((ours, theirs), (theirs, ours))]
    only = [[name for name in names if tied is None or name != _OUTPUT] for names in alone]
    return {"pairs": pairs, "reshaped": reshaped, "only_a": only[0], "only_b": only[1]}


def _compared_by_keys(a: Path, b: Path, keys: Sequence[Sequence[str]]) -> dict[str, Any]:
    """What the structure has put beside each other."""
    ours, theirs = keyed_weights(a, [pair[0] for pair in keys]), keyed_weights(b, [pair[1] for pair in keys])
    pairs, reshaped = [], []
    for own, other in keys:
        first = ours[own].arranged_as(theirs[other])
        second = theirs[other].arranged_as(first)
        if first.shape == second.shape:
            pairs.append(_compared(first, second))
        else:
            reshaped.append(own)
    return {"pairs": pairs, "reshaped": reshaped, "only_a": left_out(a, ours), "only_b": left_out(b, theirs)}


def _tied(ours: Mapping[str, StoredTensor], theirs: Mapping[str, StoredTensor]) -> dict[str, Any] | None:
    """The stored output of one file beside the table of tokens, which the other file uses as its output too; None
    where there is no such, or it has other values."""
    if (_OUTPUT in ours) == (_OUTPUT in theirs):
        return None
    a, b = (side.get(_OUTPUT) or side.get(_TOKENS) for side in (ours, theirs))
    if a is None or b is None or a.shape != b.shape:
        return None
    pair = _compared(a, b)
    same = Kind(pair["kind"]) in (Kind.EQUAL, Kind.ROUNDED)
    return pair | {"name": _OUTPUT} if same else None


def _compared(a: StoredTensor, b: StoredTensor) -> dict[str, Any]:
    if a.whole_numbers or b.whole_numbers:
        return _bytes_compared(a, b)
    first, second = (b, a) if _fineness(b) > _fineness(a) else (a, b)
    counts = _counts(first, second)
    if not counts.finite and _same_bytes(a, b):
        return _bytes_compared(a, b)  # NaN equals nothing, itself included
    rounded = "" if first.type == second.type else "A" if first is b else "B"
    return {
        "name": a.name,
        "types": [a.type, b.type],
        "values": a.size,
        "kind": counts.kind.value,
        "error": counts.error,
        "predicted": counts.predicted,
        "rounded": rounded,
        "reason": counts.reason.value,
        "repeated": counts.repeated,
        "unseen": counts.unseen,
    }


def _bytes_compared(a: StoredTensor, b: StoredTensor) -> dict[str, Any]:
    """Whole numbers are no weights that are rounded: they are the same bytes, or what they mean is not known."""
    equal = _same_bytes(a, b)
    return {
        "name": a.name,
        "types": [a.type, b.type],
        "values": a.size,
        "kind": (Kind.EQUAL if equal else Kind.UNKNOWN).value,
        "error": 0.0 if equal else math.nan,
        "predicted": 0.0,
        "rounded": "",
        "reason": (Reason.NONE if equal else Reason.WHOLE_NUMBERS).value,
        "repeated": False,
        "unseen": 0.0,
    }


def _same_bytes(a: StoredTensor, b: StoredTensor) -> bool:
    """Whether both files hold the same bytes in the same order of rows."""
    return a.type == b.type and a.heads == b.heads and a.content() == b.content()


def _fineness(tensor: StoredTensor) -> tuple[float, bool]:
    return tensor.bits, tensor.type == "F16"


def _counts(original: StoredTensor, other: StoredTensor) -> Tally:
    """Both tensors side by side. Two of one type are never each other's rounding."""
    exact = original.type in ("F32", "F64")
    one_type = original.type == other.type
    rows = piece_rows(original, other)
    total = Tally()
    pieces = zip(original.pieces(rows, steps=not exact or one_type), other.pieces(rows, steps=True), strict=True)
    for (values, before), (others, steps) in pieces:
        if before is None and not exact:
            steps = None  # how far the first side was rounded is not known
        again = None if one_type or steps is None else rounded_again(values, other.type)
        total += tally(values, others, steps, before, again)
    if total.kind is Kind.EQUAL and original.type == "F64":
        # It is read in float32, which does not show what differs.
        if not one_type:
            return replace(total, equal=0)
        if original.content() != other.content():
            return replace(total, equal=0, within=0)
    return replace(total, within=0) if one_type else total


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
