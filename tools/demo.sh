#!/usr/bin/env bash
# Shows weir at work. WEIR_BUILD names the folder with the command (build).
set -euo pipefail
cd "$(dirname "$0")/.."
weir=${WEIR_BUILD:-build}/weir

"$weir" --version
