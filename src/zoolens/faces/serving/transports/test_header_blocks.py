"""Headers as HTTP/2 compresses them, held against the examples of RFC 7541."""

from __future__ import annotations

import random

import pytest

from zoolens.faces.serving.transports.header_blocks import HeaderDecoder, HeaderError, encode_headers


def decoder(most_bytes=1 << 16, most_headers=256):
    return HeaderDecoder(most_bytes, most_headers)


@pytest.mark.parametrize("huffman", [False, True])
def test_the_requests_of_the_rfc(huffman):
    """Appendices C.3 and C.4: three requests of one connection, whose headers refer to those before."""
    blocks = [
        ["828684410f7777772e6578616d706c652e636f6d", "828684418cf1e3c2e5f23a6ba0ab90f4ff"],
        ["828684be58086e6f2d6361636865", "828684be5886a8eb10649cbf"],
        [
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
    ]
    read = decoder()
    expected = {":method": "GET", ":scheme": "http", ":path": "/", ":authority": "www.example.com"}
    assert dict(read.decode(bytes.fromhex(blocks[0][huffman]))) == expected
    assert dict(read.decode(bytes.fromhex(blocks[1][huffman]))) == {**expected, "cache-control": "no-cache"}
    expected |= {":scheme": "https", ":path": "/index.html", "custom-key": "custom-value"}
    assert dict(read.decode(bytes.fromhex(blocks[2][huffman]))) == expected


def test_the_answers_of_the_rfc_drive_the_oldest_headers_out():
    """Appendix C.6, with a table of 256 bytes."""
    read = decoder()
    first = (
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3"
    )
    assert read.decode(bytes.fromhex("3fe101" + first))[:2] == [(":status", "302"), ("cache-control", "private")]
    assert read.decode(bytes.fromhex("4883640effc1c0bf"))[0] == (":status", "307")
    third = read.decode(
        bytes.fromhex(
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087"
            "f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"
        )
    )
    assert third[-1] == ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1")


def test_what_is_written_is_read():
    headers = [("grpc-status", "3"), ("grpc-message", "x" * 1000), ("", "")]
    read = decoder()
    assert read.decode(encode_headers(headers)) == headers


def test_a_client_without_a_table_says_the_same_in_the_same_bytes():
    read = decoder()
    assert not read.keeps_nothing
    literal = bytes.fromhex("400a637573746f6d2d6b65790c637573746f6d2d76616c7565")
    assert read.decode(b"\x20" + literal) == [("custom-key", "custom-value")]
    assert read.keeps_nothing
    with pytest.raises(HeaderError, match="Invalid table index"):
        read.decode(b"\xbe")


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("80", "table index"),
        ("ff80ffff7f", "table index"),
        ("ffffffffffffffff", "too long"),
        ("00056162", "Truncated"),
        ("0003616263", "Unable to decode"),
        ("823f01", "not at the start"),
        ("3fffff7f", "max allowable table size"),
        ("20203fe11f", "again and again"),
        ("20" * 60_000, "again and again"),
        ("0085f2b24a84ff", "Unable to decode"),
        ("000084ffffffff", "Invalid Huffman"),
        ("000081fe", "Incomplete Huffman"),
    ],
)
def test_blocks_that_are_none(block, why):
    with pytest.raises(HeaderError, match=why):
        decoder().decode(bytes.fromhex(block))


def test_a_byte_for_thousands_is_counted_as_what_it_stands_for():
    kept = b"\x40" + b"\x01x" + b"\x7f\xa1\x1e" + b"y" * 4000
    with pytest.raises(HeaderError, match="larger than"):
        decoder().decode(kept + b"\xbe" * 100)
    with pytest.raises(HeaderError, match="too many"):
        decoder(most_headers=10).decode(b"\x82" * 11)


def test_nonsense_is_refused_and_nothing_else_happens():
    random.seed(1)
    read = refused = 0
    for _ in range(2000):
        try:
            headers = decoder(most_bytes=1000, most_headers=5).decode(random.randbytes(random.randrange(1, 40)))
        except HeaderError:
            refused += 1
            continue
        read += 1
        assert len(headers) <= 5
        assert all(isinstance(text, str) for header in headers for text in header)
        assert sum(len(name) + len(value) for name, value in headers) <= 1000
    assert read > 20
    assert refused > 1000
