"""A name in a query means one row, or is an error that helps."""

from dataclasses import replace

import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.findings.index.name_lookup import NameLookup
from zoolens.findings.index.tables.row_table import table_of
from zoolens.findings.index.tables.rows import Row


def row(ref, runtime=None, *, key="", signature=True, measured="2025", **attributes):
    stack = {"runtime": runtime, "measured": measured} if runtime else {}
    return Row(
        key or f"{ref}/{runtime}", ref, ref, {**stack, **attributes}, signature=signature and runtime is not None
    )


ROWS = [
    row("torchvision:resnet50@1.0.0"),
    row("file:imagenet/resnet50@1.0.0", "onnxruntime"),
    row("file:imagenet/resnet50@1.0.0", "torch", precision="bfloat16", threads=2.0),
    row("file:imagenet/resnet50@2.0.0", "onnxruntime", measured="2024"),
    row("file:imagenet/resnet50@2.0.0", "onnxruntime", measured="2025", key="abcdef0123456789"),
    row("file:imagenet/resnet18@1.0.0", "torch"),
    row("demo:lenet-wide@1.0.0", "litert"),
    row("demo:lenet-wide-int8@1.0.0", "litert"),
    row("keras:VGG16@1.0.0"),
]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("file:imagenet/resnet50@1.0.0", 1),
        ("file:imagenet/resnet50", 4),  # newest version, newest run
        ("imagenet/resnet50", 4),
        ("ResNet50", 0),  # a name in full comes before the last part of one
        ("torchvision:resnet50", 0),
        ("lenet-wide", 6),  # not its int8 sibling
        ("wide-int8", 7),
        ("vgg16", 8),
        ("models/vgg16", 8),
        ("abcdef01", 4),
        ("resnet18", 5),
    ],
)
def test_names(name, found):
    assert NameLookup(table_of(ROWS)).find(name) == found


def test_exec_chooses_among_the_stacks():
    name = "file:imagenet/resnet50@1.0.0"
    assert NameLookup(table_of(ROWS)).find(name, {"runtime": "torch", "batch": "8"}) == 2
    assert NameLookup(table_of(ROWS)).find(name, {"precision": "bfloat16", "threads": "2"}) == 2
    assert NameLookup(table_of(ROWS)).find("torchvision:resnet50", {"runtime": "torch"}) == 0  # never ran: fits any
    with pytest.raises(ZoolensError, match="was not measured with runtime=litert") as error:
        NameLookup(table_of(ROWS)).find(name, {"runtime": "litert"})
    assert "runtime=onnxruntime" in str(error.value)


def test_what_answered_the_probes_comes_first():
    rows = [row("a:net@1.0.0"), row("b:net@1.0.0", "torch")]
    assert NameLookup(table_of(rows)).find("net") == 1


def test_several_models_are_listed():
    with pytest.raises(ZoolensError, match=r"'lenet' could be any of demo:lenet-wide, demo:lenet-wide-int8\."):
        NameLookup(table_of(ROWS)).find("lenet")


def test_unknown_names_get_suggestions():
    with pytest.raises(UnknownName, match=r"Did you mean .*resnet50"):
        NameLookup(table_of(ROWS)).find("resnet5O")
    with pytest.raises(UnknownName, match="Known: demo:lenet-wide"):
        NameLookup(table_of(ROWS)).find("qqqq")
    with pytest.raises(UnknownName, match="Nothing is indexed yet"):
        NameLookup(table_of([])).find("resnet50")
    with pytest.raises(UnknownName):
        NameLookup(table_of(ROWS)).find(" ")


def test_a_name_that_the_same_content_had_before_is_found_where_nobody_has_it_now():
    rows = [replace(ROWS[5], also=("file:old/net@1.0.0", "demo:lenet-wide@1.0.0")), ROWS[6]]
    assert NameLookup(table_of(rows)).find("old/net") == NameLookup(table_of(rows)).find("net") == 0
    assert NameLookup(table_of(rows)).find("lenet-wide") == 1


# --- names that several models have


def placed(folder, model, file=None):
    return replace(
        row("file:net.onnx@0.1.0", "onnxruntime", key=f"{folder}{file}", folder=str(folder), file=file), model=model
    )


def test_models_that_differ_in_case_alone_are_told_apart():
    rows = [row("a:Net@1.0.0", "torch"), row("a:net@1.0.0", "torch")]
    assert [NameLookup(table_of(rows)).find(name) for name in ("Net", "net", "a:net")] == [0, 1, 1]
    with pytest.raises(ZoolensError, match="'NET' could be any of a:Net, a:net"):
        NameLookup(table_of(rows)).find("NET")


def test_of_files_of_one_name_none_is_taken_silently(tmp_path):
    rows = [placed(tmp_path / "x", "one"), placed(tmp_path / "y", "two")]
    for name in ("net.onnx", "file:net.onnx"):
        with pytest.raises(ZoolensError, match=r"could be any of .*x/net\.onnx, .*y/net\.onnx\. Name it by its path"):
            NameLookup(table_of(rows)).find(name)
    assert NameLookup(table_of(rows)).find(str(tmp_path / "y" / "net.onnx")) == 1
    manifests = [placed(tmp_path, "one", "a.yaml"), placed(tmp_path, "two", "b.yaml")]
    with pytest.raises(ZoolensError, match=r"could be any of .*a\.yaml, .*b\.yaml"):
        NameLookup(table_of(manifests)).find("net.onnx")


def test_copies_of_one_file_are_one_model(tmp_path):
    rows = [placed(tmp_path / "x", "one"), placed(tmp_path / "y", "one")]
    assert NameLookup(table_of(rows)).find("net.onnx") in (0, 1)
