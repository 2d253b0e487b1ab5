"""What the OpenAI-compatible transport asks for, and what comes back in parts: texts that a language model writes.

Whatever cannot be answered is a `ServingError`, before the first part or between two of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from zoolens.base.protocol.messages import Parameter

End = Literal["", "stop", "length"]


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen. A temperature of 0 takes the most likely one; a seed makes the choices the same again."""

    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None


@dataclass(frozen=True)
class Conversation:
    """Messages as the chat template reads them: role, content."""

    messages: Sequence[Mapping[str, Any]]


Prompt = str | tuple[int, ...] | Conversation  # a text, or the ids of its tokens


@dataclass(frozen=True)
class GenerationRequest:
    """`most`: tokens to write, None for as many as the model's texts may have. `wished`: the client said so, where else
    it is the API's usual number. `top`: with each token its log-probability and those of so many of the most likely
    ones; None: without. `deadline`: seconds that the client is willing to wait."""

    model: str
    prompt: Prompt
    most: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stops: tuple[str, ...] = ()
    top: int | None = None
    echo: bool = False  # the answer begins with the prompt
    deadline: float | None = None
    traceparent: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wished: bool = True


@dataclass(frozen=True)
class LikelyToken:
    """A token as bytes, which need not be whole characters, and the natural logarithm of its probability; None of the
    first token of a text, which nothing foresees."""

    number: int
    piece: bytes
    logarithm: float | None


@dataclass(frozen=True)
class WrittenToken:
    """A token that was chosen, where in the text it begins, and the most likely ones in its place."""

    chosen: LikelyToken
    start: int
    likely: tuple[LikelyToken, ...]


@dataclass(frozen=True)
class TextPart:
    """What was written since the last part. `end` says why it is the last one: the model ended it or a stop was
    reached, or there is no room for more. Tokens of the whole answer so far are counted, the one that ends it too."""

    text: str
    tokens: tuple[WrittenToken, ...]
    end: End
    prompt_tokens: int
    written_tokens: int
    by: Mapping[str, Parameter] = field(default_factory=dict)  # the tier of a service that writes the text


class LanguageService(Protocol):
    def names(self) -> list[str]:
        """The language models that are served."""
        ...

    def generate(self, request: GenerationRequest) -> AsyncIterator[TextPart]:
        """Close it (`aclose`) where nobody waits for the rest."""
        ...

    async def drain(self, seconds: float) -> None:
        """Begin no more texts, and wait until those that were begun are written, at most so long."""
        ...
