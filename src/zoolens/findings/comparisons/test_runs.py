from pathlib import Path

import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.runs import (
    _unmeasured,
    best_pairs,
    close_names,
    formats_read,
    runs_like,
    runs_of,
    short_names,
)
from zoolens.inventory.catalog.names import bare
from zoolens.inventory.zoos.demo import MODELS_FOLDER

LABELS = [0, 1, 2]


@pytest.fixture
def write(store):
    return lambda name, **settings: write_run(store, name, one_hot(LABELS), LABELS, **settings)


def test_a_model_is_found_by_reference_name_last_part_and_run(store, write):
    run = write("vision/net")
    for name in ("zoo:vision/net", "zoo:vision/net@1.0.0", "vision/net", "net", "ZOO:Vision/Net", run.id, run.id[:6]):
        assert [one.id for one in runs_of(store, name)] == [run.id], name
    assert runs_of(store, "other") == []
    assert runs_of(store, "net", data="letters") == runs_of(store, "net", runtime="litert") == []


def test_a_name_of_several_models_is_an_error_that_lists_them(store, write):
    write("a/net"), write("b/net")
    with pytest.raises(ZoolensError, match="'net' could be any of zoo:a/net, zoo:b/net"):
        runs_of(store, "net")
    with pytest.raises(ZoolensError, match="is a pattern"):
        runs_of(store, "*net")


def test_models_that_differ_in_case_alone_are_told_apart(store, write):
    runs = {name: write(name) for name in ("Net", "net")}
    for name, run in runs.items():
        assert [one.id for one in runs_of(store, name)] == [run.id]
    with pytest.raises(ZoolensError, match="'NET' could be any of zoo:Net, zoo:net"):
        runs_of(store, "NET")


def test_of_files_of_one_name_none_is_taken_silently(store, write):
    for folder in ("/x", "/y"):
        run = write("net.onnx", description=folder)
        store.set_resolved(run.id, {"origin": {"ref": "file:net.onnx@1.0.0", "folder": folder}})
    with pytest.raises(ZoolensError, match=r"could be any of /y/net\.onnx, /x/net\.onnx|/x/net\.onnx, /y/net\.onnx"):
        runs_of(store, "net.onnx")


def test_a_model_file_is_found_by_its_content(demo_store):
    with open_store(demo_store) as store:
        found = runs_of(store, str(Path(MODELS_FOLDER) / "lenet-torch.yaml"))
        assert [bare(run.ref) for run in found] == ["demo:lenet-torch"]
        assert runs_of(store, str(Path(MODELS_FOLDER) / "resnet-tiny.yaml")) == []


def test_patterns_name_many_and_no_match_is_an_error(store, write):
    first, second = write("net-a"), write("net-b")
    assert {run.id for run in runs_like(store, ["net-*"], data=None, runtime=None)} == {first.id, second.id}
    assert [run.id for run in runs_like(store, ["net-a", "zoo:net-a"], data=None, runtime=None)] == [first.id]
    with pytest.raises(UnknownName, match=r"net-c.*Did you mean"):
        runs_like(store, ["zoo:net-c"], data=None, runtime=None)


def test_pairs_are_alike_in_everything_but_the_model(write):
    a = [write("a", runtime="litert"), write("a", runtime="openvino"), write("a", dataset="letters")]
    b = [write("b", runtime="openvino"), write("b", dataset="letters", runtime="litert"), write("b", dataset="faces")]
    assert [(one.stack.runtime, two.stack.runtime) for one, two in best_pairs(a, b)] == [
        ("openvino", "openvino"),
        ("fake", "litert"),
    ]


def test_a_model_is_paired_with_itself_in_another_runtime_rather_than_with_the_same_run(write):
    runs = [write("a", runtime="litert"), write("a", runtime="openvino")]
    ((one, two),) = best_pairs(runs, runs)
    assert one.id != two.id
    assert best_pairs(runs[:1], runs[:1]) == [(runs[0], runs[0])]


def test_a_typing_mistake_is_seen(store, write):
    write("lenet-wide")
    assert close_names(store, "lenet-wid") == ["zoo:lenet-wide"]
    assert close_names(store, "vgg") == close_names(store, "lenet-wide") == []


def test_the_runtime_of_one_format_is_most_at_home():
    assert formats_read("litert") < formats_read("openvino") < formats_read("no longer installed")


def test_runs_of_one_model_in_one_runtime_are_told_apart(store, write):
    runs = [write("a", runtime="litert"), write("a", runtime="openvino"), write("b")]
    again = store.begin_run(runs[0].model, runs[0].dataset, runs[0].stack, attempt=1)
    assert short_names(runs) == ["a [litert]", "a [openvino]", "b"]
    assert short_names([runs[0], again]) == [f"a [litert] {run.id[:8]}" for run in (runs[0], again)]


def test_a_dataset_with_options_is_advised_as_a_shell_takes_it(store, write):
    run = write("net")
    store.set_resolved(run.id, {"origin": {"data": "masks:/d?classes=c.json&ignore=0"}})
    advised = _unmeasured(store, "net", "other", runs_of(store, "net"), [], None)
    assert "zoolens eval other --data 'masks:/d?classes=c.json&ignore=0' (or give" in str(advised)
