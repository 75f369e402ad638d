"""The public package as oracle.

Reads lists of questions, one JSON list a line, and answers each list on one line. What the package says in sentences
is told as (kind, slot), so that it can be compared with the codes of another implementation. The first line of output
names the package's folders.
"""
import functools
import json
import re
import sys

import rogerwilco
import rogerwilco.scripts.rogerwilco as rw

# Profiles are read from disk again at each call; what they say does not change while we run.
rw.load_core = functools.cache(rw.load_core)
rw.load_profile = functools.cache(rw.load_profile)

# What the package calls now, where a check takes no instant: the questions' own.
NOW = "20261001T1200Z"
rw.now_utc = lambda: NOW

# One distinctive word each, in the order in which they are tried.
VALUE_RULES = [
    ("vocabulary", "not_an_answer"), ("not a known", "unknown_code"), ("out of range", "out_of_range"),
    ("integer", "not_an_integer"), ("YYYYMMDDT", "bad_time"), ("YYYYMMDD", "bad_date"), ("of days", "bad_days"),
    ("decimals", "bad_money"), ("num is", "bad_number"), ("booleans", "bad_bool"), ("must match", "bad_name"),
    ("not an agent", "unknown_agent"),
]


def of_line(text):
    """(kind, slot) of an error about one line."""
    for start, kind, slot in (
        ("a message needs", "too_few_tokens", ""), ("version token", "bad_version", ""),
        ("type ", "unknown_type", ""), ("unknown profile", "unknown_profile", "p"),
        ("profile ", "unknown_profile", "p"), ("tail is", "tail_too_long", "tail"),
        ("AN with val=tail", "missing_tail", "val"), ("AQ with need=ENUM", "missing_slot", "opts"),
    ):
        if text.startswith(start):
            return [kind, slot]
    if text.startswith("id "):
        return ["id_not_from" if "<from>" in text else "bad_id", ""]
    if text.startswith("key "):
        return ["bad_key", ""]
    if text.startswith("duplicate key "):
        return ["duplicate_key", text.rsplit(" ", 1)[1]]
    if text[0] in "'\"":
        return ["not_key_value", ""]
    required = re.fullmatch(r"[A-Z]{2} requires ([a-z0-9_]+)", text)
    if required:
        return ["missing_slot", required[1]]
    value = re.match(r"([a-z][a-z0-9_]*)=", text)
    if value:
        if text[value.end():].startswith(" has an empty"):
            return ["empty_value", value[1]]
        rule = text.rsplit(": ", 1)[1] if ": " in text else text
        # The rule may itself hold a colon: look for the word behind the value, the last one first.
        for word, kind in VALUE_RULES:
            if word in rule or word in text.split(": ", 1)[1]:
                return [kind, value[1]]
    return ["unclassified: " + text, ""]


def sides(text, name):
    """Which end of a reply is wrong: the first that is."""
    ends = re.search(r"must come from (\S+) to (\S+); got from=(\S+) to=(\S+)", text)
    return [name, "from" if ends and ends[1] != ends[3] else "to"]


