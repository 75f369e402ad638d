#!/bin/sh
# Written by wilco-lab: takes the oldest armed fault, if there is one, and leaves word of this push for the hook that
# records it. A shot belongs to whoever removes its file.
fault=none seconds=0
for shot in ../knobs/*; do
    [ -f "$shot" ] || continue
    seconds=$(cat "$shot" 2>/dev/null)
    unlink "$shot" 2>/dev/null || continue
    fault=${shot##*.}
    break
done
case $fault in
refuse)
    echo "refused: a fault of the lab" >&2
    exit 1
    ;;
slow)
    sleep "$seconds"
    ;;
drop-before)
    kill -9 "$PPID"
    exit 1
    ;;
esac
{
    echo "$fault"
    at=0
    while [ "$at" -lt "${GIT_PUSH_OPTION_COUNT:-0}" ]; do
        eval "option=\$GIT_PUSH_OPTION_$at"
        printf '%s\n' "$option" | tr '\t' ' '
        at=$((at + 1))
    done
} >"../push.$PPID"
