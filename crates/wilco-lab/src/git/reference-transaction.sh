#!/bin/sh
# Written by wilco-lab: the record. It runs where refs have moved, before anybody is told, whatever moved them; post-receive
# would run after the report is on its way, and so could not lose it.
[ "$1" = committed ] || exit 0
push="../push.$PPID" fault=none options=
if [ -f "$push" ]; then
    { read -r fault; options=$(tr '\n' '\t'); } <"$push"
fi
at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
moved=
while read -r old new ref; do
    case $ref in
    refs/*)
        moved=yes
        printf '%s\t%s\t%s\t%s\t%s\n' "$at" "$ref" "$old" "$new" "$options" >>../pushes.log
        ;;
    esac
done
if [ "$fault" = drop-after-accept ] && [ "$moved" = yes ]; then
    rm -f "$push"
    kill -9 "$PPID"
fi
exit 0
