import json
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Silent
from zoolens.base.statistics.seeds import seed_noise
from zoolens.base.statistics.student import Estimate
from zoolens.base.store.store import open_store
from zoolens.training.crosstrain.study.explanation.contest import Arm, contest
from zoolens.training.crosstrain.study.explanation.explain import explain, stood_in
from zoolens.training.crosstrain.study.explanation.explanation_results import Explanation
from zoolens.training.crosstrain.study.explanation.study_explanation_words import as_data, lines
from zoolens.training.crosstrain.study.stored_studies import read_study
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe
from zoolens.training.pairs.explanation.design import FRAMEWORK
from zoolens.training.pairs.explanation.shapley import ShapleyShare
from zoolens.training.pairs.explanation.sharing_out import culprits_of, judged
from zoolens.training.pairs.explanation.sharing_words import verification_lines
from zoolens.training.pairs.semantics import Semantics

SLOW, PLAIN = Semantics(norm_momentum=0.9999), Semantics()
NEARLY = Semantics(norm_momentum=0.9999, norm_epsilon=1.01e-5)


def share(name, value):
    return ShapleyShare(name, Estimate(value), Estimate(value))


def test_culprits_are_added_until_they_explain_enough():
    assert culprits_of([share("init", 0.1), share("norm_momentum", 0.9)]) == ("norm_momentum",)
    assert culprits_of([share("init", 0.3), share("norm_momentum", 0.6), share("padding", 0.1)]) == (
        "norm_momentum",
        "init",
    )
    assert culprits_of([share(FRAMEWORK, 1.1), share("init", -0.1)]) == ()
    assert culprits_of([share(FRAMEWORK, 0.7), share("init", 0.3), share("padding", 0.0)]) == ("init",)


@pytest.mark.parametrize("nothing", [0.0, 4e-4, 0.04])
def test_a_share_of_nothing_is_no_culprit(nothing):
    assert culprits_of([share(FRAMEWORK, 1 - nothing), share("padding", nothing)]) == ()
    assert culprits_of([share(FRAMEWORK, 0.5), share("init", 0.4), share("padding", nothing)]) == ("init",)


def test_a_gap_that_fresh_seeds_do_not_show_cannot_be_closed():
    before = seed_noise("a", [0.50, 0.80, 0.60, 0.75], "b", [0.65, 0.99, 0.55, 0.90])
    assert before.difference.value > 0.1
    found = judged(("x",), "a", before, seed_noise("a", [0.66, 0.99, 0.56, 0.90], "b", [0.65, 0.99, 0.55, 0.90]))
    assert not found.closed
    said = "\n".join(verification_lines(found, before.a, before.b))
    assert "The fresh seeds show no gap beyond noise, and so nothing is verified." in said


def test_a_gap_is_closed_only_if_it_shrank_to_noise():
    ours, theirs = [0.80, 0.82, 0.81, 0.79], [0.30, 0.33, 0.29, 0.31]
    before = seed_noise("a", ours, "b", theirs)
    assert judged(("x",), "b", before, seed_noise("a", ours, "b", [0.81, 0.80, 0.82, 0.80])).closed
    halved = judged(("x",), "b", before, seed_noise("a", ours, "b", [0.60, 0.61, 0.59, 0.60]))
    assert not halved.closed
    assert halved.gained.value == pytest.approx(0.2925)
    wild = judged(("x",), "b", before, seed_noise("a", ours, "b", [0.1, 0.9, 0.2, 0.95]))
    assert not wild.closed  # its interval reaches 0, and it is not shown to be smaller


def test_a_gap_that_turned_round_did_not_become_smaller():
    ours = [0.80, 0.82, 0.81, 0.79]
    before = seed_noise("a", ours, "b", [0.75, 0.77, 0.75, 0.74])
    turned = judged(("x",), "b", before, seed_noise("a", ours, "b", [0.90, 0.92, 0.92, 0.89]))
    assert turned.gained.excludes_zero
    assert (turned.narrowed, turned.closed) == (False, False)


def test_gaps_that_two_seeds_show_alike_are_known_to_the_image_and_no_better():
    """100 test images, two seeds, one image of difference: an interval without width would call it certain."""
    ours = [0.80, 0.70]
    before = seed_noise("a", ours, "b", [0.70, 0.60], 100)
    after = seed_noise("a", ours, "b", [0.71, 0.61], 100)
    found = judged(("x",), "b", before, after, 100)
    assert found.gained.value == pytest.approx(0.01)
    assert not found.gained.excludes_zero
    wide = seed_noise("a", ours, "b", [0.50, 0.40], 100)
    other = seed_noise("a", ours, "b", [0.55, 0.45], 100)
    off = stood_in(wide, other, (), 100).off
    assert off.interval.high - off.interval.low > 0.05  # 2 · 12.7 · √(4/12 / 2) / 100


