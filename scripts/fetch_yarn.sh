#!/usr/bin/env bash
# Fetches what a small YARN cluster needs beside pip's pyspark (64 MB).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v mvn > /dev/null || { echo "Maven is needed: apt-get install maven" >&2; exit 1; }
place=build/yarn
rm -rf "$place"
mkdir -p "$place"
mvn --batch-mode --quiet --file tests/yarn/pom.xml \
  org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
  -DoutputDirectory="$PWD/$place/lib" -DincludeScope=runtime
touch "$place/.ready"
