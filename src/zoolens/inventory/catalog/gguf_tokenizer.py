"""The tokenizer inside a GGUF file, as a tokenizer.json of the library `tokenizers`.

llama.cpp names the rules by which a text is split before the merges of byte-pair encoding (`tokenizer.ggml.pre`), and
has them in its code. Those here give the same tokens as llama.cpp for all texts that were tried; any other name is
refused, because another rule would give other tokens and nobody would notice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufFile

_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3: Final = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DIGITS: Final = r"\p{N}"

# Patterns by name, each of which splits what those before it left.
_PATTERNS: Final[Mapping[str, tuple[str, ...]]] = {
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    "gpt-2": (_GPT2,),
    "smollm": (_DIGITS, _GPT2),
    "starcoder": (_DIGITS, _GPT2),
    "llama-bpe": (_LLAMA3,),
    "qwen2": (_LLAMA3.replace("{1,3}", ""),),
}
_WHOLE_WORDS: Final = ("llama-bpe",)  # a word of the vocabulary is taken without looking at merges
_BEGINS: Final = ("llama-bpe",)  # llama.cpp adds the token for the beginning where the file does not say
_UNKNOWN, _CONTROL, _USER = 2, 3, 4  # types of tokens that are found in a text before it is split
_BEGIN, _END = "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"


def tokenizer_json(file: GgufFile) -> str:
    """A tokenizer.json with the vocabulary, the merges and the rules of the file; ModelError where they are not known
    here."""
    kind, rule = file.text("tokenizer.ggml.model"), file.text("tokenizer.ggml.pre") or "default"
    if kind != "gpt2":
        raise _refused(file, f"its tokenizer is of the kind {kind!r:.80}, and byte-pair encoding (gpt2) alone is read")
    if rule not in _PATTERNS:
        known = ", ".join(_PATTERNS)
        raise _refused(file, f"it splits texts by the rule {rule!r:.80}, and those known here are {known}")
    words = _words(file)
    vocabulary = {word: place for place, word in enumerate(words)}
    if len(vocabulary) < len(words):
        raise _refused(file, "two of its tokens are the same text")
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(file, words),
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*map(_split, _PATTERNS[rule]), _bytes()]},
        "post_processor": _around(file, words, rule),
        "decoder": _bytes(),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": rule in _WHOLE_WORDS,
            "vocab": vocabulary,
            "merges": _merges(file, vocabulary),
        },
    }
    return json.dumps(content, ensure_ascii=False, indent=0)


def _words(file: GgufFile) -> list[str]:
    tokens = file.texts("tokenizer.ggml.tokens")
    if not tokens:
        raise _refused(file, "it has no vocabulary")
    try:
        return [token.decode() for token in tokens]
    except UnicodeDecodeError as error:
        raise _refused(file, "a token of its vocabulary is not UTF-8") from error


def _merges(file: GgufFile, vocabulary: Mapping[str, int]) -> list[list[str]]:
    merges = []
    for merge in file.texts("tokenizer.ggml.merges") or ():
        # The second part begins after the first blank that is no first letter, as in llama.cpp.
        word = merge.decode(errors="replace")
        place = word.find(" ", 1)
        pair = [word[:place], word[place + 1 :]]
        if place < 0 or not all(part in vocabulary for part in (*pair, "".join(pair))):
            raise _refused(file, f"its merge {word[:80]!r} is none of tokens of its vocabulary")
        merges.append(pair)
    return merges


def _added(file: GgufFile, words: list[str]) -> list[dict[str, Any]]:
    """Tokens that are found in a text as they are."""
    types = file.numbers("tokenizer.ggml.token_type")
    if types is None:
        return []
    if len(types) != len(words):
        raise _refused(file, f"it has {len(types):,} types of tokens for {len(words):,} tokens")
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": place, "content": words[place], **usual, "special": kind != _USER}
        for place, kind in enumerate(types.tolist())
        if kind in (_UNKNOWN, _CONTROL, _USER) and words[place]
    ]


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _bytes() -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def _around(file: GgufFile, words: list[str], rule: str) -> dict[str, Any]:
    """What is added to a text: the tokens for its beginning and its end, where the file says so."""
    begins = file.flag("tokenizer.ggml.add_bos_token")
    ids = {
        _BEGIN: rule in _BEGINS if begins is None else begins,
        _END: bool(file.flag("tokenizer.ggml.add_eos_token")),
    }
    asked = {key: _token(file, key, words) for key, added in ids.items() if added}
    if not asked:
        return _bytes()
    special = {word: {"id": word, "ids": [place], "tokens": [word]} for place, word in asked.values()}
    pieces: list[dict[str, Any]] = [{"Sequence": {"id": "A", "type_id": 0}}]
    if _BEGIN in asked:
        pieces.insert(0, {"SpecialToken": {"id": asked[_BEGIN][1], "type_id": 0}})
    if _END in asked:
        pieces.append({"SpecialToken": {"id": asked[_END][1], "type_id": 0}})
    second = [{"Sequence": {"id": "B", "type_id": 1}}]
    template = {"type": "TemplateProcessing", "single": pieces, "pair": [*pieces, *second], "special_tokens": special}
    return {"type": "Sequence", "processors": [_bytes(), template]}


def _token(file: GgufFile, key: str, words: list[str]) -> tuple[int, str]:
    place = file.number(key)
    if place is None or not 0 <= place < len(words):
        raise _refused(file, f"it adds {key} to texts, which is not in its vocabulary")
    return place, words[place]


def _refused(file: GgufFile, reason: str) -> ModelError:
    return ModelError(
        f"The tokenizer of {file.name} cannot be read: {reason}.",
        hint="Write a manifest by hand, with a tokenizer.json of the library tokenizers.",
    )
