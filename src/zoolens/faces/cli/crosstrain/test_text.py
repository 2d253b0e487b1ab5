"""Lines and tables of trials; whole commands are in tests/test_crosstrain.py."""

import json
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner

from zoolens.base.errors import DatasetError, UnknownName, ZoolensError
from zoolens.base.store.store import open_store
from zoolens.contrib.crossedwires.test_trials import write
from zoolens.contrib.crossedwires.trials import import_published
from zoolens.faces.cli.crosstrain.diffing import _shape
from zoolens.faces.cli.crosstrain.exchanging import export
from zoolens.faces.cli.crosstrain.explaining import _arms, _recipe
from zoolens.faces.cli.crosstrain.pairtext import not_finite_line, pair_line
from zoolens.faces.cli.crosstrain.progress import StudyBar, delta_text
from zoolens.faces.cli.crosstrain.reporting import _chosen, _folder_name, _read_labels, report
from zoolens.faces.cli.crosstrain.studies import _trial_row
from zoolens.faces.cli.crosstrain.trialtext import accuracies_line, print_trial, trial_data
from zoolens.training.crosstrain.exchange.conftest import file_numbered
from zoolens.training.crosstrain.study.search.journal import AskedTrial, FinishedTrial, TrialResult
from zoolens.training.crosstrain.study.search.search_state import SearchStatus
from zoolens.training.crosstrain.study.side_comparison import SidePair
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial

TORCH = TrainedSide(
    "torch", accuracy=0.75, correct=15, total=20, losses=(1.5, 0.5), accuracies=(0.5, 0.75), answered=(10, 10),
    class_accuracy=(0.8, 0.7), semantics={"norm_momentum": 0.9, "padding": "same"}, seconds=2.0,
)  # fmt: skip
JAX = TrainedSide(
    "jax", status="non-finite", accuracy=0.5, correct=10, total=20, losses=(None,), accuracies=(0.5,), answered=(20, 0),
    class_accuracy=(1.0, 0.0), semantics={"norm_momentum": 0.99, "padding": "same"}, message="[red]oh",
)  # fmt: skip
TRIAL = Trial("0001", {"learning_rate": 0.1}, (TORCH, JAX), {("torch", "jax"): 0.5}, ("jax: [red]oh",))


def test_a_trial_reads_well(capsys):
    print_trial(TRIAL)
    said = capsys.readouterr().out
    assert "75.00 % [53.13, 88.81]" in said  # Wilson's interval of 15 of 20
    assert "non-finite, collapsed" in said
    assert [line.split()[0] for line in said.partition("Classes")[2].splitlines()[2:4]] == ["1", "0"]  # by difference
    assert "norm_momentum" in said
    assert "padding" not in said  # the same on both sides
    assert "Note: jax: [red]oh" in said


def test_a_side_that_has_nothing_is_shown_with_dashes(capsys):
    lost = TrainedSide("jax", status="out-of-memory")
    print_trial(Trial("1", {}, (TORCH, lost)))
    assert "out-of-memory" in capsys.readouterr().out
    assert accuracies_line(Trial("1", {}, (TORCH, lost))) == "1: torch 75.00 %, jax – (out-of-memory), Δ –"


def test_a_list_of_trials_flags_collapsed_sides():
    assert _trial_row(Study("made", ("torch", "jax"), (TRIAL,)), TRIAL)[-1] == "jax collapsed. jax: [red]oh"


def test_a_trial_is_json():
    found = json.loads(json.dumps(trial_data(TRIAL)))
    assert found["churn"] == [{"a": "torch", "b": "jax", "share": 0.5}]
    assert found["delta"] == pytest.approx(0.25)
    assert [side["collapsed"] for side in found["sides"]] == [False, True]


def test_a_pair_is_told_with_as_much_as_is_known():
    assert pair_line(SidePair("a", "b", -0.05)) == "b − a: -5.00 points"
    whole = SidePair("a", "b", -0.05, 0.2, -0.08, -0.02, 0.01, 9, 4)
    assert pair_line(whole) == (
        "b − a: -5.00 points [-8.00, -2.00] on these images (exact McNemar p = 0.01); 20.0 % answered differently"
    )


def test_trainings_that_did_not_stay_finite_are_said_beside_the_difference():
    assert "(2 of 2 of jax); their seeds do not count in the noise" in not_finite_line([TRIAL, TRIAL])
    assert not_finite_line([replace(TRIAL, sides=(TORCH,))]) == ""


def test_a_study_without_a_terminal_is_told_in_lines(capsys):
    with StudyBar("tiny") as bar:
        bar.search(SearchStatus(0, 2, None, None))
        bar.trial(TRIAL)
        bar.search(SearchStatus(1, 2, None, 90.0))
    assert capsys.readouterr().err.splitlines() == [
        "0 of 2 trials",
        "0001: torch 75.00 %, jax 50.00 % (non-finite), Δ 25.00 points",
        "1 of 2 trials, about 1 min 30 s left",
    ]


def test_a_mean_over_seeds_is_told_as_one(capsys):
    asked = AskedTrial(trial="0001", subspace=0, hyperparameters={})
    with StudyBar("tiny", seeds=3) as bar:
        bar.search(SearchStatus(1, 2, FinishedTrial(asked=asked, told=TrialResult(delta=0.25)), None))
    assert capsys.readouterr().err == "1 of 2 trials, best Δ 25.00 points on average over 3 seeds\n"
    assert delta_text(0.25, 1) == "25.00 points"


