"""Asking an endpoint until it is known which model answers there, or until enough was asked."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.store import Store
from zoolens.findings.endpoints.candidate_model import CandidateModel
from zoolens.findings.endpoints.hypothesis import Hypothesis
from zoolens.findings.endpoints.prompt_pool import PromptPool, texts_of
from zoolens.findings.endpoints.questions import By, Questioner, Refused, drawn
from zoolens.findings.endpoints.stored_verification import store_verification
from zoolens.findings.endpoints.told_distance import told_distance
from zoolens.findings.endpoints.verification import Asked, Verification
from zoolens.inventory.runtimes.openai.endpoint_address import parse_endpoint
from zoolens.inventory.runtimes.openai.endpoint_client import EndpointClient

ERROR: Final = 0.01
ALLOWANCE: Final = 0.02
ROUNDING: Final = 0.005
CONTEXT: Final = 256
MOST: Final = 300


def verify_endpoint(
    address: str,
    model: str,
    others: Sequence[str] = (),
    *,
    data: str | Path | None = None,
    chat: bool = False,
    by: str | None = None,
    context: int = CONTEXT,
    most: int = MOST,
    error: float = ERROR,
    allowance: float = ALLOWANCE,
    seconds: float = 60.0,
    runtime: str | None = None,
    threads: int | None = None,
    seed: int | None = None,
    store: Store | str | Path | None = None,
    keep: bool = True,
    progress: Progress | None = None,
) -> Verification:
    """Asks an OpenAI-compatible endpoint whether `model` answers there, with as few prompts as are needed.

    Models are run here, in `runtime`, and must be able to continue sequences. `error`: probability with which the model
    that answers is rejected, or one taken for it that differs at a fifth of prompts or more; `allowance`: total
    variation that other kernels may make; `context`: tokens of the long prompts; `seed`: of the prompts, drawn anew by
    default so that nobody knows them.
    """
    _check(error, allowance, most, context)
    seed = secrets.randbits(63) if seed is None else seed
    wanted = None if by is None else By(by)
    client = EndpointClient(parse_endpoint(address), seconds)
    with ExitStack() as open_models:
        models = [
            open_models.enter_context(CandidateModel(name, runtime=runtime, threads=threads))
            for name in (model, *others)
        ]
        _check_alike(models)
        _check_context(models, context)
        settings = {
            "seed": seed, "context": context, "error": error, "allowance": allowance, "rounding": ROUNDING,
            "most": most, "chat": chat, "by": by, "data": None if data is None else str(data),
        }  # fmt: skip
        names = _names(models)
        found = Verification(
            str(client.address),
            [Hypothesis(name, error, allowance, ROUNDING) for name in names],
            dict(client.about),
            settings,
        )
        questioner = Questioner(client, models[0], chat=chat, by=wanted, seed=seed ^ 2)
        # llama.cpp refuses a prompt that fills its context.
        length = context - 1 - questioner.around
        if length < 1:
            raise ZoolensError(f"A context of {context:,} tokens leaves no room for a prompt.", hint="Set --context.")
        pool = PromptPool(texts_of(data), models[0].tokenizer, length, seed)
        _ask_all(found, questioner, models, pool, progress or Silent())
    if keep:
        found.run = store_verification(found, models, store)
    return found


def _ask_all(
    found: Verification, questioner: Questioner, models: Sequence[CandidateModel], pool: PromptPool, progress: Progress
) -> None:
    random = np.random.default_rng(found.settings["seed"] ^ 1)
    progress.begin(found.address, "ask", found.settings["most"], "prompts")
    try:
        for number in range(found.settings["most"]):
            _ask_one(found, questioner, models, pool, number, float(random.random()))
            progress.advance(1)
            if found.settled:
                break
    except ZoolensError as error:
        if not found.asked:
            raise
        # What was asked before is evidence, and is kept.
        found.failure = str(error)
    finally:
        progress.end()


def _ask_one(
    found: Verification,
    questioner: Questioner,
    models: Sequence[CandidateModel],
    pool: PromptPool,
    number: int,
    uniform: float,
) -> None:
    prompt = drawn(pool, number)
    ids = questioner.ids(prompt)
    try:
        told = questioner.ask(prompt)
    except Refused as refusal:
        if not prompt.long or not questioner.too_long(prompt):
            raise
        for each in found.hypotheses:
            each.add_refusal(str(refusal))
        found.asked.append(Asked(time.time_ns(), len(ids), True, {}, "", found.named.log_against))
        return
    found.by = questioner.by
    chances = {each.name: model.probabilities(ids) for each, model in zip(found.hypotheses, models, strict=True)}
    vocabulary = models[0].vocabulary
    classes = {name: vocabulary.in_classes(own) for name, own in chances.items()}
    token = vocabulary.class_of(told.token)
    distances: dict[str, float] = {}
    for each in found.hypotheses:
        if prompt.long:
            each.withdraw_refusals()
        each.by_tokens = found.by is By.TOKENS
        if found.by is By.LOGPROBS:
            enough = questioner.evident(told, each.allowance)
            distance = told_distance(told, chances[each.name], vocabulary) if enough else None
            each.add_distance(distance, long=prompt.long)
            distances |= {} if distance is None else {each.name: distance}
        others = {name: chances_of for name, chances_of in classes.items() if name != each.name}
        each.add_token(classes[each.name], others, token, uniform)
    shown = told.token.text.decode("utf-8", "replace")
    found.asked.append(Asked(time.time_ns(), len(ids), prompt.long, distances, shown, found.named.log_against))


def _names(models: Sequence[CandidateModel]) -> Iterator[str]:
    seen: set[str] = set()
    for each in models:
        if each.name in seen:
            raise ZoolensError(f"The model {each.name} is named twice.")
        seen.add(each.name)
        yield each.name


def _check_alike(models: Sequence[CandidateModel]) -> None:
    for other in models[1:]:
        if other.tokenizer_content != models[0].tokenizer_content:
            raise ZoolensError(
                f"{other.name} splits texts into other tokens than {models[0].name}, so that one prompt cannot be for "
                "both.",
                hint="Ask about it in a command of its own.",
            )


def _check_context(models: Sequence[CandidateModel], context: int) -> None:
    for each in models:
        if context > each.longest:
            raise ZoolensError(
                f"{each.name} takes {each.longest:,} tokens by its manifest, and prompts of {context:,} are wanted.",
                hint=f"Ask with --context {each.longest}, or raise max_length in the manifest.",
            )


def _check(error: float, allowance: float, most: int, context: int) -> None:
    if not 0 < error < 0.5:
        raise ZoolensError(f"The error is a probability between 0 and 0.5, not {error:g}.")
    if not 0 <= allowance < 0.5:
        raise ZoolensError(f"The allowance is a total variation from 0 to 0.5, not {allowance:g}.")
    if most < 1 or context < 1:
        raise ZoolensError("At least one prompt of one token must be asked.")
