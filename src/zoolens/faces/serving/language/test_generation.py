"""Texts of a data plane: what happens to one whose model is replaced or closed while it is written."""

import asyncio
import shutil
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.contracts.language import GenerationRequest, Sampling
from zoolens.faces.serving.language.generation import Languages
from zoolens.faces.serving.plane import text_request
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.manifests.schema import Input, Manifest
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.testing import language_models

pytest.importorskip("xllamacpp")
pytest.importorskip("tokenizers")

REQUEST = GenerationRequest("tiny", "AB 12", most=6, sampling=Sampling(temperature=0))


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    """The manifest of a tiny model without digests, so that it describes those of other weights, too."""
    path = language_models.gguf(tmp_path_factory.mktemp("drafted")).path()
    manifest = draft_manifest(path)
    (asset,) = manifest.assets
    files = tuple(file.model_copy(update={"sha256": None, "bytes": None}) for file in asset.files)
    write_manifest(
        manifest.model_copy(update={"assets": (asset.model_copy(update={"files": files}),)}), path.parent / "tiny.yaml"
    )
    return path.parent


@pytest.fixture
def written(drafted, tmp_path):
    """Writes a model with weights of this seed, and returns its manifest."""
    shutil.copytree(drafted, tmp_path, dirs_exist_ok=True)

    def write(seed):
        language_models.gguf(tmp_path, seed=seed)
        return str(tmp_path / "tiny.yaml")

    return write


async def text(languages, request=REQUEST):
    async with aclosing(languages.generate(request)) as parts:
        return "".join([part.text async for part in parts])


def test_a_model_that_is_replaced_does_not_go_on_with_the_tokens_of_another(written):
    async def serve():
        async with open_plane([written(seed=7)]) as plane:
            languages = Languages(plane)
            before = await text(languages)
            async with aclosing(languages.generate(REQUEST)) as parts:
                assert (await anext(parts)).text
                written(seed=8)
                await plane.load("tiny", {})
                with pytest.raises(ServingError, match="was replaced while it wrote this text") as refused:
                    await anext(parts)
            assert refused.value.refusal is Refusal.UNAVAILABLE
            assert await text(languages) != before
            await languages.close()

    asyncio.run(serve())


def test_a_model_that_is_opened_again_from_the_same_file_goes_on(written):
    async def serve():
        async with open_plane([written(seed=7)]) as plane:
            languages = Languages(plane)
            whole = await text(languages)
            async with aclosing(languages.generate(REQUEST)) as parts:
                first = (await anext(parts)).text
                await plane.load("tiny", {})
                assert first + "".join([part.text async for part in parts]) == whole
            slot = plane.endpoint("tiny").reference
            await plane.pool.unload(slot)
            assert (slot.model, languages.names()) == (None, ["tiny"])
            assert await text(languages) == whole
            await languages.drain(1)
            with pytest.raises(ServingError, match="begins no more texts"):
                await text(languages)
            await languages.close()

    asyncio.run(serve())


@pytest.fixture
def handed(monkeypatch):
    """How many tokens each call gets, where long texts are handed over 16 tokens at a time."""
    counts, hand_over = [], IsolatedSession.hand_over_tokens

    def counted(session, tokens, kept):
        counts.append(tokens.shape[1])
        hand_over(session, tokens, kept)

    monkeypatch.setattr(IsolatedSession, "hand_over_tokens", counted)
    monkeypatch.setattr(text_request, "_PIECE", 16)
    return counts


def test_no_call_computes_more_than_a_piece_whatever_was_before(written, handed):
    long = replace(REQUEST, prompt="12345" * 20, most=2)

    async def serve():
        async with open_plane([written(seed=7)]) as plane:
            languages = Languages(plane)
            leaving = asyncio.create_task(text(languages, long))
            while len(handed) < 3:
                await asyncio.sleep(0.001)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            count = len(handed)
            whole = await text(languages, long)
            # What was computed for the client that left is not computed again.
            assert len(handed) - count < 7
            ids = {"tokens": np.array([[1, 2, 3]], np.int32)}
            await plane.infer(InferRequest("tiny", ids))
            (instance,) = plane.endpoint("tiny").reference.model.instances
            assert len(instance.sequence) == 0
            assert await text(languages, long) == whole
            assert max(handed) == 16
            count = len(handed)
            assert await text(languages, long) == whole
            assert len(handed) - count == 2
            await languages.close()

    asyncio.run(serve())


def test_a_prompt_is_told_in_a_turn_of_its_own(written, handed):
    """It is no inference between the tokens of another text, whose keys and values it would cost."""
    other = replace(REQUEST, prompt="AB", echo=True, top=1, most=0)

    async def serve():
        async with open_plane([written(seed=7)]) as plane:
            languages = Languages(plane)
            async with aclosing(languages.generate(REQUEST)) as parts:
                await anext(parts)
                echoing = asyncio.create_task(text(languages, other))
                rest = [part.text async for part in parts]
            assert rest
            assert await echoing == "AB"
            assert handed[0] == len("AB 12") - 1
            assert set(handed[1:]) == {1}
            await languages.close()

    asyncio.run(serve())


@pytest.mark.slow
def test_a_model_that_its_runtime_cannot_continue_is_computed_as_a_whole(tmp_path):
    torch = pytest.importorskip("torch")
    table = torch.full((64, 64), -9.0)
    for number in range(64):
        table[number, (number + 1) % 64] = 1.0
    language_models.gguf(tmp_path)
    draft_manifest(tmp_path / "tiny.gguf")
    network = torch.nn.Embedding.from_pretrained(table)
    shapes = {"input": {1: torch.export.Dim("tokens", max=50)}}
    example = (torch.zeros((1, 5), dtype=torch.int64),)
    torch.export.save(torch.export.export(network, example, dynamic_shapes=shapes), str(tmp_path / "next.pt2"))
    tokenizer = Tokenizer(max_length=50, vocabulary=64, padding="none")
    files = ({"location": "next.pt2"}, {"location": "tiny.tokenizer.json", "role": "tokenizer"})
    manifest = Manifest(
        name="next",
        inputs=(Input(name="input", modality="text", shape=(1, None), dtype="int64", tokenizer=tokenizer),),
        outputs=({"task": "language-model"},),
        assets=({"format": "torch-export", "files": files},),
    )
    write_manifest(manifest, tmp_path / "next.yaml")

    async def serve():
        async with open_plane([str(tmp_path / "next.yaml")]) as plane:
            languages = Languages(plane)
            assert plane.endpoint("next").reference.model.extends
            for _ in range(2):
                assert await text(languages, replace(REQUEST, model="next", prompt="12", most=4)) == "3456"
            await languages.close()

    asyncio.run(serve())
