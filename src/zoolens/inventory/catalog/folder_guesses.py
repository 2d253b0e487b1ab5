"""Files that lie in a folder of transformers or optimum: its config.json, preprocessor and tokenizer say what they are.

config.json names the class that the file was exported from, and the classes that it knows; preprocessor_config.json how
images are prepared. Nothing in the folder is executed, and files of code in it are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zoolens.inventory.catalog.drafted import UNCHECKED, DraftedFile, TaskGuess, other
from zoolens.inventory.catalog.image_processors import image_steps
from zoolens.inventory.catalog.known_classes import FIRST_OF_IMAGENET
from zoolens.inventory.catalog.model_folder import CAUSAL, ModelFolder, folder_of
from zoolens.inventory.catalog.text_inputs import find_tokenizer, text_input
from zoolens.inventory.catalog.written_texts import writing_tokenizer
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.manifests.schema_boxes import ReadBoxes
from zoolens.inventory.manifests.schema_masks import Masks
from zoolens.inventory.manifests.schema_steps import L2Normalize, OutputStep, Pool
from zoolens.inventory.manifests.schema_texts import PREDICTING

_IMAGENET: Final = 1000
# transformers reads the scores of these as one softmax with a last class of no object, and of the rest as sigmoids.
_SOFTMAX_DETECTORS: Final = frozenset({"detr", "yolos", "table-transformer"})
_SIGMOID_DETECTORS: Final = frozenset(
    {"conditional_detr", "deformable_detr", "dab-detr", "rt_detr", "rt_detr_v2", "d_fine", "deta"}
)
_OF_CLASSES: Final = ("classification", "segmentation", "detection", "token-classification", "multilabel")
_POOLING: Final = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_lasttoken": "last",
}
_POOLING_FILE: Final = "1_Pooling/config.json"
_MODULES: Final = ("Transformer", "Pooling", "Normalize")  # of sentence-transformers, which are followed


def transformers_folder(file: DraftedFile) -> TaskGuess | None:
    """What config.json and the files beside it say of a file; None: it lies in no such folder."""
    folder = folder_of(file.path)
    if folder is None:
        return None
    names = {spec.name for spec in file.inputs}
    if "pixel_values" in names:
        return _image_task(file, folder)
    return _text_task(file, folder) if "input_ids" in names else None


# --- images


def _image_task(file: DraftedFile, folder: ModelFolder) -> TaskGuess | None:
    if len(file.inputs) != 1 or len(file.inputs[0].shape) != 4:
        return None
    shape = file.inputs[0].shape
    said: list[str] = []
    stated = [f"the file was exported from {_exported(folder)}"]
    steps = image_steps(folder.content("preprocessor_config.json"), (shape[2], shape[3]), said, stated)
    outputs = _image_outputs(file, folder, said)
    if outputs is None:
        return TaskGuess((), tuple(said), steps, tuple(stated)) if steps is not None else None
    _say_names(folder, outputs, said, stated)
    return TaskGuess(outputs, tuple(said), steps, tuple(stated))


def _image_outputs(file: DraftedFile, folder: ModelFolder, said: list[str]) -> tuple[Output, ...] | None:
    names = {spec.name for spec in file.outputs}
    if folder.head == "ForImageClassification" and "logits" in names:
        labels = folder.labels
        if labels is not None and len(labels) == _IMAGENET and labels[0].startswith(FIRST_OF_IMAGENET):
            # Known by their order: each goes by several names, of which a dataset has another.
            said.append(f"its {_IMAGENET:,} classes are ImageNet's in their usual order")
            return (Output(name="logits"),)
        return (_of_classes(folder),)
    if folder.head == "ForSemanticSegmentation" and "logits" in names:
        masks = Masks(op="masks", layout="NCHW")
        return (Output(name="logits", task="segmentation", postprocess=(masks,), labels=folder.labels),)
    if folder.head == "ForObjectDetection" and {"logits", "pred_boxes"} <= names:
        reading = _transformers_boxes(folder, said)
        if reading is not None:
            parts = {"boxes": "pred_boxes", "scores": "logits"}
            steps = (reading,)
            return (
                Output(parts=parts, task="detection", scores="probabilities", postprocess=steps, labels=folder.labels),
            )
    return None


def _transformers_boxes(folder: ModelFolder, said: list[str]) -> ReadBoxes | None:
    kind = folder.config["model_type"]
    if kind in _SOFTMAX_DETECTORS:
        said.append(f"scores of {kind} are a softmax whose last class is no object, as transformers reads them")
        return ReadBoxes(
            op="boxes", format="cxcywh", units="shares", activation="softmax", background="last", multi_label=False
        )
    if kind in _SIGMOID_DETECTORS:
        said.append(f"scores of {kind} are sigmoids, as transformers reads them")
        return ReadBoxes(op="boxes", format="cxcywh", units="shares", activation="sigmoid")
    return None


# --- texts


def _text_task(file: DraftedFile, folder: ModelFolder) -> TaskGuess | None:
    said: list[str] = []
    tokenizer = find_tokenizer(file.path, folder.place, said)
    if tokenizer is None:
        return other(file, "the folder has no tokenizer.json, without which no text becomes numbers")
    stated = [f"the file was exported from {_exported(folder)}"]
    pair = "only_second" if folder.head == "ForQuestionAnswering" else None
    settings = _text_settings(folder, said)
    made = text_input(file, folder.config, settings, said, pair=pair)
    if isinstance(made, str):
        return other(file, made)
    if folder.head == CAUSAL and made.tokenizer is not None:
        made = made.model_copy(update={"tokenizer": writing_tokenizer(made.tokenizer, folder, settings)})
    outputs = _text_outputs(file, folder, said)
    if outputs is None:
        return None
    stated.append(f"texts are split by {tokenizer.location.rpartition('/')[2]}")
    _say_names(folder, outputs, said, stated)
    return TaskGuess(outputs, tuple(said), None, tuple(stated), (made,), (tokenizer,))


def _text_settings(folder: ModelFolder, said: list[str]) -> Mapping[str, Any]:
    """How texts are split; what sentence-transformers does to them before, only where it embeds them."""
    settings = _object(folder, "tokenizer_config.json")
    if folder.head:
        return settings
    sentences = _object(folder, "sentence_bert_config.json")
    if sentences.get("do_lower_case"):
        said.append(f"texts keep their capitals ({UNCHECKED}: sentence_bert_config.json says do_lower_case)")
    prompts = _object(folder, "config_sentence_transformers.json").get("prompts")
    if isinstance(prompts, dict) and any(prompts.values()):
        names = ", ".join(str(name)[:40] for name, prompt in list(prompts.items())[:4] if prompt)
        said.append(f"no prompt is put before texts ({UNCHECKED}: the folder has prompts for {names})")
    return {**settings, "max_seq_length": sentences.get("max_seq_length")}


def _object(folder: ModelFolder, name: str) -> Mapping[str, Any]:
    found = folder.content(name)
    return found if isinstance(found, dict) else {}


def _text_outputs(file: DraftedFile, folder: ModelFolder, said: list[str]) -> tuple[Output, ...] | None:
    names = {spec.name for spec in file.outputs}
    if folder.head == "ForQuestionAnswering" and {"start_logits", "end_logits"} <= names:
        said.append(
            f"every question has an answer in its text ({UNCHECKED}: a model of SQuAD 2.0 needs the step span with "
            "no_answer: true)"
        )
        return (Output(task="question-answering", parts={"start": "start_logits", "end": "end_logits"}),)
    if "logits" in names and folder.head == "ForTokenClassification":
        return (Output(name="logits", task="token-classification", labels=folder.labels),)
    if "logits" in names and folder.head == "ForSequenceClassification":
        return (_of_classes(folder),)
    if "logits" in names and folder.head == CAUSAL:
        return (Output(name="logits", task=PREDICTING),)
    if "sentence_embedding" in names and not folder.head:
        return (Output(name="sentence_embedding", task="embedding"),)
    if "last_hidden_state" in names and not folder.head:
        return (Output(name="last_hidden_state", task="embedding", postprocess=_pooling(folder, said)),)
    return None


def _of_classes(folder: ModelFolder) -> Output:
    kind, listed = folder.config.get("problem_type"), folder.config.get("id2label")
    if kind == "regression" or (isinstance(listed, dict) and len(listed) == 1):
        return Output(name="logits", task="regression")
    task = "multilabel" if kind == "multi_label_classification" else "classification"
    return Output(name="logits", task=task, labels=folder.labels)


def _pooling(folder: ModelFolder, said: list[str]) -> tuple[OutputStep, ...]:
    """How sentence-transformers makes one vector of those of the tokens."""
    settings = _object(folder, _POOLING_FILE)
    chosen = [name for name, used in settings.items() if name.startswith("pooling_mode_") and used is True]
    method = _POOLING.get(chosen[0]) if len(chosen) == 1 else None
    if method is None:
        says = f"{_POOLING_FILE} says {', '.join(name[:40] for name in chosen[:4])}" if chosen else ""
        why = says or f"no {_POOLING_FILE} says it"
        said.append(f"the vector of a text is the mean of its tokens' ({UNCHECKED}: {why})")
    modules = folder.content("modules.json")
    listed = [module for module in modules if isinstance(module, dict)] if isinstance(modules, list) else []
    kinds = [str(module.get("type")).rpartition(".")[2] for module in listed]
    if others := [kind[:40] for kind in kinds if kind not in _MODULES]:
        said.append(f"the module {others[0]} of modules.json is left out, which changes every vector ({UNCHECKED})")
    pool = Pool(op="pool", method=method or "mean")  # type: ignore[arg-type]
    return (pool, L2Normalize(op="l2_normalize")) if "Normalize" in kinds else (pool,)


def _exported(folder: ModelFolder) -> str:
    named = folder.config.get("architectures")
    return (
        str(named[0])[:80] if isinstance(named, list) and named else f"a model of type {folder.config['model_type']!r}"
    )


def _say_names(folder: ModelFolder, outputs: Sequence[Output], said: list[str], stated: list[str]) -> None:
    (first,) = outputs
    if first.labels is not None:
        stated.append(f"names of {len(first.labels)} classes are those in config.json")
    elif folder.labels is None and first.task in _OF_CLASSES:
        said.append("config.json names no classes: they are taken to be the dataset's, by number")
