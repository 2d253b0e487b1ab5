from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest

from zoolens.findings.graph.structures.structure_sources import source_of
from zoolens.inventory.zoos.listing import task_of
from zoolens.inventory.zoos.transformers import TransformersZoo
from zoolens.inventory.zoos.zoo import Weights

pytestmark = pytest.mark.skipif(
    find_spec("transformers") is None or find_spec("torch") is None, reason="transformers is not installed"
)


@pytest.fixture(scope="module")
def entries():
    return {entry.manifest.name: entry for entry in TransformersZoo().entries()}


def test_image_classifiers_are_listed_at_the_size_of_their_configuration(entries):
    assert {"efficientnet", "resnet", "vit", "swin", "convnext", "mobilenet_v2"} <= set(entries)
    assert entries["efficientnet"].manifest.inputs[0].shape == (None, 3, 600, 600)
    assert entries["resnet"].manifest.inputs[0].shape == (None, 3, 224, 224)  # its configuration names no size
    assert entries["hiera"].manifest.inputs[0].shape == (None, 3, 224, 224)  # one of two extents
    assert entries["efficientnet"].manifest.task == "classification"


def test_language_models_are_listed_and_wrappers_of_other_zoos_are_not(entries):
    assert {"bert", "gpt2", "llama", "roberta"} <= set(entries)
    assert entries["bert"].manifest.inputs[0].modality == "array"
    assert entries["bert"].manifest.task == "other"
    assert not {"timm_wrapper", "timm_backbone"} & set(entries)


def test_nothing_is_said_to_have_weights_or_accuracy(entries):
    assert len(entries) > 200
    assert {entry.weights for entry in entries.values()} == {Weights.ABSENT}
    assert not any(entry.manifest.claims for entry in entries.values())


def test_heads_of_other_tasks_are_listed_by_task(entries):
    for name, task, built in (
        ("bert/token-classification", "token-classification", "BertForTokenClassification"),
        ("bert/question-answering", "question-answering", "BertForQuestionAnswering"),
        ("detr/detection", "detection", "DetrForObjectDetection"),
        ("segformer/segmentation", "segmentation", "SegformerForSemanticSegmentation"),
    ):
        manifest = entries[name].manifest
        assert (task_of(manifest), manifest.attributes["architecture"]) == (task, built)
        assert source_of(entries[name]).request.subject == built
    assert entries["yolos/detection"].manifest.inputs[0].modality == "image"


@pytest.mark.slow
def test_the_cost_of_a_head_is_read_without_weights(entries):
    source = source_of(entries["segformer/segmentation"])
    graph = source.importer.load(replace(source.request, size=(64, 64)))
    transformers = pytest.importorskip("transformers")
    built = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig())
    assert graph.parameters == sum(parameter.numel() for parameter in built.parameters())


def test_a_search_lists_only_what_it_names():
    assert [entry.manifest.name for entry in TransformersZoo().entries("EfficientNet")] == ["efficientnet"]


@pytest.mark.parametrize(("name", "size"), [("resnet", (224, 224)), ("bert", None)])
def test_a_structure_is_read_by_the_importer_of_the_library(entries, name, size):
    source = source_of(entries[name])
    assert (source.plugin, source.request.subject, source.request.size) == ("transformers", name, size)
