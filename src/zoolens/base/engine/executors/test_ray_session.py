"""A Ray cluster that ends and comes back, without Ray: a real one is in tests/test_storm.py."""

import socket
import sys
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from zoolens.base.engine.executors import ray as ray_executor
from zoolens.base.engine.executors import ray_session
from zoolens.base.engine.executors.executor import perform, run_jobs
from zoolens.base.engine.executors.ray import RayExecutor
from zoolens.base.engine.executors.ray_session import RaySession, Seen
from zoolens.base.errors import ZoolensError

ANSWER = "zoolens.testing.executor_contract:answer"
JOB = {"do": "answer", "number": 3, "content": b""}


class Cluster:
    """What the executor uses of Ray. `answers`: whether jobs end; a cluster that is dead never says anything."""

    def __init__(self, seen=None):
        self.seen = seen or SimpleNamespace(now=Seen.SAME)
        self.answers, self.joins, self.cores = False, 0, [1.0]
        worker = SimpleNamespace(global_worker=SimpleNamespace(node=SimpleNamespace(session_name="first")))
        self._private = SimpleNamespace(worker=worker, utils=SimpleNamespace())
        self.exceptions = SimpleNamespace(RayTaskError=KeyError)
        self.up = True

    def get_runtime_context(self):
        return SimpleNamespace(gcs_address="127.0.0.1:1")

    def init(self, **_):
        self.joins += 1
        self.answers = self.up = True

    def shutdown(self):
        self.up = False

    def is_initialized(self):
        return self.up

    def cluster_resources(self):
        assert self.up, "Ray would start another cluster"
        assert self.seen.now is Seen.SAME, "Ray would end this process"
        return {"CPU": 2.0}

    def nodes(self):
        assert self.seen.now is Seen.SAME, "Ray would end this process"
        cores = self.cores.pop(0) if len(self.cores) > 1 else self.cores[0]
        return [{"NodeID": "n", "Alive": True, "Resources": {"CPU": cores}}]

    def remote(self, function):
        def submit(message):
            assert self.up, "Ray would start another cluster"
            future = Future()
            if self.answers:
                asked = {name: message[name] for name in ("function", "job", "trust", "version")}
                future.set_result(perform(asked))
            return SimpleNamespace(future=lambda: future)

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=submit))


@pytest.fixture
def seen(monkeypatch):
    """What the executor sees of its cluster, which a test may change."""
    state = SimpleNamespace(now=Seen.SAME)
    monkeypatch.setattr(RaySession, "look", lambda self: state.now)
    monkeypatch.setattr(ray_session, "_refusal", lambda address: None)
    for name, value in (("_EVERY", 0.01), ("_PAUSE", 0.01), ("_AWAY", 0.05)):
        monkeypatch.setattr(ray_session, name, value)
    monkeypatch.setattr(ray_session.RaySession, "_remember", remembering(state))
    monkeypatch.setenv("ZOOLENS_JOB_PAUSE", "0.01")
    return state


def remembering(state):
    def remember(self):
        self.address, state.now = "127.0.0.1:1", Seen.SAME

    return remember


def test_another_cluster_is_not_asked_about_the_one_that_we_joined(seen, monkeypatch):
    monkeypatch.setattr(ray_executor, "_FRESH", 0.0)
    monkeypatch.setattr(ray_executor, "_NODES", 0.0)
    monkeypatch.setattr(ray_session, "_EVERY", 60.0)  # nobody has noticed yet
    cluster = Cluster(seen)
    executor = RayExecutor(cluster, ends_cluster=True, watched="127.0.0.1:1")
    assert executor.capacity == 2
    seen.now = Seen.OTHER
    assert executor.capacity == 2
    with pytest.raises(ZoolensError, match="has a CPU"):
        executor.submit(ANSWER, JOB, whole_machine=True)
    executor.close()


