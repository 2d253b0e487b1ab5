import datetime

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.constructor_arguments import plain_arguments


def test_plain_values_pass():
    given = {
        "num_classes": 10,
        "depths": [2, 2, 6, 2],
        "act_layer": "gelu",
        "weights": None,
        "pretrained": False,
        "gradient_checkpointing": True,
        "backbone": {"type": "resnet", "model_id": 50},
    }
    assert plain_arguments(given) == given


@pytest.mark.parametrize("arguments", [
    {"weights": "imagenet"},
    {"weights": "notes.h5"},
    {"pretrained": True},
    {"checkpoint_path": "evil.pth"},
    {"pretrained_cfg_overlay": {"file": "evil.pth"}},
    {"model_args": {"checkpoint_path": "evil.pth"}},
    {"model_args": {"pretrained": 1}},
    {"architecture": "local-dir:/tmp/evil"},
    {"architecture": "hf-hub:somebody/something"},
    {"use_pretrained_backbone": True},
    {"backbone": "microsoft/resnet-50"},
    {"backbone_config": {"backbone": ["../evil"]}},
    {"auto_map": {"AutoModel": "evil.Model"}},
    {"root": "evil"},
    {"name": "x" * 1000},
    {"when": datetime.date(2026, 1, 1)},
    {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}}}},
])  # fmt: skip
def test_what_would_load_something_is_refused(arguments):
    with pytest.raises(ModelError, match="The argument "):
        plain_arguments(arguments)
