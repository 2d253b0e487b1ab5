"""Networks of transformers that are built without drawing their weights, in several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.inventory.runtimes.torch.torch_weights import _nothing_drawn

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_torch_draws_weights_again_after_networks_were_built_in_two_threads():
    import_torchvision(with_compiler=False)
    before, barrier = torch.nn.init.kaiming_uniform_, Barrier(2)

    def built(_):
        barrier.wait()
        for _ in range(20):
            with _nothing_drawn():
                assert torch.nn.init.kaiming_uniform_ is not before

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(built, range(2)))
    assert torch.nn.init.kaiming_uniform_ is before
