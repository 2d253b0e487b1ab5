"""How a conversation becomes the one text that a language model goes on with."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from zoolens.inventory.manifests.part import Part

MAX_LETTERS: Final = 1 << 18  # of a template; the longest ones, which describe tools, have some 20,000
_MAX_TOKENS: Final = 32

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,59}$")]
Token = Annotated[str, Field(max_length=200)]


class ChatTemplate(Part):
    """The template is a stranger's program: it is rendered in a sandbox, with limits on time, memory and length."""

    template: str = Field(
        min_length=1,
        max_length=MAX_LETTERS,
        description="In Jinja, as chat_template of tokenizer_config.json has it, or a GGUF file.",
    )
    tokens: dict[Name, Token] = Field(
        default_factory=dict,
        max_length=_MAX_TOKENS,
        description="Special tokens by the names that the template knows them by: bos_token, eos_token.",
    )
