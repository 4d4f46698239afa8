#!/usr/bin/env bash
# image.sh PYTHON: makes the image that `sam local --skip-pull-image` looks for, from what is in SAM's package: the
# emulator of the runtime API. A function is one static file, so nothing else is needed beside it but authorities.
set -euo pipefail

machine=$(uname -m)
[ "$machine" != aarch64 ] || machine=arm64
docker version >/dev/null # before the work: the caller tries until the engine answers
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/var/{rapid,task,runtime} "$root"/{opt,tmp,etc/ssl/certs}
chmod 1777 "$root/tmp"
rapid=$("$1" -c 'import os, samcli; print(os.path.dirname(samcli.__file__))')/local/rapid
install -m 755 "$rapid/aws-lambda-rie-$machine" "$root/var/rapid/aws-lambda-rie"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
echo 'root:x:0:0:root:/:/sbin/nologin' >"$root/etc/passwd"
tar -C "$root" -c . | docker import \
	--change 'ENTRYPOINT ["/var/rapid/aws-lambda-rie"]' --change 'WORKDIR /var/task' \
	--change 'ENV LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime PATH=/usr/local/bin:/usr/bin:/bin:/opt/bin' \
	- "public.ecr.aws/lambda/provided:al2023-rapid-$machine"
