"""`move_weights`: the weights of one network in another framework's network, proved by running both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.present.results import Result
from zoolens.base.verdicts import Outcome, Verdict
from zoolens.findings.graph.diff.report import Diff
from zoolens.training.crosstrain.training.weights import read_weights, write_weights
from zoolens.training.pairs.mapping.parameter_map import ParameterMap
from zoolens.training.pairs.networks.framework import joined
from zoolens.training.pairs.sides.network_sides import TIMEOUT, PortSide
from zoolens.training.pairs.sides.open_pair import OpenPair, opened
from zoolens.training.port.agreement import PortAgreement, agreement
from zoolens.training.port.judgement import moved_verdict

PLAIN: Final = ".safetensors"
OWN: Final = {"torch": (".pt", ".pth"), "keras": (".keras", ".h5"), "jax": (".msgpack",)}  # a framework's own formats
_NAMED: Final = 4


@dataclass(frozen=True, repr=False)
class Moved(Result):
    """What came of moving A's weights into B."""

    names: tuple[str, str]
    diff: Diff
    map: ParameterMap
    agreement: PortAgreement
    written: Path | None  # None: the answers differ, and nothing was written
    notes: tuple[str, ...] = ()  # sentences about what had to be assumed

    @cached_property
    def verdict(self) -> Verdict:
        """Whether B answers as A does with all that A has learned."""
        return moved_verdict(self.map, self.agreement)


def move_weights(
    a: str | Any,
    b: str | Any,
    inputs: Sequence[str],
    out: Path | str,
    *,
    checkpoint: Path | str | None = None,
    chosen: Mapping[str, str] | None = None,
    unproved: bool = False,
    timeout: float = TIMEOUT,
) -> Moved:
    """Move the weights of A into B and write B's weights to `out`, by its suffix as safetensors or in B's own format.

    A has the weights that its function returned, or those of `checkpoint`. Nothing is written unless both networks give
    equal answers, or `unproved` says that it may be. A ModelError asks for what cannot be known.
    """
    out, checkpoint = Path(out), None if checkpoint is None else Path(checkpoint)
    for path in (checkpoint, out):
        if path is not None:
            _check_suffix(path)
    if checkpoint is not None and not checkpoint.is_file():
        raise ModelError(f"There is no file {checkpoint}.")
    if not out.absolute().parent.is_dir():
        raise ZoolensError(f"There is no folder {out.absolute().parent}.")
    with opened(a, b, inputs, chosen=chosen, timeout=timeout) as pair:
        return move_in_pair(pair, out, checkpoint=checkpoint, unproved=unproved)


def move_in_pair(pair: OpenPair, out: Path, *, checkpoint: Path | None = None, unproved: bool = False) -> Moved:
    """Move the weights of two networks that are open."""
    check_format(out, pair.b.framework, pair.b.text)
    ask_for_missing(pair.map)
    if checkpoint is not None:
        _load(pair.a, checkpoint)
    weights = pair.a.tensors()
    moved = pair.map.moved(weights, pair.b.tensors())
    pair.b.assign(moved)
    answers = agreement(pair.a, pair.b, pair.diff, pair.fed(), weights)
    answers = replace(answers, branches=pair.branches.missed)
    proved = moved_verdict(pair.map, answers).outcome is Outcome.SAME
    if proved or unproved:
        _write(pair, out)
    return Moved(
        (pair.a.text, pair.b.text),
        pair.diff,
        pair.map,
        answers,
        out if proved or unproved else None,
        (*pair.a.notes, *pair.b.notes, *pair.branches.chosen),
    )


def _check_suffix(path: Path) -> None:
    known = (PLAIN, *(suffix for suffixes in OWN.values() for suffix in suffixes))
    if path.suffix not in known:
        raise ZoolensError(f"{path.name} has no known format.", hint=f"Its name must end in one of {', '.join(known)}.")


def check_format(path: Path, framework: str, name: str) -> None:
    """Refuse another framework's own format, before a long computation."""
    own = OWN[framework]
    if path.suffix not in (PLAIN, *own):
        raise ZoolensError(
            f"{name} is a network of {framework}, which has no files that end in {path.suffix}.",
            hint=f"Use {PLAIN} or {', '.join(own)}.",
        )
    if path.suffix == ".h5" and not path.name.endswith(".weights.h5"):
        raise ZoolensError(f"Keras writes weights to files that end in .weights.h5, not to {path.name}.")


def _load(side: PortSide, checkpoint: Path) -> None:
    if checkpoint.suffix == PLAIN and side.framework != "torch":
        given, known = read_weights(checkpoint), side.tensors()
        counters = [name for name, array in given.items() if name not in known and array.dtype.kind in "iu"]
        kept = {name: array for name, array in given.items() if name not in counters}
        joined(known, kept, checkpoint.name)
        side.assign({name: array.astype(known[name].dtype) for name, array in kept.items()})
        return
    if checkpoint.suffix not in (PLAIN, *OWN[side.framework]):
        raise ZoolensError(
            f"{checkpoint.name} is no checkpoint of {side.framework}, the framework of {side.text}.",
            hint="Name the network that it belongs to first.",
        )
    side.load(checkpoint.absolute())


def ask_for_missing(map_: ParameterMap, *, instead: str = "or see `zoolens port check` for what differs") -> None:
    """Tensors of B that nothing is known to belong to are asked for, not guessed."""
    missing = [tensor for tensor in map_.only_b if tensor.neutral is None]
    if not missing:
        return
    candidates = {tensor.tensor: others for tensor, others in map_.candidates()}
    lines = []
    for tensor in missing[:_NAMED]:
        names = [other.tensor for other in candidates.get(tensor.tensor, ())][:_NAMED]
        choice = f"; {' or '.join(names)} of A would fit" if names else ""
        lines.append(f"{tensor.tensor} ({'×'.join(map(str, tensor.shape))}: {tensor.why}{choice})")
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    raise ModelError(
        f"{len(missing)} tensors of B have no known counterpart in A: {'; '.join(lines)}{more}.",
        hint=f"Say what belongs together with --map NAME_IN_A=NAME_IN_B, {instead}.",
    )


def _write(pair: OpenPair, out: Path) -> None:
    if out.suffix == PLAIN:
        write_weights(out, pair.b.tensors())
        return
    part = out.absolute().with_name(f"part-{out.name}")
    try:
        pair.b.save(part)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
