"""Services whose clients send sounds: files are decoded on the server and become what the model takes."""

import asyncio
import io
import wave
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Silent
from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.base.store.store import open_store
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.services.candidates import _examined_by_reading
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.hosting import HostSettings, host_services
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.sessions import RunOptions

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

# A sound above zero is the second class.
NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 16] x) => (float[N, 2] y)
<float[1, 2] sides = {-9, 9}>
{
  m = ReduceMean <axes = [1]> (x)
  y = Mul (m, sides)
}
"""


def wav(level, count=16, rate=8000):
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(np.full(count, level, "<i2").tobytes())
    return file.getvalue()


@pytest.mark.slow
def test_sounds_are_decoded_and_cut_as_the_manifest_says(tmp_path, quick):
    import onnx.parser

    onnx.save(onnx.parser.parse_model(NETWORK), tmp_path / "loud.onnx")
    sound = {"rate": 8000, "length": {"samples": 16}}
    manifest = {
        "zoolens": 1,
        "name": "loud",
        "inputs": [{"modality": "sound", "shape": [None, 16], "sound": sound}],
        "outputs": [{"labels": ["low", "high"]}],
        "assets": [{"format": "onnx", "files": [{"location": "loud.onnx"}]}],
    }
    (tmp_path / "loud.yaml").write_text(yaml.safe_dump(manifest))
    for name, level in (("low", -9000), ("high", 9000)):
        (tmp_path / "sounds" / name).mkdir(parents=True)
        (tmp_path / "sounds" / name / "one.wav").write_bytes(wav(level))
    plan = EvaluationPlan(
        models=[str(tmp_path / "loud.yaml")], data=f"sounds:{tmp_path / 'sounds'}", batches=(1, 4), cold=False,
        wanted=RunOptions(runtimes=("onnxruntime",)), latency=quick,
    )  # fmt: skip
    with open_store(tmp_path / "store.sqlite") as store:
        (outcome,) = carry_out_entries([find(str(tmp_path / "loud.yaml"))], plan, store, Silent())
        assert not outcome.errors

    async def test():
        service = Service(reference="file:loud", within=0.9, input="sound", batch={"size": 4})
        how = HostSettings(refresh=0.0, latency=quick, seed=0)
        async with (
            open_plane() as plane,
            host_services(plane, {"loud": service}, store=tmp_path / "store.sqlite", settings=how),
        ):

            async def infer(*contents):
                inputs = {"sound": np.array([[content] for content in contents], object)}
                return (
                    (await plane.infer(InferRequest("loud", inputs))).outputs["probabilities"].argmax(axis=1).tolist()
                )

            assert await infer(wav(9000), wav(-9000, 40), wav(9000, 3)) == [1, 0, 1]
            for wrong, words in (
                (b"", "An element of 'sound' is empty"),
                (b"no sound", "is not a sound of a known kind"),
                (wav(1, rate=16000), "has 16,000 samples a second, but the model takes 8,000"),
            ):
                with pytest.raises(ServingError, match=words):
                    await infer(wrong)

    asyncio.run(asyncio.wait_for(test(), 100))


def test_a_model_of_windows_is_refused_with_what_to_do():
    sound = SimpleNamespace(windows=SimpleNamespace(length=512))
    job = SimpleNamespace(manifest=SimpleNamespace(code=None, inputs=[SimpleNamespace(sound=sound)]))
    with pytest.raises(
        ZoolensError, match=r"window by window.* Serve it by its own name: clients then send each window"
    ):
        _examined_by_reading("vad", job, None, None)
