"""The process that decodes images which the browser sends: sandboxed, since decoders are large and images of strangers.

It imports Pillow and numpy when it starts, and opens no file after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zoolens.base.engine.service import Message, Service

MEMORY: Final = 2 << 30  # bytes


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    from zoolens.inventory.datasets.images import decode_image

    service = Service(settings, began_ns)

    def answer(request: Message) -> Any:
        if request["do"] != "decode":
            return None
        content = service.inputs.read(request["tensors"])["content"].tobytes()
        pixels = decode_image(content, "The image", keep_gray=True)
        return {"tensors": service.outputs.write({"pixels": pixels})}

    service.serve(answer, lambda _: "Decoding an image")
