from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from zoolens.faces.cli.models import command

MANIFEST = """\
zoolens: 1
name: {name}
inputs: [{{shape: [1, 3, 8, 8]}}]
outputs: [{{}}]
claims: [{{metric: top1, value: 0.75, unit: fraction, source: me}}, {{metric: params, value: {params}, source: me}}]
"""


@pytest.fixture(autouse=True)
def zoo(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_ZOO_PATH", str(tmp_path / "zoo"))
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "small.yaml").write_text(MANIFEST.format(name="small", params=4_200_000))
    (tmp_path / "zoo" / "large.yaml").write_text(MANIFEST.format(name="large", params=60_000_000))
    (tmp_path / "zoo" / "bare.onnx").write_bytes(b"x")
    return tmp_path / "zoo"


def invoke(*args: str):
    result = CliRunner().invoke(command, ["--zoo", "folder", *args])
    assert result.exit_code == 0, result.output
    return result


def test_table():
    lines = invoke().stdout.splitlines()
    assert lines[0].split() == ["model", "task", "weights", "formats", "params", "claimed", "top-1"]
    assert any(line.split()[:1] == ["folder:small"] and "4.20M" in line and "75.0 %" in line for line in lines)
    assert any("folder:bare.onnx" in line and "no manifest" in line for line in lines)


def test_filters_and_json():
    rows = json.loads(invoke("--json", "--max-params", "5M").stdout)
    assert [row["ref"] for row in rows] == ["folder:small"]
    assert rows[0]["params"] == 4_200_000
    assert rows[0]["weights"] == "structure only"
    assert [r["ref"] for r in json.loads(invoke("--json", "--weights", "present").stdout)] == ["folder:bare.onnx"]
    assert [r["ref"] for r in json.loads(invoke("--json", "--search", "LARGE").stdout)] == ["folder:large"]
    assert "No model fits." in invoke("--search", "nothing").stdout


def test_notes_go_to_standard_error(zoo):
    (zoo / "bad.yaml").write_text("zoolens: 1\nbad: 1\n")
    result = invoke("--json")
    assert len(json.loads(result.stdout)) == 3
    assert "bad.yaml is not a valid manifest" in result.stderr


def test_a_large_zoo_is_one_line_until_named(zoo, monkeypatch):
    monkeypatch.setattr("zoolens.base.plugins.names", lambda _: ["folder"])
    for n in range(101):
        (zoo / f"m{n}.onnx").write_bytes(b"x")
    result = CliRunner().invoke(command, [])
    assert "folder: 104 models; list them with --zoo folder" in result.stdout
    assert "m17.onnx" not in result.stdout
    assert "m17.onnx" in CliRunner().invoke(command, ["--all"]).stdout


@pytest.mark.parametrize("text", ["", "M", "many", "5X"])
def test_a_bad_count_is_refused(text):
    result = CliRunner().invoke(command, ["--max-params", text])
    assert result.exit_code == 2
    assert "is not a count" in result.output


def test_figures_of_several_tasks_are_named(zoo):
    detector = (
        MANIFEST.format(name="detector", params=1_000).replace("top1", "box_map").replace("[{}]", "[{task: other}]")
    )
    (zoo / "detector.yaml").write_text(f"{detector}attributes: {{task: detection}}\n")
    lines = invoke().stdout.splitlines()
    assert lines[0].split()[-1] == "claimed"
    assert any("folder:small" in line and "top1 75.0 %" in line for line in lines)
    assert any("folder:detector" in line and "detection" in line and "box_map 75.0 %" in line for line in lines)
    assert "folder:detector" in invoke("--task", "detection").stdout
    assert "folder:small" not in invoke("--task", "detection").stdout
