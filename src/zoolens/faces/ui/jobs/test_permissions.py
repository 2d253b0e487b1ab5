from __future__ import annotations

from importlib import import_module

import pytest

from zoolens.faces.ui.endpoint import RequestError
from zoolens.faces.ui.jobs.kinds import (
    KINDS,
    AuditJob,
    CompareJob,
    DivergeJob,
    EvaluateJob,
    ExplainJob,
    JobParameters,
    NetworkJob,
    QueryJob,
    TraceJob,
)
from zoolens.faces.ui.jobs.permissions import check_data


@pytest.fixture
def allowed(tmp_path):
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "net.onnx").touch()
    (tmp_path / "outside.onnx").touch()
    (folder / "link.onnx").symlink_to(tmp_path / "outside.onnx")
    (folder / "away").symlink_to(tmp_path)
    return folder


GOOD = (
    EvaluateJob(models=["demo:lenet-torch", "timm:resnet50", "demo:*"], runtimes=["onnxruntime"]),
    EvaluateJob(models=["demo:x"], data="demo:passages"),
    EvaluateJob(models=["{allowed}/net.onnx"], data="imagefolder:{allowed}?labels={allowed}/labels.txt"),
    AuditJob(zoos=["timm"], architectures=["resnet*"]),
    CompareJob(a="last", b="1a2b3c4d"),
    CompareJob(a="demo:lenet-torch@1.0.0", b="demo:lenet-jax"),
    TraceJob(model="demo:lenet-torch"),
    DivergeJob(a="demo:lenet-torch@openvino:precision=float32", b="demo:lenet-torch@onnxruntime", data="demo"),
    NetworkJob(model="demo:lenet-torch@1.0.0"),
    NetworkJob(model="{allowed}/net.onnx"),
    ExplainJob(study="--store=/etc/passwd", trial="-t"),
    ExplainJob(study="digits", trial="t1", frameworks=["torch", "jax"], replicates=2),
    QueryJob(text="SELECT MODELS CORR x WITHIN 95%"),
)
BAD = (
    EvaluateJob(models=["/etc/passwd"]),
    EvaluateJob(models=["net.onnx"]),
    EvaluateJob(models=["../net.onnx"]),
    EvaluateJob(models=["file:net"]),
    EvaluateJob(models=["--trust"]),
    EvaluateJob(models=["~/net.onnx"]),
    EvaluateJob(models=["demo:x", "{allowed}/link.onnx"]),
    EvaluateJob(models=["{allowed}/away/outside.onnx"]),
    EvaluateJob(models=["{allowed}/../outside.onnx"]),
    EvaluateJob(models=["{allowed}-other/net.onnx"]),
    EvaluateJob(models=["demo:a\nb"]),
    EvaluateJob(models=[""]),
    EvaluateJob(models=["demo:x"], data="/data"),
    EvaluateJob(models=["demo:x"], data="imagefolder:/data"),
    EvaluateJob(models=["demo:x"], data="{allowed}?labels=/etc/passwd"),
    EvaluateJob(models=["demo:x"], data="npz:data.npz"),
    EvaluateJob(models=["demo:x"], runtimes=["remote:http://10.0.0.1"]),
    EvaluateJob(models=["demo:x"], runtimes=["remote"]),
    AuditJob(zoos=["../x"]),
    CompareJob(a="/etc/passwd", b="last"),
    TraceJob(model="demo:x", runtimes=["nosuch"]),
    DivergeJob(a="demo:x@remote:http://10.0.0.1", b="last"),
    DivergeJob(a="/x.onnx@openvino", b="last"),
    DivergeJob(a="last", b="last~1", data="/data"),
    NetworkJob(model="/etc/passwd"),
    NetworkJob(model="{allowed}/link.onnx"),
    ExplainJob(study="digits", trial="t1", frameworks=["torch"]),
)


def placed(parameters, folder) -> JobParameters:
    """The same parameters with the allowed folder in them."""
    text = parameters.model_dump_json().replace("{allowed}", str(folder))
    return type(parameters).model_validate_json(text)


@pytest.mark.parametrize("parameters", GOOD, ids=str)
def test_what_has_a_name_or_lies_in_an_allowed_folder_may_be_used(parameters, allowed):
    placed(parameters, allowed).check([allowed])


@pytest.mark.parametrize("parameters", BAD, ids=str)
def test_everything_else_is_refused(parameters, allowed):
    with pytest.raises(RequestError):
        placed(parameters, allowed).check([allowed])


def test_no_folder_is_allowed_by_itself(allowed):
    with pytest.raises(RequestError, match="may not read the model"):
        EvaluateJob(models=[f"{allowed}/net.onnx"]).check([])


@pytest.mark.parametrize("parameters", GOOD, ids=str)
def test_every_job_is_a_command_that_there_is(parameters):
    """The command line takes the arguments, and no value can be read as an option."""
    cli = import_module("zoolens.faces.cli.main").cli  # which lies above us
    name, *arguments = parameters.arguments()
    command = cli.get_command(None, name)
    options = {option for parameter in command.params for option in parameter.opts}
    if name in ("trace", "crosstrain"):
        command = command.get_command(None, arguments.pop(0))
        options = {option for parameter in command.params for option in parameter.opts}
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    assert {argument.partition("=")[0] for argument in before} <= options | {"--fresh"}
    assert parameters.title


def test_kinds_have_the_names_of_the_api():
    from typing import get_args

    from zoolens.faces.ui.jobs.kinds import JobName

    assert tuple(kind.name for kind in KINDS) == get_args(JobName)


def test_an_option_may_lead_from_the_dataset_into_it_and_nowhere_else(tmp_path, monkeypatch):
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    (folder / "train" / "masks").mkdir(parents=True)
    (folder / "train" / "names.json").write_text("[]")
    (elsewhere / "train" / "masks").mkdir(parents=True)
    (folder / "leads").symlink_to(elsewhere)
    monkeypatch.chdir(folder)
    check_data(f"masks:{folder}?masks=train/masks&classes=train%2Fnames.json%23voc", [folder])
    for way in ("train/nothing", "../elsewhere/train", "leads/train", "/etc/passwd"):
        with pytest.raises(RequestError):
            check_data(f"masks:{folder}?masks={way}", [folder])
    monkeypatch.chdir(elsewhere)  # where something of this name lies, which some kinds of data would take
    with pytest.raises(RequestError):
        check_data(f"masks:{folder}?masks=train/masks", [folder])
