#!/usr/bin/env bash
# Runs the code that calls NCCL (`crates/kvt-train/src/world/on_device/nccl.rs`) with threads for processes, against libraries
# that stand in for NCCL and for CUDA's driver. It proves the order of the calls, what is handed over, and what is done about
# failures; not that a GPU adds up.
#
#     scripts/nccl-stand-in/run.sh
#
# Needs a C compiler and the Rust toolchain.
set -euo pipefail
cd "$(dirname "$0")"

libraries=target/libraries
mkdir -p "$libraries"
cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -shared -fPIC -o "$libraries/libnccl.so" stand_in.c -lpthread
# One library under two names: what CUDA's streams have done is NCCL's work.
ln -sf libnccl.so "$libraries/libcuda.so"
cargo build --quiet

count=0
run() {
    count=$((count + 1))
    echo "--- $1"
    timeout 60 target/debug/nccl-stand-in "$1"
}

# As where NCCL is not installed: the names by which it is looked for are files that are no libraries. Whatever is behind
# them is not found.
hidden=target/hidden
mkdir -p "$hidden"
touch "$hidden"/libnccl.so{,.1,.9,.10,.11,.12,.13}
LD_LIBRARY_PATH=$PWD/$hidden:$PWD/$libraries run missing
export LD_LIBRARY_PATH=$PWD/$libraries
STAND_IN=old run old
run sums
run only_prepared
run one_never_joins_in
run given_up_while_joining
STAND_IN=refused run refused
STAND_IN=lost run lost
echo "=== $count of $count passed"
