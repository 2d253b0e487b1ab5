"""What others do beside a measurement; our own work and that of our processes is none of theirs."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoolens.base.engine.other_work import CpuTime, cpu_time, share_of_others

pytestmark = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="NOT TESTED: no /proc/stat here")
BUSY = "import time\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end: pass"


def test_own_work_and_that_of_ended_and_running_processes_is_our_own():
    before = cpu_time()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    running = subprocess.Popen([sys.executable, "-c", BUSY])
    time.sleep(0.3)
    after = cpu_time()
    running.wait()
    own = after.own - before.own
    assert own > 0.1  # of 0.6 and 0.3 seconds, if others want the cores too
    assert after.every - before.every > own - 0.1
    assert 0 <= share_of_others(before, after) <= 1


def test_the_share_is_of_all_cores():
    before, after = CpuTime(100.0, 10.0, 0.0, 2), CpuTime(101.5, 10.5, 1.0, 2)
    assert share_of_others(before, after) == pytest.approx(0.5)
    assert share_of_others(before, CpuTime(100.4, 10.5, 1.0, 2)) == 0.0
    assert share_of_others(before, CpuTime(101.5, 10.5, 0.05, 2)) is None
    assert share_of_others(before, CpuTime(101.5, 10.5, 1.0, 4)) is None
    assert share_of_others(None, after) is None


def test_the_work_of_others_is_seen():
    """A process that is nobody's child."""
    other = "import os\nif os.fork() == 0:\n os.setsid()\n" + "\n".join(f" {line}" for line in BUSY.splitlines())
    subprocess.run([sys.executable, "-c", other], check=True)
    before = cpu_time()
    time.sleep(0.4)
    after = cpu_time()
    assert share_of_others(before, after) * after.cores > 0.1
