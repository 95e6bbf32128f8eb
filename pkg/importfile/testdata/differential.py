# Reads texts, one JSON string in a line, and prints what Python's csv and json make of each: the
# rows as far as they are well-formed, and the value with its numbers as text, or null.
import csv
import io
import json
import sys


class Number(str):
    pass


def members(pairs):
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("duplicate")
    return {"object": [[name, value] for name, value in pairs]}


def refuse(text):
    raise ValueError(text)


def rows(text):
    found = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), strict=True):
            found.append(row)
    except csv.Error as error:
        return found, str(error)
    return found, ""


def value(text):
    try:
        number = lambda digits: {"number": digits}
        found = json.loads(text, object_pairs_hook=members, parse_int=number, parse_float=number, parse_constant=refuse)
        json.dumps(found, ensure_ascii=False).encode()  # fails for a lone surrogate
        return found
    except (ValueError, RecursionError):
        return None


for line in sys.stdin:
    text = json.loads(line)
    found, error = rows(text)
    print(json.dumps({"rows": found, "error": error, "value": value(text)}), flush=True)