def test_the_paper_is_held_against_the_release_wherever_it_stands_among_the_studies(tmp_path):
    write(tmp_path)
    where = ["--store", str(tmp_path / "store.sqlite")]
    with open_store(tmp_path / "store.sqlite") as store:
        import_published(store, tmp_path)
        file_numbered(store, 0, "zz")
    done = CliRunner().invoke(report, ["crossedwires-vgg16", "zz", "--output", str(tmp_path / "out"), *where])
    assert done.exit_code == 0, done.output
    assert "Does not match the paper" in done.output


def test_a_report_without_the_extra_says_how_to_get_its_charts_as_files(tmp_path, monkeypatch):
    monkeypatch.setattr("zoolens.base.present.images.can_draw", lambda: False)
    where = ["--store", str(tmp_path / "store.sqlite")]
    with open_store(tmp_path / "store.sqlite") as store:
        file_numbered(store, 0, "zz")
    done = CliRunner().invoke(report, ["zz", "--output", str(tmp_path / "out"), *where])
    assert done.exit_code == 0, done.output
    assert done.stderr == "The charts are in the page; as PNG too after: pip install 'zoolens[reports]'\n"
    assert (tmp_path / "out" / "index.html").is_file()


def test_an_export_names_the_replicates_that_are_not_in_it(tmp_path):
    where = ["--store", str(tmp_path / "store.sqlite")]
    with open_store(tmp_path / "store.sqlite") as store:
        for name in ("tiny", "tiny.replicates"):
            file_numbered(store, 0, name)
    done = CliRunner().invoke(export, ["tiny", str(tmp_path / "out"), *where])
    command = f"zoolens crosstrain export tiny.replicates {tmp_path / 'out.replicates'}"
    assert done.output.splitlines()[1:] == [f"Its replicates are a study of their own, and not in it: {command}"]
    done = CliRunner().invoke(export, ["tiny.replicates", str(tmp_path / "out.replicates"), *where])
    assert done.output == f"Wrote tiny.replicates to {tmp_path / 'out.replicates'}.\n"


def test_studies_are_chosen_by_name_and_pattern():
    known = ["a", "crossedwires-vgg16", "crossedwires-x"]
    assert _chosen(known, ["crossedwires-*", "a", "a"]) == ["crossedwires-vgg16", "crossedwires-x", "a"]
    with pytest.raises(UnknownName, match="crossedwires-vgg17"):
        _chosen(known, ["crossedwires-vgg17"])


def test_the_folder_of_a_study_lies_in_the_one_that_was_named():
    assert _folder_name("crossedwires-vgg16") == "crossedwires-vgg16"
    for name in ("../../up", "/etc/up", "..", "a/../../b", "a\\b"):
        found = _folder_name(name)
        assert found
        assert found not in (".", "..")
        assert not set(found) & set("/\\")


def test_labels_are_whole_numbers(tmp_path):
    import numpy as np

    np.savez(tmp_path / "good.npz", y_train=np.zeros(3), y_test_full=np.array([[1], [2]], np.uint8))
    assert _read_labels(tmp_path / "good.npz").tolist() == [1, 2]
    np.savez(tmp_path / "none.npz", other=np.zeros(3))
    np.save(tmp_path / "floats.npy", np.zeros(3))
    np.save(tmp_path / "objects.npy", np.array([{}], object))
    (tmp_path / "text.npy").write_text("no numbers")
    np.save(tmp_path / "huge.npy", np.array([1 << 40]))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "good.npz").read_bytes()[:-30])
    header = (tmp_path / "floats.npy").read_bytes().replace(b"(3,), }" + b" " * 14, b"(99999999999999,), } ")
    (tmp_path / "endless.npy").write_bytes(header)
    for name in ("none.npz", "floats.npy", "objects.npy", "text.npy", "huge.npy", "cut.npz", "endless.npy"):
        with pytest.raises(DatasetError, match=name):
            _read_labels(tmp_path / name)


def test_what_a_stranger_tells_of_a_trial_may_be_no_recipe():
    assert [arm.framework for arm in _arms(TRIAL, ())] == ["torch", "jax"]
    with pytest.raises(UnknownName, match="side of trial 0001 named 'keras'"):
        _arms(TRIAL, ("torch", "keras"))
    with pytest.raises(click.UsageError, match="two sides"):
        _arms(TRIAL, ("torch", "torch"))
    for told in ("words", [], {"architecture": 1}):
        with pytest.raises(ZoolensError, match="trial 0001 tells as the recipe"):
            _recipe(replace(TRIAL, details={"recipe": told}))
    for told in (3, {"torch": 3}, {"torch": {"norm_momentum": "x"}}, ["torch"]):
        with pytest.raises(ZoolensError, match="trial 0001 tells as the semantics"):
            _arms(replace(TRIAL, details={"overrides": told}), ())


def test_sizes_of_images_are_three_numbers():
    assert _shape("1x28x28") == (1, 28, 28)
    for bad in ("28x28", "3x0x8", "a", "3x-1x8", "3x99999x8", f"3x{'9' * 5000}x8"):
        with pytest.raises(ZoolensError, match="not a size"):
            _shape(bad)