def test_a_stand_in_must_have_the_same_gap():
    shipped = seed_noise("a", [0.8, 0.81, 0.82], "b", [0.5, 0.52, 0.51])
    assert stood_in(shipped, seed_noise("a", [0.79, 0.80, 0.82], "b", [0.5, 0.5, 0.52]), ()).reproduces
    assert not stood_in(shipped, seed_noise("a", [0.8, 0.81, 0.82], "b", [0.7, 0.72, 0.71]), ()).reproduces
    assert not stood_in(shipped, seed_noise("a", [0.1, 0.8, 0.5], "b", [0.1, 0.1, 0.5]), ()).reproduces  # may be noise


@pytest.mark.parametrize(
    ("theirs", "same_way"),
    [([0.5, 0.52, 0.51], True), ([0.7, 0.72, 0.71], True), ([0.79, 0.82, 0.81], False), ([0.95, 0.96, 0.97], False)],
)
def test_a_gap_that_stand_ins_do_not_have_cannot_be_shared_out(theirs, same_way):
    ours = [0.8, 0.81, 0.82]
    shipped = seed_noise("a", ours, "b", [0.5, 0.52, 0.51])
    assert stood_in(shipped, seed_noise("a", ours, "b", theirs), ()).same_way == same_way


def test_stand_ins_without_the_gap_in_words():
    ours = [0.8, 0.81, 0.82]
    shipped = seed_noise("torch", ours, "jax", [0.5, 0.52, 0.51])
    stand_in = stood_in(shipped, seed_noise("torch", ours, "jax", [0.79, 0.82, 0.81]), ("init",))
    game = contest(Arm("torch"), Semantics(norm_momentum=0.9), Arm("jax"), Semantics(norm_momentum=0.99))
    recipe = Recipe(architecture="resnet50", mode="library", learning_rate=0.1, batch_size=8, epochs=1)
    said = "\n".join(lines(Explanation("study", recipe, game, shipped, stand_in=stand_in)))
    assert "They do NOT reproduce the gap." in said
    assert "What the stand-ins of torch | jax do differently:\n  norm_momentum  0.9 | 0.99" in said
    assert "nothing is shared out" in said


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Images of three classes: where the bright rows are. All are bright, which only norm statistics take away."""
    folder = tmp_path_factory.mktemp("explaining")
    generator = np.random.default_rng(0)
    for name, count in (("train", 240), ("test", 90)):
        labels = np.arange(count) % 3
        images = generator.integers(200, 225, (count, 8, 8), np.uint8)
        for label in range(3):
            images[labels == label, 2 * label : 2 * label + 3] += 30
        np.savez(folder / f"{name}.npz", x=images, y=labels)
    return folder


@pytest.fixture(scope="module")
def asked(place, workers):
    """Explains sides of torch in a store of the module."""
    recipe = Recipe(
        architecture="convnorm", mode="library", dataset=f"{place}/train.npz|{place}/test.npz", learning_rate=2e-3,
        batch_size=12, epochs=1, weights="shared",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, open_store(str(place / "zoolens.db")) as store:
        patch.setenv("ZOOLENS_HOME", str(place / "home"))

        def ask(a, b, *, changes=None, **settings):
            told = recipe.model_copy(update=changes or {})
            settings = {"replicates": 3, "manner": Manner(threads=1), **settings}
            return explain(told, a, b, store=store, workers=workers, **settings)

        ask.store = store
        yield ask


@pytest.fixture(scope="module")
def explanation(asked):
    return asked(Arm("torch", PLAIN), Arm("torch", NEARLY), study="cause")


def test_the_cause_is_found_and_its_share_is_all_of_the_gap(explanation):
    assert explanation.pair.difference.value < -0.3
    assert explanation.contest.players == ("norm_momentum", "norm_epsilon")
    first, second = explanation.explained.shares
    assert first.name == "norm_momentum"
    assert first.share.value == pytest.approx(1, abs=0.1)
    assert first.share.interval.low - 1e-9 <= 1 <= first.share.interval.high + 1e-9
    assert abs(second.share.value) < 0.1
    assert first.points.value + second.points.value == pytest.approx(explanation.pair.difference.value)


def test_single_switches_go_both_ways(explanation):
    momentum, epsilon = explanation.explained.switches
    assert momentum.in_a.value < -0.3 < 0.3 < momentum.in_b.value
    assert abs(epsilon.in_a.value) < 0.1


def test_fixing_the_culprit_closes_the_gap_under_fresh_seeds(explanation):
    found = explanation.verification
    assert (found.culprits, found.side, found.closed) == (("norm_momentum",), "b", True)
    assert found.before.difference.value < -0.3
    assert abs(found.after.difference.value) < 0.1


def test_the_verification_has_seeds_of_its_own(explanation, asked):
    told = {"semantics.norm_momentum": 0.9, "semantics.norm_epsilon": 1.01e-5}
    trials = [dict(trial.hyperparameters) for trial in read_study(asked.store, explanation.study).trials]
    assert {one["seed"] for one in trials if told.items() <= one.items()} == {3, 4, 5}
    assert {one["seed"] for one in trials if set(one) == {"seed"}} == {0, 1, 2, 3, 4, 5}


def test_all_runs_are_filed_and_nothing_is_trained_twice(explanation, asked):
    filed = read_study(asked.store, "cause").trials
    assert len(filed) == explanation.trained == 4 * 3 + 3 * 3
    again = asked(Arm("torch", PLAIN), Arm("torch", NEARLY), study="cause")
    assert (again.trained, again.known) == (0, 21)
    assert again.explained == explanation.explained
    assert again.verification == explanation.verification


@pytest.mark.slow
def test_an_interrupted_explanation_goes_on_where_it_was(asked):
    class Enough(Exception):
        pass

    class StopAfterThree(Silent):
        done = 0

        def advance(self, steps):
            self.done += steps
            if self.done == 3:
                raise Enough

    class Stages(Silent):
        def __init__(self):
            self.seen = []

        def begin(self, title, stage, total, unit=""):
            self.seen.append(title)

    sides = Arm("torch", Semantics(dropout=0.1)), Arm("torch", SLOW.over(Semantics(dropout=0.1)))
    with pytest.raises(Enough):
        asked(*sides, progress=StopAfterThree())
    stages = Stages()
    found = asked(*sides, progress=stages)
    assert found.known >= 3
    assert found.trained + found.known == 2 * 3 + 3 * 3
    assert found.explained.shares[0].share == Estimate(pytest.approx(1.0), pytest.approx((1.0, 1.0)))
    assert stages.seen == ["the pair", "verification"]


def test_an_explanation_in_words_and_as_data(explanation):
    said = "\n".join(lines(explanation))
    assert "all 2^2 = 4 cells, 3 seeds each" in said
    assert "norm_momentum  0.9 | 0.9999" in said
    assert "Verified with 3 fresh seeds, norm_momentum of torch (B) set to torch (A)'s" in said
    assert "This closes the gap" in said
    assert "each holds for itself, not all at once" in said
    assert "21 runs trained, 0 known from before; all are in the study cause." in said
    data = json.loads(json.dumps(as_data(explanation)))
    assert data["explained"]["cells"][0]["at_b"] == []
    assert data["contest"]["b"]["told"] == {"norm_momentum": 0.9999, "norm_epsilon": 1.01e-5}


def test_what_was_found_on_stand_ins_is_said_to_be_theirs(explanation):
    stand_in = stood_in(explanation.pair, explanation.pair, ())
    said = "\n".join(lines(replace(explanation, stand_in=stand_in)))
    for words in ("They reproduce the gap.", "Shapley shares of the stand-ins' gap", "Verified on the stand-ins"):
        assert words in said
        assert words not in "\n".join(lines(explanation))


def test_sides_within_noise_are_not_explained(asked):
    found = asked(Arm("torch", PLAIN), Arm("torch", Semantics(norm_epsilon=1.01e-5)), seeds_seen=2, study="within")
    assert found.explained is found.verification is None
    assert "There is no gap beyond seed noise, and so nothing to explain." in lines(found)
    assert {trial.hyperparameters["seed"] for trial in read_study(asked.store, "within").trials} == {2, 3, 4}
    assert any(line.startswith("Seeds 2 to 4: those that the trial") for line in lines(found))


def test_a_switch_without_effect_is_an_error(asked):
    """The recipe's epsilon goes before the one that a side is told."""
    fixed = {"optimizer": Optimizer(epsilon=1e-3)}
    with pytest.raises(ZoolensError, match=r"set to adam_epsilon 0.1 and its live objects have 0.001: the setting had"):
        asked("torch", Arm("torch", Semantics(adam_epsilon=0.1)), changes=fixed)


@pytest.mark.slow
def test_what_no_live_object_confirms_is_said(asked):
    """No bottleneck is there to have its stride in one place or the other."""
    found = asked(Arm("torch", PLAIN), Arm("torch", Semantics(stride="1x1", norm_epsilon=1.01e-5)))
    assert found.unconfirmed == ("torch: stride",)
    assert "Told, and not confirmed by any live object: torch: stride." in lines(found)


def test_questions_without_an_answer(asked):
    with pytest.raises(ZoolensError, match="same framework in the same way"):
        asked("torch", "torch")
    with pytest.raises(ZoolensError, match="One seed"):
        asked("torch", Arm("torch", SLOW), replicates=1)
    shipped = {"architecture": "resnet50", "weights": "own"}
    with pytest.raises(ZoolensError, match="its own semantics"):
        asked("torch", Arm("torch", SLOW), changes=shipped)
