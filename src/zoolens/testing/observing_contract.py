"""What every runtime must do that shows the inside of a model: times of its operators, and tensors between them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.inventory.runtimes.observing import CapturePoint, Profile
from zoolens.inventory.runtimes.runtime import Runtime, Session, Tensor
from zoolens.testing.runtime_case import RuntimeCase


class ObservingContract(RuntimeCase):
    """A runtime that cannot profile or capture says so, and is not asked.

    One in a process of its own answers with the sentence of its declaration, others with NotImplementedError."""

    unable = (NotImplementedError, UnsupportedAbility)

    def test_profile(self, runtime: Runtime, session: Session) -> None:
        feeds = self.feeds(session)
        if not runtime.can("profile"):
            with pytest.raises(self.unable):
                session.profile(feeds)
            return
        wanted = session.predict(feeds)
        profiles = session.profile(feeds, 3)
        assert len(profiles) == 3
        for profile in profiles:
            self.check_profile(profile, session.effective().threads or os.cpu_count() or 1)
        names = [sorted((operator.name, operator.kind) for operator in profile.operators) for profile in profiles]
        assert names[1] == names[2], "the same prediction has the same operators"
        self.same(session.predict(feeds), wanted)

    def test_extend(self, runtime: Runtime, session: Session) -> None:
        # What it answers where it can is tested beside each runtime: the models of this contract know no tokens.
        if not runtime.can("extend"):
            with pytest.raises(self.unable):
                session.extend(np.zeros((1, 1), np.int32))

    @staticmethod
    def check_profile(profile: Profile, threads: int, slack: int = 20_000) -> None:
        """`slack`, in nanoseconds: frameworks round to microseconds and read their clock outside the call."""
        assert profile.duration > 0
        assert profile.operators
        end = profile.start + profile.duration
        for place, operator in enumerate(profile.operators):
            assert operator.name, "an operator has a name"
            assert operator.kind, "an operator has a kind"
            assert operator.duration >= 0, "no operator takes less than no time"
            assert operator.parent is None or operator.parent < place, "an operator comes after the one that called it"
            if operator.start is not None:
                assert profile.start - slack <= operator.start, "an operator begins within the call"
                assert operator.start + operator.duration <= end + slack, "an operator ends within the call"
        layers = [operator for operator in profile.operators if operator.level == "layer" and operator.parent is None]
        assert layers
        total = sum(operator.duration for operator in layers)
        assert total <= profile.duration * threads + slack, "operators take no longer than the call"

    def test_kernels(self, runtime: Runtime, session: Session) -> None:
        if not (runtime.can("profile") and runtime.can("kernels")):
            return
        (profile,) = session.profile(self.feeds(session), kernels=True)
        self.check_profile(profile, session.effective().threads or os.cpu_count() or 1)
        assert any(operator.kernel or operator.level == "library" for operator in profile.operators)

    def test_capture(self, runtime: Runtime, session: Session) -> None:
        feeds = self.feeds(session)
        if not runtime.can("capture"):
            with pytest.raises(self.unable):
                session.capture_points()
            return
        wanted = session.predict(feeds)
        points = session.capture_points()
        assert points == session.capture_points(), "asking changes nothing"
        assert len({point.name for point in points}) == len(points)
        captured = session.capture(feeds, [point.name for point in points])
        values = captured.tensors
        self.close_to(captured.outputs, wanted)
        assert set(values) == {point.name for point in points}
        for point in points:
            self.check_captured(point, values[point.name])
        alone = session.capture(feeds, [points[0].name])
        self.close_to(alone.tensors, {points[0].name: values[points[0].name]})
        self.close_to(alone.outputs, wanted)
        for name, answer in wanted.items():
            assert any(self._agrees(array, answer) for array in values.values()), f"output {name!r} is among the points"
        self.same(session.predict(feeds), wanted)

    @staticmethod
    def check_captured(point: CapturePoint, array: Tensor) -> None:
        assert not point.dtype or str(array.dtype) == point.dtype
        if point.shape:
            assert array.ndim == len(point.shape)
            assert all(want in (None, have) for want, have in zip(point.shape, array.shape, strict=True))

    def _agrees(self, array: Tensor, answer: Tensor) -> bool:
        return array.shape == answer.shape and np.allclose(array, answer, rtol=self.tolerance, atol=self.tolerance)

    def test_captures_together_and_again(self, runtime: Runtime, session: Session) -> None:
        if not runtime.can("capture"):
            return
        names = [point.name for point in session.capture_points()][-2:]
        first = session.capture(self.feeds(session), names)
        kept = {name: array.copy() for name, array in first.tensors.items()}
        other = session.capture(self.feeds(session, seed=1), names)
        assert list(first.tensors) == names
        self.same(first.tensors, kept)
        self.same(session.capture(self.feeds(session), names).tensors, kept)
        assert any(not np.array_equal(other.tensors[name], kept[name]) for name in names)

    def test_a_tensor_that_cannot_be_captured_is_explained(self, runtime: Runtime, session: Session) -> None:
        if not runtime.can("capture"):
            return
        with pytest.raises(ModelError, match="no-such-tensor") as caught:
            session.capture(self.feeds(session), ["no-such-tensor"])
        self.reads_as_one_sentence(caught.value)

    def test_bad_feeds_are_explained_when_observed_too(self, runtime: Runtime, session: Session) -> None:
        bad = {name: self.other_shape(array) for name, array in self.feeds(session).items()}
        if runtime.can("profile"):
            with pytest.raises(ModelError) as caught:
                session.profile(bad)
            self.reads_as_one_sentence(caught.value)
        if runtime.can("capture"):
            with pytest.raises(ModelError) as caught:
                session.capture(bad, [session.capture_points()[-1].name])
            self.reads_as_one_sentence(caught.value)
