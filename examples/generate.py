"""Data for the examples, live: `python examples/generate.py clicks` writes until Ctrl-C, or `--count` records.

Each generator is a function that yields `(topic, key, value, time in ms)` for ever; a seed makes it repeatable.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from penstock import Producer

SENTENCES = (
    "water flows downhill",
    "a penstock carries water to a turbine",
    "the turbine turns and the water goes on",
    "what flows downhill turns the turbine",
)
PAGES = ("/", "/valves", "/turbines", "/cart", "/pay")
CITIES = ("Bern", "Graz", "Lyon", "Oslo", "Turin", "Ulm")
ITEMS = ("valve", "turbine", "sluice gate", "trash rack")
COUNTRIES = ("AT", "CH", "FR")


class Event(NamedTuple):
    topic: str
    key: str | None
    value: str | None
    ms: int


def lines(rng: random.Random, now_ms: int) -> Iterator[Event]:
    for number in itertools.count():
        yield Event("lines", None, rng.choice(SENTENCES), now_ms + number * 10)


def clicks(rng: random.Random, now_ms: int) -> Iterator[Event]:
    """Twenty users; each clicks on for a while, then rests for a minute or more."""
    at = {f"user-{number}": now_ms for number in range(20)}
    while True:
        user = min(at, key=lambda name: at[name])
        yield Event("clicks", user, rng.choice(PAGES), at[user])
        at[user] += rng.randrange(500, 20_000) if rng.random() < 0.9 else rng.randrange(60_000, 120_000)


def payments(rng: random.Random, now_ms: int) -> Iterator[Event]:
    """Fifty cards that pay now and then, mostly little and mostly at home."""
    for number in itertools.count():
        card = rng.randrange(50)
        cents = rng.randrange(100_000, 900_000) if rng.random() < 0.02 else rng.randrange(500, 9_000)
        country = COUNTRIES[card % 3] if rng.random() < 0.95 else rng.choice(COUNTRIES)
        ms = now_ms + number * 500
        yield Event(
            "payments", f"card-{card}", json.dumps({"cents": cents, "country": country, "ms": ms}), ms
        )


def orders(rng: random.Random, now_ms: int) -> Iterator[Event]:
    """Customers who move, come and go, and what they order."""
    for number in itertools.count():
        name = f"customer-{rng.randrange(30)}"
        ms = now_ms + number * 10
        if number < 30 or rng.random() < 0.1:
            customer = {"name": name.title(), "city": rng.choice(CITIES)}
            is_gone = rng.random() < 0.1
            yield Event("customers", name, None if is_gone else json.dumps(customer), ms)
        else:
            order = {"item": rng.choice(ITEMS), "cents": rng.randrange(100, 9_000)}
            yield Event("orders", name, json.dumps(order), ms)


def access_log(rng: random.Random, now_ms: int) -> Iterator[Event]:
    for number in itertools.count():
        ms = now_ms + number * 10
        moment = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(ms // 1000))
        status = rng.choices((200, 304, 404, 500), (90, 5, 4, 1))[0]
        request = f'"GET {rng.choice(PAGES)} HTTP/1.1" {status} {rng.randrange(200, 20_000)}'
        line = f"203.0.113.{rng.randrange(1, 255)} - - [{moment}] {request}"
        yield Event("access-log", None, "kernel: link is up" if rng.random() < 0.01 else line, ms)


GENERATORS: dict[str, Callable[[random.Random, int], Iterator[Event]]] = {
    "word_count": lines,
    "sessions": clicks,
    "fraud": payments,
    "change_stream": orders,
    "access_logs": access_log,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("example", choices=GENERATORS, help="the example whose data is wanted")
    parser.add_argument("--brokers", default=os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "localhost:9092"))
    parser.add_argument("--count", type=int, help="so many records, as fast as they can be written")
    parser.add_argument("--rate", type=float, default=200.0, help="records a second, where no count is given")
    said = parser.parse_args()
    events = GENERATORS[said.example](random.Random(), time.time_ns() // 1_000_000)
    written = 0
    try:
        with Producer(said.brokers) as producer:
            for event in itertools.islice(events, said.count):
                producer.send(event.topic, event.value, key=event.key, timestamp_ms=event.ms)
                written += 1
                if said.count is None:
                    time.sleep(1.0 / said.rate)
    except KeyboardInterrupt:
        pass
    print(f"{written:,} records written")


if __name__ == "__main__":
    main()
