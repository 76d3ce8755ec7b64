#!/bin/sh
# Checks Leat on this machine's NVIDIA GPU, in less than five minutes, and prints a
# report in Markdown. It needs the folder that make gpu-bundle makes, where it lies, and
# an NVIDIA driver; nothing else, and no Go.
#
#   gpu-check.sh -o report.md     gpu-check.sh -budget 3m     gpu-check.sh -h
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for program in leat gpucheck kernels.test mkgguf; do
	if [ ! -x "$here/$program" ]; then
		echo "gpu-check.sh: $here/$program is missing: bring the whole folder that make gpu-bundle makes" >&2
		exit 1
	fi
done
case " $* " in
*" -h "* | *" -help "* | *" --help "*) exec "$here/gpucheck" -h ;;
esac
if ! devices=$("$here/leat" devices); then
	echo "gpu-check.sh: leat devices failed" >&2
	exit 1
fi
case "
$devices" in
*"
cuda:"*) ;;
*)
	echo "gpu-check.sh: no GPU that Leat can use:" >&2
	echo "$devices" >&2
	exit 1
	;;
esac
exec "$here/gpucheck" -bundle "$here" "$@"
