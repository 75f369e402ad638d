"""Times the public rogerwilco package for the bench.

One argument: `shipped`, or `cached`, where each profile is loaded once and kept. The first line on standard input is a
JSON object with the lines to work on; each further line is a request. `{"op": "agree"}` is answered with what the
package says about the lines; `{"op": "measure", "name": ..., "seconds": ...}` with calls per second.
"""
import copy
import functools
import json
import sys
import time

import rogerwilco

CODEC = sys.modules[rogerwilco.parse.__module__]
LOAD = CODEC.load_profile


def functions(lines):
    ho, rb, dn, profile = lines["ho"], lines["rb"], lines["dn"], lines["profile"]
    record = lines["record"]
    return {
        "parse": lambda: CODEC.parse(ho, profile),
        "digest": lambda: CODEC.digest(ho, profile),
        "check_ho": lambda: CODEC.check_ho(ho, record, profile),
        "check_rb": lambda: CODEC.check_rb_full(ho, rb, profile),
        "check_dn": lambda: CODEC.check_dn(ho, dn, profile, rb_line=rb),
    }


def agree(lines):
    """What is found in the lines, and in the same lines with something wrong."""
    ho, rb, dn, profile = lines["ho"], lines["rb"], lines["dn"], lines["profile"]
    record, wrong = lines["record"], lines["wrong"]
    message, errors, _ = CODEC.parse(ho, profile)
    return {
        "slots": len(message["slots"]),
        "errors": errors,
        "digest": CODEC.digest(ho, profile),
        "problems": [
            CODEC.check_ho(ho, record, profile)[0],
            CODEC.check_ho(wrong["ho"], record, profile)[0],
            CODEC.check_rb_full(ho, rb, profile)[0],
            CODEC.check_rb_full(ho, wrong["rb"], profile)[0],
            CODEC.check_dn(ho, dn, profile, rb_line=rb)[0],
            CODEC.check_dn(ho, wrong["dn"], profile, rb_line=rb)[0],
        ],
    }


def measure(function, seconds):
    calls = 0
    start = time.perf_counter()
    while (took := time.perf_counter() - start) < seconds:
        function()
        calls += 1
    return calls / took


def main():
    if sys.argv[1] == "cached":
        # The same object every time: the package only reads it, which is checked after each measurement.
        CODEC.load_profile = functools.lru_cache(maxsize=None)(LOAD)
    lines = json.loads(sys.stdin.readline())
    table = functions(lines)
    untouched = copy.deepcopy(CODEC.load_profile(lines["profile"]))
    for request in map(json.loads, sys.stdin):
        if request["op"] == "agree":
            answer = agree(lines)
        else:
            answer = measure(table[request["name"]], request["seconds"])
            assert CODEC.load_profile(lines["profile"]) == untouched, "the kept profile was changed"
        print(json.dumps(answer), flush=True)


main()
