#!/usr/bin/env bash
# Checks of the repository itself: nothing large, golden files under 15 MB, no paths of one machine,
# every configuration valid, no verb that imports a verb, the code of every mutant where the list says.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
complain() { echo "error: $*" >&2; failed=1; }

while IFS= read -r -d '' file; do
    size=$(stat -c %s "$file")
    [ "$size" -le 1048576 ] || complain "\`$file\` has $size bytes: files over 1 MiB do not belong here"
done < <(git ls-files -z)

size=$(git ls-files -z 'crates/*/tests/golden/*' | xargs -0 stat -c %s | awk '{ sum += $1 } END { print sum }')
[ "$size" -le 15000000 ] || complain "the golden files have $size bytes together: keep them under 15 MB"

# Tests run from a checkout anywhere: a home folder in a file means something on one machine only.
if git grep -nE '(^|[^A-Za-z0-9.])/(home|root|Users)/[A-Za-z0-9_]' -- . ':!scripts/check-repository.sh'; then
    complain "paths of one machine (above)"
fi

# Every number in the documents has a command beside it; at least the documents they link to exist.
while IFS=: read -r file link; do
    target=$(dirname "$file")/${link%%#*}
    [ -e "$target" ] || complain "\`$file\` links to \`$link\`, which is not there"
done < <(git grep -oE '\]\([^)#:]+(#[^)]*)?\)' -- '*.md' | sed -E 's/^([^:]+):\]\((.*)\)$/\1:\2/')

# What two verbs share is in a library, or in one of these files of the program.
shared='common each_image environment groups images interrupt job output progress table trained training tui watch'
mapfile -t verbs < <(sed -n 's/^mod \(.*\);$/\1/p' crates/kvt/src/main.rs | grep -vxF "$(tr ' ' '\n' <<< "$shared")")
for verb in "${verbs[@]}"; do
    while IFS= read -r other; do
        complain "\`kvt $verb\` imports \`$other\`, another verb: what both need belongs into a library or a shared file"
    done < <(find crates/kvt/src -path "crates/kvt/src/$verb.rs" -o -path "crates/kvt/src/$verb/*.rs" | xargs cat | tr -d ' \n' \
        | grep -oE '(super|crate)::(\{[^{}]*\}|[a-z_]+)' | grep -oE '[a-z_]+' | sort -u \
        | grep -xF "$(printf '%s\n' "${verbs[@]}")" | grep -vx "$verb")
done

# Code that is changed leaves behind the mutants that name it.
python3 scripts/mutants/run.py --check > /dev/null \
    || complain "a mutant of \`scripts/mutants/mutants.toml\` has to follow its code (above)"

exit "$failed"
