"""The process that renders chat templates: sandboxed, since a template is a program that a stranger wrote.

It may never end, multiply a text until the memory is full, and reach for Python's own objects. The first ends with the
process, the second at its limit of memory, and the third at Jinja's own sandbox and then at that of the process.
What a template finds here is what transformers gives it (`apply_chat_template`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from zoolens.base.engine.service import Message, Service
from zoolens.base.errors import DatasetError, ManifestError, first_line

MEMORY: Final = 1 << 30  # bytes
_SHOWN: Final = 300  # characters of a sentence that a template refuses with


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    # All of it is read now, also what Jinja imports when a template fails: the sandbox hides what comes later.
    import jinja2.debug
    import jinja2.ext
    import jinja2.sandbox

    service = Service(settings, began_ns)
    worker = _Renderer(jinja2)
    answers = {"open": worker.open, "render": worker.render}
    service.serve_named(answers, _doing)


def _doing(_: Message) -> str:
    return "Rendering the chat template"


class _Renderer:
    def __init__(self, library: Any) -> None:
        self._library = library
        self._template: Any = None

    def open(self, request: Message) -> None:
        try:
            self._template = self._environment().from_string(request["template"])
        except Exception as error:
            raise ManifestError(f"The chat template cannot be read: {first_line(error)}.") from error

    def render(self, request: Message) -> str:
        """The text of a conversation."""
        try:
            return _joined(self._template.generate(request["values"]), request["most"])
        except DatasetError:
            raise
        except MemoryError as error:
            raise DatasetError(f"The chat template takes more than the {MEMORY >> 30} GiB that it may.") from error
        except Exception as error:
            said = first_line(error)[:_SHOWN].rstrip(".")
            raise DatasetError(f"The chat template refuses the conversation: {said}.") from error

    def _environment(self) -> Any:
        library = self._library
        environment = library.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_generation_tag(library), library.ext.loopcontrols]
        )
        environment.filters["tojson"] = _as_json
        environment.globals["raise_exception"] = self._refuse
        environment.globals["strftime_now"] = _now
        # Classes have methods that change them.
        environment.globals["dict"] = _dictionary
        return environment

    def _refuse(self, message: object) -> None:
        raise self._library.TemplateError(str(message))


def _joined(pieces: Iterable[str], most: int) -> str:
    """Pieces are counted as they come: a text that is too long is not put together."""
    kept: list[str] = []
    left = most
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise DatasetError(f"The chat template makes more than {most:,} characters of it.")
        kept.append(piece)
    return "".join(kept)


def _generation_tag(library: Any) -> Any:
    """The tag {% generation %}, which marks what the model has written, and changes nothing of the text."""

    class GenerationTag(library.ext.Extension):  # type: ignore[misc]
        tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return library.nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True), lineno=line)

    return GenerationTag


def _as_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _now(form: str) -> str:
    """The date and time here; templates ask for it without a time zone."""
    import time

    return time.strftime(form)


def _dictionary(*values: Any, **named: Any) -> dict[Any, Any]:
    return dict(*values, **named)
