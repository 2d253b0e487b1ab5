"""The contract catches runtimes that break it: each test here is a fault somebody could ship."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.errors import ModelError
from zoolens.runtimes.base import Effective
from zoolens.runtimes.fake import Fake, FakeSession, Settings
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
]


@pytest.mark.parametrize(("fault", "caught_by"), FAULTS)
def test_a_faulty_session_is_caught(tmp_path, fault, caught_by):
    runtime = type("Faulty", (_Faulty,), {"fault": fault})()
    contract, files = RuntimeContract(), models.fake(tmp_path)
    known = {"runtime": runtime, "files": files, "session": runtime.open(files)}
    test = getattr(contract, caught_by)
    wanted = {name: known[name] for name in test.__func__.__annotations__ if name in known}
    with pytest.raises((AssertionError, AttributeError, ValueError)):
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
            return Settings(classes=3)

    class Contract(RuntimeContract):
        def model(self, tmp_path):
            return models.fake(tmp_path)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        Contract().test_a_damaged_file_is_an_explained_error(Credulous(), tmp_path, how)
