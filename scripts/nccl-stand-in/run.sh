#!/usr/bin/env bash
# Runs the code that calls NCCL (`crates/kvt-train/src/world/on_device/nccl.rs`) with threads for processes, against libraries
# that stand in for NCCL and for CUDA's driver. It proves the order of the calls, what is handed over, and what is done about
# failures; not that a GPU adds up.
#
#     scripts/nccl-stand-in/run.sh
#
# Needs a C compiler. By hand, after a change to that file.
set -euo pipefail
cd "$(dirname "$0")"

libraries=target/libraries
mkdir -p "$libraries"
cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -shared -fPIC -o "$libraries/libnccl.so" stand_in.c -lpthread
# One library under two names: what CUDA's streams have done is NCCL's work.
ln -sf libnccl.so "$libraries/libcuda.so"
cargo build --quiet

run() {
    echo "--- $1"
    timeout 60 target/debug/nccl-stand-in "$1"
}

run missing
export LD_LIBRARY_PATH=$PWD/$libraries
STAND_IN=old run old
run sums
run one_never_joins_in
run given_up_while_joining
STAND_IN=refused run refused
STAND_IN=lost run lost
