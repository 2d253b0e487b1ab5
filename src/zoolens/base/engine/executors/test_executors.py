"""The contract of executors, on this machine; a real Ray cluster is in tests/test_ray.py."""

import platform
import sys
from types import SimpleNamespace

import pytest

from zoolens.base.engine.executors.current_executor import current_executor, open_executor, running_on
from zoolens.base.engine.executors.executor import check_reachable, perform, task
from zoolens.base.engine.executors.local import Local
from zoolens.base.engine.executors.ray import _translated, _unnamed_secrets
from zoolens.base.errors import (
    AssetError,
    ConstraintError,
    MissingDependency,
    UnexpectedError,
    UnknownName,
    WorkerError,
)
from zoolens.testing.executor_contract import ExecutorContract

ANSWER = "zoolens.testing.executor_contract:answer"


class TestLocal(ExecutorContract):
    def executor(self):
        return Local()


class TestEachKind(ExecutorContract):
    """On this machine, where a job names no node; the other half is a Ray cluster."""

    def executor(self):
        return open_executor("each-kind")


def test_a_function_that_is_not_there_is_said():
    with pytest.raises(UnexpectedError, match=rf"absent on {platform.node()} met an unexpected"):
        Local().submit("zoolens.testing.executor_contract:absent", {}).result()


def test_nothing_can_be_submitted_to_one_that_is_closed():
    executor = Local()
    executor.submit(ANSWER, {"do": "answer", "number": 1, "content": b""}).result()
    executor.close()
    with pytest.raises(RuntimeError, match="closed"):
        executor.submit(ANSWER, {})


def test_another_version_is_refused():
    asked = {**task(ANSWER, {}), "version": "0.0.1"}
    told = perform(asked)["error"]
    assert told["type"] == ConstraintError.__name__
    assert platform.node() in told["message"]


def test_a_path_that_a_node_does_not_have_is_named(tmp_path):
    check_reachable([str(tmp_path)])
    with pytest.raises(AssetError, match=f"{platform.node()} has no {tmp_path}/absent"):
        check_reachable([str(tmp_path), f"{tmp_path}/absent"])


def test_one_is_chosen_for_as_long_as_it_is_wanted():
    assert not current_executor().elsewhere
    chosen = Local()
    with running_on(chosen):
        assert current_executor() is chosen
    assert current_executor() is not chosen


def test_one_that_is_chosen_by_name_is_opened_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with running_on("ray"), pytest.raises(MissingDependency):
        current_executor()
    with pytest.raises(UnknownName), running_on("slurm"):
        pytest.fail("an unknown name is said at once")


def test_names_are_those_of_plug_ins():
    assert isinstance(open_executor("local"), Local)
    with pytest.raises(UnknownName, match="place to run work on named 'slurm'"):
        open_executor("slurm://host")


def test_missing_ray_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"zoolens\[ray\]"):
        open_executor("ray")


def test_what_ray_itself_raises_is_a_sentence():
    from concurrent.futures import Future

    answer = Future()
    translated = _translated(answer)
    answer.set_exception(RuntimeError("node died\nmore"))
    with pytest.raises(WorkerError, match="A job was lost on Ray: RuntimeError: node died"):
        translated.result()


def test_a_cluster_is_not_told_the_password_in_our_command_line():
    """Ray shows the command of whoever connects to everybody on the cluster."""
    said = "python -m zoolens eval m --store postgresql://ada:open-sesame@db/x"
    tools = SimpleNamespace(get_entrypoint_name=lambda: said)
    with _unnamed_secrets(SimpleNamespace(_private=SimpleNamespace(utils=tools))):
        assert tools.get_entrypoint_name() == "python -m zoolens eval m --store postgresql://***@db/x"
    assert tools.get_entrypoint_name() == said
