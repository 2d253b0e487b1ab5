"""What every trainer must do. A test class derives from `TrainerContract` and names the class of the trainer.

class TestMine(TrainerContract):
    trainer_class = Mine

It trains in a process of its own, as a study does, so the trainer must be installed: its entry point is how the process
finds it. `settings` may choose another architecture or optimizer, where it does not know those of the contract.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from zoolens.base import plugins
from zoolens.base.store.records import DatasetRecord
from zoolens.findings.graph.importers.importer import Importer
from zoolens.testing.late_imports import frameworks_imported_by
from zoolens.training.crosstrain.training.architectures import STRUCTURAL, build, tensor_shapes
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Job, Outcome
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trainer_process import WEIGHTS
from zoolens.training.crosstrain.training.trainers.trainer import Trainer
from zoolens.training.crosstrain.training.weights import read_weights, write_weights
from zoolens.training.pairs.semantics import ALIGNED

CLASSES, TRAINED, TESTED = 3, 60, 30


class TrainerContract:
    trainer_class: ClassVar[type[Trainer]]
    settings: ClassVar[Mapping[str, Any]] = {}
    loop: ClassVar[str] = "compiled"

    @pytest.fixture(scope="class")
    def workers(self) -> Iterator[Workers]:
        name = self.trainer_class.name
        if name not in plugins.names(plugins.TRAINERS):
            pytest.skip(f"THE TRAINER {name} IS NOT INSTALLED: its entry point is not registered")
        with Workers() as workers:
            yield workers

    @pytest.fixture(scope="class")
    def data(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Returns images whose brightness depends on their class, so that there is something to learn."""
        folder: Path = tmp_path_factory.mktemp("data")
        rng = np.random.default_rng(0)
        for part, count in (("train", TRAINED), ("test", TESTED)):
            labels = (np.arange(count) % CLASSES).astype(np.int32)
            images = rng.integers(0, 60, (count, 8, 8, 1)) + 80 * labels[:, None, None, None]
            np.save(folder / f"{part}_x.npy", images.astype(np.uint8))
            np.save(folder / f"{part}_y.npy", labels)
        return folder

    def recipe(self, **changes: Any) -> Recipe:
        usual = {"architecture": "mlp", "learning_rate": 0.05, "batch_size": 20, "epochs": 3, "seed": 1}
        return Recipe(**{**usual, **self.settings, **changes})

    def trained(
        self, workers: Workers, data: Path, output: Path, job_changes: Mapping[str, Any] | None = None, **changes: Any
    ) -> tuple[Outcome, Any]:
        recipe = self.recipe(**changes)
        output.mkdir(exist_ok=True)
        job = Job(
            recipe=recipe,
            framework=self.trainer_class.name,
            semantics=recipe.wanted,
            data=data,
            output=output,
            loop=self.loop,  # type: ignore[arg-type]
            threads=1,
        )
        return workers.train(job.model_copy(update=job_changes or {}))

    def test_it_says_what_it_is_and_imports_its_framework_late(self) -> None:
        assert self.trainer_class.name
        assert self.trainer_class.summary
        assert self.trainer_class.distributions
        assert frameworks_imported_by(self.trainer_class.__module__) == []

    def test_its_declarations_can_be_used(self) -> None:
        trainer = self.trainer_class
        assert {trainer.usual_loop(device) for device in ("cpu", "cuda")} <= {"eager", "compiled"}
        assert all(getattr(trainer.habits, name) is not None for name in STRUCTURAL), "habits decide the structure"
        if trainer.inspector is not None:
            module, _, name = trainer.inspector.partition(":")
            assert isinstance(getattr(importlib.import_module(module), name), Importer)
            assert frameworks_imported_by(module) == []
        if trainer.reference_precision is not None:
            assert trainer.captures, "a reference writes what its steps compute"
            assert trainer.answers is not Trainer.answers, "a reference runs trained networks"

    def test_it_writes_the_steps_that_it_says_it_captures(self, workers: Workers, data: Path, tmp_path: Path) -> None:
        if not self.trainer_class.captures:
            return
        captured = {"capture": (1, 4), "weights": tmp_path / "start.safetensors"}
        network = build("mlp", ALIGNED, (1, 8, 8), CLASSES)
        write_weights(captured["weights"], initial_weights(network, ALIGNED, 0))  # type: ignore[arg-type]
        outcome, _ = self.trained(workers, data, tmp_path / "captured", captured, weights="shared")
        assert outcome.status == "finished", outcome.message
        assert outcome.steps == 4, "training ends after the last step that is captured"
        learned = tensor_shapes(network)
        for number in (1, 4):
            state = read_weights(tmp_path / "captured" / f"capture-{number}.safetensors")
            assert {"loss", "activation/logits"} <= state.keys()
            for kind in ("gradient", "tensor"):
                assert {name: state[f"{kind}/{name}"].shape for name in learned} == learned

    def test_a_reference_answers_as_it_was_trained(self, workers: Workers, data: Path, tmp_path: Path) -> None:
        if self.trainer_class.reference_precision is None:
            return
        outcome, answers = self.trained(workers, data, tmp_path / "kept", {"keep_weights": True})
        recipe = self.recipe()
        details = {"image": [8, 8, 1], "classes": CLASSES}
        side = SideRecipe(
            outcome.framework, recipe, recipe.wanted, DatasetRecord("d" * 64, "contract", TESTED, details)
        )
        images = np.load(data / "test_x.npy")
        again = self.trainer_class().answers(side, read_weights(tmp_path / "kept" / WEIGHTS), images)
        np.testing.assert_array_equal(again, answers)

    def test_it_learns_counts_every_answer_and_repeats_itself(
        self, workers: Workers, data: Path, tmp_path: Path
    ) -> None:
        outcome, answers = self.trained(workers, data, tmp_path / "first")
        assert outcome.status == "finished", outcome.message
        assert outcome.framework == self.trainer_class.name
        assert outcome.versions
        assert [epoch.number for epoch in outcome.epochs] == [1, 2, 3]
        assert outcome.steps == 3 * TRAINED // 20
        assert {epoch.total for epoch in outcome.epochs} == {TESTED}
        labels = np.load(data / "test_y.npy")
        assert len(answers) == TESTED
        assert int(np.count_nonzero(answers == labels)) == outcome.epochs[-1].correct
        losses = [epoch.loss for epoch in outcome.epochs]
        assert losses[-1] < losses[0]  # type: ignore[operator]

        again, same = self.trained(workers, data, tmp_path / "again")
        assert [epoch.loss for epoch in again.epochs] == losses, "one seed is one training, also in a used process"
        np.testing.assert_array_equal(same, answers)

        other, _ = self.trained(workers, data, tmp_path / "other", seed=2)
        assert [epoch.loss for epoch in other.epochs] != losses

    def test_a_loss_that_is_not_finite_is_an_outcome(self, workers: Workers, data: Path, tmp_path: Path) -> None:
        outcome, _ = self.trained(workers, data, tmp_path / "diverging", learning_rate=1e30)
        assert outcome.status in ("non-finite", "finished")
        if outcome.status == "finished":
            assert all(epoch.loss is None or np.isfinite(epoch.loss) for epoch in outcome.epochs)
