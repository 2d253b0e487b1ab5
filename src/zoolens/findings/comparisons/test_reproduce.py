import pytest

from zoolens.base.store.records import Observation
from zoolens.findings.comparisons.reproduce import inside, verdicts


def ece(value, low, high):
    return Observation("ece", value, unit="fraction", low=low, high=high)


def test_the_same_value_holds_although_an_old_interval_excludes_it():
    then = ece(0.033, 0.034, 0.072)  # stored before intervals contained their estimate
    assert inside(then, then)
    assert not inside(then, ece(0.0331, 0.0331, 0.072))


def test_equal_answers_hold_by_definition_and_timings_and_files_do_not():
    then = [
        ece(0.033, 0.034, 0.072),
        Observation("latency_p50", 1.0, unit="s"),
        Observation("file_size", 5.0, unit="B"),
    ]
    now = [ece(0.0332, 0.0, 0.1), Observation("latency_p50", 2.0, unit="s"), Observation("file_size", 7.0, unit="B")]
    assert [one.inside for one in verdicts(then, now, same_answers=True)] == [True, False, False]
    assert [one.inside for one in verdicts(then, now)] == [False, False, False]


def test_a_figure_that_is_gone_is_not_reproduced():
    (verdict,) = verdicts([ece(0.1, 0.0, 0.2)], [], same_answers=True)
    assert not verdict.inside
    assert verdict.now is None


@pytest.mark.slow
def test_a_run_whose_calibration_error_lies_low_is_reproduced(tmp_path, monkeypatch):
    import zoolens
    from zoolens.findings.comparisons.reproduce import reproduce

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    with zoolens.open_store() as store:
        (outcome,) = zoolens.evaluate(
            "demo:resnet-tiny", "demo", runtimes="onnxruntime", batches=(), cold=False, store=store
        )
        result = reproduce(outcome.run.id, store=store)
        assert result.identical == 1
        assert result.holds
