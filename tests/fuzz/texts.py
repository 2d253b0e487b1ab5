"""What people write: manifests, plans and recipes, queries, --env strings."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from tests.fuzz import mutations

REPO = Path(__file__).parent.parent.parent

MANIFEST = """zoolens: 1
name: net/small-1.0
description: A small network.
license: MIT
framework: {name: torch, version: ">=2"}
requires: "onnxruntime>=1.20, avx512, memory>=8GB"
attributes: {library: timm, architecture: resnet18, arguments: {num_classes: 10}, graph: "package://onnx/a.onnx"}
inputs:
- name: image
  modality: image
  shape: [null, 3, 224, 224]
  layout: NCHW
  color: RGB
  dtype: float32
  preprocess:
  - {op: resize, size: 256, method: bilinear, library: torchvision, antialias: true}
  - {op: center_crop, size: [224, 224]}
  - {op: normalize, scale: 0.00392, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}
outputs:
- task: classification
  scores: logits
  labels: [a, b, c]
  labels_file: labels.txt
  postprocess: [{op: drop_leading, count: 1}, {op: softmax}]
assets:
- format: onnx
  files:
  - {location: m.onnx, role: model, sha256: 0123456789abcdef, bytes: 100}
claims:
- {metric: top1, value: 71.8, dataset: imagenet, source: "https://example.org"}
"""
MLMODELSCOPE = """name: Net_1
framework: {name: Onnxruntime, version: 1.6.0}
version: 1.0
description: >
  A network.
references: [https://example.org/net]
license: MIT
inputs:
  - type: image
    parameters:
      element_type: float32
      input_layer: 0
      layout: CHW
      color_mode: BGR
      dimensions: [3, 224, 224]
      mean: [123.675, 116.28, 103.53]
      scale: 58.5
output:
  type: classification
  parameters: {probabilities_layer: prob, probabilities_transform: softmax, features_url: http://example.org/s.txt}
model: {base_url: http://example.org/m, graph_path: good.yaml, weights_path: w, is_archive: false}
attributes: {kind: CNN, training_dataset: ImageNet, Top1: 71.5}
preprocess: |
  import os
"""
TRITON = """name: "net"  # a comment
platform: "onnxruntime_onnx"
max_batch_size: 8
default_model_filename: "model.onnx"
version_policy: { specific { versions: [ 1, 2 ] } }
input [ { name: "x" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, -1 ] reshape { shape: [ 3, 8, 8 ] } } ]
output [ { name: 'y' data_type: TYPE_FP32 dims: [ 10 ] label_filename: "labels.txt" }, < name: "z" dims: 1e2 > ]
"""
QUERIES = [
    "CORR ResNet50 ON memory < 80% AND flops <= 50%",
    "CORR 'demo:lenet' WITHIN 95% TASK classification ON latency_p95 <= 1.5 ms AND size < 10 MB "
    "WHERE format = 'onnx' AND NOT license IN ('MIT', 'GPL') ORDER BY accuracy DESC, 2 * flops + size / 3 LIMIT 10 "
    "EXEC (device=cpu, runtime=onnxruntime, batch=1) CONFIDENCE 95% DATA demo BOUND OFF ELSE NEAREST",
    "CORR resnet50 WITHIN 95% CONFIDENCE 95% BOUND 'imagenet-v2' WHERE name LIKE 'mobile*'",
]
ENVIRONMENTS = ["mxnet==1.9.1,numpy<1.24", "onnxruntime[extra]>=1.20,!=1.21.0, numpy~=2.0", "a==1.0.post1+cpu"]
REQUIREMENTS = ["onnxruntime>=1.20, avx512, memory>=8GB", "torch<3, cores>=2, linux"]
DATASETS = [
    "npz:data.npz?x=a&y=b&layout=NCHW",
    "imagefolder:folder?labels=l.csv&classes=a,b",
    "demo",
    "parquet:d?x=image",
]


@cache
def _plans() -> list[str]:
    found = (path.read_text(encoding="utf-8") for path in sorted((REPO / "examples" / "crosstrain").rglob("*.yaml")))
    return [text.replace("fashion-mnist", "demo|demo") for text in found]  # data that every machine has


def _write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def manifest(draw: random.Random, folder: Path) -> None:
    """A folder zoo with one good and one spoilt manifest: the good one must be listed, whatever the other says."""
    from zoolens.inventory.manifests.files import dump_manifest, read_manifest
    from zoolens.inventory.manifests.locations import presence
    from zoolens.inventory.preprocess.outputs import labels_of
    from zoolens.inventory.runtimes.constraints import parse_requirements_text
    from zoolens.inventory.zoos.folder import FolderZoo

    _write(folder / "good.yaml", "zoolens: 1\nname: good\ninputs:\n- shape: [1, 3, 8, 8]\noutputs:\n- {}\n")
    spoilt = _write(folder / "spoilt.yaml", mutations.text(draw, [MANIFEST]))
    assert "good" in [entry.manifest.name for entry in FolderZoo([folder]).entries()]
    found = read_manifest(spoilt)
    dump_manifest(found)
    found.model_dump_json()
    for asset in found.assets:
        presence(asset, folder)
    for output in found.outputs:
        labels_of(output, folder)
    parse_requirements_text(found.requires)


def foreign(draw: random.Random, folder: Path) -> None:
    """A manifest of another system, beside the files that it names: what is imported is a manifest of ours."""
    from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
    from zoolens.inventory.manifests.foreign.importing import import_manifest

    (folder / "1").mkdir(exist_ok=True)
    _write(folder / "1" / "model.onnx", "model")
    kind = draw.randrange(2)
    path = folder / ("config.pbtxt" if kind else "model.yml")
    imported = import_manifest(_write(path, mutations.text(draw, [TRITON if kind else MLMODELSCOPE])))
    assert parse_manifest(dump_manifest(imported)) == imported


def plan(draw: random.Random, folder: Path) -> None:
    from zoolens.training.crosstrain.study.yaml_files import check_plan, load_plan, load_recipe

    path = _write(folder / "p.yaml", mutations.text(draw, _plans()))
    if draw.random() < 0.3:
        load_recipe(path)
    check_plan(load_plan(path))


def query(draw: random.Random, folder: Path) -> None:
    from zoolens.findings.queries.language.parser import parse, parse_bounds, parse_condition, parse_orders

    text = mutations.text(draw, QUERIES)
    parts = {"ON ": parse_bounds, "WHERE ": parse_condition, "ORDER BY ": parse_orders}
    for keyword, read in parts.items():
        if keyword in text and draw.random() < 0.2:
            read(text.partition(keyword)[2])
    str(parse(text))


def environment(draw: random.Random, folder: Path) -> None:
    from zoolens.base.engine.environments import parse_env
    from zoolens.inventory.datasets.opening import open_dataset, parse_spec
    from zoolens.inventory.runtimes.constraints import parse_requirements_text

    kind = draw.randrange(3)
    if kind == 0:
        for requirement in parse_env(mutations.text(draw, ENVIRONMENTS)).requirements:
            assert requirement[0].isalnum(), requirement
            assert not set(requirement) & set("/\\@;$ \n\0"), requirement
            assert "===" not in requirement, requirement
    elif kind == 1:
        parse_requirements_text(mutations.text(draw, REQUIREMENTS))
    else:
        spec = mutations.text(draw, DATASETS)
        _, location, _ = parse_spec(spec)
        if not Path(location).is_absolute():  # the whole machine is no data
            open_dataset(spec, limit=1)
