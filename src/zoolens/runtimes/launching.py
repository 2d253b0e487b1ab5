"""Start a worker in another process: our own interpreter, or that of an environment which has no zoolens.

Such an environment is lent the files of zoolens (and of the plug-in in question) one by one, which does not open their
neighbours in our site-packages to it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import zoolens

if TYPE_CHECKING:
    from zoolens.runtimes.environments import Environment

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
importlib.import_module(settings["worker"]).main(settings, began)
"""


def launch(
    worker: str,
    settings: Mapping[str, Any],
    environment: Environment | None,
    plugin: str,
    *,
    variables: Mapping[str, str] | None = None,
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """Run `main(settings, began)` of the module `worker`; `plugin` is the module whose package it needs beside ours.

    `streams` go to Popen: stdin, stdout, stderr, pass_fds.
    """
    told = {**settings, "worker": worker, "lent": {}, "path": None}
    around = {**os.environ, **(variables or {})}
    if environment is None:
        python, flags = sys.executable, ["-P", "-u"]
        told["path"] = [str(Path(entry or ".").absolute()) for entry in sys.path]
    else:
        python, flags = str(environment.python), ["-I", "-u"]
        told["lent"] = _lent(plugin)
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            around.pop(name, None)
    return subprocess.Popen(
        [python, *flags, "-c", _BOOTSTRAP, json.dumps(told)],
        env=around,
        start_new_session=True,  # Ctrl-C is ours to handle, and the worker's whole family is one group
        **streams,
    )


def _lent(plugin: str) -> dict[str, str]:
    """Files of the top-level packages that the worker needs and its environment does not have."""
    lent = {"zoolens": str(Path(zoolens.__file__).absolute())}
    top = plugin.partition(".")[0]
    origin = importlib.import_module(top).__file__
    return lent | {top: str(Path(origin).absolute())} if origin else lent
