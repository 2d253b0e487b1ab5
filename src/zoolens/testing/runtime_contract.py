"""What every runtime must do. Derive a test class, name the runtime and give it a model.

class TestMine(RuntimeContract):
    runtime_class = Mine

    def model(self, tmp_path):
        return ModelFiles("my-format", {"model": write_a_small_model(tmp_path)})

`zoolens.testing.models` writes one small network in many formats. Everything else has a default.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.inventory.runtimes.abilities import ABILITIES
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, Runtime, Session
from zoolens.testing import models
from zoolens.testing.observing_contract import ObservingContract


@cache
def _owners() -> Mapping[str, list[str]]:
    """By top-level module: the distributions that have it. To look through all of them takes a third of a second."""
    return metadata.packages_distributions()


@cache
def _loaded_by(module: str, distributions: tuple[str, ...]) -> list[str]:
    """Which modules of these distributions a fresh Python has loaded once it has imported the module. Kept, since a
    runtime has one class of tests for each of its formats."""
    wanted = {name.lower().replace("_", "-") for name in distributions}
    owners = {name: {owner.lower().replace("_", "-") for owner in owned_by} for name, owned_by in _owners().items()}
    frameworks = sorted(name for name, normalised in owners.items() if normalised & wanted)
    check = f"import sys, {module}; print(*(name for name in {frameworks!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return done.stdout.split()


class RuntimeContract(ObservingContract):
    """Opening, running and observing a model."""

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
        with runtime.open(files, Options(threads=1)) as single, runtime.open(files) as default:
            assert single.effective().threads == 1
            feeds = self.feeds(single)
            self.close_to(single.predict(feeds), default.predict(feeds))

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
