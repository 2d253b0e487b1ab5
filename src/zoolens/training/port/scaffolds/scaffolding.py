"""`scaffold`: writes the draft of a port, then checks it as any port is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.paths import replaced_file
from zoolens.base.present.results import Result
from zoolens.base.verdicts import Outcome, Verdict, combined
from zoolens.training.pairs.sides.network_sides import TIMEOUT, InputShape, PortSide, SideName, open_side
from zoolens.training.pairs.sides.open_pair import opened
from zoolens.training.port.port_check import Check, check_pair
from zoolens.training.port.scaffolds.draft import TARGETS, Draft, draft_of
from zoolens.training.port.scaffolds.names import layer_name
from zoolens.training.port.scaffolds.writer import SourceFacts
from zoolens.training.port.weights import Moved, check_format, move_in_pair

FUNCTION: Final = "net"  # of the draft


@dataclass(frozen=True, repr=False)
class Scaffold(Result):
    """`check` is None where the draft has layers that its reader must write first; so is `moved`."""

    source: str
    path: Path
    draft: Draft
    check: Check | None
    moved: Moved | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether the draft is the same network, and answers alike with the source's weights. A draft that could not
        be checked is not known to be."""
        return combined(each.verdict for each in (self.check, self.moved) if each is not None)

    @property
    def proved(self) -> bool:
        return self.check is not None and self.verdict.outcome is Outcome.SAME


def scaffold(
    side: str | Any,
    inputs: Sequence[str],
    to: str,
    *,
    out: Path | str | None = None,
    weights: Path | str | None = None,
    force: bool = False,
    timeout: float = TIMEOUT,
) -> Scaffold:
    """Write a draft of a network's port to another framework, and check it with the weights moved.

    `side`: "file.py:function" or "module:function", or a live network. `to`: "keras" or "torch". `out`: the Python
    file, by default named after the source and the framework. `weights`: where the draft's weights go. No file is
    replaced unless `force` says so.
    """
    path = _path(side, to, None if out is None else Path(out))
    weights = None if weights is None else Path(weights)
    _check_files(path, weights, to, force=force)
    shapes = tuple(InputShape.parse(text) for text in inputs)
    with open_side(side, shapes, "A", timeout=timeout) as source:
        draft = draft_of_side(source, to, inputs)
        with replaced_file(path) as file:
            file.write(draft.code.encode())
        if draft.todos:
            return Scaffold(source.text, path, draft, None)

        def open_(given: Any, *options: Any, **more: Any) -> PortSide:
            return source if given is source else open_side(given, *options, **more)

        with opened(source, f"{path}:{FUNCTION}", inputs, timeout=timeout, open_=open_) as pair:
            own = pair.a.tensors()
            checked = check_pair(pair)
            if weights is None:
                return Scaffold(source.text, path, draft, checked)
            pair.a.assign(own)
            return Scaffold(source.text, path, draft, checked, move_in_pair(pair, weights))


def draft_of_side(source: PortSide, to: str, inputs: Sequence[str]) -> Draft:
    """The draft alone, which nothing has checked yet."""
    graph, origins = source.read()
    raw, classes = source.source()
    norms = {fact.layer: fact for fact in source.facts.norms}
    facts = SourceFacts(source.framework, norms, origins, classes)
    return draft_of(graph, raw, facts, source.facts.layers, to, source.text, inputs)


def _path(side: str | Any, to: str, out: Path | None) -> Path:
    if to not in TARGETS:
        raise ZoolensError(f"Drafts are written for {' and '.join(TARGETS)}, not for {to[:40]!r}.")
    if out is not None:
        if out.suffix != ".py":
            raise ZoolensError(f"{out.name} is no Python file.", hint="End its name in .py.")
        return out
    if not isinstance(side, str):
        raise ZoolensError("A draft of a live network needs a file to be written to.", hint='Give out="port.py".')
    name = SideName.parse(side)
    stem = Path(name.code).stem if name.code.endswith(".py") else name.code.rpartition(".")[2]
    function = [] if name.function == FUNCTION else [name.function]
    return Path(f"{layer_name([stem, *function, to])}.py")


def _check_files(path: Path, weights: Path | None, to: str, *, force: bool) -> None:
    """Refuse before anything is built what could not be written at the end."""
    if weights is not None:
        check_format(weights, to, path.name)
    for file in (path, weights):
        if file is None:
            continue
        if not file.absolute().parent.is_dir():
            raise ZoolensError(f"There is no folder {file.absolute().parent}.")
        if file.exists() and not force:
            raise ModelError(f"{file} exists already.", hint="Name another file, or replace it with --force.")
