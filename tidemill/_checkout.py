"""In a checkout the layers are folders beside this package: importable from its root without being installed, too."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if (ROOT / "model" / "base.py").is_file():
    sys.modules["tidemill"].__path__.append(str(ROOT))
