"""A Ray cluster of separate processes on this machine, whose head and nodes are killed and started again one by one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil

PATIENCE = 120.0  # seconds for a node to join
OBJECT_STORE = 80 << 20  # bytes: Ray's smallest, about
# What differs between the nodes, as on machines of different size.
NODES = (
    {"cpus": 1, "resources": {"small": 1}},
    {"cpus": 1, "resources": {"small": 1, "disk": 10}},
    {"cpus": 2, "resources": {"large": 1}},
)


def killed(process: subprocess.Popen[bytes]) -> None:
    """Ends a process with all that it started, as a machine that loses its power does."""
    try:
        root = psutil.Process(process.pid)
        doomed = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        doomed = []
    for one in doomed:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
    psutil.wait_procs(doomed, timeout=10)


@dataclass
class RayCluster:
    """`folder`: for Ray's own files, with a short name, since sockets lie in it."""

    folder: Path
    environment: dict[str, str]
    port: int = 0
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def names(self) -> list[str]:
        return [f"node {number}" for number in range(len(NODES))]

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.start_head()
        for name in self.names:
            self.start_node(name)

    def start_head(self) -> None:
        words = ["--head", f"--port={self.port}", "--num-cpus=0", "--include-dashboard=false"]
        deadline = time.monotonic() + PATIENCE
        while True:
            # The port may still be taken by the head that was killed.
            process = self._ray(*words)
            while process.poll() is None and time.monotonic() < deadline:
                if self._listens():
                    self.running["head"] = process
                    return
                time.sleep(0.2)
            killed(process)
            if time.monotonic() > deadline:
                raise RuntimeError("The head of the Ray cluster did not start.")
            time.sleep(1)

    def start_node(self, name: str) -> None:
        size = NODES[self.names.index(name)]
        words = [
            f"--address={self.address}",
            f"--num-cpus={size['cpus']}",
            f"--resources={json.dumps(size['resources'])}",
        ]
        self.running[name] = self._ray(*words)

    def kill(self, name: str) -> None:
        killed(self.running.pop(name))

    def restart_head(self) -> None:
        """Without a Redis nothing of the old cluster is kept: its nodes start again too, as a supervisor does it."""
        for name in self.names:
            if name in self.running:
                self.kill(name)
        self.start_head()
        for name in self.names:
            self.start_node(name)

    def stop(self) -> None:
        for name in list(self.running):
            self.kill(name)

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _ray(self, *words: str) -> subprocess.Popen[bytes]:
        start = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--disable-usage-stats"]
        start += ["--node-ip-address=127.0.0.1", f"--object-store-memory={OBJECT_STORE}", *words]
        # A folder for each: nodes of one machine that start at the same moment would choose the same names for sockets.
        start.append(f"--temp-dir={self.folder}/{next(self._numbers)}")
        with (self.folder.parent / "ray.log").open("ab") as log:
            return subprocess.Popen(start, stdout=log, stderr=log, env={**os.environ, **self.environment})
