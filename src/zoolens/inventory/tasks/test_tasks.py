"""The built-in tasks keep the contract, and are found under the names that manifests use."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from zoolens.base import plugins
from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema import TASKS
from zoolens.inventory.tasks.classification import Classification
from zoolens.inventory.tasks.embedding import Embedding
from zoolens.inventory.tasks.regression import Regression
from zoolens.inventory.tasks.task import BUILT_IN, Answers, column, task_named
from zoolens.inventory.tasks.vectors import Vectors
from zoolens.testing.task_contract import WIDTH, N, TaskContract


class TestClassification(TaskContract):
    task_class = Classification


class TestVectors(TaskContract):
    task_class = Vectors


class TestRegression(TaskContract):
    task_class = Regression

    def truths(self):
        values = np.random.default_rng(5).normal(size=(N, WIDTH))
        return [Truth("value", {"value": row}) for row in values]


class TestEmbedding(TaskContract):
    task_class = Embedding

    def truths(self):
        return [Truth("similarity", {"similarity": np.array([place / N])}) for place in range(N)]


def test_tasks_are_found_by_the_names_of_manifests():
    project = Path(__file__).parents[4] / "pyproject.toml"
    points = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert points[plugins.TASKS] == BUILT_IN
    assert set(TASKS) == set(BUILT_IN)
    assert {task_named(name).name for name in TASKS} == set(TASKS)
    with pytest.raises(UnknownName, match=r"task named 'embeding'\. Did you mean embedding"):
        task_named("embeding")


def test_an_answer_is_shown_by_name_and_score():
    answers = Answers("out", "classification", {"top": np.array([[2, 0]]), "score": np.array([[0.9, 0.1]])})
    assert Classification().show(answers, 0, ("cat", "dog", "cow")) == "cow (90 %)"
    assert Classification().show(Answers("out", "classification", {"top": np.array([[2]])}), 0) == "class 2"
    vector = Answers("out", "other", {"vector": np.array([[1.0, 2.5, -3.0, 4.0, 5.0]])})
    assert Vectors().show(vector, 0) == "[1, 2.5, -3, 4, …]"


def test_what_was_not_kept_is_named():
    with pytest.raises(ZoolensError, match="out have no vector: it was not kept"):
        column(Answers("out", "other", {}), "vector")
