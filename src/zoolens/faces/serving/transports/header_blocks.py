"""Blocks of headers as HTTP/2 compresses them: python-hyper's hpack, with limits of our own.

Most calls come without it: clients are asked to keep no table, so that equal headers have equal bytes, and those are
known. Where each call has other headers (a trace of its own), hpack takes some 0.1 ms for ten of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hpack import Encoder

Header = tuple[str, str]

# A block begins with two changes of the table's size at most (RFC 7541, 4.2). A block of nothing else would keep the
# decoder busy for as long as a hundred calls.
_CHANGES: Final = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*[\x00-\x7f]){3}")
_LONGEST: Final = 100  # characters of an error: it may repeat what was sent


class HeaderError(ValueError):
    """A block that is no block of headers, or is larger than it may be. The connection cannot be read any further."""


class HeaderDecoder:
    """Reads the blocks of one connection, in their order, for what one defines the next may use."""

    def __init__(self, most_bytes: int, most_headers: int) -> None:
        from hpack import Decoder

        self._decoder = Decoder(most_bytes)
        self._most_headers = most_headers

    @property
    def keeps_nothing(self) -> bool:
        """Whether equal blocks mean the same: its client has been told to keep no table, and does so."""
        return self._decoder.header_table_size == 0

    def decode(self, block: bytes) -> list[Header]:
        from hpack import HPACKError

        if _CHANGES.match(block):
            raise HeaderError("the size of the table changes again and again")
        try:
            headers = list(self._decoder.decode(block, raw=True))
        except HPACKError as error:
            raise HeaderError(str(error)[:_LONGEST]) from None
        if len(headers) > self._most_headers:
            raise HeaderError("too many headers")
        return [(str(name, "latin-1"), str(value, "latin-1")) for name, value in headers]


def encode_headers(headers: Iterable[Header]) -> bytes:
    """A block of headers that its reader must not keep, so that the encoder keeps nothing either and serves all."""
    fields = ((name.encode("latin-1"), value.encode("latin-1"), True) for name, value in headers)
    return _encoder().encode(fields, huffman=False)


@cache
def _encoder() -> Encoder:
    from hpack import Encoder

    return Encoder()
