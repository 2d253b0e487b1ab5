"""The files of a bundle. Data are scripts, since a page that is opened from a disk may load scripts and nothing else.

| file | holds |
| --- | --- |
| `data/index.js` | which requests the bundle answers, and where their answers are |
| `data/0.js`, `data/1.js`, … | packs of answers, a few hundred kilobytes each, loaded when they are asked for |
| `files/…` | pictures, named by their content |
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

PACK_BYTES: Final = 400_000
_SUFFIXES: Final = {
    "image/svg+xml": ".svg",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "text/plain": ".txt",
    "application/json": ".json",
}

Place = tuple[int, int]  # the number of a pack, and the place in it


class PackWriter:
    """Writes answers one after the other; `close` writes what is left and the index."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._pack, self._texts, self._bytes = folder, 0, list[str](), 0
        self._known: dict[str, Place] = {}
        (folder / "data").mkdir(parents=True)

    def add(self, value: Any) -> Place:
        """Keep plain data; the same content is kept once."""
        text = as_script(value)
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in self._known:
            self._known[digest] = (self._pack, len(self._texts))
            self._texts.append(text)
            self._bytes += len(text)
            if self._bytes > PACK_BYTES:
                self._flush()
        return self._known[digest]

    def add_file(self, content: bytes, media_type: str) -> str:
        """Keep a file; its name in the bundle."""
        name = f"files/{hashlib.sha256(content).hexdigest()[:20]}{_SUFFIXES.get(media_type, '.bin')}"
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return name

    def close(self, index: dict[str, Any]) -> None:
        self._flush()
        script = f"globalThis.zoolensBundle = {as_script(index)};\n"
        (self._folder / "data" / "index.js").write_text(script, encoding="utf-8")

    def _flush(self) -> None:
        if self._texts:
            content = ",\n".join(self._texts)
            path = self._folder / "data" / f"{self._pack}.js"
            path.write_text(f"zoolensPack({self._pack}, [\n{content}\n]);\n", encoding="utf-8")
            self._pack, self._texts, self._bytes = self._pack + 1, [], 0


def as_script(value: Any) -> str:
    """Plain data as JSON, which is also JavaScript. Nothing in it can end a script that it were written into."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
