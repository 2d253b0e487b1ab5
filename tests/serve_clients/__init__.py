"""Real clients of the Open Inference Protocol and of OpenAI, in environments of their own: some want another protobuf
than we pin.

Each `*_checks.py` here is run by the client's own Python against a running server, and prints what it found as JSON.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from zoolens.base.engine.environments import Environment, ensure_environment, list_environments, parse_env
from zoolens.base.errors import ZoolensError

FOLDER = Path(os.environ.get("ZOOLENS_CLIENTS") or Path(__file__).parents[2] / ".serve-clients")
SPECIFICATIONS = {
    "clients": "tritonclient[http,grpc]==2.73.0,kserve==0.21.0",
    "mlserver": "mlserver==1.7.1",
    "openai": "openai==3.51.0",
}


def environment(name: str) -> Environment:
    """An environment that `python -m tests.serve_clients` has made; skips aloud where it has not."""
    wanted = parse_env(SPECIFICATIONS[name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(FOLDER))
        for made in list_environments():
            if set(wanted.requirements) <= set(made.spec.requirements):
                return made
    pytest.skip(f"REAL CLIENTS ABSENT: {SPECIFICATIONS[name]}; run: make clients")


def make() -> None:
    """Make all environments at once: minutes the first time. Tests of what cannot be made are skipped."""
    os.environ["ZOOLENS_HOME"] = str(FOLDER)
    with ThreadPoolExecutor(len(SPECIFICATIONS)) as threads:
        list(threads.map(_make, SPECIFICATIONS.values()))


def _make(specification: str) -> None:
    try:
        print(specification, ensure_environment(parse_env(specification)).python, flush=True)
    except ZoolensError as error:
        print(f"{specification} cannot be installed, and its tests will be skipped: {error}", flush=True)
