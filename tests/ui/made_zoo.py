"""The zoo of `made_home`: manifests, a network and models that answer, made of given words."""

import json

from zoolens.testing.text_models import write_classifier


def write_zoo(folder, words):
    """A manifest of each of the words; the first model has a network, and another one answers."""
    folder.mkdir()
    for place, text in enumerate(words.each):
        manifest = {
            "zoolens": 1, "name": f"model{place}", "description": text[:500_000], "license": text[:100_000],
            "inputs": [{"shape": [1, 3, 8, 8]}], "outputs": [{"labels": [text[:100_000]]}],
            "assets": [{"format": "onnx", "files": [{"location": f"{place}.onnx"}]}],
            "claims": [{"metric": "top1", "value": 0.5, "dataset": text[:1_000], "source": text[:100_000]}],
        }  # fmt: skip
        write_manifest(folder / f"model{place}.yaml", manifest)
    write_network(folder / "0.onnx", words)
    (folder / "live.json").write_text(json.dumps({"input": [28, 28, 1], "classes": len(words.each)}))
    live = {
        "zoolens": 1, "name": "live",
        "inputs": [{"shape": [None, 28, 28, 1], "layout": "NHWC", "color": "gray"}],
        "outputs": [{"labels": words.cut(1_000), "scores": "logits"}],
        "assets": [{"format": "fake", "files": [{"location": "live.json"}]}],
    }  # fmt: skip
    write_manifest(folder / "live.yaml", live)
    write_classifier(folder, labels=words.cut(1_000)[:2])


def write_manifest(path, manifest):
    path.write_text("\n".join(f"{name}: {json.dumps(value)}" for name, value in manifest.items()))


def write_network(path, words):
    """A chain of nodes that are named after the words, and so are the tensors between them."""
    import onnx
    from onnx import TensorProto, helper

    names = words.cut(500)
    sources = ["input", *names[:-1]]
    nodes = [helper.make_node("Relu", [source], [name], name=name) for source, name in zip(sources, names, strict=True)]
    graph = helper.make_graph(
        nodes, words.all,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [1, 3, 8, 8])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
