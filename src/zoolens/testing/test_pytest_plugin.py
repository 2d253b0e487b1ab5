"""The pytest plug-in, used as a project uses it: a test file of its own, run by pytest."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from xml.etree import ElementTree

import numpy as np
import pytest

pytest_plugins = ["pytester"]

MANIFEST = """zoolens: 1
name: {name}
inputs: [{{modality: image, shape: [null, 8, 8], layout: NHW, color: gray}}]
outputs: [{{scores: logits}}]
assets: [{{format: fake, files: [{{location: {name}.json}}]}}]
"""


@pytest.fixture(autouse=True)
def registered():
    if "zoolens" not in {point.name for point in entry_points(group="pytest11")}:
        pytest.skip(
            "THE PLUG-IN IS NOT REGISTERED: install zoolens again (pip install -e .), its entry points are older"
        )


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder with two models that are always right, two that guess, one that crashes, and data."""
    monkeypatch.setenv("ZOOLENS_HOME", str(pytester.path / "home"))
    behaviours = {"good": "label_leak", "twin": "label_leak", "bad": "hash", "broken": "crash", "other": "hash"}
    for name, behaviour in behaviours.items():
        settings = {"classes": 10, "input": [8, 8], "behaviour": behaviour}
        (pytester.path / f"{name}.json").write_text(json.dumps(settings))
        (pytester.path / f"{name}.yaml").write_text(MANIFEST.format(name=name))
    images = np.random.default_rng(0).integers(0, 256, (120, 8, 8), np.uint8)
    np.savez(pytester.path / "data.npz", x=images, y=(images[:, 0, 0] % 10).astype(np.int64))
    return pytester


def report_of(project, *arguments: str) -> dict[str, ElementTree.Element]:
    """Run pytest as a user does; the test cases of its JUnit report by name."""
    slow = ("-p", "no:schemathesis", "-p", "no:hypothesispytest")  # plug-ins that take seconds to import
    project.runpytest_subprocess(
        "--junit-xml=report.xml", "--strict-markers", "-p", "no:cacheprovider", *slow, *arguments
    )
    return {str(case.get("name")): case for case in ElementTree.parse(project.path / "report.xml").iter("testcase")}


def message_of(case: ElementTree.Element) -> str:
    (failed,) = case.iter("failure")
    return failed.get("message", "")


