#!/bin/sh
# Written by wilco-lab. usage: health TARGET. Says whether the release that `current` of live/TARGET leads to serves: ends with
# 0 (UP), 10 (DEGRADED) or 1 (DOWN). Takes the oldest armed fault, if there is one; a shot belongs to whoever removes its file.
cd "$(dirname "$0")" || exit 2
for shot in knobs/*; do
    [ -f "$shot" ] || continue
    seconds=$(cat "$shot" 2>/dev/null)
    unlink "$shot" 2>/dev/null || continue
    case ${shot##*.} in
    unhealthy)
        echo "api: DOWN (a fault of the lab)"
        exit 1
        ;;
    degraded)
        echo "api: DEGRADED (a fault of the lab)"
        exit 10
        ;;
    slow)
        sleep "$seconds"
        ;;
    esac
    break
done
case ${1:-api-prod} in
*/* | .*)
    echo "health: no such target" >&2
    exit 2
    ;;
esac
program="live/${1:-api-prod}/current/bin/api"
if [ ! -x "$program" ]; then
    echo "api: DOWN (there is no $program)"
    exit 1
fi
exec "$program"
