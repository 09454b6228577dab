#!/usr/bin/env bash
# Fetches what a small YARN cluster needs beside pip's pyspark (64 MB), and compiles the program that starts it.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v mvn > /dev/null && command -v javac > /dev/null || { echo "Maven and a JDK are needed: apt-get install maven" >&2; exit 1; }
place=build/yarn
rm -rf "$place"
mkdir -p "$place/classes"
mvn --batch-mode --quiet --file tests/yarn/pom.xml \
  org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
  -DoutputDirectory="$PWD/$place/lib" -DincludeScope=runtime
jars=$(.venv/bin/python -c "import pyspark, pathlib; print(pathlib.Path(pyspark.__file__).parent / 'jars')")
javac -nowarn -d "$place/classes" -cp "$place/lib/*:$jars/*" tests/yarn/SmallYarn.java
touch "$place/.ready"
