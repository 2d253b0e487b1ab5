"""Start a worker in another process: our own interpreter, or that of an environment which has no zoolens.

Such an environment is lent the files of zoolens (and of the plug-in in question) one by one, which does not open their
neighbours in our site-packages to it. With a policy, the worker is sandboxed before it imports anything else, and is
given only the environment variables that frameworks need.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zoolens.base.engine.lasting_thread import started_for_good
from zoolens.base.engine.policy import lent_modules, worker_variables
from zoolens.base.engine.sandbox import Policy

if TYPE_CHECKING:
    from zoolens.base.engine.environments import Environment

# `began` is when Python was there: what is imported after it is part of a cold start.
_BOOTSTRAP: Final = """\
import time
began = time.monotonic_ns()
import importlib, json, sys
from importlib.util import spec_from_file_location
settings = json.loads(sys.argv[1])
class Lent:
    def find_spec(self, name, path=None, target=None):
        return spec_from_file_location(name, settings["lent"][name]) if name in settings["lent"] else None
if settings["path"] is not None:
    sys.path[:] = settings["path"]
sys.meta_path.insert(0, Lent())
if settings["sandbox"] is not None:
    settings["confined"] = importlib.import_module("zoolens.base.engine.sandbox").confine(settings["sandbox"])
importlib.import_module(settings["worker"]).main(settings, began)
"""


def launch(
    worker: str,
    settings: Mapping[str, Any],
    environment: Environment | None,
    plugin: str,
    *,
    variables: Mapping[str, str] | None = None,
    policy: Policy | None = None,
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """Run `main(settings, began)` of the module `worker`; `plugin` is the module whose package it needs beside ours.

    `streams` go to Popen: stdin, stdout, stderr, pass_fds. With a `policy`, settings["confined"] says what is in force.
    """
    sandbox = {**asdict(policy), "parent": os.getpid()} if policy else None
    message = {**settings, "worker": worker, "lent": {}, "path": None, "sandbox": sandbox}
    around = {**(worker_variables(Path(policy.scratch), os.environ) if policy else os.environ), **(variables or {})}
    if environment is None:
        python, flags = sys.executable, ["-P", "-u"]
        message["path"] = [str(Path(entry or ".").absolute()) for entry in sys.path]
    else:
        python, flags = str(environment.python), ["-I", "-u"]
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            around.pop(name, None)
    if environment is not None or policy is not None:
        message["lent"] = lent_modules(plugin)

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [python, *flags, "-c", _BOOTSTRAP, json.dumps(message)],
            env=around,
            cwd=policy.scratch if policy else None,
            # Ctrl-C is ours to handle, and the worker's whole family is one group.
            start_new_session=True,
            **streams,
        )

    return started_for_good(start)
