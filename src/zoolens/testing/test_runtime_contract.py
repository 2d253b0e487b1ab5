"""The contract catches runtimes that break it: each test here is a fault somebody could ship."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.fake import Fake, FakeSession, FakeSettings
from zoolens.inventory.runtimes.runtime import Effective
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract


class _Faulty(Fake):
    fault = FakeSession

    def compile(self, loaded, model, options):
        return self.fault(loaded)


class _KeepsItsAnswer(FakeSession):
    def predict(self, feeds):
        found = super().predict(feeds)
        self.__dict__.setdefault("_kept", found)["logits"][...] = found["logits"]
        return self._kept


class _WritesIntoFeeds(FakeSession):
    def predict(self, feeds):
        found = super().predict(feeds)
        feeds["input"][...] += 1
        return found


class _Remembers(FakeSession):
    def predict(self, feeds):
        self._calls = getattr(self, "_calls", 0) + 1
        return {"logits": super().predict(feeds)["logits"] + self._calls}


class _Deaf(FakeSession):
    def predict(self, feeds):
        return {"logits": np.zeros_like(super().predict(feeds)["logits"])}


class _MixesRows(FakeSession):
    def predict(self, feeds):
        found = super().predict(feeds)["logits"]
        return {"logits": found + found.sum()}


class _WrongType(FakeSession):
    def predict(self, feeds):
        return {"logits": super().predict(feeds)["logits"].astype(np.float64)}


class _Talkative(FakeSession):
    def predict(self, feeds):
        try:
            return super().predict(feeds)
        except ModelError as error:
            raise ModelError(f"{error}\n  at line 12\n") from error


class _Silent(FakeSession):
    def effective(self):
        return Effective(provider="numpy")


class _Global(FakeSession):
    latest = None

    def __init__(self, settings):
        super().__init__(settings)
        type(self).latest = self

    def close(self):
        type(self).latest = None

    def predict(self, feeds):
        return FakeSession.predict(self.latest, feeds)


class _Observed(FakeSession):
    """Changes the operators or the captured values, as subclasses say."""

    def change(self, operator):
        return operator

    def profile(self, feeds, repeats=1, *, kernels=False):
        profiles = super().profile(feeds, repeats, kernels=kernels)
        return [replace(run, operators=tuple(self.change(operator) for operator in run.operators)) for run in profiles]


class _EndsBeforeItBegins(_Observed):
    def change(self, operator):
        return replace(operator, duration=-1)


class _TakesLongerThanTheCall(_Observed):
    def change(self, operator):
        return replace(operator, start=None, duration=10**9)


class _OtherClock(_Observed):
    def change(self, operator):
        return replace(operator, start=operator.start // 1000)


class _OtherOperatorsEachTime(_Observed):
    def change(self, operator):
        self._calls = getattr(self, "_calls", 0) + 1
        return replace(operator, name=f"{operator.name}_{self._calls}")


class _ProfilesOnce(FakeSession):
    def profile(self, feeds, repeats=1, *, kernels=False):
        return super().profile(feeds, 1, kernels=kernels)


class _CapturesForeignNames(FakeSession):
    def capture(self, feeds, names):
        return super().capture(feeds, [name for name in names if name in ("scores", "logits")])


class _CapturesAnotherShape(FakeSession):
    def capture(self, feeds, names):
        captured = super().capture(feeds, names)
        return replace(captured, tensors={name: array[:, :2] for name, array in captured.tensors.items()})


class _CapturesTheLastBatch(FakeSession):
    def capture(self, feeds, names):
        return self.__dict__.setdefault("_kept", super().capture(feeds, names))


class _ChangesAnswersWhenObserved(FakeSession):
    def capture(self, feeds, names):
        captured = super().capture(feeds, names)
        return replace(captured, outputs={name: array + 1 for name, array in captured.outputs.items()})


class _HidesItsOutput(FakeSession):
    def capture_points(self):
        return (replace(super().capture_points()[0], dtype="float32"),)

    def capture(self, feeds, names):
        captured = super().capture(feeds, names)
        return replace(captured, tensors={name: np.float32(-array) for name, array in captured.tensors.items()})


class _ForgetsItsLimits(_Faulty):
    cannot = {key: reason for key, reason in Fake.cannot.items() if key != "set_threads"}  # noqa: RUF012


FAULTS = [
    (_KeepsItsAnswer, "test_answers_survive_the_next_call"),
    (_WritesIntoFeeds, "test_neither_changes_nor_keeps_its_feeds"),
    (_Remembers, "test_same_input_same_answer"),
    (_Deaf, "test_other_input_other_answer"),
    (_MixesRows, "test_a_batch_equals_its_rows"),
    (_WrongType, "test_answers_fit_the_declared_outputs"),
    (_Talkative, "test_feeds_that_do_not_fit_are_explained"),
    (_Silent, "test_reported_precision"),
    (_Global, "test_two_sessions_interleave"),
    (_EndsBeforeItBegins, "test_profile"),
    (_TakesLongerThanTheCall, "test_profile"),
    (_OtherClock, "test_profile"),
    (_OtherOperatorsEachTime, "test_profile"),
    (_ProfilesOnce, "test_profile"),
    (_CapturesForeignNames, "test_a_tensor_that_cannot_be_captured_is_explained"),
    (_CapturesAnotherShape, "test_capture"),
    (_CapturesTheLastBatch, "test_captures_together_and_again"),
    (_ChangesAnswersWhenObserved, "test_capture"),
    (_HidesItsOutput, "test_capture"),
]


@pytest.mark.parametrize(("fault", "caught_by"), FAULTS)
def test_a_faulty_session_is_caught(tmp_path, fault, caught_by):
    runtime = type("Faulty", (_Faulty,), {"fault": fault})()
    contract, files = RuntimeContract(), models.fake(tmp_path)
    known = {"runtime": runtime, "files": files, "session": runtime.open(files)}
    test = getattr(contract, caught_by)
    wanted = {name: known[name] for name in test.__func__.__annotations__ if name in known}
    with pytest.raises((AssertionError, AttributeError, ValueError, pytest.fail.Exception)):
        test(**wanted)


class _IgnoresThreads(FakeSession):
    def effective(self):
        return Effective(provider="numpy", precision="float32", threads=4)


def test_an_ability_that_does_not_work_is_caught(tmp_path):
    runtime = type("Liar", (_ForgetsItsLimits,), {"fault": _IgnoresThreads})()
    with pytest.raises(AssertionError):
        RuntimeContract().test_threads(runtime, models.fake(tmp_path))


@pytest.mark.parametrize("how", ["truncated", "garbage", "empty"])
def test_a_runtime_that_opens_anything_is_caught(tmp_path, how):
    class Credulous(_Faulty):
        def load(self, model, options):
            return FakeSettings(classes=3)

    class Contract(RuntimeContract):
        def model(self, tmp_path):
            return models.fake(tmp_path)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        Contract().test_a_damaged_file_is_an_explained_error(Credulous(), tmp_path, how)
