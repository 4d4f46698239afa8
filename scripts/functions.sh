#!/usr/bin/env bash
# functions.sh ARCH DIR: builds every function for amd64 or arm64 by one compilation, and the template that finds them:
# DIR/NAME/bootstrap and DIR/template.yaml. `sam build` would compile each alone, and misses changes outside of the
# function's folder.
set -euo pipefail

arch=$1
mkdir -p "$2"
dist=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
mkdir -p "$dist/all"
CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -tags lambda.norpc -ldflags '-s -w' \
	-o "$dist/all/" ./functions/...
for binary in "$dist"/all/*; do
	name=${binary##*/}
	mkdir -p "$dist/$name"
	ln -f "$binary" "$dist/$name/bootstrap" # it stays where the linker looks whether it is up to date
done
sed -E 's#(CodeUri: *)(\./)?functions/#\1#' template.yaml >"$dist/template.yaml"
