"""The tests do not depend on how they were started: a shell that ignores Ctrl-C hands that on to all it starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_tests_of_ctrl_c_pass_under_a_runner_that_ignores_it(tmp_path):
    node = f"src/zoolens/findings/graph/structures/test_export_pool.py::test_workers_end_with_us[{signal.SIGINT:d}]"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "t"), node]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
