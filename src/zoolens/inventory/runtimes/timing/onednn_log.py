"""oneDNN's own log: each primitive that ran, with the implementation that the library chose for it.

Frameworks show oneDNN as one of their operators. Which of its implementations computed that, such as
"brg_conv_fwd:avx512_core" or "indirect_gemm:acl", and which changes of layout stood around it, only oneDNN's log says.
It goes to the standard output of the process, which is kept in a temporary file while the log is on; what others wrote
there meanwhile is passed on afterwards.

Lines are read as what a library may print: those that are not understood are left out.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

TIMESTAMPS: Final = "ONEDNN_VERBOSE_TIMESTAMP"  # read by the library when it writes its first line
_MARKS: Final = ("onednn_verbose", "dnnl_verbose")
_MOST_BYTES: Final = 256 << 20  # of a log
_MOST_FIELDS: Final = 40
_BEHIND: Final = (
    9  # fields behind "exec": engine, primitive, implementation, way, memory, attributes, more, problem, time
)
_NARROWEST_FIRST: Final = {
    "s8": "int8", "u8": "int8", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive that ran. Times are in nanoseconds, `start` since the Unix epoch."""

    kind: str  # convolution, matmul, reorder …
    implementation: str
    start: int
    duration: int
    precision: str | None = None
    problem: str = ""  # its sizes, as oneDNN writes them

    @property
    def middle(self) -> int:
        return self.start + self.duration // 2


@dataclass
class Log:
    """Filled when the context ends."""

    primitives: list[Primitive] = field(default_factory=list)


@contextmanager
def recorded_log() -> Iterator[Log]:
    """Read what oneDNN prints until the context ends. Whoever calls switches the log on and off inside it. A log that
    begins without times of its own, because its first line was printed before, has no primitives."""
    os.environ.setdefault(TIMESTAMPS, "1")
    log = Log()
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    # A sandbox allows no file in memory alone.
    with tempfile.TemporaryFile(prefix="zoolens-onednn-") as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield log
        finally:
            sys.stdout.flush()
            flush(None)
            os.dup2(kept, 1)
            os.close(kept)
            size = min(os.fstat(file.fileno()).st_size, _MOST_BYTES)
            lines = os.pread(file.fileno(), size, 0).decode(errors="replace").splitlines(keepends=True)
            others = "".join(line for line in lines if not line.startswith(_MARKS))
            if others:
                os.write(1, others.encode())
            log.primitives = sorted(read_lines(lines), key=lambda primitive: primitive.start)


def read_lines(lines: list[str]) -> Iterator[Primitive]:
    for line in lines:
        fields = line.strip().split(",", _MOST_FIELDS)
        if fields[0] in _MARKS and "exec" in fields:
            primitive = _primitive(fields[: fields.index("exec")], fields[fields.index("exec") + 1 :])
            if primitive is not None:
                yield primitive


def _primitive(before: list[str], behind: list[str]) -> Primitive | None:
    """`before`: the fields in front of "exec", of which one may be the time when it began, in milliseconds."""
    # A partition of its graph compiler, whose primitives have lines of their own.
    if "graph" in before:
        return None
    begun = next((value for value in map(_number, before[1:]) if value is not None), None)
    took = _number(behind[-1]) if len(behind) == _BEHIND else None
    if begun is None or took is None:
        return None
    _, kind, implementation, _, memory, attributes, _, problem, _ = behind
    return Primitive(
        kind, implementation, round(begun * 1e6), round(took * 1e6), _precision(memory, attributes), problem
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e15 else None


def _precision(memory: str, attributes: str) -> str | None:
    """The narrowest type of what is read: that is what is multiplied. A library that may round float32 to a shorter
    format for its products says so among the attributes."""
    parts = [part.replace("_", ":", 1).split(":") for part in memory.split()]  # src:f32; older versions write src_f32
    read = {part[1] for part in parts if len(part) > 1 and part[0] in ("src", "wei")}
    if read == {"f32"}:
        for word in attributes.split():
            name, _, value = word.partition(":")
            allowed = value.partition(":")[0]
            if name == "attr-fpmath":
                read = {allowed} if allowed in _NARROWEST_FIRST else read
                break
    return next((name for kind, name in _NARROWEST_FIRST.items() if kind in read), None)
