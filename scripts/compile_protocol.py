"""Write `src/zoolens/base/protocol/descriptors.binpb` from the .proto files beside it: run it after one changed.

python -m scripts.compile_protocol
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

FOLDER = Path(__file__).parent.parent / "src" / "zoolens" / "base" / "protocol"
TARGET = FOLDER / "descriptors.binpb"


def compiled() -> bytes:
    """The descriptors of all .proto files, without comments and the places of their source."""
    sources = sorted(path.name for path in FOLDER.glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "descriptors"
        # In a process of its own: the compiler's protobuf library crashes beside that of a framework.
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{FOLDER}", f"--descriptor_set_out={target}"]
        if subprocess.run([*command, *sources], check=False).returncode:
            raise SystemExit("The .proto files cannot be compiled.")
        return FileDescriptorSet.FromString(target.read_bytes()).SerializeToString(deterministic=True)


def main() -> None:
    TARGET.write_bytes(compiled())
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
