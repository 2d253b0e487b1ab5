import sys

from zoolens.base.present.bars import Bars, spinner


def test_without_a_terminal_progress_is_a_line_at_every_tenth(capsys):
    with Bars(lines=True) as bars:
        bars.begin("the design", "runs", 40)
        for _ in range(40):
            bars.advance(1)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "the design: runs 0 of 40"
    assert said[-1] == "the design: runs 40 of 40"
    assert len(said) == 11


def test_others_stay_silent_without_a_terminal(capsys):
    with Bars() as bars:
        bars.begin("model", "latency", 4)
        bars.advance(4)
    assert capsys.readouterr().err == ""


def test_work_beside_is_drawn_apart_and_says_its_lines_once(capsys):
    with Bars(lines=True) as bars:
        bars.begin("on ray", "evaluating", 2)
        other = bars.beside()
        other.begin("lenet", "predictions", 10)
        other.advance(4)
        assert [task.description for task in bars.drawing.tasks] == ["on ray: evaluating", "lenet: predictions"]
        assert [task.completed for task in bars.drawing.tasks] == [0, 4]
        other.say("Making an environment.")
        other.end()
        assert [task.description for task in bars.drawing.tasks] == ["on ray: evaluating"]
    assert capsys.readouterr().err.splitlines() == ["on ray: evaluating 0 of 2", "Making an environment."]


def test_a_spinner_is_for_terminals(capsys, monkeypatch):
    with spinner("runs", "compare"):
        print("answer")
    assert capsys.readouterr() == ("answer\n", "")
    drawn = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(Bars, "begin", lambda _, *stage: drawn.append(stage))
    with spinner("runs", "compare"):
        assert drawn == [("runs", "compare", None)]


def test_on_a_terminal_something_is_drawn_before_the_first_stage(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Bars() as bars:
        assert [task.description for task in bars.drawing.tasks] == ["open"]
        bars.begin("model", "latency", 4)
        assert [task.description for task in bars.drawing.tasks] == ["model: latency"]
