"""Write `src/zoolens/base/present/assets/vega.js`: vega, vega-lite and vega-embed in one file, as vl-convert has
them, so that a chart looks the same in a page and in a file. Run it when vl-convert is updated.

python -m scripts.vendor_vega
"""

from __future__ import annotations

from pathlib import Path

import vl_convert

TARGET = Path(__file__).parent.parent / "src" / "zoolens" / "base" / "present" / "assets" / "vega.js"
LICENCE = """/* vega, vega-lite, vega-embed: BSD-3-Clause, Copyright (c) University of Washington Interactive Data Lab
and contributors. d3: ISC, Copyright Mike Bostock. Written by scripts/vendor_vega.py. */
"""


def main() -> None:
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    safe = bundle.replace("</script", "<\\/script").replace("<!--", "\\x3c!--")  # it stands in a script element
    alone = f'(() => {{"use strict";{safe}}})();\n'  # its names are its own
    TARGET.write_text(LICENCE + alone, encoding="utf-8", newline="\n")
    print(f"{TARGET}: {TARGET.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
