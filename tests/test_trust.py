"""The table of trust in docs/security.md: each row is tried through the command line."""

import pickle
import re
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

import zoolens as zl
from zoolens.base.engine.executors import ray
from zoolens.base.engine.executors.current_executor import running_on
from zoolens.base.engine.executors.executor import outcome_of, task
from zoolens.base.engine.executors.local import Local
from zoolens.base.errors import ZoolensError

DOCS = Path(__file__).parents[1] / "docs" / "security.md"
MANIFEST = """\
zoolens: 1
name: m
inputs: [{{modality: image, shape: [null, 8, 8], layout: NHW, color: gray}}]
outputs: [{{scores: logits}}]
assets: [{{format: {format}, files: [{{location: {file}}}]}}]
"""


@pytest.fixture
def marker(tmp_path):
    """A file that code makes if it runs."""
    return tmp_path / "marker"


@pytest.fixture
def code(tmp_path, marker):
    (tmp_path / "own.py").write_text(f"open({str(marker)!r}, 'w')\n\ndef net():\n    raise SystemExit('it ran')\n")
    return tmp_path / "own.py"


def test_your_own_functions_run_at_once(zoolens, code, marker):
    done = zoolens("port", "check", f"{code}:net", f"{code}:net", "--input", "3")
    assert done.returncode not in (0, 70)
    assert marker.exists()


def test_code_of_a_manifest_runs_only_when_allowed(zoolens, tmp_path, marker, data):
    manifest = tmp_path / "m.yaml"
    text = MANIFEST.format(format="fake", file="m.fake")
    manifest.write_text(f"{text}code: {{preprocess: \"open({str(marker)!r}, 'w')\"}}\n")
    (tmp_path / "m.fake").write_text("{}")
    done = zoolens("eval", manifest, "--data", data)
    assert done.returncode not in (0, 70)
    assert "--allow-code" in done.stdout + done.stderr
    assert not marker.exists()


@pytest.mark.parametrize("consent", [None, "allow"])
def test_code_of_a_manifest_runs_on_a_node_only_where_its_own_user_allowed_it(tmp_path, data, monkeypatch, consent):
    """Whoever sends the job allows code here: that does not count for another's machine. The node is this process."""
    (tmp_path / "m.yaml").write_text(MANIFEST.format(format="fake", file="m.fake") + "code: {preprocess: 'pass'}\n")
    (tmp_path / "m.fake").write_text("{}")
    if consent:
        monkeypatch.setenv("ZOOLENS_NODE_CODE", consent)
    else:
        monkeypatch.delenv("ZOOLENS_NODE_CODE", raising=False)

    class Node(Local):
        """Jobs arrive as they do on a node of a Ray cluster."""

        elsewhere = True

        def submit_telling(self, function, job, tell, **needs):
            future = Future()
            asked = {**task(function, job), ray._THREADS: None, ray._TIMED: False}
            try:
                future.set_result(outcome_of(ray._on_node(asked)))
            except ZoolensError as error:
                future.set_exception(error)
            return future

    with running_on(Node()):
        outcomes = zl.evaluate(
            tmp_path / "m.yaml",
            str(data),
            store=tmp_path / "s.sqlite",
            allow_code=True,
            cold=False,
            batches=(),
            limit=4,
        )
    said = " ".join(error for outcome in outcomes for error in outcome.errors)
    assert ("does not run it for others" in said) == (consent is None), said
    assert any(outcome.run for outcome in outcomes) == (consent is not None)
    assert not sys.modules["ray"].is_initialized()  # a job that runs where no cluster is starts none


@pytest.mark.parametrize("agreed", [False, True])
def test_a_recipe_of_port_runs_after_you_agree(zoolens, tmp_path, code, marker, agreed):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("a: own.py:net\nb: own.py:net\ninput: 3x8x8\ndata: own.py:batches\n")
    done = zoolens(*(["--yes"] if agreed else []), "port", "train", recipe)
    assert done.returncode not in (0, 70)
    said = " ".join(done.stderr.split())
    assert "own.py:net" in said
    assert "own.py:batches" in said
    assert "outside the sandbox" in said
    assert marker.exists() == agreed


@pytest.mark.parametrize("command", [("crosstrain", "train"), ("crosstrain", "run")])
def test_recipes_and_plans_of_crosstrain_name_no_code(zoolens, tmp_path, code, marker, command):
    path = tmp_path / "plan.yaml"
    path.write_text(f"name: x\nmodel: {code}:net\ncode: {code}:net\n")
    done = zoolens("--yes", *command, path)
    assert done.returncode not in (0, 70)
    assert not marker.exists()


def test_service_definitions_name_no_code(zoolens, tmp_path, code, marker):
    path = tmp_path / "service.yaml"
    path.write_text(f"services: {{x: {{reference: demo:lenet-wide, code: {code}:net}}}}\n")
    done = zoolens("--yes", "serve", "--services", path, "--check")
    assert done.returncode not in (0, 70)
    assert not marker.exists()


class _Bomb:
    def __init__(self, marker):
        self._marker = str(marker)

    def __reduce__(self):
        return open, (self._marker, "w")


@pytest.mark.parametrize(("kind", "name"), [("torchscript", "m.pt"), ("onnx", "m.onnx")])
def test_a_pickle_never_runs(zoolens, tmp_path, marker, data, kind, name):
    (tmp_path / name).write_bytes(pickle.dumps(_Bomb(marker)))
    manifest = tmp_path / "m.yaml"
    manifest.write_text(MANIFEST.format(format=kind, file=name))
    done = zoolens("--yes", "eval", manifest, "--data", data)
    assert done.returncode not in (0, 70)
    assert not marker.exists()


ROWS = {
    "you, on the command line of `port`": test_your_own_functions_run_at_once,
    "a manifest, under `code`": test_code_of_a_manifest_runs_only_when_allowed,
    "the same, on a node of a cluster": test_code_of_a_manifest_runs_on_a_node_only_where_its_own_user_allowed_it,
    "a recipe of `port train`": test_a_recipe_of_port_runs_after_you_agree,
    "a recipe or plan of `crosstrain`": test_recipes_and_plans_of_crosstrain_name_no_code,
    "a service definition": test_service_definitions_name_no_code,
    "a manifest or a stored run that needs packages": "src/zoolens/findings/comparisons/test_reproduce_environment.py",
    "a pickle, in any model file or dataset": test_a_pickle_never_runs,
    "a model file with a program": (
        "src/zoolens/inventory/runtimes/model_files/test_allowlists.py, "
        "src/zoolens/inventory/runtimes/isolation/test_sandbox.py"
    ),
}


def test_every_row_of_the_table_is_tried():
    """A row that has a text instead of a test here is tried in those files."""
    section = DOCS.read_text().split("## Whose code runs, and when")[1].split("## ")[0]
    rows = re.findall(r"^\| (?!what asks|---)(.*?) \|", section, re.MULTILINE)
    assert rows == list(ROWS)
    elsewhere = [name for tried in ROWS.values() if isinstance(tried, str) for name in tried.split(", ")]
    assert all((DOCS.parents[1] / name).is_file() for name in elsewhere)
