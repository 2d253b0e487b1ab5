"""Options of custom operators, as the library flatbuffers writes them."""

import pytest

from zoolens.inventory.runtimes.litert.flexbuffer_map import whole_numbers


def packed(values):
    flexbuffers = pytest.importorskip("flatbuffers.flexbuffers")
    return bytes(flexbuffers.Dumps(values))


def test_whole_numbers_are_read_and_others_left_out():
    content = packed({"num_classes": 90, "max_detections": 10, "far": -70_000, "h_scale": 5.0, "name": "x"})
    assert whole_numbers(content) == {"num_classes": 90, "max_detections": 10, "far": -70_000}


@pytest.mark.parametrize("content", [b"", b"\0", b"\0\0\0", b"\x24\x01", bytes(range(40))])
def test_what_is_no_map_has_none(content):
    assert whole_numbers(content) == {}


def test_damage_never_raises():
    content = packed({"num_classes": 90, "max_detections": 10})
    for place in range(len(content)):
        for value in (0, 1, 36, 255):
            assert isinstance(whole_numbers(content[:place] + bytes([value]) + content[place + 1 :]), dict)
