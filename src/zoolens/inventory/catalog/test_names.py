import pytest

from zoolens.base.errors import AmbiguousName
from zoolens.inventory.catalog.names import Reference, ambiguous, bare, is_pattern, is_run, nearest, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("demo:lenet@1.0.0", Reference("demo", "lenet", "1.0.0")),
        ("demo:lenet", Reference("demo", "lenet", None)),
        ("lenet@2.0.0", Reference(None, "lenet", "2.0.0")),
        ("torchvision:resnet50/V2", Reference("torchvision", "resnet50/V2", None)),
        ("", Reference(None, "", None)),
    ],
)
def test_the_parts_of_a_reference(text, expected):
    assert parse(text) == expected


def test_a_reference_without_its_version():
    assert [bare(text) for text in ("demo:lenet@1.0.0", "demo:lenet")] == ["demo:lenet", "demo:lenet"]


def test_brackets_are_wildcards_in_zoos_and_letters_in_the_store():
    assert is_pattern("demo:lenet-[tj]*")
    assert is_pattern("[red]b")
    assert not is_pattern("[red]b", "*?")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1a2b", True), ("1a2b3c4d5e6f7890", True), ("last", True), ("last~12", True), ("1a2", False), ("lenet", False)],
)
def test_what_may_be_a_run(text, expected):
    assert is_run(text) is expected


def test_several_models_of_one_name_are_listed():
    error = ambiguous("lenet", {f"zoo{place}:lenet" for place in range(7)})
    assert isinstance(error, AmbiguousName)
    assert str(error) == (
        "'lenet' could be any of zoo0:lenet, zoo1:lenet, zoo2:lenet, zoo3:lenet, zoo4:lenet, …. "
        "Give the full name, zoo:name."
    )


def test_the_nearest_are_found_by_any_part_of_their_name():
    known = ["torchvision:resnet50", "file:imagenet/resnet18", "demo:lenet-wide"]
    assert nearest("resnet5", known)[0] == "torchvision:resnet50"
    assert nearest("RESNET18", known)[0] == "file:imagenet/resnet18"
    assert nearest("demo:lenet-wid", known, count=1) == ["demo:lenet-wide"]
    assert nearest("quite-another", known) == []
