#!/usr/bin/env bash
# Builds the Kubeflow Spark operator, for the tests of clusters, with the definitions of its resources. Minutes, once.
set -euo pipefail
cd "$(dirname "$0")/.."
folder="$PWD/build/spark-operator"
command -v go > /dev/null || { echo "Go 1.24 or later is needed: https://go.dev/dl" >&2; exit 1; }
mkdir -p "$folder"
cd tests/sparkoperator
module=github.com/kubeflow/spark-operator/v2
nice -n 10 go build -mod=readonly -trimpath -ldflags "-s -w" -o "$folder/operator" "$module/cmd/operator"
source=$(go list -mod=readonly -m -f '{{.Dir}}' "$module")
install -D -m 644 -t "$folder/definitions" "$source"/config/crd/bases/*.yaml
touch "$folder/.ready"
