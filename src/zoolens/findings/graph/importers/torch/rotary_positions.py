"""The tables of rotary positions that a network of transformers computes from its settings.

A network without weights has no numbers, and the base of its positions would be lost. Its part for positions alone is
built with numbers, and the network's own code is run up to it, so that it also says which positions it counts.
"""

from __future__ import annotations

from typing import Any

from zoolens.findings.graph.importers.torch.trace import TensorTrace, tensors_in


class _Reached(Exception):
    """The part for positions has answered: nothing behind it is wanted."""


def note_rotary_tables(trace: TensorTrace, module: Any, length: int) -> None:
    """Let the trace know the numbers of cosines and sines; nothing where the network has no such part, or several."""
    parts = [(path, part) for path, part in module.named_modules() if _turns(part)]
    if len(parts) != 1:
        return
    path, part = parts[0]
    answers = _computed(module, path, part, length)
    if not answers:
        return

    def note(_module: Any, _given: Any, answer: Any) -> None:
        for tensor, values in zip(tensors_in([answer]), answers, strict=True):
            trace.note_numbers(tensor, values)

    part.register_forward_hook(note)


def _turns(part: Any) -> bool:
    return getattr(part, "inv_freq", None) is not None and getattr(part, "config", None) is not None


def _computed(module: Any, path: str, part: Any, length: int) -> list[Any]:
    """What the part answers in a text of so many tokens; nothing where it cannot be run alone."""
    import torch

    def stop(_module: Any, _given: Any, answer: Any) -> None:
        answers.extend(tensors_in([answer]))
        raise _Reached

    answers: list[Any] = []
    owner, _, name = path.rpartition(".")
    holder = module.get_submodule(owner)
    try:
        own = type(part)(config=part.config)
        own.register_forward_hook(stop)
        setattr(holder, name, own)
        with torch.inference_mode():
            module(inputs_embeds=torch.zeros(1, length, part.config.hidden_size))
    except _Reached:
        return answers
    except Exception:  # classes differ in what they take; without numbers the tables stay unknown
        return []
    finally:
        setattr(holder, name, part)
    return []
