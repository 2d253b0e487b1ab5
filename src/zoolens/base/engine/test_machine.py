"""Facts about the machine."""

import os

import pytest

from zoolens.base.engine import machine


def test_this_machine_is_described():
    found = machine.describe_machine()
    assert found.cores == len(os.sched_getaffinity(0))
    assert 1 << 20 < found.memory_bytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert list(found.flags) == sorted(set(found.flags))
    assert found.cpu
    assert found.os
    assert found.kernel.startswith("Linux")
    assert found == machine.describe_machine()


def test_cores_follow_the_affinity_mask():
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("one core only")
    os.sched_setaffinity(0, {min(before)})
    try:
        assert machine.describe_machine().cores == 1
    finally:
        os.sched_setaffinity(0, before)


def test_the_smallest_limit_of_all_control_groups_counts(tmp_path):
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "memory.max").write_text("1000\n")
    (tmp_path / "outer" / "inner" / "memory.max").write_text("max\n")
    assert machine._memory_limits("0::/outer/inner\n", tmp_path) == [1000]


def test_old_control_groups_are_read_too(tmp_path):
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("2000")
    assert machine._memory_limits("4:cpu:/\n3:memory:/hidden/elsewhere\n", tmp_path) == [2000]


@pytest.mark.parametrize(
    ("stat", "has"), [("cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1", True), ("cpu 1 2 3 4", False), ("", False)]
)
def test_steal_time_is_found_where_the_kernel_reports_it(stat, has):
    assert machine._has_steal(stat) is has


@pytest.mark.parametrize(
    ("script", "found"),
    [("echo NVIDIA H200; echo 'Tesla T4'", ("NVIDIA H200", "Tesla T4")), ("echo no driver; exit 9", ())],
)
def test_gpus_are_named_in_their_order(tmp_path, monkeypatch, script, found):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    machine.gpu_names.cache_clear()
    assert machine.gpu_names() == found
    machine.gpu_names.cache_clear()