def of_check(text):
    """(kind, slot) of a problem of a check."""
    prefixed = re.match(r"(HO|RB|DN): ", text)
    if prefixed:
        return of_line(text[prefixed.end():])
    if re.match(r"(first|second|third) line is ", text):
        return ["wrong_type", ""]
    named = lambda pattern: re.match(pattern, text)
    for pattern, kind in (
        (r"tier3 echo: RB does not echo (\S+) ", "echo_missing"), (r"tier3 echo: (\S+) mismatch", "echo_mismatch"),
        (r"tier5 execution: RB does not carry (\S+),", "exec_missing"),
        (r"tier5 execution: (\S+) mismatch", "exec_mismatch"),
        (r"record: HO does not carry (\S+) ", "record_missing"), (r"record: (\S+) mismatch", "record_mismatch"),
        (r"executed: DN does not carry (\S+),", "done_missing"), (r"executed: (\S+) mismatch", "done_mismatch"),
    ):
        if named(pattern):
            return [kind, named(pattern)[1]]
    if text.startswith("the readback did not pass"):
        return ["readback_failed", ""]
    if re.match(r"(tier1 )?receipt: ", text):
        if " re=" in text:
            return ["receipt", "re"]
        return ["receipt", "item"] if "DN item" in text else sides(text, "receipt")
    if text.startswith("tier2"):
        return ["integrity", "h"]
    if text.startswith("expired: "):
        return ["outlives" if "outlives" in text else "expired", "exp"]
    if text.startswith("tier4"):
        for word, kind, slot in (
            ("contradiction on", "acc_contradiction", "acc"), ("excludes", "acc_excluded", "not"),
            ("carries no acc", "acc_missing", "acc"), ("requires do=", "do_missing", "do"), ("gap,", "acc_gap", "acc"),
        ):
            if word in text:
                return [kind, slot]
    if text.startswith("ask ") and "irreversible" in text:
        return ["exec_not_asked", "rb"]
    return ["unclassified: " + text, ""]


def of_thread(text, lines, profile):
    """The (kind, slot) pairs of a problem of a conversation: a line that is none has several."""
    if re.match(r"line \d+: CX \S+ must come from", text):
        number = int(text.split(" ", 2)[1].rstrip(":"))
        cx = rw.parse(lines[number - 1], profile)[0]
        sender = re.search(r"must come from (\S+) to ", text)[1]
        return [["cancel_foreign", "from" if cx["from"] != sender else "to"]]
    if re.match(r"line \d+: CX \S+ re=\S* does not name", text):
        return [["cancel_unknown", "re"]]
    line = re.match(r"line (\d+): ", text)
    if line:
        return [of_line(e) for e in rw.parse(lines[int(line[1]) - 1], profile)[1]]
    if re.search(r": closed \d+ times ", text):
        return [["closed_twice", ""]]
    if "reports the act done after" in text:
        return [["done_after_cancel", ""]]
    orphaned = re.search(r": orphaned, open past (exp|due)=", text)
    if orphaned:
        return [["orphaned", orphaned[1]]]
    return [["unclassified: " + text, ""]]


def parse(q):
    message, errors, warnings = rw.parse(q["line"], q.get("profile"))
    answer = {"problems": [of_line(e) for e in errors], "notes": len(warnings)}
    if not errors:
        answer["message"] = message
        answer["digest"] = rw.digest(q["line"], q.get("profile"))
    return answer


def checked(found):
    problems, notes = found
    return {"problems": [of_check(p) for p in problems], "notes": len(notes), "texts": problems}


def thread(q):
    problems, notes = rw.check_thread(q["lines"], q.get("profile"), now=q.get("now") or None)
    pairs = [pair for p in problems for pair in of_thread(p, q["lines"], q.get("profile"))]
    return {"problems": pairs, "notes": len(notes), "texts": problems}


ANSWERS = {
    "parse": parse,
    "check-ho": lambda q: checked(rw.check_ho(q["ho"], q["record"], q.get("profile"))),
    "check-rb": lambda q: checked(rw.check_rb_full(q["ho"], q["rb"], q.get("profile"), expect_acc=q.get("expect_acc"), now=q["now"])),
    "check-dn": lambda q: checked(rw.check_dn(q["ho"], q["dn"], q.get("profile"), rb_line=q.get("rb"))),
    "check-thread": thread,
}


def answer(question):
    try:
        return ANSWERS[question["f"]](question)
    except rw.FormError as e:
        return {"problems": [of_line(str(e))], "notes": 0}
    except Exception as e:  # what the package cannot bear is an answer, too
        return {"crash": f"{type(e).__name__}: {e}"[:200]}


def main():
    package = rogerwilco.PROFILES.parent
    about = {"profiles": str(rogerwilco.PROFILES), "conformance": str(package / "tests" / "conformance.jsonl"), "now": NOW}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        print(json.dumps([answer(q) for q in json.loads(line)]), flush=True)


if __name__ == "__main__":
    main()
