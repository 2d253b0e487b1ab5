"""GGUF files against what they are called: the architecture, how many parameters, and the types of their tensors.

A claim is contradicted only where no honest file would look so. Names round, some leave out the table of tokens, and
llama.cpp takes other types where rows do not fill the blocks of the one that was asked for: such claims are not known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isclose
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.store import Store
from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.structures.structure import Structure, structure_of
from zoolens.findings.graph.structures.structure_sources import find_entries
from zoolens.findings.graph.weights.weight_words import weight_files
from zoolens.inventory.runtimes.llamacpp.gguf_file import TYPES_BY_NAME
from zoolens.inventory.zoos.zoo import Entry

SUFFIX: Final = ".gguf"
_SIZE: Final = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([MB])(?![A-Za-z0-9])", re.IGNORECASE)
_TYPE: Final = re.compile(
    r"(?<![A-Za-z0-9])((?:I?Q|TQ)\d_[A-Z0-9_]+|B?F16|F32|FP16|FP32|MXFP4)(?![A-Za-z0-9])", re.IGNORECASE
)
_UNITS: Final = {"M": 10**6, "B": 10**9}
_FAR: Final = 0.25  # a size that is off by more is no rounding, and no other way to count
_TITLE: Final = "name"  # by the metadata of the file
_FLOATS: Final = ("F32", "F16", "BF16")
_MIXTURE: Final = re.compile(r"(Q\d_K)_[SML]")  # llama.cpp's names of mixtures, by the type of most tensors
_WIDE: Final = 256  # values in a block of these mixtures' types
# llama.cpp's numbers of what a file was quantised to.
_FILE_TYPES: Final = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K", 12: "Q3_K",
    13: "Q3_K", 14: "Q4_K", 15: "Q4_K", 16: "Q5_K", 17: "Q5_K", 18: "Q6_K", 32: "BF16",
}  # fmt: skip


@dataclass(frozen=True)
class CheckedClaim:
    """One claim: what of, the claim itself, who makes it, and what stands against it."""

    what: str  # architecture, parameters, type
    claimed: str
    by: str  # "file name", "name", "size_label", "file_type" (of the file's metadata), "manifest", or "file"
    outcome: Outcome
    fact: str

    def as_data(self) -> dict[str, Any]:
        return {**vars(self), "outcome": self.outcome.value}


@dataclass(frozen=True)
class AuditedFile:
    """What a file is, and its claims. Where the file cannot be read, `error` says why and nothing is claimed."""

    ref: str
    summary: str
    claims: tuple[CheckedClaim, ...]
    error: str = ""

    @property
    def outcome(self) -> Outcome:
        """The gravest of its claims."""
        outcomes = {claim.outcome for claim in self.claims}
        if Outcome.DIFFERENT in outcomes:
            return Outcome.DIFFERENT
        return Outcome.NOT_KNOWN if self.error or Outcome.NOT_KNOWN in outcomes else Outcome.SAME

    def as_data(self) -> dict[str, Any]:
        return {
            "model": self.ref,
            "outcome": self.outcome.value,
            "is": self.summary or None,
            "error": self.error or None,
            "claims": [claim.as_data() for claim in self.claims],
        }


def audit_files(
    named: Sequence[str],
    *,
    store: Store | str | Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> list[AuditedFile]:
    """Audits GGUF files, manifests of such, and all GGUF files of folders."""
    entries = [_entry(name) for given in named for name in _files(given)]
    structures = structure_of([entry for entry, _ in entries], store=store, fresh=fresh, progress=progress)
    known = {_place(structure.entry): structure for structure in structures}  # a file that is named twice is read once
    return [_audited(known[_place(entry)], path) for entry, path in entries]


def _place(entry: Entry) -> tuple[Path | None, str]:
    return entry.folder, entry.manifest.name


def _files(given: str) -> list[str]:
    folder = Path(given).expanduser()
    if not folder.is_dir():
        return [given]
    found = sorted(str(path) for path in folder.glob(f"*{SUFFIX}") if path.is_file())
    if not found:
        raise ZoolensError(f"There is no GGUF file in {given}.", hint="`zoolens identify` looks at other model files.")
    return found


def _entry(name: str) -> tuple[Entry, Path]:
    entries = find_entries([name])
    if len(entries) != 1:
        raise ZoolensError(f"{name} names {len(entries)} models.", hint="Name one model, file or folder at a time.")
    path = weight_files(entries[0])[0]
    if path.suffix != SUFFIX:
        raise ZoolensError(
            f"{name} is no GGUF file: others say too little of themselves to be audited one by one.",
            hint="`zoolens identify` holds the structure of a file against its name.",
        )
    given = Path(name).expanduser()
    return entries[0], given if given.suffix == SUFFIX and given.is_file() else path  # what a link is called counts


def _audited(structure: Structure, path: Path) -> AuditedFile:
    if structure.packed is None:
        return AuditedFile(path.name, "", (), structure.error or "Its structure is not known.")
    graph = structure.graph
    facts = graph.facts
    sizes = _sizes(facts)
    total = sum(sizes.values())
    shares = Counter[str]()
    for name, size in sizes.items():
        shares[facts["tensor_types"][name]] += size
    types = ", ".join(f"{_percent(count / total)} in {type_}" for type_, count in shares.most_common())
    summary = f"{facts['architecture']}, {total:,} parameters: {types}"
    manifest = structure.entry.manifest
    names = {"file name": path.stem, _TITLE: str(facts.get("title") or "")}
    if structure.entry.manifest.name not in (path.name, path.stem, names[_TITLE]):
        names["manifest"] = manifest.name
    claims = [
        CheckedClaim(
            "architecture", str(facts["architecture"]), "file", Outcome.SAME,
            "its tensors and settings are those of one",
        ),
        *_sizes_claimed({**names, "size_label": str(facts.get("size_label") or "")}, sizes),
        *_types_claimed(names, facts, sizes),
    ]  # fmt: skip
    claims += [_exact(claim.value, total) for claim in manifest.claims if claim.metric == "params" and claim.unit == ""]
    return AuditedFile(path.name, summary, tuple(claims))


def _sizes(facts: Any) -> dict[str, int]:
    """Numbers of each tensor, from its bytes and its type."""
    found = {}
    for name, nbytes in facts["tensor_bytes"].items():
        type_ = TYPES_BY_NAME[facts["tensor_types"][name]]
        found[name] = nbytes // type_.block_bytes * type_.block
    return found


def _percent(share: float) -> str:
    if 0.9995 < share < 1:
        return "> 99.9 %"
    return "< 0.1 %" if share < 0.001 else f"{100 * share:.1f} %"


# --- how many parameters


def _sizes_claimed(names: dict[str, str], sizes: dict[str, int]) -> Iterator[CheckedClaim]:
    total = sum(sizes.values())
    blocks = total - sum(size for name, size in sizes.items() if not name.startswith("blk."))
    for by, name in names.items():
        claims = []
        for number, unit in dict.fromkeys(_SIZE.findall(name)):
            outcome, fact = _size_outcome(number, _UNITS[unit.upper()], total, blocks)
            claims.append(CheckedClaim("parameters", f"{number}{unit.upper()}", by, outcome, fact))
        yield from _of_one_name(claims)


def _of_one_name(claims: Sequence[CheckedClaim]) -> Iterator[CheckedClaim]:
    """A name that says several of a kind may mean something else by those that the file is not: a context of 1M tokens,
    the size of a teacher, the type that tables of tokens are in."""
    holds = any(claim.outcome is not Outcome.DIFFERENT for claim in claims)
    for claim in claims:
        is_open = holds and claim.outcome is Outcome.DIFFERENT
        yield replace(claim, outcome=Outcome.NOT_KNOWN) if is_open else claim


def _size_outcome(number: str, unit: int, total: int, blocks: int) -> tuple[Outcome, str]:
    """A number of few digits may be the rounded one and yet far from it: 0.6 billion are 1B."""
    digits = len(number.partition(".")[2])
    counts = {total: f"it has {total:,}", blocks: f"it has {blocks:,} without its table of tokens and output"}
    rounded = [count for count in counts if round(count / unit, digits) == float(number)]
    near = [count for count in counts if isclose(count, float(number) * unit, rel_tol=_FAR)]
    for count in rounded:
        if count in near:
            return Outcome.SAME, counts[count]
    if near:
        return Outcome.NOT_KNOWN, f"it has {total:,}, which is near; names round, and count in different ways"
    if rounded:
        return Outcome.NOT_KNOWN, f"it has {total:,}, which is rounded so, but far from it"
    return Outcome.DIFFERENT, f"it has {total:,}"


def _exact(claimed: float, total: int) -> CheckedClaim:
    fact = f"it has {total:,}"
    if isclose(claimed, total, rel_tol=0.01):
        outcome = Outcome.SAME if isclose(claimed, total, rel_tol=0.005) else Outcome.NOT_KNOWN
    else:
        outcome = Outcome.DIFFERENT
    return CheckedClaim("parameters", f"{claimed:,.0f}", "manifest", outcome, fact)


# --- types


def _types_claimed(names: dict[str, str], facts: Any, sizes: dict[str, int]) -> Iterator[CheckedClaim]:
    held = Counter[str]()
    for name, size in sizes.items():
        if name.startswith("blk.") and not name.endswith(("norm.weight", ".bias")):
            held[facts["tensor_types"][name]] += size
    for by, name in names.items():
        written = (each.upper() for each in dict.fromkeys(_TYPE.findall(name)))
        yield from _of_one_name([_type_claim(each, by, held, facts) for each in written])
    number = facts.get("file_type")
    if isinstance(number, int):
        known = _FILE_TYPES.get(number)
        if known is None:
            fact = f"what llama.cpp calls file type {number} is not known here"
            yield CheckedClaim("type", str(number), "file_type", Outcome.NOT_KNOWN, fact)
        else:
            yield _type_claim(known, "file_type", held, facts)


def _type_claim(written: str, by: str, held: Counter[str], facts: Any) -> CheckedClaim:
    """Most numbers of the blocks' matrices in the type that is meant, none of them, or neither."""
    mixture = _MIXTURE.fullmatch(written)
    meant = mixture[1] if mixture else written.replace("FP", "F")
    most, count = held.most_common(1)[0]
    share = _percent(count / held.total())
    fact = f"{share} of its blocks' matrices are {most}"
    if most == meant:
        return CheckedClaim("type", written, by, Outcome.SAME, fact)
    unlike = meant in TYPES_BY_NAME and not held[meant]
    fills = TYPES_BY_NAME[meant].block < _WIDE or not facts.get("narrow_rows") if unlike else False
    # Quantising keeps the name that the original has in its metadata.
    of_original = by == _TITLE and meant in _FLOATS
    outcome = Outcome.DIFFERENT if unlike and fills and not of_original else Outcome.NOT_KNOWN
    return CheckedClaim("type", written, by, outcome, fact)
