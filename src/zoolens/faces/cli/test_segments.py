from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.base.verdicts import NotKnown
from zoolens.faces.cli import query, runs, show
from zoolens.faces.cli.segments import command

pytestmark = pytest.mark.usefixtures("trusted_models")

PAIR = ["demo:lenet-wide", "demo:lenet-wide-int8"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ZOOLENS_STORE", raising=False)


def test_segments_are_listed():
    result = CliRunner().invoke(command, PAIR)
    assert result.exit_code == 0
    assert "near weights" in result.output
    listed = json.loads(CliRunner().invoke(command, [*PAIR, "--json"]).output)
    assert listed["segments"][0]["macs_share"] == 1


def test_networks_without_weights_are_compared_by_structure():
    result = CliRunner().invoke(command, ["onnx:light/squeezenet", "onnx:light/squeezenet", "--json"])
    (segment,) = json.loads(result.output)["segments"]
    assert segment["kind"] == "same structure"
    assert segment["distance"] is None


def test_operators_that_are_compared_by_name_only_are_said(tmp_path):
    onnx = pytest.importorskip("onnx")
    for alpha in (1, 3):
        text = f"""<ir_version: 8, opset_import: ["" : 17, "vendor" : 1]>
            net (float[1,4] x) => (float[1,4] y) <float[1,4] b> {{
            a = Relu(x) b = vendor.Swirl<alpha = {alpha}.0>(a) y = Tanh(b) }}"""
        onnx.save(onnx.parser.parse_model(text), str(tmp_path / f"{alpha}.onnx"))
    pair = [str(tmp_path / f"{alpha}.onnx") for alpha in (1, 3)]
    result = CliRunner().invoke(command, pair)
    assert "Unknown: Understood: 4 of 6 layers" in result.output
    data = json.loads(CliRunner().invoke(command, [*pair, "--least", "1", "--json"]).output)
    assert data["outcome"] == "not known"
    assert [row["kind"] for row in data["segments"]] == ["same structure", "not known", "same structure"]
    assert [row["compared_by_name"] for row in data["segments"]] == [0, 1, 0]


@pytest.mark.parametrize(("kind", "error"), [("vendor.Swirl", NotKnown), ("Sin", ZoolensError)])
def test_without_a_common_segment_it_is_not_known_where_operators_are_not_understood(tmp_path, kind, error):
    onnx = pytest.importorskip("onnx")
    for name, operator in (("a", kind), ("b", "Tanh")):
        text = f"""<ir_version: 8, opset_import: ["" : 17, "vendor" : 1]>
            net (float[1,4] x) => (float[1,4] y) {{ y = {operator}(x) }}"""
        onnx.save(onnx.parser.parse_model(text), str(tmp_path / f"{name}.onnx"))
    result = CliRunner().invoke(command, [str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--least", "1"])
    assert type(result.exception) is error
    assert "no segment of 1 nodes in common" in str(result.exception)


@pytest.mark.slow
def test_twins_are_made(tmp_path):
    call = [*PAIR, "--splice", "--data", "demo", "-o", str(tmp_path / "twins")]
    result = CliRunner().invoke(command, [*call, "--within", "2%"])
    assert result.exit_code == 0, result.output
    assert "Within 2 %" in result.output
    data = json.loads(CliRunner().invoke(command, [*call, "--within", "0.02", "--json"]).output)
    assert data[0]["within"]
    assert data[0]["n"] == 2000
    strict = CliRunner().invoke(command, [*call, "--within", "0"])
    assert strict.exit_code == 1
    assert "No stitched model" in strict.output


def test_a_twin_says_everywhere_what_it_is_made_of(tmp_path):
    call = [*PAIR, "--splice", "--data", "demo", "-o", str(tmp_path / "twins"), "--within", "2%", "--json"]
    (made,) = json.loads(CliRunner().invoke(command, call).output)
    asked = ["SELECT MODELS CORR lenet-wide WITHIN 90% SEGMENTS", "--json"]
    (found,) = json.loads(CliRunner().invoke(query.command, asked).output)["matches"]
    assert (found["twin_of"], found["donor"]) == ("demo:lenet-wide@1.0.0", "demo:lenet-wide-int8@1.0.0")
    assert found["segments"].count("near weights") == len(made["segments"]) == 4
    assert found["segments"] in CliRunner().invoke(show.command, [made["manifest"]]).output
    told = CliRunner().invoke(runs.command, ["show", made["run"]]).output
    assert "twin of" in told
    assert "demo:lenet-wide-int8@1.0.0" in told
    none = CliRunner().invoke(query.command, [asked[0].replace(" SEGMENTS", ""), "--json"])
    assert not json.loads(none.output)["matches"]


def test_what_is_missing_is_said():
    result = CliRunner().invoke(command, [*PAIR, "--splice"])
    assert isinstance(result.exception, ZoolensError)
    assert "--data" in str(result.exception)


@pytest.mark.parametrize("share", ["much", "100%", "-1%"])
def test_a_share_that_is_none_is_refused(share):
    assert CliRunner().invoke(command, [*PAIR, "--within", share]).exit_code == 2
