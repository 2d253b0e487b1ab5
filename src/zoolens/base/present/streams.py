"""What is printed steers no terminal: control characters in names, labels and errors of strangers are shown as �.

A model may call an operator or a tensor by a sequence that clears the screen, writes another verdict over ours, or
fills the clipboard. The standard streams replace such characters; rich, whose colours are ours, writes past them and
replaces those in its texts.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

# C0 but for tab and line ends, delete, C1, and marks that turn the direction of a line.
_STEERING: Final = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """The text with every character that steers a terminal replaced by �."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", text)


class HarmlessStream(io.TextIOWrapper):
    """A standard stream that replaces what steers a terminal."""

    def write(self, text: str, /) -> int:
        return super().write(harmless(text))


class _Past:
    """A `HarmlessStream` without the replacement, for rich, whose control sequences are our own."""

    def __init__(self, stream: HarmlessStream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return io.TextIOWrapper.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_streams() -> None:
    """Make standard output and error harmless, for the rest of this process."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, HarmlessStream):
            guarded = HarmlessStream(
                stream.buffer,
                encoding=stream.encoding,
                # A terminal that cannot show × still gets the rest.
                errors="replace",
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            setattr(sys, name, guarded)


def open_console(*, stderr: bool = False, **settings: Any) -> Console:
    """A console of rich whose texts steer nothing."""
    from rich.console import Console
    from rich.segment import Segment

    class HarmlessConsole(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else harmless(text), style, control)

    return HarmlessConsole(file=_target(stderr), stderr=stderr, **settings)


def _target(stderr: bool) -> IO[str] | None:
    stream = sys.stderr if stderr else sys.stdout
    return _Past(stream) if isinstance(stream, HarmlessStream) else None  # type: ignore[return-value]
