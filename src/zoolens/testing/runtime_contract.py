"""What every runtime must do. Derive a test class, name the runtime and give it a model:

class TestMine(RuntimeContract):
    runtime_class = Mine

    def model(self, tmp_path):
        return ModelFiles("my-format", {"model": write_a_small_model(tmp_path)})

`zoolens.testing.models` writes one small network in many formats. Everything else has a default.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from zoolens.errors import ModelError, UnsupportedAbility, ZoolensError
from zoolens.runtimes.base import ABILITIES, ModelFiles, Options, Runtime, Session, Tensor, Tensors
from zoolens.runtimes.fake import Fake
from zoolens.runtimes.observing import CapturePoint, Profile
from zoolens.testing import models


@cache
def _owners() -> Mapping[str, list[str]]:
    """By top-level module: the distributions that have it. To look through all of them takes a third of a second."""
    return metadata.packages_distributions()


@cache
def _loaded_by(module: str, distributions: tuple[str, ...]) -> list[str]:
    """Which modules of these distributions a fresh Python has loaded once it has imported the module. Kept, since a
    runtime has one class of tests for each of its formats."""
    wanted = {name.lower().replace("_", "-") for name in distributions}
    frameworks = sorted(
        name for name, owned_by in _owners().items() if any(one.lower().replace("_", "-") in wanted for one in owned_by)
    )
    check = f"import sys, {module}; print(*(name for name in {frameworks!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return done.stdout.split()


class RuntimeContract:
    runtime_class: ClassVar[type[Runtime]]
    tolerance: ClassVar[float] = 1e-4  # between batch sizes and modes, which may use other kernels
    quantised: ClassVar[bool] = False  # the model computes in integers, so float32 cannot be forced on it

    def model(self, tmp_path: Path) -> ModelFiles:
        """A small intact model of this runtime, written below `tmp_path`."""
        raise NotImplementedError

    def companion(self, tmp_path: Path) -> Session:
        """A session of another runtime, to be open at the same time."""
        return Fake().open(models.fake(tmp_path))

    # --- fixtures and helpers

    @pytest.fixture
    def files(self, tmp_path: Path) -> ModelFiles:
        return self.model(tmp_path)

    @pytest.fixture
    def runtime(self) -> Runtime:
        return self.runtime_class()

    @pytest.fixture(scope="class")
    def kept_sessions(self) -> Iterator[list[Session]]:
        """The session of `session`, once it is open; closed after the last test of the class."""
        kept: list[Session] = []
        yield kept
        for session in kept:
            session.close()

    @pytest.fixture
    def session(
        self, runtime: Runtime, kept_sessions: list[Session], tmp_path_factory: pytest.TempPathFactory
    ) -> Session:
        """One for all tests of the class that do not close it: whatever it has run before, it keeps the contract."""
        if not kept_sessions:
            kept_sessions.append(runtime.open(self.model(tmp_path_factory.mktemp("model"))))
        return kept_sessions[0]

    @staticmethod
    def feeds(session: Session, batch: int | None = None, seed: int = 0) -> Tensors:
        """Random feeds; `batch` None is the batch the model declares."""
        random = np.random.default_rng(seed)
        feeds: Tensors = {}
        for spec in session.inputs:
            shape = [extent or 1 for extent in spec.shape]
            shape[:1] = [batch or shape[0]] if shape else []
            if np.issubdtype(np.dtype(spec.dtype), np.integer):
                limits = np.iinfo(spec.dtype)
                feeds[spec.name] = random.integers(limits.min, limits.max, shape, dtype=spec.dtype, endpoint=True)
            else:
                feeds[spec.name] = random.random(shape).astype(spec.dtype)
        return feeds

    @staticmethod
    def other_shape(array: Tensor) -> Tensor:
        return np.zeros((*array.shape[:-1], array.shape[-1] + 1), array.dtype)

    @staticmethod
    def same(found: Tensors, wanted: Tensors) -> None:
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)

    def close_to(self, found: Tensors, wanted: Tensors) -> None:
        for name, array in wanted.items():
            step = 1 if np.issubdtype(array.dtype, np.integer) else 0  # one quantisation step
            np.testing.assert_allclose(
                found[name].astype(float), array.astype(float), rtol=self.tolerance, atol=self.tolerance + step
            )

    @staticmethod
    def reads_as_one_sentence(error: ZoolensError) -> None:
        text = str(error)
        assert "\n" not in text
        assert "Traceback" not in text
        assert 20 < len(text) < 700

    # --- opening

    def test_says_what_it_is(self, runtime: Runtime) -> None:
        assert runtime.name
        assert runtime.summary
        assert runtime.formats
        assert runtime.version()
        assert set(runtime.cannot) <= set(ABILITIES), "`cannot` may only name abilities"
        assert all(len(reason) > 10 for reason in runtime.cannot.values()), "every inability has a reason"

    def test_imports_its_framework_only_when_asked(self, runtime: Runtime) -> None:
        loaded = _loaded_by(type(runtime).__module__, tuple(runtime.distributions))
        assert loaded == [], "the framework belongs into load_library"

    def test_reports_inputs_outputs_and_phases(self, session: Session) -> None:
        for specs in (session.inputs, session.outputs):
            assert specs
            assert len({spec.name for spec in specs}) == len(specs)
            for spec in specs:
                assert spec.name
                assert np.dtype(spec.dtype).name == spec.dtype
                assert all(extent is None or (isinstance(extent, int) and extent > 0) for extent in spec.shape)
                assert (spec.scale is None) == (spec.zero_point is None)
        assert set(session.phases) >= {"load", "compile"}
        assert all(seconds >= 0 for seconds in session.phases.values())

    def test_tells_what_is_in_effect(self, session: Session) -> None:
        assert session.effective().provider
        assert session.effective() == session.effective(), "asking changes nothing"

    def test_refuses_an_unknown_format_device_and_mode(self, runtime: Runtime, files: ModelFiles) -> None:
        with pytest.raises(ModelError, match="no-such-format"):
            runtime.open(replace(files, format="no-such-format"))
        with pytest.raises(ModelError, match="no-such-device"):
            runtime.open(files, Options(device="no-such-device"))
        with pytest.raises(UnsupportedAbility, match="no-such-mode"):
            runtime.open(files, Options(mode="no-such-mode"))

    def test_a_file_that_is_not_there(self, runtime: Runtime, files: ModelFiles, tmp_path: Path) -> None:
        for role in files.files:
            gone = replace(files, files={**files.files, role: tmp_path / "gone" / files.files[role].name})
            with pytest.raises(ModelError) as caught:
                runtime.open(gone)
            self.reads_as_one_sentence(caught.value)

    @pytest.mark.parametrize("how", ["truncated", "garbage", "empty"])
    def test_a_damaged_file_is_an_explained_error(self, runtime: Runtime, tmp_path: Path, how: str) -> None:
        (tmp_path / "intact").mkdir()
        for role, _ in models.files_of(self.model(tmp_path / "intact")):
            folder = tmp_path / role
            folder.mkdir()
            files = self.model(folder)
            models.damage(dict(models.files_of(files))[role], how)
            with pytest.raises(ModelError) as caught:
                runtime.open(files)
            self.reads_as_one_sentence(caught.value)

    # --- running

    def test_answers_fit_the_declared_outputs(self, session: Session) -> None:
        answers = session.predict(self.feeds(session))
        assert set(answers) == {spec.name for spec in session.outputs}
        for spec in session.outputs:
            array = answers[spec.name]
            assert str(array.dtype) == spec.dtype
            assert array.ndim == len(spec.shape)
            assert all(want in (None, have) for want, have in zip(spec.shape, array.shape, strict=True))

    def test_same_input_same_answer(self, session: Session) -> None:
        feeds = self.feeds(session)
        first = session.predict(feeds)
        session.predict(self.feeds(session, seed=1))
        self.same(session.predict(feeds), first)

    def test_other_input_other_answer(self, session: Session) -> None:
        first, second = (session.predict(self.feeds(session, seed=seed)) for seed in (0, 1))
        assert any(not np.array_equal(first[name], second[name]) for name in first)

    def test_neither_changes_nor_keeps_its_feeds(self, session: Session) -> None:
        feeds = self.feeds(session)
        before = {name: array.copy() for name, array in feeds.items()}
        answers = session.predict(feeds)
        self.same(feeds, before)
        kept = {name: array.copy() for name, array in answers.items()}
        for array in feeds.values():
            array[...] = 0
        self.same(answers, kept)
        self.same(session.predict(before), kept)

    def test_answers_survive_the_next_call(self, session: Session) -> None:
        answers = session.predict(self.feeds(session))
        kept = {name: array.copy() for name, array in answers.items()}
        session.predict(self.feeds(session, seed=1))
        self.same(answers, kept)

    def test_takes_read_only_and_strided_feeds(self, session: Session) -> None:
        feeds = self.feeds(session)
        wanted = session.predict(feeds)
        for array in feeds.values():
            array.flags.writeable = False
        self.same(session.predict(feeds), wanted)
        strided = {name: np.repeat(array, 2, axis=-1)[..., ::2] for name, array in feeds.items()}
        self.same(session.predict(strided), wanted)

    def test_a_batch_equals_its_rows(self, runtime: Runtime, session: Session) -> None:
        free = session.inputs[0].shape[0] is None
        feeds = self.feeds(session, batch=3)
        if not free and not runtime.can("dynamic_batch"):
            with pytest.raises(ModelError):
                session.predict(feeds)
            return
        together = session.predict(feeds)
        rows = [session.predict({name: array[i : i + 1] for name, array in feeds.items()}) for i in range(3)]
        self.close_to(together, {name: np.concatenate([row[name] for row in rows]) for name in together})

    def test_two_sessions_interleave(self, runtime: Runtime, files: ModelFiles) -> None:
        first, second = runtime.open(files), runtime.open(files)
        ours, theirs = self.feeds(first), self.feeds(second, seed=1)
        wanted, also = first.predict(ours), second.predict(theirs)
        self.same(first.predict(ours), wanted)
        first.close()
        self.same(second.predict(theirs), also)

    def test_another_runtime_beside(self, session: Session, tmp_path: Path) -> None:
        (tmp_path / "beside").mkdir()
        feeds = self.feeds(session)
        wanted = session.predict(feeds)
        with self.companion(tmp_path / "beside") as other:
            their_feeds = self.feeds(other)
            theirs = other.predict(their_feeds)
            self.same(session.predict(feeds), wanted)
            self.same(other.predict(their_feeds), theirs)

    def test_feeds_that_do_not_fit_are_explained(self, session: Session) -> None:
        feeds = self.feeds(session)
        wanted = session.predict(feeds)
        name = session.inputs[0].name
        other_type = np.int64 if feeds[name].dtype != np.int64 else np.float64
        for bad in (
            {**feeds, name: self.other_shape(feeds[name])},
            {**feeds, name: feeds[name][0]},
            {**feeds, name: feeds[name].astype(other_type)},
            {key: value for key, value in feeds.items() if key != name},
        ):
            with pytest.raises(ModelError) as caught:
                session.predict(bad)
            self.reads_as_one_sentence(caught.value)
            assert repr(name) in str(caught.value)
        self.same(session.predict(feeds), wanted)

    def test_closing_twice_is_fine(self, runtime: Runtime, files: ModelFiles) -> None:
        session = runtime.open(files)
        session.close()
        session.close()

    # --- abilities: what is declared impossible is refused, everything else works

    def test_threads(self, runtime: Runtime, files: ModelFiles) -> None:
        if not runtime.can("set_threads"):
            with pytest.raises(UnsupportedAbility, match=runtime.cannot["set_threads"][:20]):
                runtime.open(files, Options(threads=1))
            return
        with runtime.open(files, Options(threads=1)) as one, runtime.open(files) as default:
            assert one.effective().threads == 1
            feeds = self.feeds(one)
            self.close_to(one.predict(feeds), default.predict(feeds))

    def test_forced_precision(self, runtime: Runtime, files: ModelFiles) -> None:
        if not runtime.can("force_precision"):
            with pytest.raises(UnsupportedAbility):
                runtime.open(files, Options(precision="float32"))
        elif self.quantised:
            with pytest.raises(ModelError, match="int8"):
                runtime.open(files, Options(precision="float32"))
        else:
            with runtime.open(files, Options(precision="float32")) as session:
                assert session.effective().precision in ("float32", None)
                session.predict(self.feeds(session))

    def test_reported_precision(self, runtime: Runtime, session: Session) -> None:
        assert (session.effective().precision is not None) == runtime.can("report_precision")

    def test_parameters(self, runtime: Runtime, session: Session) -> None:
        if runtime.can("count_parameters"):
            assert session.count_parameters() > 0
        else:
            with pytest.raises(NotImplementedError):
                session.count_parameters()

    def test_modes(self, runtime: Runtime, files: ModelFiles, session: Session) -> None:
        assert ("compiled" in runtime.modes) == runtime.can("compile_mode")
        feeds = self.feeds(session)
        wanted = session.predict(feeds)
        for mode in runtime.modes:
            with runtime.open(files, Options(mode=mode)) as other:
                self.close_to(other.predict(feeds), wanted)

    # --- observing: operators and tensors inside the model

    def test_profile(self, runtime: Runtime, session: Session) -> None:
        feeds = self.feeds(session)
        if not runtime.can("profile"):
            with pytest.raises(NotImplementedError):
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
            with pytest.raises(NotImplementedError):
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
