"""Shared memory and pipes between zoolens and a worker."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zoolens.base.engine.wire import Arena, Channel
from zoolens.base.errors import ModelError

NUMBERS = st.sampled_from(["float32", "float16", "uint8", "int64", "bool", ">f4"])
ARRAYS = NUMBERS.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, max_side=5)))


@pytest.fixture
def two_sides():
    writer = Arena.create()
    reader = Arena(os.dup(writer.descriptor))
    yield writer, reader
    writer.close()
    reader.close()


@pytest.fixture
def channel():
    made = Channel(*os.pipe())
    yield made
    made.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(ARRAYS, max_size=4))
def test_what_one_side_writes_the_other_reads(arrays):
    writer = Arena.create()
    reader = Arena(os.dup(writer.descriptor))
    tensors = {f"t{i}": array for i, array in enumerate(arrays)}
    received = reader.read(writer.write(tensors))
    assert list(received) == list(tensors)
    for name, array in tensors.items():
        assert received[name].dtype == array.dtype
        assert received[name].tobytes() == array.tobytes()
        assert received[name].shape == array.shape
    writer.close()
    reader.close()


def test_strided_tensors_arrive_in_order(two_sides):
    writer, reader = two_sides
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)[:, ::-1]
    assert np.array_equal(reader.read(writer.write({"x": array}))["x"], array)


def test_memory_grows_and_is_reused(two_sides):
    writer, reader = two_sides
    small, large = np.ones(10), np.arange(100_000.0)
    reader.read(writer.write({"x": small}))
    first = os.fstat(writer.descriptor).st_size
    assert np.array_equal(reader.read(writer.write({"x": large}))["x"], large)
    grown = os.fstat(writer.descriptor).st_size
    assert grown > first
    assert np.array_equal(reader.read(writer.write({"x": small}))["x"], small)
    assert os.fstat(writer.descriptor).st_size == grown


def test_strings_are_refused(two_sides):
    with pytest.raises(ModelError, match="only numbers"):
        two_sides[0].write({"words": np.array(["a", "b"], dtype=object)})


@pytest.mark.parametrize(
    "place",
    [
        {"shape": [10**9], "offset": 0, "dtype": "<f4"},
        {"shape": [1], "offset": 1 << 40, "dtype": "<f4"},
        {"shape": [1], "offset": -64, "dtype": "<f4"},
        {"shape": [-3], "offset": 0, "dtype": "<f4"},
        {"shape": [1], "offset": 0, "dtype": "O"},
    ],
)
def test_a_layout_outside_the_memory_is_refused(two_sides, place):
    writer, reader = two_sides
    writer.write({"x": np.ones(4)})
    with pytest.raises((ValueError, TypeError)):
        reader.read([{"name": "x", **place}])


def test_messages_keep_their_order_and_borders(channel):
    messages = [{"n": i, "text": "line\nbreak ü" * i} for i in range(50)]
    for message in messages:
        channel.send(message)
    assert [channel.receive(1) for _ in messages] == messages


def test_silence_ends_in_a_timeout(channel):
    with pytest.raises(TimeoutError):
        channel.receive(0.05)


def test_a_closed_other_side_is_the_end(channel):
    os.close(channel.writing)
    channel.writing = -1
    with pytest.raises(EOFError):
        channel.receive(1)


@pytest.mark.parametrize("line", [b"not json\n", b"[1, 2]\n", b"\xff\xfe\n"])
def test_garbage_is_a_value_error(channel, line):
    os.write(channel.writing, line)
    with pytest.raises(ValueError):
        channel.receive(1)


def test_tensors_that_lie_over_each_other_are_refused(two_sides):
    """Views cost nothing, but a thousand copies of all the shared memory would not fit into ours."""
    writer, reader = two_sides
    [place] = writer.write({"x": np.zeros(1 << 14, np.float32)})
    reader.read([place])
    with pytest.raises(ValueError, match="overlap"):
        reader.read([{**place, "name": f"t{number}"} for number in range(1000)])


@pytest.mark.parametrize(
    "line", [b"[" * 100_000, b'{"a":' * 100_000, b"[" + b"[]," * (1 << 23) + b"[]]"], ids=["lists", "objects", "many"]
)
def test_messages_that_would_exhaust_us_are_refused(channel, line):
    channel._buffer += line + b"\n"
    with pytest.raises(ValueError, match=r"nested too deeply|more than"):
        channel.receive()


def test_more_tensors_than_were_asked_for_are_refused(two_sides):
    writer, reader = two_sides
    layout = writer.write({"x": np.arange(100, dtype=np.float32)})
    assert reader.read(layout, 400)["x"].nbytes == 400
    with pytest.raises(ValueError, match="more than 399 bytes"):
        reader.read(layout, 399)


def test_rows_of_several_parts_lie_below_each_other():
    writer = Arena.create()
    reader = Arena(os.dup(writer.descriptor))
    parts = [{"x": np.full((rows, 3), rows, np.float32), "y": np.full((rows,), -rows, np.int64)} for rows in (1, 2, 4)]
    views = reader.read(writer.write_rows(parts))
    for name, view in views.items():
        np.testing.assert_array_equal(view, np.concatenate([part[name] for part in parts]))
    writer.close()
    reader.close()


def test_what_is_written_again_in_the_same_shapes_is_laid_out_once():
    writer = Arena.create()
    reader = Arena(os.dup(writer.descriptor))
    first = writer.write({"x": np.zeros(3)})
    views = reader.read(first)
    assert writer.write({"x": np.ones(3)}) is first
    assert reader.read(first) is views
    assert views["x"].tolist() == [1, 1, 1]
    for other in ({"x": np.ones(3, np.float32)}, {"y": np.ones(3)}, {"x": np.ones((1, 3))}):
        assert writer.write(other) is not first
        assert writer.write({"x": np.ones(3)}) == first
    with pytest.raises(ValueError, match="more than 8 bytes"):
        reader.read(first, 8)
    writer.close()
    reader.close()


def test_messages_that_arrive_in_pieces_or_together_are_told_apart():
    reading, writing = os.pipe()
    channel = Channel(reading, writing)
    os.write(writing, b'{"a":1}\n')
    assert channel.line_arrived() == b'{"a":1}'
    os.write(writing, b'{"b"')
    assert channel.line_arrived() is None
    os.write(writing, b':2}\n{"c":3}\n')
    assert channel.line_arrived() == b'{"b":2}'
    assert channel.receive(1) == {"c": 3}
    os.close(writing)
    channel.writing = -1
    with pytest.raises(EOFError):
        channel.line_arrived()
    channel.close()
