"""Where a language model's time goes while it writes: its prompt and its further tokens apart."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scripts.copy_language_model import onnx_folder

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.store.store import open_store
from zoolens.faces.cli.main import cli
from zoolens.findings.tracing.chrome import write_chrome
from zoolens.findings.tracing.measuring import TraceSettings
from zoolens.findings.tracing.otlp import with_outer_spans
from zoolens.findings.tracing.phases import kinds_table
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored_recording import load_recording, sentences
from zoolens.findings.tracing.trace_page import recording_page
from zoolens.findings.tracing.writing import WritingPlan, trace_writing
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.testing import language_models, next_token_models

pytestmark = pytest.mark.usefixtures("trusted_models")
SETTINGS = TraceSettings(5, 0.3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("writing")


@pytest.fixture(scope="module")
def gguf(folder):
    pytest.importorskip("gguf")
    return language_models.gguf(folder).path()


def written(store, model, **asked):
    plan = WritingPlan(model, **{"prompt": 7, "tokens": 3, "settings": SETTINGS, **asked})
    return trace_writing(plan, store=store)


def test_a_runtime_without_a_profiler_tells_its_clocks_only(gguf, tmp_path):
    pytest.importorskip("xllamacpp")
    with open_store(tmp_path / "store") as store:
        recorded = written(store, gguf)
    (request,) = recorded.step.steps
    prompt, token = request.steps
    assert [(step.name, step.times) for step in request.steps] == [
        ("prompt", request.times),
        ("token", 3 * request.times),
    ]
    assert 0 < prompt.share + token.share <= 1
    for phase in recorded.phases:
        assert phase.trace.model.median > 0
        assert (phase.trace.layer, phase.trace.overheads) == (None, ())
        assert "times whole calls and not operators" in phase.trace.missing["layer"]
    said = " ".join(sentences(recorded))
    share = 100 * (prompt.share + token.share)
    assert f"inside of a prompt or a token, {share:.1f} % of all requests, is not known" in said


def test_a_profiled_runtime_tells_the_layers_of_each_phase(gguf, folder, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    model = onnx_folder(gguf, folder / "onnx") / "model.onnx"
    (folder / "text.txt").write_text("ABABAB XY " * 9)
    data = f"passages:{folder / 'text.txt'}?size=40"
    with open_store(tmp_path / "store") as store:
        made = written(store, model, data=data, prompt=9, level=Level.LIBRARY)
        recorded = load_recording("last", store=store)
    assert recorded.title.endswith("requests to a model that writes")
    assert "not known" not in " ".join(sentences(recorded)).partition("Of all requests")[2]
    for phase, new in zip(recorded.phases, (9, 1), strict=True):
        layers = {layer.name: layer for layer in phase.trace.layers}
        extents = {shape[1] for layer in layers.values() for shape in layer.shapes if shape[2:] == (64,)}
        assert extents == {new}, "the vocabulary's scores are of the tokens that were read"
        assert phase.trace.overheads, "what profiling adds stands beside the clean time"
        assert phase.trace.layer.total.median <= phase.trace.layer.calls.median
        assert phase.title.startswith(phase.name)
        whole, short = kinds_table(phase), kinds_table(phase, 3)
        assert len(short.rows) == 4
        assert short.rows[:3] == whole.rows[:3]
        assert short.rows[3][0] == f"{len(whole.rows) - 3} other kinds"
        assert sum(int(row[1]) for row in short.rows) == sum(int(row[1]) for row in whole.rows)
        assert "openvino" not in phase.trace.missing["library"]  # it has kernels, and does not write
    assert made.step.total == recorded.step.total
    page = recording_page(recorded)
    assert "prompt: 9 tokens are read" in page
    assert "token: one is read behind 9 tokens" in page
    tables = [(recorded.title, recorded.spans), *((phase.title, phase.spans) for phase in recorded.phases)]
    services = dict(with_outer_spans([(service, table.to_pylist()) for service, table in tables]))
    assert list(services) == [service for service, _ in tables]
    ids = [row["span_id"] for rows in services.values() for row in rows]
    callers = {row["parent"] for rows in services.values() for row in rows}
    assert len(ids) == len(set(ids))
    assert len(callers - set(ids)) == 1  # nobody called the outermost span
    write_chrome(tmp_path / "trace.json", [(phase.name, phase.spans) for phase in recorded.phases])
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_a_worker_profiles_how_a_sequence_is_continued(gguf, folder):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    files = ModelFiles("onnx", {"model": onnx_folder(gguf, folder / "isolated") / "model.onnx"})
    with open_isolated("onnxruntime", files) as session:
        profiles = session.profile_extend(np.arange(5, dtype=np.int32)[None], 4, 2)
    assert len(profiles) == 2
    assert {operator.kind for operator in profiles[0].operators} > {"Gather", "MatMul"}


def test_prompts_that_do_not_fit_and_models_that_do_not_write_are_refused(gguf, tmp_path):
    pytest.importorskip("xllamacpp")
    pytest.importorskip("onnxruntime")
    circle = next_token_models.write_model(tmp_path)
    with open_store(tmp_path / "store") as store:
        with pytest.raises(ModelError, match=r"context of tiny\.gguf has 600"):
            written(store, gguf, prompt=600)
        with pytest.raises(ZoolensError, match="no keys and values of earlier tokens"):
            written(store, circle)
        with pytest.raises(ZoolensError, match="cannot be traced while it writes"):
            written(store, "demo:lenet-wide")


def test_the_command_prints_and_keeps_both_phases(home, gguf):
    pytest.importorskip("xllamacpp")
    words = ["--repeats", "5", "--seconds", "0.3", "--prompt", "4", "--tokens", "2"]
    result = CliRunner().invoke(cli, ["trace", "write", str(gguf), *words])
    assert result.exit_code == 0, result.output
    assert "prompt: 4 tokens are read" in result.output
    assert "token: one is read behind 4 tokens" in result.output
    shown = CliRunner().invoke(cli, ["trace", "show", "last", "--json"])
    document = json.loads(shown.stdout)
    assert [phase["phase"] for phase in document["phases"]] == ["prompt", "token"]
    assert all(phase["predict"]["seconds"] > 0 for phase in document["phases"])
