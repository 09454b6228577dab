"""Says in one line what has to be installed before anything else can be. Runs on any Python 3."""

import os
import re
import shutil
import subprocess
import sys


def java_version():
    """The major version of the Java that Spark would use; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        return None
    told = subprocess.run([java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found.group(1)) if found else None


def main():
    if sys.version_info < (3, 11):
        sys.exit(
            "tidemill needs Python 3.11 or later; this is %s. Install one, and name it: make PYTHON=python3.11"
            % sys.version.split()[0]
        )
    java = java_version()
    if java is None:
        sys.exit(
            "tidemill's Spark tasks need Java 17 or later; none was found. "
            "Install a Java 17 runtime (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"
        )
    if java < 17:
        sys.exit(
            "tidemill's Spark tasks need Java 17 or later; this is Java %d. "
            "Install a newer one, or point JAVA_HOME at it" % java
        )


if __name__ == "__main__":
    main()
