"""Beginnings of texts that a language model goes on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.text_dataset import ChatMessage, Prompt, TextDataset, Truths, Writing
from zoolens.inventory.datasets.text_tables import Row, json_lines, read_content

PROMPT: Final = "prompt"
_MOST_BYTES: Final = 1 << 20  # of a prompt, which is what is split into tokens at once
_MESSAGES: Final = "messages"
_MOST_VALUES: Final = 1000  # of one line of JSON
_MOST_TOKENS: Final = 1 << 16
_MOST_DRAWS: Final = 64  # which a session writes at once
_MOST_SEED: Final = 999_999_999
_COOLEST, _HOTTEST = 0.01, 100.0


def open_prompts(
    location: str,
    *,
    prompt: str = "prompt",
    tokens: str = "32",
    draws: str = "0",
    temperature: str = "1",
    seed: str = "0",
) -> TextDataset:
    """A .jsonl file with {"prompt": …} on each line, or {"messages": [{"role": …, "content": …}, …]}, of which the
    model's chat template makes a prompt. prompt: the name of the field. tokens: how many tokens a model writes behind
    each prompt, at most: it ends with a token for the end. draws: how many texts are drawn at random for each prompt,
    beside the most likely one, at this temperature and from this seed.
    """
    path = Path(location).expanduser()
    writing = Writing(
        _number("tokens", tokens, 1, _MOST_TOKENS),
        _number("draws", draws, 0, _MOST_DRAWS),
        _temperature(temperature),
        _number("seed", seed, 0, _MOST_SEED),
    )
    rows = json_lines(read_content(path), path, _MOST_VALUES)
    prompts = [_prompt(row, prompt, writing, f"{path} line {number}") for number, row in rows]
    # Nobody says how a prompt should go on.
    return TextDataset(prompts, name=path.stem, truths=Truths(PROMPT, [None] * len(prompts)))


def _number(name: str, given: str, least: int, most: int) -> int:
    if not given.isascii() or not given.isdecimal() or not least <= int(given[:9]) <= most or len(given) > 9:
        raise DatasetError(f"{name} is a number from {least} to {most:,}, not {given[:40]!r}.")
    return int(given)


def _prompt(row: Row, name: str, writing: Writing, where: str) -> Prompt:
    if _MESSAGES not in row or name == _MESSAGES:
        return Prompt(_text(row, name, where), writing)
    if name in row:
        raise DatasetError(f"{where} has both {name[:80]!r} and {_MESSAGES!r}.", hint="Give one of them.")
    listed: Any = row[_MESSAGES]
    if not isinstance(listed, list) or not listed:
        raise DatasetError(f"{where} has no list of messages, but {str(listed)[:60]!r}.")
    return Prompt("", writing, tuple(_message(message, where) for message in listed))


def _message(message: Any, where: str) -> ChatMessage:
    fields = message if isinstance(message, dict) else {}
    role, content = fields.get("role"), fields.get("content")
    if not isinstance(role, str) or not isinstance(content, str) or len(fields) != 2:
        raise DatasetError(
            f"{where} has a message that is not {{role, content}}, both of them texts, but {str(message)[:60]!r}."
        )
    if len(content.encode("utf-8", "surrogatepass")) > _MOST_BYTES:
        raise DatasetError(f"{where} has a message of more than {_MOST_BYTES:,} bytes.", hint="Shorten it.")
    return ChatMessage(role, content)


def _temperature(given: str) -> float:
    try:
        found = float(given)
    except ValueError:
        found = 0.0
    if not _COOLEST <= found <= _HOTTEST:
        raise DatasetError(f"temperature is a number from {_COOLEST} to {_HOTTEST:g}, not {given[:40]!r}.")
    return found


def _text(row: Row, name: str, where: str) -> str:
    if name not in row:
        listed = ", ".join(map(str, list(row)[:8])) or "nothing"
        raise DatasetError(
            f"{where} has no {name[:80]!r}, but {listed[:200]}.", hint="Name the field: prompts:FILE.jsonl?prompt=…."
        )
    text: Any = row[name]
    if not isinstance(text, str):
        raise DatasetError(f"{where} has no text in {name!r}, but {str(text)[:60]!r}.")
    if len(text.encode("utf-8", "surrogatepass")) > _MOST_BYTES:
        raise DatasetError(f"{where} has a prompt of more than {_MOST_BYTES:,} bytes.", hint="Shorten it.")
    return text
