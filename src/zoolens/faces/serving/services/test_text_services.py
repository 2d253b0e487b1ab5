"""Services whose clients send texts: words become tokens on the server, as each model's manifest says."""

import asyncio
import json

import numpy as np
import pytest
import yaml

from zoolens.base.progress import Silent
from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.base.store.store import open_store
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.hosting import HostSettings, host_services
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.testing.text_models import VECTORS, VOCABULARY, write_classifier, write_embedder

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

TEXTS = ["good film", "bad film", "good boat not bad", "ship"]


@pytest.fixture
def serve(tmp_path, quick):
    """Measure a model, and run a coroutine with a service of it."""

    def serve(model, data, test, **settings):
        plan = EvaluationPlan(
            models=[str(model)], data=data, wanted=RunOptions(runtimes=("onnxruntime",)), batches=(1, 4), cold=False,
            latency=quick,
        )  # fmt: skip
        with open_store(tmp_path / "store.sqlite") as store:
            (outcome,) = carry_out_entries([find(str(model))], plan, store, Silent())
            assert not outcome.errors, outcome.errors
        usual = {"reference": f"file:{model.stem}", "within": 0.9, "input": "text", "batch": {"size": 4}}
        service = Service(**{**usual, **settings})

        async def main():
            how = HostSettings(refresh=0.0, latency=quick, seed=0)
            async with (
                open_plane() as plane,
                host_services(plane, {"texts": service}, store=tmp_path / "store.sqlite", settings=how),
            ):
                return await test(plane)

        return asyncio.run(asyncio.wait_for(main(), 100))

    return serve


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "texts.csv"
    rows = [f"{text},{'positive' if 'good' in text else 'negative'}" for text in TEXTS]
    path.write_text("\n".join(["text,label", *rows]))
    return str(path)


def texts(*given):
    return {"text": np.array([[text.encode()] for text in given], object)}


async def infer(plane, *given):
    (tensor,) = (await plane.infer(InferRequest("texts", texts(*given)))).outputs.values()
    return tensor


def test_texts_of_several_lengths_are_answered_together_as_alone(tmp_path, table, serve):
    async def test(plane):
        (given,) = plane.model_metadata("texts").inputs
        assert (given.name, given.datatype, given.shape) == ("text", "BYTES", (-1, 1))
        together = await infer(plane, "good film", "a bad boat", "good good ship not bad")
        alone = [await infer(plane, text) for text in ("good film", "a bad boat", "good good ship not bad")]
        np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-6)
        assert together.argmax(axis=1).tolist() == [1, 0, 1]
        several = await asyncio.gather(*(infer(plane, "good " * count) for count in range(1, 6)))
        assert [answer.argmax() for answer in several] == [1] * 5
        with pytest.raises(ServingError, match="holds texts in UTF-8"):
            await plane.infer(InferRequest("texts", {"text": np.array([[b"\xff"]], object)}))

    serve(write_classifier(tmp_path), table, test)


@pytest.mark.slow
def test_vectors_of_texts_are_documents(tmp_path, table, serve):
    async def test(plane):
        (document,) = (json.loads(document) for document in (await infer(plane, "boat")).reshape(-1))
        wanted = VECTORS[[VOCABULARY.index(word) for word in ("[CLS]", "boat", "[SEP]")]].mean(axis=0)
        np.testing.assert_allclose(document["values"], wanted, rtol=1e-5)

    serve(write_embedder(tmp_path, steps=("mean",)), table, test)


@pytest.mark.slow
def test_words_come_back_with_their_tags(tmp_path, serve):
    model = write_embedder(tmp_path, "tagger")
    declared = yaml.safe_load(model.read_text())
    declared["outputs"] = [{"task": "token-classification", "labels": ["O", "B-X", "B-Y", "B-Z"]}]
    model.write_text(yaml.safe_dump(declared))
    data = tmp_path / "words.conll"
    data.write_text("good O\nfilm B-X\n\nbad B-Y\nboat O\n")

    async def test(plane):
        (document,) = (json.loads(document) for document in (await infer(plane, "good  film boat")).reshape(-1))
        assert document["words"] == ["good", "film", "boat"]
        best = VECTORS[[VOCABULARY.index(word) for word in document["words"]]].argmax(axis=1)
        assert document["tags"] == [["O", "B-X", "B-Y", "B-Z"][number] for number in best]
        with pytest.raises(ServingError, match="has no words"):
            await infer(plane, "  ")

    serve(model, f"tagged:{data}", test)
