"""Texts of a data plane: what happens to one whose model is replaced or closed while it is written."""

import asyncio
from contextlib import aclosing

import pytest

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.contracts.language import GenerationRequest, Sampling
from zoolens.faces.serving.language.generation import Languages
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.manifests.files import write_manifest
from zoolens.testing import language_models

pytest.importorskip("xllamacpp")
pytest.importorskip("tokenizers")

REQUEST = GenerationRequest("tiny", "AB 12", most=6, sampling=Sampling(temperature=0))


def written(folder, *, seed):
    """The manifest of a model with these weights, without the digest of its file."""
    path = language_models.gguf(folder, seed=seed).path()
    manifest = draft_manifest(path)
    (asset,) = manifest.assets
    files = tuple(file.model_copy(update={"sha256": None, "bytes": None}) for file in asset.files)
    manifest = manifest.model_copy(update={"assets": (asset.model_copy(update={"files": files}),)})
    write_manifest(manifest, folder / "tiny.yaml")
    return str(folder / "tiny.yaml")


async def text(languages, request=REQUEST):
    async with aclosing(languages.generate(request)) as parts:
        return "".join([part.text async for part in parts])


def test_a_model_that_is_replaced_does_not_go_on_with_the_tokens_of_another(tmp_path):
    async def serve():
        async with open_plane([written(tmp_path, seed=7)]) as plane:
            languages = Languages(plane)
            before = await text(languages)
            async with aclosing(languages.generate(REQUEST)) as parts:
                assert (await anext(parts)).text
                written(tmp_path, seed=8)
                await plane.load("tiny", {})
                with pytest.raises(ServingError, match="was replaced while it wrote this text") as refused:
                    await anext(parts)
            assert refused.value.refusal is Refusal.UNAVAILABLE
            assert await text(languages) != before
            await languages.close()

    asyncio.run(serve())


def test_a_model_that_is_opened_again_from_the_same_file_goes_on(tmp_path):
    async def serve():
        async with open_plane([written(tmp_path, seed=7)]) as plane:
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
