"""Write `index.json` anew: `python -m hpometrics.metrics.catalogue`."""

from __future__ import annotations

from ..registry import INDEX, build_index

if __name__ == "__main__":
    INDEX.write_text(build_index(), encoding="utf8")
