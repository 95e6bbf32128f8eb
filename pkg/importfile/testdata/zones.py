# Prints local times and their instants for every zone, as Python's zoneinfo knows them. A local
# time that clocks skip has the instant "".
import json
import os
import random
import zoneinfo
from datetime import datetime, timedelta, timezone

FORMATS = [
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %H:%M:%S",
    "%Y%m%d%H%M%S", "%d %b %Y %H:%M:%S", "%B %d, %Y %I:%M:%S %p", "%a %d %b %Y %H:%M:%S", "%A, %d %B %Y %H:%M:%S",
    "%Y-%j %H:%M:%S", "%Y/%m/%d %H.%M.%S", "%H:%M:%S %d-%m-%Y", "%Y-%m-%d %H:%M:%S.%f", "%d.%m.%y %H:%M:%S",
    "%S %M %H %d %m %Y", "%Y-%m-%d %H:%M:%S%z", "%a %b %d %H:%M:%S %Y", "%Y-%m-%d, %I.%M.%S%p", "%d-%b-%y %H:%M:%S",
]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
random.seed(57)


def instant(local, zone):
    """The earlier of the instants at which clocks show local, or None."""
    for fold in (0, 1):
        utc = local.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc)
        if utc.astimezone(zone).replace(tzinfo=None) == local:
            return utc
    return None


def text_of(utc):
    return utc.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (utc.microsecond // 1000)


def changes(zone):
    """Instants at which the offset changes, found by halving."""
    step = timedelta(days=30)
    at = datetime(1970, 1, 2, tzinfo=timezone.utc)
    while at.year < 2036:
        low, high = at, at + step
        if low.astimezone(zone).utcoffset() != high.astimezone(zone).utcoffset():
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) / 2
                middle = middle.replace(microsecond=0)
                if middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset():
                    low = middle
                else:
                    high = middle
            yield high
        at += step


known = {}  # changes by the content of the zone's file, which many names share


def changes_of(name, zone):
    with open(os.path.join(zoneinfo.TZPATH[0], name), "rb") as file:
        content = file.read()
    if content not in known:
        known[content] = list(changes(zone))
    return known[content]


def locals_of(name, zone):
    found = changes_of(name, zone)
    for change in random.sample(found, min(len(found), 6)):
        before = (change - timedelta(seconds=1)).astimezone(zone).replace(tzinfo=None)
        after = change.astimezone(zone).replace(tzinfo=None)
        for at in (before, after):
            for minutes in (-61, -30, -1, 0, 1, 29, 61):
                yield at + timedelta(minutes=minutes)
        yield min(before, after) + abs(after - before) / 2
    for _ in range(10):
        yield datetime(1970, 1, 2) + timedelta(seconds=random.randrange(60 * 365 * 86400))


for name in sorted(zoneinfo.available_timezones()):
    zone = zoneinfo.ZoneInfo(name)
    times = [at.replace(microsecond=0) for at in locals_of(name, zone)]
    for number, form in enumerate(FORMATS):
        pairs = []
        for at in times[number::len(FORMATS)] if len(times) > 60 else times[number % 5::5]:
            if "%y" in form and not 1969 <= at.year <= 2068:
                continue
            if "%z" in form:
                utc = at.replace(tzinfo=zone).astimezone(timezone.utc)
                if utc.astimezone(zone).utcoffset().seconds % 60:
                    continue
                pairs.append([utc.astimezone(zone).strftime(form), text_of(utc)])
                continue
            if "%f" in form:
                at = at.replace(microsecond=random.randrange(10**6))
            utc = instant(at, zone)
            pairs.append([at.strftime(form), text_of(utc) if utc else ""])
        print(json.dumps({"Zone": name, "Format": form, "Times": pairs}))
