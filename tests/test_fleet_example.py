"""examples/fleet: what can be held to without a container engine, and its script as it runs on a machine."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from zoolens.base.store.agents import load_agents
from zoolens.base.store.store import open_store

EXAMPLE = Path(__file__).parents[1] / "examples" / "fleet"
SCRIPT = EXAMPLE / "node.sh"


def read(name):
    return yaml.safe_load((EXAMPLE / name).read_text(encoding="utf-8"))


def pods():
    cluster = read("kuberay/cluster.yaml")["spec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    job = read("kuberay/nightly.yaml")["spec"]["jobTemplate"]["spec"]
    return [one["template"]["spec"] for one in (*groups, job)]


def test_no_container_of_ours_is_root_or_gains_rights():
    assert re.search(r"^USER 10001$", (EXAMPLE / "Containerfile").read_text(), re.MULTILINE)
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    for name, service in read("compose.yaml")["services"].items():
        if service.get("image") == "zoolens-node":
            assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"]), name


def test_ray_is_published_to_nobody_and_no_password_is_written_down():
    services = read("compose.yaml")["services"]
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"explorer": ["127.0.0.1:8800:8800"]}
    text = (EXAMPLE / "compose.yaml").read_text()
    names = set(re.findall(r"\$\{(\w+)\}", text))
    assert names == set(re.findall(r"^(\w+)=", (EXAMPLE / "example.env").read_text(), re.MULTILINE))
    agents = [services[name]["environment"]["ZOOLENS_STORE"] for name in ("head", "worker-new", "worker-old")]
    assert {store.partition("://")[2].partition(":")[0] for store in agents} == {"ant"}


def test_versions_are_those_that_are_installed():
    pinned = re.search(r"^ray==(\S+)$", (EXAMPLE.parents[1] / "constraints.txt").read_text(), re.MULTILINE)
    assert read("kuberay/cluster.yaml")["spec"]["rayVersion"] == pinned[1]


@pytest.mark.parametrize(
    ("arguments", "words"), [((), "say head"), (("x",), "x is no role"), (("worker",), "HEAD:PORT")]
)
def test_the_script_says_what_it_lacks(arguments, words):
    done = subprocess.run(
        ["bash", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ZOOLENS_STORE": "x"},
    )
    assert done.returncode != 0
    assert words in done.stderr


def free_ports(count):
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


@pytest.mark.slow
def test_a_node_is_on_the_list_while_the_script_runs(tmp_path):
    """The script as the container starts it: a Ray head and an agent; SIGTERM ends both."""
    pytest.importorskip("ray", reason="RAY ABSENT: the script of examples/fleet was not run")
    ray_port, client_port, metrics = free_ports(3)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "zoolens").write_text(f'#!/bin/sh\nexec {sys.executable} -m zoolens "$@"\n')
    (programs / "zoolens").chmod(0o755)
    folder = Path(f"/tmp/zoolens-node-{os.getpid()}")  # sockets of Ray must have short paths
    path = tmp_path / "store.sqlite"
    environment = {
        **os.environ,
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ZOOLENS_STORE": str(path),
        "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
        "RAY_PORT": str(ray_port),
        "RAY_CLIENT_PORT": str(client_port),
        "RAY_OPTIONS": f"--temp-dir={folder} --num-cpus=1 --include-dashboard=false",
        "AGENT_OPTIONS": f"--name node --lease 6 --metrics {metrics}",
    }
    open_store(path).close()
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(["bash", SCRIPT, "head"], env=environment, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + 240
        with open_store(path) as store:
            while not (listed := load_agents(store)):
                assert process.poll() is None, (tmp_path / "said").read_text()
                assert time.monotonic() < deadline, (tmp_path / "said").read_text()
                time.sleep(0.5)
            assert listed[0].name == "node"
            assert listed[0].facts["node"]
            process.send_signal(signal.SIGTERM)
            process.wait(120)
            assert load_agents(store, lost=True) == []
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", ray_port), timeout=5)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)
