"""What `zoolens compare` and `zoolens runs show` say of classes and of inputs, whatever the task."""

import numpy as np
from click.testing import CliRunner

from zoolens.faces.cli import compare, runs
from zoolens.findings.comparisons.conftest import one_hot, store, write_run
from zoolens.findings.comparisons.test_report_page import taggers

__all__ = ["store", "taggers"]  # fixtures


def said(command, tmp_path, *arguments):
    result = CliRunner().invoke(command, [*arguments, "--store", str(tmp_path / "store.sqlite")], terminal_width=200)
    assert result.exit_code == 0, result.output
    return result.output


def test_classes_and_contested_inputs_of_a_tagger(taggers, tmp_path):
    words = said(compare.command, tmp_path, *(run.id for run in taggers), "--inputs", "1")
    assert "Classes that change most (of_type; intervals of each run by itself)" in words
    assert "[b]person: 90.0 % → 20.0 %, −70.00 pt" in words
    assert "class=15" not in words
    assert "Inputs on which the two agree least (of 2 that differ)" in words
    assert "1: 0.0 %, A: LOC 1–1 (words); B: no entities" in words
    assert "class=15 ([b]person)" in said(runs.command, tmp_path, "show", taggers[0].id)


def test_answers_of_a_classifier_have_the_names_of_the_dataset(store, tmp_path):
    labels = np.array([0, 1, 2, 0])
    both = [
        write_run(store, name, one_hot(answers, 3), labels, classes=["cat", "dog", "[b]bird"])
        for name, answers in (("a", [0, 1, 2, 0]), ("b", [0, 1, 1, 0]))
    ]
    words = said(compare.command, tmp_path, *(run.id for run in both))
    assert "2: truth [b]bird, A says [b]bird (0.90), B says dog (0.90)" in words
