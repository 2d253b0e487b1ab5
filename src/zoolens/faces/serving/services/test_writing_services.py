"""Services of language models: texts that one tier writes to its end, switches between texts, and what is refused."""

import asyncio
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Silent
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.base.store.store import open_store
from zoolens.base.verdicts import Outcome
from zoolens.faces.serving.contracts.language import GenerationRequest, Sampling
from zoolens.faces.serving.language.generation import Languages
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.text_request import TextRequest
from zoolens.faces.serving.plane.timing import ScaledTiming
from zoolens.faces.serving.services.definition import Service, ServiceError, parse_services
from zoolens.faces.serving.services.events import sessions
from zoolens.faces.serving.services.hosting import HostSettings, build_ladders, host_services
from zoolens.faces.serving.services.ladder_verdict import ladder_verdict
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.manifests.schema_texts import NextTokens
from zoolens.testing import language_models
from zoolens.testing.language_model_runs import time_texts

pytest.importorskip("xllamacpp")
pytest.importorskip("tokenizers")

LARGE, SMALL = "file:large@0.1.0", "file:small@0.1.0"
PROMPT, ANSWER = 16, 12
CROWDED = """
from zoolens.faces.serving.policies.policy import Choice, Policy

class Crowded(Policy):
    name, summary = "crowded", "the cheapest tier while several wait"

    def choose(self, situation):
        last = len(self.ladder.rungs) - 1
        return Choice(last if situation.waiting > 1 else 0, f"{situation.waiting} wait.")
"""


def written(folder, name, seed=7, noise=0.0):
    """A model with a manifest. `noise`: how far its weights are from those that the seed draws."""
    random = np.random.default_rng(1)
    drawn = language_models.weights(seed)
    tensors = {key: (value + noise * random.normal(size=value.shape)).astype("f4") for key, value in drawn.items()}
    path = folder / f"{name}.gguf"
    path.write_bytes(language_models.gguf_bytes(language_models.metadata(), tensors))
    manifest = draft_manifest(path)
    # All tokens are kept, so that it is known how far two models agree.
    every = NextTokens(op="next_tokens", top=language_models.VOCABULARY)
    outputs = tuple(output.model_copy(update={"postprocess": (every,)}) for output in manifest.outputs)
    write_manifest(manifest.model_copy(update={"outputs": outputs}), path.with_suffix(".yaml"))
    return str(path.with_suffix(".yaml"))


@pytest.fixture(scope="module")
def store_path(tmp_path_factory, quick):
    folder = tmp_path_factory.mktemp("texts")
    models = [written(folder, "large"), written(folder, "small", noise=1e-3), written(folder, "other", seed=9)]
    (folder / "book.txt").write_text("AB 12 34 CD ?! " * 20)
    plan = EvaluationPlan(
        models=models, data=f"passages:{folder / 'book.txt'}?size=60", wanted=RunOptions(runtimes=("llamacpp",)),
        batches=(), contexts=(), cold=False, latency=quick, task_metrics=False,
    )  # fmt: skip
    with open_store(folder / "store.sqlite") as store:
        outcomes = list(carry_out_entries([find(model) for model in models], plan, store, Silent()))
        assert not any(outcome.errors for outcome in outcomes)
        for outcome, seconds in zip(outcomes, (0.02, 0.005, 0.005), strict=True):
            time_texts(store, outcome.run, PROMPT, ANSWER, 2 * seconds, seconds)
    return folder / "store.sqlite"


def service(**settings):
    usual = {"reference": "file:large", "within": 0.9, "texts": {"prompt": PROMPT, "answer": ANSWER}}
    return Service(**{**usual, **settings})


@pytest.fixture
def crowded(tmp_path, monkeypatch):
    """A policy as a package brings it."""
    (tmp_path / "crowded.py").write_text(CROWDED)
    about = tmp_path / "crowded-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: crowded\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[zoolens.policies]\ncrowded = crowded:Crowded\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "crowded"


@asynccontextmanager
async def served(store_path, definition):
    settings = HostSettings(refresh=0.0)
    async with open_plane() as plane, host_services(plane, {"lm": definition}, store=store_path, settings=settings):
        languages = Languages(plane)
        yield plane, languages
        await languages.close()


