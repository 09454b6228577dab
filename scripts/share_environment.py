"""Has the environment of the Python that runs this find, behind its own, the packages of another one.

Usage: PYTHON scripts/share_environment.py OTHER
"""

import sys
import sysconfig
from pathlib import Path


def main(other: str) -> None:
    """Writes the line by which Python looks there, and follows what is installed there for development."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = Path(other).absolute() / "lib" / version / "site-packages"
    line = f"import site; site.addsitedir({str(packages)!r})\n"
    Path(sysconfig.get_path("purelib"), "zz_shared.pth").write_text(line)


if __name__ == "__main__":
    main(sys.argv[1])
