"""How a language model in a folder of transformers writes: its chat template, and the tokens with which it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import is_file, read_text
from zoolens.inventory.catalog.model_folder import ModelFolder
from zoolens.inventory.manifests.chat_template import MAX_LETTERS, ChatTemplate
from zoolens.inventory.manifests.tokenizer import Tokenizer

_NAMED: Final = ("bos_token", "eos_token", "unk_token", "pad_token")
_END: Final = "eos_token_id"
_MOST_ENDS: Final = 64
_LONGEST_TOKEN: Final = 200  # characters


def writing_tokenizer(tokenizer: Tokenizer, folder: ModelFolder, settings: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer with what the folder says of conversations and ends. `settings`: tokenizer_config.json. Texts are
    run one by one: padding before a text would move its positions in files that count them by themselves."""
    ends = {"chat_template": _chat_template(folder, settings), "end_ids": _end_ids(folder, tokenizer)}
    padding = tokenizer.padding if tokenizer.padding == "max_length" else "none"
    return tokenizer.model_copy(update={**ends, "padding": padding})


def _chat_template(folder: ModelFolder, settings: Mapping[str, Any]) -> ChatTemplate | None:
    """The template in a file of its own, as transformers writes it today, or in tokenizer_config.json; the one called
    default where there are several."""
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default")
    try:
        own = folder.place / "chat_template.jinja"
        text = read_text(own, 4 * MAX_LETTERS) if is_file(own) else template
    except (OSError, ValueError) as error:
        raise ModelError(f"The chat template of {folder.place.name} cannot be read: {error}.") from error
    if not isinstance(text, str) or not text:
        return None
    if len(text) > MAX_LETTERS:
        raise ModelError(f"The chat template of {folder.place.name} is longer than {MAX_LETTERS:,} characters.")
    return ChatTemplate(template=text, tokens=_named_tokens(settings))


def _end_ids(folder: ModelFolder, tokenizer: Tokenizer) -> tuple[int, ...] | None:
    """The tokens with which the model ends what it writes: of generation_config.json, or else of config.json."""
    generation = folder.content("generation_config.json")
    stated = generation.get(_END) if isinstance(generation, dict) else None
    found = folder.config.get(_END) if stated is None else stated
    numbers = found if isinstance(found, list) else [found]
    known = [number for number in numbers if type(number) is int and 0 <= number < tokenizer.vocabulary]
    return tuple(known[:_MOST_ENDS]) or None


def _named_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    found = {name: settings.get(name) for name in _NAMED}
    texts = {name: token.get("content") if isinstance(token, dict) else token for name, token in found.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str) and len(text) <= _LONGEST_TOKEN}
