"""Two examples of every command, which its --help begins with.

They stand here together, so that reading one command's help imports no other, and so that a test can hold every command
to having two that parse.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Final

import click

EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    "ui": ("zoolens ui", "zoolens ui --allow ~/models --allow ~/pictures"),
    "ui export": ("zoolens ui export for-anna --runs last", "zoolens ui export for-anna --runs 'file:*'"),
    "models": ("zoolens models", "zoolens models --zoo torchvision --max-params 3M"),
    "show": ("zoolens show demo:lenet-wide", "zoolens show model.onnx"),
    "pull": ("zoolens pull torchvision:mobilenet_v2", "zoolens pull torchvision:mobilenet_v2 keras:MobileNetV2"),
    "manifest": ("zoolens manifest init model.onnx", "zoolens manifest validate model.yaml"),
    "manifest init": ("zoolens manifest init model.onnx", "zoolens manifest init model.onnx -o -"),
    "manifest import": ("zoolens manifest import config.pbtxt", "zoolens manifest import config.pbtxt -o model.yaml"),
    "manifest validate": ("zoolens manifest validate model.yaml", "zoolens manifest validate models/"),
    "manifest schema": ("zoolens manifest schema", "zoolens manifest schema > manifest.schema.json"),
    "identify": ("zoolens identify model.onnx", "zoolens identify models/"),
    "init": ("zoolens init", "zoolens init models/ --data photos/ --lose 0.5"),
    "demo": ("zoolens demo", "zoolens demo detection"),
    "eval": ("zoolens eval model.onnx --data photos/", "zoolens eval 'demo:*' --data demo -r onnxruntime --limit 500"),
    "reproduce": ("zoolens reproduce last", "zoolens reproduce last~1 --yes"),
    "trace": ("zoolens trace run model.onnx", "zoolens trace show last"),
    "trace run": ("zoolens trace run model.onnx", "zoolens trace run demo:lenet-wide -r onnxruntime --html trace.html"),
    "trace chain": (
        "zoolens trace chain trunk.onnx head.onnx",
        "zoolens trace chain trunk.onnx head.onnx --runtime onnxruntime,openvino",
    ),
    "trace write": (
        "zoolens trace write model.gguf",
        "zoolens trace write model.yaml --runtime torch --prompt 512 --tokens 32 --html trace.html",
    ),
    "trace show": ("zoolens trace show last", "zoolens trace show last --html trace.html"),
    "trace compare": (
        "zoolens trace compare last~1 last",
        "zoolens trace compare demo:lenet-wide@onnxruntime demo:lenet-wide@openvino",
    ),
    "cost": ("zoolens cost model.onnx", "zoolens cost torchvision:resnet50 --counters"),
    "verify-endpoint": (
        "zoolens verify-endpoint http://127.0.0.1:8080/v1 --is Q8_0.gguf",
        "zoolens verify-endpoint http://127.0.0.1:8080/v1 --is Q8_0.gguf --or Q4_0.gguf --chat",
    ),
    "doctor": (
        "zoolens doctor model.yaml --data photos/",
        "zoolens doctor model.yaml --data photos/ --write corrected.yaml",
    ),
    "audit": (
        "zoolens audit --zoo torchvision --zoo keras",
        "zoolens audit --zoo torchvision --zoo keras --arch resnet50 --fail-on high",
    ),
    "compare": ("zoolens compare last~1 last", "zoolens compare a.onnx b.onnx --fail-on 'top1 drop > 1%'"),
    "equiv": (
        "zoolens equiv demo:lenet-wide demo:resnet-tiny",
        "zoolens equiv 'demo:*' -r onnxruntime --picture matrix.svg",
    ),
    "diverge": (
        "zoolens diverge a.onnx@onnxruntime b.onnx@onnxruntime --data photos/",
        "zoolens diverge model.onnx@onnxruntime model.onnx@openvino --data photos/ --limit 8",
    ),
    "disagree": (
        "zoolens disagree demo:lenet-wide --with 5",
        "zoolens disagree demo:lenet-wide --with 5 --picture contested.html",
    ),
    "diff": ("zoolens diff a.onnx b.onnx", "zoolens diff torchvision:resnet50 keras:ResNet50"),
    "segments": (
        "zoolens segments a.onnx b.onnx",
        "zoolens segments demo:lenet-wide demo:lenet-wide-int8 --splice --data demo",
    ),
    "query": (
        'zoolens query "CORR lenet-wide WITHIN 90% ON size <= 30%"',
        'zoolens query "ON accuracy >= 90% ORDER BY latency_p50"',
    ),
    "index": ("zoolens index build", "zoolens index show"),
    "index build": ("zoolens index build", "zoolens index build --data demo"),
    "index add": ("zoolens index add model.yaml --data demo", "zoolens index add 'demo:*' --data demo -r onnxruntime"),
    "index remove": ("zoolens index remove demo:mlp-small", "zoolens index remove demo:lenet-jax demo:lenet-torch"),
    "index show": ("zoolens index show", "zoolens index show --json"),
    "index estimate": ("zoolens index estimate", "zoolens index estimate demo:lenet-wide"),
    "index rebuild": ("zoolens index rebuild", "zoolens index rebuild --store team.sqlite"),
    "index verify": ("zoolens index verify", "zoolens index verify --store team.sqlite"),
    "serve": ("zoolens serve model.yaml", "zoolens serve service.yaml --check"),
    "events": ("zoolens events", "zoolens events fashion"),
    "load": (
        "zoolens load http://127.0.0.1:8000",
        "zoolens load http://127.0.0.1:8000 --rate 50 --duration 30s --data demo",
    ),
    "crosstrain": (
        "zoolens crosstrain diff torch:resnet50 keras:resnet50",
        "zoolens crosstrain train recipe.yaml --with torch --with tensorflow",
    ),
    "crosstrain diff": (
        "zoolens crosstrain diff torch:resnet50 keras:resnet50",
        "zoolens crosstrain diff torch:vgg16 keras:vgg16 --brief",
    ),
    "crosstrain train": (
        "zoolens crosstrain train recipe.yaml --with torch --with tensorflow",
        "zoolens crosstrain train recipe.yaml --with torch --with jax --study with-jax",
    ),
    "crosstrain run": ("zoolens crosstrain run plan.yaml", "zoolens crosstrain run plan.yaml --trials 40 --workers 2"),
    "crosstrain explain": (
        "zoolens crosstrain explain convnorm 9b805382",
        "zoolens crosstrain explain convnorm 9b805382 --threads 1",
    ),
    "crosstrain list": ("zoolens crosstrain list", "zoolens crosstrain list --store team.sqlite"),
    "crosstrain show": ("zoolens crosstrain show convnorm", "zoolens crosstrain show convnorm 9b805382"),
    "crosstrain remove": (
        "zoolens crosstrain remove convnorm",
        "zoolens crosstrain remove convnorm --store team.sqlite",
    ),
    "crosstrain report": (
        "zoolens crosstrain report convnorm --output report",
        "zoolens crosstrain report library aligned --output report",
    ),
    "crosstrain import": (
        "zoolens crosstrain import convnorm-study/",
        "zoolens crosstrain import convnorm-study/ --store team.sqlite",
    ),
    "crosstrain export": (
        "zoolens crosstrain export convnorm convnorm-study",
        "zoolens crosstrain export convnorm team-study --store team.sqlite",
    ),
    "crosstrain submit": (
        "zoolens crosstrain submit convnorm-study/ --check",
        "zoolens crosstrain submit convnorm-study/ --into from-a-friend",
    ),
    "crosstrain space": ("zoolens crosstrain space --published", "zoolens crosstrain space plan.yaml"),
    "port": (
        "zoolens port check torch_net.py:net keras_net.py:net --input 3x32x32",
        "zoolens port weights torch_net.py:net keras_net.py:net --input 3x32x32 --out net.weights.h5",
    ),
    "port check": (
        "zoolens port check torch_net.py:net keras_net.py:net --input 3x32x32",
        "zoolens port check torch_net.py:net keras_net.py:net --input 3x32x32 --json",
    ),
    "port weights": (
        "zoolens port weights torch_net.py:net keras_net.py:net --input 3x32x32 --out net.weights.h5",
        "zoolens port weights keras_net.py:net torch_net.py:net --input 3x32x32 --out net.pt",
    ),
    "port scaffold": (
        "zoolens port scaffold torch_net.py:net --to keras --input 3x32x32",
        "zoolens port scaffold keras_net.py:net --to torch --input 3x32x32",
    ),
    "port train": (
        "zoolens port train torch_net.py:training keras_net.py:training --input 3x32x32",
        "zoolens port train torch_net.py:training keras_net.py:training --input 3x32x32 --epochs 4",
    ),
    "runs": ("zoolens runs", "zoolens runs --model 'file:*'"),
    "runs show": ("zoolens runs show last", "zoolens runs show last~1 --json"),
    "export": ("zoolens export -o everything.parquet", "zoolens export --run last -o last.csv --predictions"),
    "store": ("zoolens store check", "zoolens store copy team.sqlite backup.sqlite"),
    "store check": ("zoolens store check", "zoolens store check --store team.sqlite"),
    "store clean": ("zoolens store clean", "zoolens store clean --store team.sqlite"),
    "store moved": (
        "zoolens store moved --store postgresql://ada@db/zoolens",
        "zoolens store moved --store postgresql://ada@db/zoolens --force",
    ),
    "store copy": (
        "zoolens store copy team.sqlite backup.sqlite",
        "zoolens store copy team.sqlite postgresql://ada@db/zoolens",
    ),
    "agent": ("zoolens agent --name alpha --store team.sqlite", "zoolens agent --ray auto"),
    "agents": ("zoolens agents", "zoolens agents --store team.sqlite"),
    "fleet": ("zoolens fleet grid", "zoolens fleet run fleet.yaml"),
    "fleet grid": ("zoolens fleet grid", "zoolens fleet grid --figure latency"),
    "fleet jobs": ("zoolens fleet jobs", "zoolens fleet jobs --json"),
    "fleet log": ("zoolens fleet log 3f0c", "zoolens fleet log 3f0c --store team.sqlite"),
    "fleet cancel": ("zoolens fleet cancel 3f0c", "zoolens fleet cancel 3f0c 9a1b"),
    "fleet run": ("zoolens fleet run fleet.yaml", "zoolens fleet run fleet.yaml --store team.sqlite"),
    "machine": ("zoolens machine peaks", "zoolens machine peaks --json"),
    "machine peaks": ("zoolens machine peaks", "zoolens machine peaks --json"),
    "runtimes": ("zoolens runtimes", "zoolens runtimes --json"),
    "env": ("zoolens env list", "zoolens env export last -o stack"),
    "env list": ("zoolens env list", "zoolens env list | grep onnxruntime"),
    "env export": ("zoolens env export last -o stack", "zoolens env export last~1 -o stack"),
    "completion": ("zoolens completion bash", "zoolens completion fish > zoolens.fish"),
    "env remove": ("zoolens env remove 75877c2c", "zoolens env remove 75877c2c0c766d12"),
}


def with_examples(command: click.Command, name: str) -> click.Command:
    """The command, and those below it, with two examples at the beginning of their help; a second call adds nothing."""
    examples = EXAMPLES.get(name)
    if examples is not None and not (command.help or "").startswith("\b\n"):
        # What lists of commands show is made from the help, which begins otherwise now.
        command.short_help = command.get_short_help_str(limit=200)
        told = cleandoc(command.help or "")
        command.help = "\b\n" + "\n".join(f"$ {example}" for example in examples) + f"\n\n{told}"
    if isinstance(command, click.Group):
        for inner, below in command.commands.items():
            with_examples(below, f"{name} {inner}")
    return command
