import pytest

from zoolens.base.present.text import clean, without_folders


def test_text_is_one_line_without_control_characters_and_has_an_end():
    assert clean("a\x00b\x1b\n") == "a\ufffdb\ufffd\ufffd"
    assert len(clean("x" * 5000)) == 1000
    assert clean("x" * 50, 10) == "xxxxxxxxx…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("read /home/someone/models/net.onnx again", "read net.onnx again"),
        ("'/tmp/x/y.npz'", "'y.npz'"),
        ("file:///mnt/disk/set", "set"),
        ("~/models/net.onnx", "net.onnx"),
        ("zoo:/data/models/net.onnx", "zoo:net.onnx"),
        (r"C:\Users\someone\net.onnx", "net.onnx"),
        ("/usr/lib/python3/: not there", "python3: not there"),
    ],
)
def test_of_a_path_its_last_part_is_shown(text, shown):
    assert without_folders(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "/layer1/layer1.0/conv1/Conv",  # a node of an ONNX file
        "https://example.org/home/models/net.onnx",
        "MACs / parameters, and/or 1/2",
        "imagenet/val/n01440764/1.JPEG",
        "zoo:a/b/c",
        "/tmp",
    ],
)
def test_what_is_no_path_of_a_machine_stays(text):
    assert without_folders(text) == text