REQUEST = GenerationRequest("lm", "AB 12", most=6, sampling=Sampling(temperature=0))


async def text(languages, **changed):
    async with aclosing(languages.generate(replace(REQUEST, **changed))) as parts:
        told = [part async for part in parts]
    assert len({part.by["zoolens_model"] for part in told}) == 1  # one tier from its first token to its last
    return "".join(part.text for part in told), told[-1]


def test_texts_are_written_by_one_tier_each_and_switches_are_events(store_path, crowded):
    async def serve():
        async with served(store_path, service(policy=crowded)) as (plane, languages):
            assert languages.names() == ["lm"]
            alone, part = await text(languages)
            assert (part.by["zoolens_model"], part.by["zoolens_switched"], part.written_tokens) == (LARGE, False, 6)
            several = await asyncio.gather(*(text(languages) for _ in range(4)))
            models = [part.by["zoolens_model"] for _, part in several]
            assert models.count(SMALL) >= 2
            assert all(said == alone for said, part in several if part.by["zoolens_model"] == LARGE)
            _, part = await text(languages)
            assert part.by["zoolens_model"] == LARGE
            _, part = await text(languages, headers={"zoolens-model": "small"}, most=None)
            assert (part.by["zoolens_model"], part.written_tokens, part.end) == (SMALL, ANSWER, "length")
            assert part.by["zoolens_equivalence"] > 0.9 > part.by["zoolens_equivalence_lower"]
            _, part = await text(languages, headers={"zoolens-min-equivalence": "0.99"})
            assert part.by["zoolens_model"] == LARGE
            (counted,) = plane.statistics()
            assert (counted.execution_count, counted.inference_count) == (8, 7 * 6 + ANSWER)
            await refusals(plane, languages)
            said, part = await text(languages, echo=True)
            assert (said, part.written_tokens) == (f"AB 12{alone}", 6)
            _, part = await text(languages, most=ANSWER + 4, wished=False)
            assert part.written_tokens == ANSWER

    asyncio.run(serve())
    with open_store(store_path) as store:
        session = sessions(store, "lm", 1)[0]
    switches = [event for event in session.events if event.kind == "switch"]
    assert [(event.previous, event.model) for event in switches] == [(LARGE, SMALL), (SMALL, LARGE)]
    assert switches[0].reason.endswith(" wait.")
    assert sum(session.answered.values()) == 10


def test_a_ladder_with_another_reference_is_not_served_to_texts_that_wait(store_path):
    async def serve():
        settings = HostSettings(refresh=0.0)
        async with (
            open_plane() as plane,
            host_services(plane, {"lm": service()}, store=store_path, settings=settings) as hosted,
        ):
            built = hosted["lm"].built
            ladder = replace(built.ladder, rungs=built.ladder.rungs[::-1])
            assert not hosted["lm"].replace(replace(built, ladder=ladder, candidates=built.candidates[::-1]), "Anew.")
            assert hosted["lm"].built is built

    asyncio.run(serve())
    with open_store(store_path) as store:
        session = sessions(store, "lm", 1)[0]
    assert "was replaced: start the server again" in session.events[-2].reason


async def refusals(plane, languages):
    for changed, sentence in (
        ({"most": ANSWER + 1}, "writes 12 at most"),
        ({"most": 0}, "writes one token at least"),
        ({"prompt": "AB " * 40}, "accepts 16 at most"),
        ({"echo": True, "top": 1}, "does not judge prompts"),
        ({"headers": {"zoolens-model": "absent"}}, "no model that is as the request asks"),
    ):
        with pytest.raises(ServingError, match=sentence):
            await text(languages, **changed)
    with pytest.raises(ServingError, match="writes texts and answers no inferences") as refused:
        await plane.infer(InferRequest("lm", {"prompt": np.array([b"AB"], object)}))
    assert refused.value.refusal is Refusal.UNSUPPORTED


@pytest.mark.slow
def test_clients_that_leave_and_workers_that_die_end_their_own_text_alone(store_path):
    async def serve():
        async with served(store_path, service()) as (plane, languages):
            said, _ = await text(languages)
            async with aclosing(languages.generate(replace(REQUEST, most=ANSWER))) as parts:
                await anext(parts)
            assert (await text(languages))[0] == said
            instance = plane.endpoint("lm").reference.model.instances[0]
            async with aclosing(languages.generate(replace(REQUEST, most=ANSWER))) as parts:
                await anext(parts)
                instance._session.kill()
                with pytest.raises(ServingError, match="was lost while it ran"):
                    async for _ in parts:
                        pass
            assert (await text(languages))[0] == said

    asyncio.run(serve())


