"""A store may ask for packages: they are shown and confirmed, and nothing but packages reaches pip."""

from dataclasses import replace

import pytest

from zoolens import evaluate
from zoolens.base.errors import EnvironmentBuildError
from zoolens.base.safety.consent import NotGranted, asking
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.reproduce import job_of_run


@pytest.fixture
def run(tmp_path):
    (tmp_path / "m.json").write_text('{"input": [28, 28], "classes": 10}')
    (tmp_path / "m.yaml").write_text(
        "zoolens: 1\nname: m\ninputs:\n- {modality: image, shape: [null, 28, 28], layout: NHW, color: gray}\n"
        "outputs:\n- scores: logits\nassets:\n- format: fake\n  files:\n  - location: m.json\n"
    )
    store = tmp_path / "store.sqlite"
    evaluate([str(tmp_path / "m.yaml")], data="demo", limit=5, store=store, cold=False, batches=())
    with open_store(store) as opened:
        return opened.measured_run("last")


def asking_for(run, *environment):
    return replace(run, stack=replace(run.stack, identity={**run.stack.identity, "environment": list(environment)}))


def test_what_a_store_asks_to_install_is_shown_and_confirmed(run, monkeypatch, tmp_path):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    tampered = asking_for(run, "innocent-looking==1.0")
    with pytest.raises(NotGranted, match=r"asks to install innocent-looking==1\.0, numpy with pip"):
        job_of_run(tampered, allow_code=False)
    with asking(lambda wish: False), pytest.raises(NotGranted):
        job_of_run(tampered, allow_code=False)


def test_a_path_in_a_store_does_not_reach_pip(run):
    with asking(lambda wish: True), pytest.raises(EnvironmentBuildError, match="cannot be part of an environment"):
        job_of_run(asking_for(run, "x===../dir"), allow_code=False)


def test_a_run_without_environment_asks_nothing(run):
    assert job_of_run(run, allow_code=False).environment is None
