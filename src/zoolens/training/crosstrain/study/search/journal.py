"""What a search asked and was told: JSON lines, each with a checksum, only ever appended to.

A process may be killed at any moment. A line that it left unfinished at the end is cut off by the next writer; a line
in the middle that is not as it was written is reported by its number and left out. Lines about answers repeat the
question, so that each stands for itself. Checksums are salted with the plan's identity: a line of another plan does
not pass. What the user may change between calls, how many trials there are to be, is no part of that identity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from zoolens.base.errors import ZoolensError
from zoolens.base.store.appended_file import append_at, writing_alone
from zoolens.base.store.records import fingerprint
from zoolens.training.crosstrain.study.study_plan import Plan
from zoolens.training.crosstrain.training.job import Status

FORMAT: Final = 1
_LARGEST: Final = 256 << 20
_LONGEST_LINE: Final = 1 << 20
_LONGEST_MESSAGE: Final = 2000


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _printable(value: Any) -> Any:
    return value.encode(errors="replace").decode()[:_LONGEST_MESSAGE] if isinstance(value, str) else value


Figure = Annotated[float | None, BeforeValidator(_finite)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AskedTrial(_Line):
    kind: Literal["asked"] = "asked"
    trial: str = Field(pattern=r"^\d{1,12}$")
    subspace: int = Field(ge=0)
    hyperparameters: dict[str, int | float | str]


class TrialResult(_Line):
    """The answer to a trial."""

    delta: Figure = None  # what is maximised; None: it has none, and the trial counts as failed
    status: Status = "finished"
    accuracies: dict[str, Figure] = Field(default_factory=dict)
    # None: whoever calls the objective fills in how long it took.
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    message: Annotated[str, BeforeValidator(_printable)] = ""


class FinishedTrial(_Line):
    kind: Literal["told"] = "told"
    asked: AskedTrial
    told: TrialResult

    @property
    def trial(self) -> str:
        return self.asked.trial


class _Header(_Line):
    kind: Literal["header"] = "header"
    format: int
    id: str
    plan: dict[str, Any]


_KINDS: Final[dict[Any, type[_Line]]] = {"header": _Header, "asked": AskedTrial, "told": FinishedTrial}


class Journal:
    """A journal that this process writes; no other can at the same time. Use it in a `with`.

    `asked` and `finished` by trial, in the order in which they came; `warnings` says what could not be read. `first`:
    the number from which on names of trials are free.
    """

    def __init__(self, path: Path, plan: Plan, first: int = 1) -> None:
        self.path = path
        self.asked: dict[str, AskedTrial] = {}
        self.finished: dict[str, FinishedTrial] = {}
        self.warnings: list[str] = []
        self._header = _header(plan)
        self._plan = plan
        self._id = self._header.id
        self._held = ExitStack()  # the right to write, while the journal is open
        self._open = False
        self._end = 0
        self._next = first

    def __enter__(self) -> Self:
        with ExitStack() as held:
            held.enter_context(writing_lock(self.path))
            self._read_all()
            self._held = held.pop_all()
        self._open = True
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._held.close()

    def check(self) -> None:
        """Refuse a plan that is not the journal's. Nothing is written, and it need not be open."""
        if (header := self._found_header(_content(self.path).split(b"\n"))) is not None:
            self._check(header)

    @property
    def pending(self) -> list[AskedTrial]:
        """Asked and not answered, oldest first."""
        return [asked for trial, asked in self.asked.items() if trial not in self.finished]

    def ask(self, subspace: int, hyperparameters: dict[str, int | float | str]) -> AskedTrial:
        asked = AskedTrial(trial=f"{self._next:04d}", subspace=subspace, hyperparameters=hyperparameters)
        self._append(asked)
        self._take(asked)
        return asked

    def tell(self, asked: AskedTrial, told: TrialResult) -> FinishedTrial:
        """Writes the result of a trial, which is on the disk when this returns. The first result of a trial stays."""
        finished = FinishedTrial(asked=asked, told=told)
        if asked.trial not in self.finished:
            self._append(finished, durable=True)
            self._take(finished)
        return self.finished[asked.trial]

    def _read_all(self) -> None:
        content = _content(self.path)
        lines = content.split(b"\n")
        rest = lines.pop()  # after the last line's end: nothing, or what a killed writer left
        header = self._found_header(lines)
        if header is not None:
            self._check(header)
        damaged = [number for number, line in enumerate(lines, 1) if not self._read(line)]
        complete = self._read(rest)
        expected = self._line(self._header)
        if len(damaged) == len(lines) and not complete and not expected.startswith(content):
            raise ZoolensError(
                f"{self.path} is no journal of this search.",
                hint="Set it aside with --fresh; what was trained is in the store.",
            )
        self.warnings += [f"Line {number} of {self.path} is damaged and left out." for number in damaged]
        self._next += len(damaged)  # their trials may have had these names
        self.path.touch()
        self._end = len(content) - (0 if complete else len(rest))
        self._write(b"\n" if complete else b"")
        if header is None:
            self._write(self._line(self._header))

    def _found_header(self, lines: Sequence[bytes]) -> _Header | None:
        return next((header for line in lines if isinstance(header := self._parsed(line), _Header)), None)

    def _check(self, header: _Header) -> None:
        if header.format != FORMAT:
            raise ZoolensError(
                f"The journal {self.path} has format {header.format}, this zoolens writes {FORMAT}.",
                hint="Use the zoolens that made it, or name another file.",
            )
        differing = _differing(header.plan, self._plan)
        if differing:
            raise ZoolensError(
                f"The journal {self.path} belongs to another plan: {', '.join(differing)} differ.",
                hint="Undo the change, give the plan another name, or search anew with --fresh.",
            )
        self._id = header.id

    def _read(self, line: bytes) -> bool:
        parsed = self._parsed(line)
        if parsed is not None:
            self._take(parsed)
        return parsed is not None

    def _take(self, line: _Line) -> None:
        asked = line.asked if isinstance(line, FinishedTrial) else line
        if isinstance(asked, AskedTrial):
            self.asked.setdefault(asked.trial, asked)
            self._next = max(self._next, int(asked.trial) + 1)
        if isinstance(line, FinishedTrial):
            self.finished.setdefault(line.trial, line)

    def _parsed(self, line: bytes) -> _Line | None:
        if not 0 < len(line) <= _LONGEST_LINE:
            return None
        try:
            fields = json.loads(line)
            checksum = fields.pop("checksum")
            salt = fields.get("id") if fields.get("kind") == "header" else self._id
            if checksum != _checksum(salt, fields):
                return None
            return _KINDS[fields.get("kind")].model_validate(fields)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError, ValidationError):
            return None

    def _line(self, line: _Line) -> bytes:
        content = json.loads(line.model_dump_json())
        salt = line.id if isinstance(line, _Header) else self._id
        return json.dumps({"checksum": _checksum(salt, content), **content}, separators=(",", ":")).encode() + b"\n"

    def _append(self, line: _Line, *, durable: bool = False) -> None:
        if not self._open:
            raise ZoolensError(f"The journal {self.path} is closed.")
        self._write(self._line(line), durable=durable)

    def _write(self, content: bytes, *, durable: bool = False) -> None:
        try:
            self._end = append_at(self.path, self._end, content, durable=durable)
        except OSError as error:
            raise ZoolensError(
                f"The journal {self.path} cannot be written: {error.strerror or error}.",
                hint="Everything before is kept; run the search again when there is room.",
            ) from error


