import mmap
import os
import time

from zoolens.inventory.runtimes.timing.calls import observed_calls


def test_every_call_is_timed_between_two_readings_of_the_clock():
    before = time.time_ns()
    calls = observed_calls(lambda: sum(range(20_000)), 3)
    after = time.time_ns()
    assert len(calls) == 3
    assert all(before <= call.start and call.start + call.duration <= after for call in calls)
    assert all(call.duration > 0 for call in calls)
    assert [call.start for call in calls] == sorted(call.start for call in calls)


def test_page_faults_of_the_call_are_counted():
    pages = 64

    def touch():
        with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
            for page in range(pages):
                memory[page * mmap.PAGESIZE] = 1

    (call,) = observed_calls(touch, 1)
    assert call.minor_faults >= 1  # large pages take fewer than one fault for each
    assert call.major_faults >= 0


def test_waiting_of_its_own_accord_is_a_voluntary_switch():
    (call,) = observed_calls(lambda: time.sleep(0.001), 1)
    assert call.voluntary_switches >= 1
    assert call.delay is None or call.delay >= 0


def test_what_the_kernel_does_not_count_is_none():
    (call,) = observed_calls(lambda: None, 1)
    assert all(value is None or value >= 0 for value in (call.migrations, call.cycles, call.instructions))


def test_time_on_cores_is_that_of_the_call_whatever_the_process_did_before():
    until = time.perf_counter() + 0.05
    while time.perf_counter() < until:
        os.getppid()  # some of this time is the kernel's, and none of that of the calls below
    calls = observed_calls(lambda: sum(range(20_000)), 5)
    assert all(0 < call.on_cores <= 1.1 * call.duration + 50_000 for call in calls)


def test_time_on_cores_leaves_out_what_was_waited():
    (call,) = observed_calls(lambda: time.sleep(0.02), 1)
    assert call.on_cores < call.duration / 2
