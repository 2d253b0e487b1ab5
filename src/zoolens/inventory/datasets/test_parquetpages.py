"""What a file unpacks to is read from its pages, whatever its footer says."""

import struct
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zoolens.inventory.datasets.parquetpages import check_footer, column_extent

COUNT = 3_000_000


def written(table, **settings):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **settings)
    return sink.getvalue().to_pybytes()


def extent(metadata, content):
    """Rows, values and unpacked bytes of all columns, as a reader of the file asks for them."""
    check_footer(metadata.schema, content)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    extents = [column_extent(group, place, content) for group in groups for place in range(group.num_columns)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    return SimpleNamespace(rows=rows, values=sum(one[0] for one in extents), size=sum(one[1] for one in extents))


def told(content):
    return extent(pq.ParquetFile(pa.BufferReader(content)).metadata, content)


def lists():
    return pa.table({"a": pa.ListArray.from_arrays(pa.array([0, COUNT], pa.int32()), pa.array(np.zeros(COUNT)))})


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("packing", ["none", "zstd", "snappy"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_rows_values_and_bytes_are_counted(version, packing, dictionary):
    table = pa.table(
        {
            "number": pa.array(np.arange(5000) % 7, pa.int32()),
            "text": pa.array([None if i % 3 else "x" * 50 for i in range(5000)]),
            "list": pa.array([[1.0, None]] * 5000, pa.list_(pa.float64())),
            "truth": pa.array([True, False] * 2500),
        }
    )
    content = written(
        table, data_page_version=version, compression=packing, use_dictionary=dictionary,
        row_group_size=1200, data_page_size=512, write_page_checksum=True,
    )  # fmt: skip
    found = told(content)
    assert found.rows == 5000
    assert 25_000 <= found.values <= 25_200  # and those of dictionaries
    metadata = pq.ParquetFile(pa.BufferReader(content)).metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    stated = sum(group.column(place).total_uncompressed_size for group in groups for place in range(4))
    assert 0.2 * stated < found.size <= stated  # without the headers


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1]] * 3, pa.list_(pa.int32())),  # repeated: its histograms are longer
        pa.array([1, 2, None], pa.int32()),  # may be empty, as the column is that it is compared with, but is no text
    ],
)
def test_sizes_that_do_not_fit_a_column_are_refused(values):
    """pyarrow would end the process when the column is asked for."""
    content = written(pa.table({"a": ["x", "y", None]}))
    check_footer(pq.ParquetFile(pa.BufferReader(content)).schema, content)
    other = pq.ParquetFile(pa.BufferReader(written(pa.table({"a": values})))).schema
    with pytest.raises(ValueError, match="do not fit its type"):
        check_footer(other, content)


@pytest.mark.parametrize(
    ("footer", "words"),
    [
        (bytes([0x49, *[0x19] * 50]), "nested too deeply"),
        (bytes([0x49, 0xFC, 0xFF, 0xFF, 0xFF, 0x7F]), "longer than the file"),
        (bytes([0x49, 0x15, 0x00, 0x00]), "cannot be read"),  # row groups that are numbers
        (bytes([0x49, 0x1C, 0x19, 0x1C, 0x00, 0x00, 0x00]), "cannot be read"),  # a column of which nothing is told
    ],
)
def test_a_footer_that_cannot_be_one_is_refused(footer, words):
    schema = pq.ParquetFile(pa.BufferReader(written(pa.table({"a": [1]})))).schema
    with pytest.raises(ValueError, match=words):
        check_footer(schema, b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")
    with pytest.raises(ValueError, match="outside the file"):
        check_footer(schema, b"PAR1" + footer + struct.pack("<I", 1 << 30) + b"PAR1")


def test_an_empty_table_has_nothing():
    found = told(written(pa.table({"a": pa.array([], pa.int32())})))
    assert (found.rows, found.values, found.size) == (0, 0, 0)


def test_a_footer_that_lies_is_not_believed():
    content = written(lists())
    (length,) = struct.unpack("<I", content[-8:-4])
    start = len(content) - 8 - length
    many = varint(2 * COUNT)
    one = bytes([2 | 128, *[128] * (len(many) - 2), 0])
    assert len(content) < 2000
    lying = content[:start] + content[start:].replace(many, one)
    assert pq.ParquetFile(pa.BufferReader(lying)).metadata.row_group(0).column(0).num_values == 1
    assert told(lying).values >= COUNT


def test_one_long_text_is_seen_before_it_is_unpacked():
    content = written(pa.table({"a": ["x" * 20_000_000]}), compression="zstd", use_dictionary=False)
    assert len(content) < 20_000
    assert told(content).size >= 20_000_000


def test_spoilt_headers_are_an_error_and_never_endless():
    content = written(pa.table({"a": list(range(1000))}), compression="zstd")
    metadata = pq.ParquetFile(pa.BufferReader(content)).metadata
    draw = np.random.default_rng(0)
    refused = 0
    for _ in range(500):
        spoilt = bytearray(content)
        spoilt[int(draw.integers(4, 60))] = int(draw.integers(256))
        try:
            extent(metadata, bytes(spoilt))
        except ValueError:
            refused += 1
    assert refused
    with pytest.raises(ValueError, match="outside the file"):
        extent(metadata, content[:20])


def varint(number):
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
