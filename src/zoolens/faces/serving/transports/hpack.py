"""Header compression of HTTP/2 (RFC 7541): blocks of headers to names and values, and short ones back.

A server that answers calls reads what strangers have compressed, and writes a few headers that are always the same: so
reading is complete, with limits, and what is written is neither compressed nor kept by the reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cache
from typing import Final

Header = tuple[str, str]

_STATIC: Final[tuple[Header, ...]] = (
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
)  # fmt: skip
_PER_ENTRY: Final = 32  # bytes that a header counts in the table beside its name and value
MOST_TABLE: Final = 4096  # bytes of the table: what both sides begin with
_MOST_NUMBER_BYTES: Final = 5
# The lengths of the Huffman codes of all bytes and of the end, as letters: "A" is 5. Codes of one length are numbered
# in the order of what they stand for, so that lengths say everything.
_CODE_LENGTHS: Final = (
    "ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHFIBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABA"
    "BABBBACCBBBABCBAABCCCCCKGJIXPRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRSVVPORSRU"
    "VVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWVZ"
)
_END_OF_STRING: Final = 256


class HeaderError(ValueError):
    """A block that is no block of headers, or is larger than it may be. The connection cannot be read any further."""


class HeaderDecoder:
    """Reads the blocks of one connection, in their order, for what one defines the next may use."""

    def __init__(self, most_bytes: int, most_headers: int) -> None:
        self._most_bytes, self._most_headers = most_bytes, most_headers
        self._table: deque[Header] = deque()  # the newest is first
        self._size = 0
        self._capacity = MOST_TABLE

    @property
    def keeps_nothing(self) -> bool:
        """Whether equal blocks mean the same: its client has been told to keep no table, and does so."""
        return self._capacity == 0

    def decode(self, block: bytes) -> list[Header]:
        headers: list[Header] = []
        place = total = 0
        while place < len(block):
            first = block[place]
            if first & 0x80:
                number, place = _number(block, place, 7)
                header = self._entry(number)
            elif first & 0xE0 == 0x20:
                if headers:
                    raise HeaderError("the size of the table changes behind a header")
                number, place = _number(block, place, 5)
                self._resize(number)
                continue
            else:
                header, place = self._literal(block, place, 6 if first & 0x40 else 4)
                if first & 0x40:
                    self._keep(header)
            headers.append(header)
            # A byte may stand for a header of thousands.
            total += len(header[0]) + len(header[1])
            if total > self._most_bytes or len(headers) > self._most_headers:
                raise HeaderError("too many headers")
        return headers

    def _literal(self, block: bytes, place: int, bits: int) -> tuple[Header, int]:
        number, place = _number(block, place, bits)
        if number:
            name = self._entry(number)[0]
        else:
            name, place = _string(block, place)
        value, place = _string(block, place)
        return (name, value), place

    def _entry(self, number: int) -> Header:
        if 0 < number <= len(_STATIC):
            return _STATIC[number - 1]
        place = number - len(_STATIC) - 1
        if 0 <= place < len(self._table):
            return self._table[place]
        raise HeaderError("there is no header of this number")

    def _keep(self, header: Header) -> None:
        size = _PER_ENTRY + len(header[0]) + len(header[1])
        self._shrink(self._capacity - size)
        # One that is larger than the table empties it.
        if size <= self._capacity:
            self._table.appendleft(header)
            self._size += size

    def _resize(self, capacity: int) -> None:
        if capacity > MOST_TABLE:
            raise HeaderError("the table may not be so large")
        self._capacity = capacity
        self._shrink(capacity)

    def _shrink(self, most: int) -> None:
        while self._table and self._size > most:
            name, value = self._table.pop()
            self._size -= _PER_ENTRY + len(name) + len(value)


def _number(block: bytes, place: int, bits: int) -> tuple[int, int]:
    """The number in the last bits of this byte, and in those behind it where it is larger; and the place behind it."""
    most = (1 << bits) - 1
    number = block[place] & most
    place += 1
    if number < most:
        return number, place
    for shift, byte in enumerate(block[place : place + _MOST_NUMBER_BYTES]):
        number += (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, place + shift + 1
    raise HeaderError("a number does not end")


def _string(block: bytes, place: int) -> tuple[str, int]:
    if place >= len(block):
        raise HeaderError("a header is cut off")
    compressed = block[place] & 0x80
    length, place = _number(block, place, 7)
    content = block[place : place + length]
    if len(content) < length:
        raise HeaderError("a header is cut off")
    return (_huffman(content) if compressed else content.decode("latin-1")), place + length


@cache
def _codes() -> dict[tuple[int, int], int]:
    """What each Huffman code stands for, by its length and its bits."""
    lengths = [ord(letter) - ord("A") + 5 for letter in _CODE_LENGTHS]
    codes = {}
    code = 0
    for length in range(1, max(lengths) + 1):
        code <<= 1
        for symbol, own in enumerate(lengths):
            if own == length:
                codes[length, code] = symbol
                code += 1
    return codes


def _huffman(content: bytes) -> str:
    codes = _codes()
    decoded = bytearray()
    length = code = 0
    for byte in content:
        for shift in range(7, -1, -1):
            code = code << 1 | byte >> shift & 1
            length += 1
            symbol = codes.get((length, code))
            if symbol is None:
                continue
            if symbol == _END_OF_STRING:
                raise HeaderError("a string has an end inside")
            decoded.append(symbol)
            length = code = 0
    # What fills the last byte is the beginning of the end's code, which is all ones.
    if length > 7 or code != (1 << length) - 1:
        raise HeaderError("a string ends within a letter")
    return decoded.decode("latin-1")


def encode_headers(headers: Iterable[Header]) -> bytes:
    """A block of headers as they are. Their reader must not keep them."""
    return b"".join(b"\x00" + _written(name) + _written(value) for name, value in headers)


def _written(text: str) -> bytes:
    content = text.encode("latin-1")
    length = len(content)
    if length < 0x7F:
        return bytes((length,)) + content
    written = bytearray((0x7F,))
    length -= 0x7F
    while length >= 0x80:
        written.append(length & 0x7F | 0x80)
        length >>= 7
    written.append(length)
    return bytes(written) + content