def test_a_regression_is_one_line_with_figures_intervals_and_the_gate(project):
    project.makepyfile(
        """
        import shutil

        import pytest

        pytestmark = pytest.mark.zoolens("data.npz", runtimes="fake")

        def test_compare(zoolens):
            zoolens.compare("good.yaml", "bad.yaml", fail_on=["top1 drop > 1%", "disagreement > 99%"])

        def test_equiv(zoolens):
            zoolens.equiv("good.yaml", "bad.yaml", fail_on="guaranteed < 95%")

        def test_crash(zoolens):
            zoolens.compare("good.yaml", "broken.yaml")

        def test_evaluation_that_crashes(zoolens):
            zoolens.evaluate(["broken.yaml"])

        def test_evaluation_that_looks_wrong(zoolens):
            zoolens.evaluate("bad.yaml")

        def test_stale(zoolens):
            shutil.copy("good.json", "other.json")
            first = zoolens.equiv("good.yaml", "other.yaml", fail_on="agreement < 100%").on[0]
            shutil.copy("bad.json", "other.json")
            zoolens.equiv(first.a.id, first.b.id, fail_on="agreement < 100%")

        def test_measured_again(zoolens):
            assert zoolens.equiv("good.yaml", "other.yaml").agreement < 0.5

        @pytest.mark.zoolens("data.npz", "fake")
        def test_marker(zoolens):
            pass

        def test_typing_mistake(zoolens):
            zoolens.compare("good.yaml", "god.yaml", fail_on="top1 drop > 1%")

        def test_gate(zoolens):
            with pytest.raises(Exception, match="is not a condition"):
                zoolens.compare("no.yaml", "no.yaml", fail_on="top1 > 1%")
        """
    )
    cases = report_of(project, "--zoolens-store=mine.sqlite")
    assert (project.path / "mine.sqlite").exists()

    message = message_of(cases["test_compare"])
    assert message.startswith(
        "Failed: Model regression: file:bad@0.0.0 against file:good@0.0.0 on 120 inputs of data: "
    )
    assert "top1 drop 86.67 % (A 100.0 % [96.9, 100.0], B 13.3 % [8.4, 20.6]; B − A -86.67 points [" in message
    assert "exact McNemar p = " in message
    assert message.endswith("and the gate is 'top1 drop > 1%'.")
    assert "\n" not in message

    message = message_of(cases["test_equiv"])
    assert "on 120 inputs of data: guaranteed is " in message
    assert "% with 95 % confidence, accuracy B − A [-" in message
    assert message.endswith("and the gate is 'guaranteed < 95%'.")

    assert "zoolens could not evaluate good.yaml and broken.yaml." in message_of(cases["test_crash"])
    assert "zoolens could not evaluate broken.yaml as asked." in message_of(cases["test_evaluation_that_crashes"])
    assert "zoolens could not evaluate bad.yaml as asked." in message_of(cases["test_evaluation_that_looks_wrong"])
    message = message_of(cases["test_stale"])
    assert message.startswith("Failed: The file of file:other@0.0.0 has changed since it was measured in run ")
    assert not list(cases["test_measured_again"].iter("failure"))
    assert message_of(cases["test_typing_mistake"]) == "There is no model file named 'god.yaml'. Check the path."
    (shown,) = cases["test_typing_mistake"].iter("failure")
    assert "lookup.py" not in str(shown.text)
    (wrong_marker,) = cases["test_marker"].iter("error")
    assert "The marker zoolens takes one dataset; give everything else by keyword" in str(wrong_marker.text)
    assert not list(cases["test_gate"].iter("failure"))


def test_what_passes_is_written_into_the_report_too(project):
    project.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.zoolens("data.npz", runtimes="fake", store="mine.sqlite")

        def test_same(zoolens):
            report = zoolens.compare("good.yaml", "good.yaml", fail_on="top1 drop > 1%")
            assert report.answers.agreement == 1

        def test_interchangeable(zoolens):
            report = zoolens.equiv("good.yaml", "twin.yaml", fail_on="agreement < 100%")
            assert report.guaranteed > 0.9

        @pytest.mark.zoolens(limit=20)
        def test_evaluation(zoolens):
            (outcome,) = zoolens.evaluate("good.yaml")
            assert outcome.run.inputs == 20
        """
    )
    project.makeini("[pytest]\nzoolens_store = unused.sqlite")
    cases = report_of(project)
    assert len(cases) == 3
    assert [name for name, case in cases.items() if list(case.iter("failure")) or list(case.iter("error"))] == []
    written = {one.get("name"): str(one.get("value")) for case in cases.values() for one in case.iter("property")}
    assert written["zoolens: top1 drop > 1%"].startswith("top1 drop 0.00 % (A 100.0 % [96.9, 100.0], B 100.0 %")
    assert written["zoolens: agreement < 100%"].startswith("agreement is 100.00 % (same answer 100.00 %, at least 9")
    assert (project.path / "mine.sqlite").exists()
    assert not (project.path / "unused.sqlite").exists()


def test_a_project_that_does_not_use_it_pays_nothing(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_nothing_heavy_is_there():
            heavy = {"numpy", "pydantic", "sqlalchemy", "pyarrow", "rich", "yaml", "PIL", "click", "zoolens.base.store"}
            assert "zoolens.testing.pytest_plugin" in sys.modules
            assert not heavy & set(sys.modules)
        """
    )
    done = pytester.runpytest_subprocess(
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:schemathesis",
        "-p",
        "no:jaxtyping",
    )
    done.assert_outcomes(passed=1)
