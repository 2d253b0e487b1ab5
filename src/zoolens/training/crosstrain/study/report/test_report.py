import csv
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from zoolens.base.present import images
from zoolens.base.present.pages import Section
from zoolens.base.present.tables import Column, Table
from zoolens.training.crosstrain.study.analysis.collapsed import Flag
from zoolens.training.crosstrain.study.report import write_report
from zoolens.training.crosstrain.study.report.conftest import EVIL, made_study
from zoolens.training.crosstrain.study.report.overview import write_overview
from zoolens.training.crosstrain.study.report.study_findings import gather
from zoolens.training.crosstrain.study.report.trial_charts import training_chart
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial

needs_images = pytest.mark.skipif(not images.can_draw(), reason="NO vl-convert: the extra `reports` is not installed")


def rows(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The files of a report, in a folder that was not there."""
    return write_report(made_study(), tmp_path_factory.mktemp("report") / "new" / "folder")


@pytest.fixture
def without_pictures(monkeypatch):
    """For what is said of the page alone: drawing the PNG files takes longer than all the rest."""
    monkeypatch.setattr(images, "can_draw", lambda: False)


@needs_images
def test_a_study_becomes_a_page_pictures_and_files(written):
    assert all(path.stat().st_size for path in written)
    assert {path.name for path in written} == {path.name for path in written[0].parent.iterdir()}
    page = written[0].read_text(encoding="utf-8")
    for said in ("each trained by torch and jax", "The 10 largest Δ", "The 10 smallest Δ", "leave-one-out R²", "H"):
        assert said in page
    for path in written:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert 600 < image.width < 2000
                assert len(image.getcolors(1 << 24)) > 50
        assert path.name == "index.html" or f'href="{path.name}"' in page


def test_the_page_fetches_nothing_runs_only_our_scripts_and_every_chart_is_in_it(written):
    tags = Tags(written[0].read_text(encoding="utf-8")).found
    assert not {"img", "link", "iframe", "object"} & {tag for tag, _ in tags}
    assert not [a for _, a in tags if "src" in a or any(name.startswith("on") for name in a)]
    assert all(re.match(r"#s\d+$|\w+\.(csv|png)$", a["href"]) for tag, a in tags if tag == "a")
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert re.search(r"script-src( 'sha256-[^']+'){2}$", policy)
    charts = [index for index, (_, a) in enumerate(tags) if "data-chart" in a]
    assert len(charts) == 6
    assert [tags[index + 1] for index in charts] == [("script", {"type": "application/json"})] * 6


@pytest.mark.usefixtures("without_pictures")
def test_without_the_library_for_files_the_page_is_whole(tmp_path):
    written = write_report(made_study(5), tmp_path)
    assert not [path for path in written if path.suffix == ".png"]
    page = written[0].read_text(encoding="utf-8")
    assert ".png" not in page.partition("<main>")[2].partition("<script>")[0]
    assert "data-chart" in page


@pytest.mark.usefixtures("without_pictures")
def test_without_scikit_learn_the_page_says_what_it_leaves_out(tmp_path, monkeypatch):
    for module in ("sklearn.neighbors", "sklearn.gaussian_process"):
        monkeypatch.setitem(sys.modules, module, None)
    page = write_report(made_study(), tmp_path)[0].read_text(encoding="utf-8")
    for what in ("Estimating a density", "Fitting a surrogate"):
        assert f"{what} needs scikit-learn, which is not installed. Run: pip install" in page


@pytest.mark.usefixtures("without_pictures")
def test_names_of_strangers_stay_text(tmp_path):
    sides = (TrainedSide(EVIL, accuracy=0.5, message=EVIL), TrainedSide("jax", accuracy=0.9))
    trials = tuple(
        Trial(f"{EVIL}{i}", {EVIL: float(i), f'"{EVIL}': "=cmd()"[: i % 6 + 1]}, sides, notes=("\x00\x1b[31m", EVIL))
        for i in range(25)
    )
    study = Study(EVIL, (EVIL, "jax"), trials, {EVIL: {EVIL: [EVIL]}})
    table = Table(f"../../{EVIL}", (Column(EVIL),), ((EVIL,),))
    section = Section(EVIL, (EVIL,), (EVIL,), (EVIL,), tables=((EVIL, table),), files=(f'"{EVIL}',))
    written = write_report(study, tmp_path, sections=[section])
    page = written[0].read_text(encoding="utf-8")
    assert EVIL not in page
    assert "\x00" not in page
    assert "\x1b" not in page
    assert all(path.parent == tmp_path for path in written)
    cells = {cell for row in rows(tmp_path / "trials.csv") for cell in row.values()}
    assert "'=cmd()" in cells
    assert "=cmd()" not in cells


@pytest.mark.usefixtures("without_pictures")
def test_figures_of_the_headline_and_the_tables(tmp_path):
    fine = [
        Trial(str(i), {"x": i}, (TrainedSide("a", accuracy=0.85), TrainedSide("b", accuracy=0.8))) for i in range(3)
    ]
    broken = Trial(
        "3", {"x": 3}, (TrainedSide("a", "non-finite", message="loss"), TrainedSide("b", accuracy=0.1, answered=(0, 9)))
    )
    write_report(Study("s", ("a", "b"), (*fine, broken)), tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    for figure, caption in (
        ("3", "pairs with both accuracies"),
        ("100.0 %", "of pairs ≥ 5 % apart (3)"),  # 0.85 - 0.8 is below 0.05 in floating point
        ("5.00 %", "largest Δ"),
        ("7", "sides finished"),
        ("1", "sides non-finite"),
        ("1", "sides that always answer the same"),
    ):
        assert f"<b>{figure}</b><span>{caption}</span>" in page
    assert "b answers class 1 for every test sample (collapsed predictor); a non-finite; a: loss" in page
    assert [row["collapsed"] for row in rows(tmp_path / "accuracies.csv")] == ["0", "1"]
    (delta,) = rows(tmp_path / "deltas.csv")
    assert (delta["trials"], delta["≥ 5 %"]) == ("3", "3")
    assert float(delta["first − second, mean"]) == pytest.approx(0.05)
    assert [row["Δ"] for row in rows(tmp_path / "trials.csv")][3] == ""


@pytest.mark.usefixtures("without_pictures")
def test_every_number_of_a_study_is_in_the_files(tmp_path):
    study = made_study(30)
    write_report(study, tmp_path)
    findings = gather(study)
    trials = rows(tmp_path / "trials.csv")
    np.testing.assert_array_equal([float(row["Δ"]) for row in trials], study.deltas())
    np.testing.assert_array_equal([float(row["torch accuracy"]) for row in trials], study.accuracy("torch"))
    assert {row["epochs"] for row in trials} == {"3"}
    assert len(rows(tmp_path / "densities.csv")) == sum(
        len(one.density.grid) for one in (*findings.accuracies.values(), *findings.pairs.values())
    )
    said = {
        (row["target"], row["first"], row["second"]): float(row["nats"]) for row in rows(tmp_path / "information.csv")
    }
    assert len(said) == 3 * (2 + 1)
    assert said["Δ", "rate", "optimizer"] >= max(said["Δ", "rate", ""], said["Δ", "optimizer", ""])
    curves = rows(tmp_path / "dependence.csv")
    assert [float(row["delta"]) for row in curves] == [v for c in findings.dependence.curves for v in c.mean]
    assert len(rows(tmp_path / "interaction.csv")) == findings.dependence.surface.mean.size


def test_the_planted_interaction_is_found():
    found = gather(made_study(60)).dependence
    assert found.trusted
    assert {one.name for one in found.interactions[0].inputs} == {"rate", "optimizer"}


@pytest.mark.usefixtures("without_pictures")
def test_three_sides_have_three_pairs_and_the_largest_counts(tmp_path):
    study = made_study(25, ("torch", "tensorflow", "jax"))
    first = study.trials[0]
    missing = replace(first, sides=first.sides[:1])  # two sides were never trained
    write_report(replace(study, trials=(missing, *study.trials[1:])), tmp_path)
    table = rows(tmp_path / "deltas.csv")
    assert [row["pair"] for row in table] == [
        "torch – tensorflow", "torch – jax", "tensorflow – jax", "largest of each trial",
    ]  # fmt: skip
    assert max(float(row["max"]) for row in table[:3]) == float(table[3]["max"])
    assert {row["trials"] for row in table} == {"24"}
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<b>72</b><span>pairs with both accuracies</span>" in page
    assert "1 trials without a Δ" in page


@needs_images
def test_one_hyperparameter_is_enough(tmp_path):
    study = made_study(25)
    trials = tuple(replace(one, hyperparameters={"rate": one.hyperparameters["rate"]}) for one in study.trials)
    names = {path.name for path in write_report(replace(study, trials=trials), tmp_path)}
    assert {"space.png", "dependence.png", "information.csv"} <= names
    assert "interaction.png" not in names


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("count", [0, 1, 3])
def test_few_trials_are_said_to_be_few(tmp_path, count):
    write_report(made_study(count), tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    if count > 1:
        assert "Too few trials for mutual information: 3, at least 20" in page
        assert "Too few trials for a surrogate, complete ones: 3, at least 20" in page
    else:
        assert page.count("No hyperparameter varies between the trials.") == 2


@pytest.mark.usefixtures("without_pictures")
def test_strange_values_do_not_stop_a_report(tmp_path):
    study = made_study(30)
    values = (float("nan"), float("inf"), -1e308, 1e308, 0.0, -5.0)
    trials = tuple(
        replace(
            one, hyperparameters={**one.hyperparameters, "odd": values[i % 6], "huge": 10**200 + i, "flag": i % 2 == 0}
        )
        for i, one in enumerate(study.trials)
    )
    write_report(replace(study, trials=trials), tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "0 trials are not in it, nor are odd, huge: too few trials have them" in page
    assert len(rows(tmp_path / "information.csv")) == 3 * (5 + 10)


@pytest.mark.usefixtures("without_pictures")
def test_sections_of_others_stand_on_the_page_and_their_tables_in_files(tmp_path):
    table = Table("paper", (Column("what"), Column("ours", "percent")), (("Table 5", 0.452),))
    sections = [Section("Does not match the paper", items=("Table 5: none of its rows",), tables=(("", table),))] * 2
    written = write_report(made_study(5), tmp_path, sections=sections)
    page = written[0].read_text(encoding="utf-8")
    assert "<li>Table 5: none of its rows</li>" in page
    assert "45.20 %" in page
    assert rows(tmp_path / "paper.csv") == [{"what": "Table 5", "ours": "0.452"}]
    assert (tmp_path / "paper-2.csv") in written


def test_the_same_study_gives_the_same_bytes(written, tmp_path):
    again = write_report(made_study(), tmp_path)
    assert [path.name for path in again] == [path.name for path in written]
    for one, other in zip(written, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.usefixtures("without_pictures")
def test_flags_that_need_labels_are_shown_where_they_are_given(tmp_path):
    study = made_study(5)
    sure = Flag("t3", "jax", (5,), "batch means", 0.1, 1e-9)
    write_report(study, tmp_path, flags=[sure, Flag("t4", "jax", (0,), "class share", 0.1)])
    notes = [row["notes"] for row in rows(tmp_path / "trials.csv")]
    assert notes[3] == str(sure)
    assert notes[4].startswith("jax may always answer one class")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<b>1</b><span>sides that always answer the same</span>" in page  # what may be is not counted


@pytest.mark.assets
@pytest.mark.slow
def test_the_published_study(tmp_path, published):
    """628 of 1200 pairs are 5 % apart or more; epochs say most about DenseNet's Δ."""
    found = {name: gather(study, deep=name != "resnet50") for name, study in published.items()}
    assert {name: one.apart for name, one in found.items()} == {"vgg16": 237, "resnet50": 181, "densenet121": 210}
    assert sum(one.pair_count for one in found.values()) == 1200
    dense = found["densenet121"]
    assert dense.dependence.surrogate.r_squared > 0.7
    assert max(dense.information[0].singles, key=lambda one: one.nats).name == "epochs"
    assert max(dense.dependence.curves, key=lambda one: one.importance).input.name == "epochs"
    assert not found["vgg16"].dependence.trusted


@pytest.mark.usefixtures("without_pictures")
def test_settings_of_a_study_are_words_at_the_end(tmp_path):
    recipe = {"architecture": "mlp", "train_limit": None, "optimizer": {"name": "adam"}}
    space = [{"name": "rate", "low": 0.1, "choices": []}]
    study = replace(made_study(5), details={"source": "us", "recipe": recipe, "space": space})
    page = write_report(study, tmp_path)[0].read_text(encoding="utf-8")
    header, main = page.partition("</header>")[::2]
    assert "architecture" not in header
    assert "architecture mlp, optimizer (name adam)" in main
    assert "name rate, low 0.1" in main
    assert "{" not in main.partition("About this study")[2].partition("</main>")[0]
    deep = {"a": {"b": {"c": {"d": {"e": {"f": "g"}}}}}}
    assert "…" in write_report(replace(study, details=deep), tmp_path)[0].read_text(encoding="utf-8")


@needs_images
def test_how_the_furthest_trials_were_trained_is_drawn(tmp_path):
    study = made_study(5)
    losses = {"losses": (2.0, 1.0, None), "accuracies": (0.3, 0.6, 0.7)}
    learnt = [replace(one, sides=tuple(replace(side, **losses) for side in one.sides)) for one in study.trials]
    written = write_report(replace(study, trials=tuple(learnt)), tmp_path)
    assert tmp_path / "training.png" in written
    page = written[0].read_text(encoding="utf-8")
    assert "How the trials that are furthest apart were trained" in page
    assert "loss while training" in page
    assert training_chart(study.trials) is None  # nothing is known of their epochs


def test_several_studies_have_a_page_above_them(tmp_path):
    path = write_overview({"a": made_study(name=EVIL), "b": Study("empty", ("torch",), ())}, tmp_path)
    page = path.read_text(encoding="utf-8")
    assert 'href="a/index.html"' in page
    assert "<script" not in page
    assert "40" in page
