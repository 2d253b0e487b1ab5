"""What single tokens are in a text, as bytes: a character may be split among several tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")
_PRINTABLE: Final = (range(ord("!"), ord("~") + 1), range(0xA1, 0xAD), range(0xAE, 0x100))
_LEAVING_OUT: Final = {"Metaspace", "Strip"}  # decoders that leave out the blank at the beginning of a text


def token_bytes(tokenizer: Any, content: Mapping[str, Any], number: int) -> bytes:
    """The bytes of the token of this number; `content` is that of tokenizer.json, `tokenizer` what the library made of
    it."""
    word: str | None = tokenizer.id_to_token(number)
    if word is None:
        return b""
    if number in _added(content):
        return word.encode()
    decoders = _kinds(content.get("decoder"))
    if "ByteLevel" in decoders and all(letter in _bytes_of_letters() for letter in word):
        return bytes(_bytes_of_letters()[letter] for letter in word)
    if "ByteFallback" in decoders and (one := _BYTE.fullmatch(word)):
        return bytes([int(one[1], 16)])
    text: str = tokenizer.decode([number], skip_special_tokens=False)
    if decoders & _LEAVING_OUT:
        # Behind another token, here itself, it has the blank that is left out at the beginning of a text.
        twice: str = tokenizer.decode([number, number], skip_special_tokens=False)
        text = twice[len(text) :] if twice.startswith(text) else text
    return text.encode()


def _added(content: Mapping[str, Any]) -> set[int]:
    return {int(token["id"]) for token in content.get("added_tokens") or ()}


def _kinds(decoder: Any) -> set[str]:
    """The kinds of a decoder and of those that it is made of."""
    if not isinstance(decoder, dict):
        return set()
    kinds = {str(decoder.get("type"))}
    for part in decoder.get("decoders") or ():
        kinds |= _kinds(part)
    return kinds


@cache
def _bytes_of_letters() -> Mapping[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves, and the rest for the letters from 256 on."""
    plain = [code for codes in _PRINTABLE for code in codes]
    other = [code for code in range(256) if code not in plain]
    return {chr(code): code for code in plain} | {chr(256 + place): code for place, code in enumerate(other)}