@pytest.mark.parametrize("what", [Seen.OTHER, Seen.AWAY])
def test_jobs_of_a_cluster_that_is_gone_are_given_to_the_one_that_takes_its_place(seen, what, caplog):
    cluster = Cluster()
    executor = RayExecutor(cluster, ends_cluster=True, watched="127.0.0.1:1")
    results = []
    waiting = threading.Thread(target=lambda: results.extend(run_jobs(executor, ANSWER, [JOB, JOB, JOB])), daemon=True)
    waiting.start()
    while not executor._attempts:
        pass
    seen.now = what
    waiting.join(20)
    assert sorted(number for number, _ in results) == [0, 1, 2]
    assert not any(isinstance(answer, ZoolensError) for _, answer in results)
    assert cluster.joins == 1
    assert "is gone; its jobs are given out again" in caplog.text
    executor.close()


def test_a_cluster_that_is_lost_while_it_is_joined_is_joined_again(seen, monkeypatch):
    class Reports:
        """What jobs tell, on a cluster that is gone before it can be asked for a mailbox."""

        mailbox, opened = None, 0

        def open(self):
            self.opened += 1
            if self.opened == 1:
                raise ConnectionError("It is away again.")

        def close(self):
            pass

    cluster = Cluster()
    executor = RayExecutor(cluster, ends_cluster=True, watched="127.0.0.1:1")
    executor._reports = Reports()
    future = executor.submit(ANSWER, JOB)
    seen.now = Seen.OTHER
    assert future.result(20)["twice"] == 6
    assert (cluster.joins, executor._reports.opened) == (2, 2)
    executor.close()


def test_a_cluster_that_does_not_come_back_is_said(seen, monkeypatch):
    monkeypatch.setattr(ray_session, "_REJOIN", 0.05)
    monkeypatch.setattr(ray_executor, "_join", refused)
    cluster = Cluster()
    executor = RayExecutor(cluster, ends_cluster=True, watched="127.0.0.1:1")
    future = executor.submit(ANSWER, JOB)
    seen.now = Seen.OTHER
    with pytest.raises(ZoolensError, match=r"at 127.0.0.1:1 did not come back: The cluster refuses"):
        future.result(20)
    with pytest.raises(ZoolensError, match="did not come back"):
        executor.submit(ANSWER, JOB)
    executor.close()


def refused(ray, where):
    raise ZoolensError("The cluster refuses.")


def test_a_cluster_whose_nodes_are_still_starting_is_waited_for(monkeypatch):
    monkeypatch.setattr(ray_executor, "_LOOK", 0.01)
    cluster = Cluster()
    cluster.answers, cluster.cores = True, [0.0, 0.0, 2.0]
    executor = RayExecutor(cluster, ends_cluster=False)
    assert executor.submit(ANSWER, JOB, whole_machine=True).result(5)
    monkeypatch.setattr(ray_executor, "_NODES", 0.02)
    cluster.cores = [0.0]
    with pytest.raises(ZoolensError, match="has a CPU for jobs"):
        executor.submit(ANSWER, JOB, whole_machine=True)


@pytest.mark.parametrize("address", ["{}", "ray://{}"])
def test_an_address_at_which_nobody_listens_is_said_at_once(monkeypatch, address):
    monkeypatch.setattr(ray_executor, "_STARTS", 0.1)
    monkeypatch.setattr(ray_session, "_TRY", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = f"127.0.0.1:{taken.getsockname()[1]}"
        ray_session.wait_for_listener(free, 0.0)
    for nobody, reason in ((free, "nobody listens there"), ("no-such-host.invalid:10001", "its host is unknown")):
        with pytest.raises(ZoolensError, match=f"The Ray cluster at {nobody} cannot be used: {reason}"):
            ray_executor._join(Cluster(), address.format(nobody))


def test_a_process_that_is_in_another_cluster_does_not_pass_it_off_as_this_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Cluster())
    assert RayExecutor.open(None).capacity == 2
    with pytest.raises(ZoolensError, match="in a Ray cluster already, which need not be that at ray://head:10001"):
        RayExecutor.open("ray://head:10001")
    monkeypatch.setattr(ray_executor, "_joined_last", "ray://head:10001")
    assert RayExecutor.open("ray://head:10001").capacity == 2
