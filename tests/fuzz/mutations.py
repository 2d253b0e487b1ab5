"""Ways to spoil a good input, drawn from a random generator."""

from __future__ import annotations

import random
import re
import struct

NASTY_TEXTS = (
    "", " ", "\0", "\n", "\u00e9", "\ud83d\ude00", "\ud800", "..", "../..", "/", "/dev/zero", "/etc/passwd", "~",
    "-", "--", "null", "nan", ".nan", ".inf", "-.inf", "1e999", "-1", "0", "1", "00", "0x", "1e-400", "9" * 400,
    "9" * 5000, "-9223372036854775809", "18446744073709551616", "true", "no", "~user", "${HOME}", "${", "%s", "{}",
    "{0}", "[[", "]]", "*a", "&a x", "!!int \"\"", "!!timestamp x", "!!float \"\"", "!!bool x", "!!binary \"/w==\"",
    "!!null x", "!!set {a}", "!!python/name:os.system ''", "!!omap [a: 1]", "!!str", "!", "!x y", "2026-02-30",
    "2026-01-01", "1:99", "=", "<<", "? x", "- ", ": ", "#", "'", "\"", "|", ">", "@", "`", "%", "file:///dev/zero",
    "file://", "https://", "https://[::1", "http://127.0.0.1:1/x", "hf://a/b/c", "hf://", "package://numpy/../x",
    "package://", "a" * 10000, "\u202e", "\ufeff", "a\0b", "x===../dir", "x @ file:///tmp",
)  # fmt: skip
NUMBERS = (
    0x0, 0x1, 0x2, 0x3, 0x7, 0x8, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
    0xffffffff, 0x10000000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
)  # fmt: skip
_WORD = re.compile(r"\w+|[^\w\s]|\s+")


def text(draw: random.Random, seeds: list[str]) -> str:
    """A few changes to one of the seeds: words replaced, dropped, doubled, moved, taken from another seed."""
    words = _WORD.findall(draw.choice(seeds))
    others = _WORD.findall(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        place = draw.randrange(len(words) + 1)
        kind = draw.randrange(7)
        if kind == 0 and place < len(words):
            del words[place]
        elif kind == 1:
            words.insert(place, draw.choice(NASTY_TEXTS))
        elif kind == 2 and place < len(words):
            words[place] = draw.choice(NASTY_TEXTS)
        elif kind == 3 and place < len(words):
            words[place] = draw.choice(others)
        elif kind == 4:
            words[place:place] = words[place : place + draw.randrange(1, 12)] * draw.choice((1, 1, 2, 50))
        elif kind == 5:
            words = words[:place]
        else:
            words[place : place + draw.randrange(1, 6)] = [_number(draw)]
    return "".join(words)


def _number(draw: random.Random) -> str:
    return str(draw.choice((1, -1)) * draw.choice(NUMBERS) * draw.choice((1, 1, 0.5)))


def octets(draw: random.Random, content: bytes) -> bytes:
    """A few changes to a file: bits, numbers of any width, stretches cut, doubled, moved or filled."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        place = _place(draw, len(data))
        kind = draw.randrange(8)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << draw.randrange(8)
        elif kind == 1 and place < len(data):
            data[place] = draw.randrange(256)
        elif kind == 2:
            width, form = draw.choice(((1, "B"), (2, "H"), (4, "I"), (8, "Q")))
            number = draw.choice(NUMBERS) & ((1 << 8 * width) - 1)
            data[place : place + width] = struct.pack(draw.choice("<>") + form, number)
        elif kind == 3:
            del data[place : place + draw.choice((1, 2, 4, 8, 100, 10_000))]
        elif kind == 4:
            data[place:place] = data[place : place + draw.choice((1, 4, 8, 100))]
        elif kind == 5:
            length = draw.choice((1, 4, 16, 256))
            data[place : place + length] = bytes([draw.choice((0, 0x7F, 0x80, 0xFF))]) * len(
                data[place : place + length]
            )
        elif kind == 6:
            other = _place(draw, len(data))
            data[place : place + 8] = data[other : other + 8]
        elif draw.random() < 0.2:
            data = data[:place]
    return bytes(data)


def _place(draw: random.Random, length: int) -> int:
    """Often near the beginning or the end, where headers and indexes lie."""
    where = draw.random()
    if where < 0.3:
        return draw.randrange(min(length, 128) + 1)
    if where < 0.5:
        return max(0, length - draw.randrange(min(length, 256) + 1))
    return draw.randrange(length + 1)
