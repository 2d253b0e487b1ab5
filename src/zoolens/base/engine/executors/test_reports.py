"""What jobs tell, as the caller's bars show it."""

from concurrent.futures import Future

from zoolens.base.engine.executors.executor import Executor, outcome_of, perform, run_jobs, task
from zoolens.base.engine.executors.reports import JobBars, job_progress, teller, telling
from zoolens.base.progress import Silent

ANSWER = "zoolens.testing.executor_contract:answer"


class Recorded(Silent):
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def begin(self, title, stage, total, unit=""):
        self.told.append(("begin", title, stage, total, unit))

    def advance(self, steps):
        self.told.append(("advance", steps))

    def end(self):
        self.told.append(("end",))

    def say(self, text):
        self.told.append(("say", text))


class RecordedBeside(Recorded):
    def __init__(self):
        super().__init__()
        self.others = []

    def beside(self):
        self.others.append(Recorded())
        return self.others[-1]


def messages():
    """What a job tells that downloads a file of 7 bytes."""
    sent = []
    with telling(sent.append):
        progress = job_progress()
        progress.begin("lenet", "download", 7, "B")
        progress.advance(3)
        progress.advance(4)
        progress.say("Done.")
    return sent


SHOWN = [("begin", "lenet", "download", 7, "B"), ("advance", 3), ("advance", 4), ("say", "Done.")]


def test_a_single_job_has_the_bar_for_itself():
    progress = Recorded()
    with JobBars(progress, "on ray", "evaluating", 1) as bars:
        for message in messages():
            bars.told(0, message)
        bars.finished(0)
    assert progress.told[:-2] == [("begin", "on ray", "evaluating", 1, ""), *SHOWN]


def test_several_jobs_have_bars_beside_the_one_that_counts_them():
    progress = RecordedBeside()
    with JobBars(progress, "on ray", "evaluating", 2) as bars:
        for number in (1, 0):
            for message in messages():
                bars.told(number, message)
        bars.finished(1)
    assert progress.told == [("begin", "on ray", "evaluating", 2, ""), ("advance", 1), ("end",)]
    assert [other.told for other in progress.others] == [[*SHOWN, ("end",)]] * 2


def test_where_one_bar_can_be_shown_other_jobs_only_speak():
    progress = Recorded()
    with JobBars(progress, "on ray", "evaluating", 2) as bars:
        for message in messages():
            bars.told(1, message)
        bars.finished(1)
    assert progress.told == [("begin", "on ray", "evaluating", 2, ""), ("say", "Done."), ("advance", 1), ("end",)]


def test_a_job_that_starts_over_on_another_machine_starts_its_bar_over():
    progress = Recorded()
    with JobBars(progress, "on ray", "evaluating", 1) as bars:
        for message in [*messages()[:2], *messages()]:
            bars.told(0, message)
    assert progress.told[1:-2] == [*SHOWN[:2], *SHOWN]


def test_steps_that_follow_quickly_share_a_message():
    sent = []
    with telling(sent.append):
        progress = job_progress()
        progress.begin("lenet", "predictions", 1000)
        for _ in range(1000):
            progress.advance(1)
    assert len(sent) < 20
    assert sent[-1] == {"done": 1000}


def test_outside_of_a_job_nobody_is_told():
    sent = []
    with telling(sent.append):
        pass
    teller()({"say": "Is anybody there?"})
    assert sent == []


class Older(Executor):
    """An executor as plug-ins wrote them before jobs could tell anything."""

    name, summary, capacity = "older", "An older plug-in", 1

    @classmethod
    def open(cls, address):
        return cls()

    def submit(self, function, job, *, whole_machine=False, gpu=False):
        future = Future()
        future.set_result(outcome_of(perform(task(function, job))))
        return future


def test_an_executor_that_carries_no_reports_still_runs_jobs():
    told = []
    jobs = [{"do": "tell", "number": 2, "content": b"", "seconds": 0}]
    [(number, answer)] = run_jobs(Older(), ANSWER, jobs, told=lambda *report: told.append(report))
    assert (number, answer["twice"], told) == (0, 4, [])
