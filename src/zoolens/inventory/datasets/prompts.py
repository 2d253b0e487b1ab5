"""Beginnings of texts that a language model goes on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.text_dataset import Prompt, TextDataset, Truths, Writing
from zoolens.inventory.datasets.text_tables import Row, json_lines, read_content

PROMPT: Final = "prompt"
_MOST_BYTES: Final = 1 << 20  # of a prompt, which is what is split into tokens at once
_MOST_VALUES: Final = 1000  # of one line of JSON
_MOST_TOKENS: Final = 1 << 16


def open_prompts(location: str, *, prompt: str = "prompt", tokens: str = "32") -> TextDataset:
    """A .jsonl file with {"prompt": …} on each line. prompt: the name of the field. tokens: how many tokens a model
    writes behind each prompt, at most: it ends with a token for the end.
    """
    path = Path(location).expanduser()
    writing = Writing(_number("tokens", tokens, _MOST_TOKENS))
    rows = json_lines(read_content(path), path, _MOST_VALUES)
    prompts = [Prompt(_text(row, prompt, f"{path} line {number}"), writing) for number, row in rows]
    # Nobody says how a prompt should go on.
    return TextDataset(prompts, name=path.stem, truths=Truths(PROMPT, [None] * len(prompts)))


def _number(name: str, given: str, most: int) -> int:
    if not given.isascii() or not given.isdecimal() or not 1 <= int(given[:9]) <= most or len(given) > 9:
        raise DatasetError(f"{name} is a number from 1 to {most:,}, not {given[:40]!r}.")
    return int(given)


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
