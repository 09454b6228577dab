#!/usr/bin/env bash
# Builds etcd, kube-apiserver and kube-controller-manager as one program, for the tests of clusters. Minutes, once.
set -euo pipefail
cd "$(dirname "$0")/.."
program="$PWD/build/kubelite"
command -v go > /dev/null || { echo "Go 1.24 or later is needed: https://go.dev/dl" >&2; exit 1; }
command -v kubectl > /dev/null || { echo "kubectl is needed: apt-get install kubernetes-client" >&2; exit 1; }
cd tests/kubelite
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' go.mod)
minor=${version#v1.}
package=k8s.io/component-base/version
flags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
nice -n 10 go build -mod=readonly -trimpath -ldflags "$flags" -o "$program" .