def test_texts_that_end_early_leave_room_for_others(store_path):
    """What is written takes no time here, so that predictions are those of the profiles alone: a text of twelve tokens
    takes the quicker model 65 ms, one of a single token the slower one 40 ms. The text before may take 260 ms."""

    async def serve():
        async with served(store_path, service()) as (plane, _):
            endpoint, ended = plane.endpoint("lm"), asyncio.Event()

            async def held(_):
                await ended.wait()
                return 1

            async def lost(_):
                raise ZoolensError("Nobody waits for this text any more.")

            def asked(write, deadline=None):
                told = asyncio.get_running_loop().create_future()
                request = TextRequest("lm", {}, deadline=deadline, most=ANSWER, write=write)
                endpoint.submit(request, told.set_result)
                return told

            async def in_time():
                """Whether a text would be accepted that has 1.2 s and waits behind twenty others."""
                for state in endpoint.rungs:
                    state.timing = ScaledTiming(state.rung.profile)
                ended.clear()
                others = [asked(held) for _ in range(21)]
                with suppress(ServingError):
                    others.append(asked(held, 1.2))
                tokens = endpoint.queue.rows
                ended.set()
                await asyncio.gather(*others)
                return len(others) == 22, tokens

            assert await in_time() == (False, 20 * ANSWER)
            assert await in_time() == (True, 21)
            # What becomes of texts that nobody waits for is not known.
            for _ in range(6):
                assert isinstance(await asked(lost), ServingError)
            assert await in_time() == (False, 20 * ANSWER)

    asyncio.run(serve())


def test_the_ladder_is_timed_by_texts_and_others_are_not_within_the_bound(store_path):
    objective = {"latency": {"bound": "200 ms", "percentile": 90}}
    (built,) = build_ladders({"lm": service(objectives=objective)}, store_path).values()
    assert [rung.model for rung in built.ladder.rungs] == [LARGE, SMALL]
    large, small = (rung.profile for rung in built.ladder.rungs)
    # The first token behind the prompt, and eleven more.
    assert (large.of(1), large.of(ANSWER)) == pytest.approx((0.04, 0.04 + 11 * 0.02))
    assert small.of(ANSWER) == pytest.approx(0.01 + 11 * 0.005)
    assert built.ladder.rungs[0].memory_bytes == 50_000_000
    assert [(each.model, each.outcome) for each in built.excluded] == [("file:other@0.1.0", Outcome.DIFFERENT)]
    assert ladder_verdict(built).verdict.outcome is Outcome.SAME
    tight = service(objectives={"latency": {"bound": "50 ms"}})
    (built,) = build_ladders({"lm": tight}, store_path).values()
    found = ladder_verdict(built)
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert found.sentences == (
        f"No tier answers within 50 ms: the quickest tier, {SMALL}, takes 65 ms for a text of 12 tokens behind 16.",
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("shadow: {model: a}", "not compared while serving"),
        ("splits: [{model: a, weight: 10%}]", "not compared while serving"),
        ("promise: {share: 1%}", "not compared while serving"),
        ("input: text", "clients send prompts"),
        ("batch: {size: 4}", "each text is written by itself"),
        ("objectives: {energy: 1 J}", "not of texts"),
        ("policy: {name: time-of-day, windows: []}", "does not know what texts cost"),
    ],
)
def test_settings_without_a_meaning_for_texts_are_refused(line, sentence):
    text = f"services:\n  lm:\n    reference: a\n    within: 90%\n    texts: {{prompt: 8, answer: 8}}\n    {line}\n"
    with pytest.raises(ServiceError, match=sentence):
        parse_services(text)


def test_a_tier_has_the_tokenizer_of_the_reference(store_path, tmp_path):
    """Texts that are longer than a model's are refused before any request."""
    long = service(texts={"prompt": 16, "answer": 4096})
    with pytest.raises(ZoolensError, match="exts have"):
        build_ladders({"lm": long}, store_path)