def writing_lock(path: Path) -> AbstractContextManager[None]:
    """The right to write a journal, which no other process has meanwhile."""
    busy = ZoolensError(f"Another search is writing the journal {path}.", hint="Wait for it, or end it.")
    return writing_alone(path, busy)


def _content(path: Path) -> bytes:
    if not path.exists():
        return b""
    if not path.is_file() or path.stat().st_size > _LARGEST:
        raise ZoolensError(
            f"{path} is no journal of a search.", hint="Set it aside with --fresh; what was trained is in the store."
        )
    return path.read_bytes()


def _checksum(salt: Any, content: Any) -> str:
    return fingerprint([salt, content])[:16]


def _identity(plan: Plan) -> dict[str, Any]:
    return plan.model_dump(mode="json", exclude={"search": {"trials"}})


def _header(plan: Plan) -> _Header:
    return _Header(format=FORMAT, id=fingerprint(_identity(plan))[:16], plan=_identity(plan))


def _differing(written: dict[str, Any], plan: Plan) -> list[str]:
    """Parts of the plan that are not as they were written; what a plan did not have yet has its default."""
    try:
        before = _identity(Plan.model_validate(written))
    except ValidationError:
        return ["its fields"]
    now = _identity(plan)
    parts = [key for key in now if key not in ("recipe", "search") and before[key] != now[key]]
    for part in ("recipe", "search"):
        parts += [f"{part}.{key}" for key in now[part] if before[part][key] != now[part][key]]
    return parts
