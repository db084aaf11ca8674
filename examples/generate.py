"""Live data for the examples: `python examples/generate.py sessions` writes until Ctrl-C, or `--count` records.

Each generator yields `(topic, key, value, time in ms)` forever; a seed makes it repeatable. Event times follow the
clock at `rate` events a second, because a broker rejects records from the future and windows close by event time.
"""

from __future__ import annotations

import argparse
import heapq
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
CLICK_SECONDS = 18.2  # between two clicks of a user, on average
PAYMENT_SECONDS = 25.0  # between two payments of a card


class Event(NamedTuple):
    topic: str
    key: str | None
    value: str | None
    ms: int


def lines(rng: random.Random, start_ms: int, rate: float) -> Iterator[Event]:
    for ms in times(start_ms, rate):
        yield Event("lines", None, rng.choice(SENTENCES), ms)


def clicks(rng: random.Random, start_ms: int, rate: float) -> Iterator[Event]:
    """Any number of users; each clicks for a while, then pauses for a minute or more."""
    users = max(1, round(rate * CLICK_SECONDS))
    due = [(start_ms + rng.randrange(round(CLICK_SECONDS * 1000)), user) for user in range(users)]
    heapq.heapify(due)
    while True:
        ms, user = due[0]
        yield Event("clicks", f"user-{user}", rng.choice(PAGES), ms)
        pause_ms = rng.randrange(500, 20_000) if rng.random() < 0.9 else rng.randrange(60_000, 120_000)
        heapq.heapreplace(due, (ms + pause_ms, user))


def payments(rng: random.Random, start_ms: int, rate: float) -> Iterator[Event]:
    """Cards that pay now and then, mostly small amounts and mostly at home."""
    cards = max(1, round(rate * PAYMENT_SECONDS))
    for ms in times(start_ms, rate):
        card = rng.randrange(cards)
        cents = rng.randrange(100_000, 900_000) if rng.random() < 0.02 else rng.randrange(500, 9_000)
        country = COUNTRIES[card % 3] if rng.random() < 0.95 else rng.choice(COUNTRIES)
        yield Event(
            "payments", f"card-{card}", json.dumps({"cents": cents, "country": country, "ms": ms}), ms
        )


def orders(rng: random.Random, start_ms: int, rate: float) -> Iterator[Event]:
    """Customers who move, join and leave, and their orders."""
    for number, ms in enumerate(times(start_ms, rate)):
        name = f"customer-{rng.randrange(30)}"
        if number < 30 or rng.random() < 0.1:
            customer = {"name": name.title(), "city": rng.choice(CITIES)}
            is_gone = rng.random() < 0.1
            yield Event("customers", name, None if is_gone else json.dumps(customer), ms)
        else:
            order = {"item": rng.choice(ITEMS), "cents": rng.randrange(100, 9_000)}
            yield Event("orders", name, json.dumps(order), ms)


def access_log(rng: random.Random, start_ms: int, rate: float) -> Iterator[Event]:
    for ms in times(start_ms, rate):
        moment = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(ms // 1000))
        status = rng.choices((200, 304, 404, 500), (90, 5, 4, 1))[0]
        request = f'"GET {rng.choice(PAGES)} HTTP/1.1" {status} {rng.randrange(200, 20_000)}'
        line = f"203.0.113.{rng.randrange(1, 255)} - - [{moment}] {request}"
        yield Event("access-log", None, "kernel: link is up" if rng.random() < 0.01 else line, ms)


def times(start_ms: int, rate: float) -> Iterator[int]:
    for number in itertools.count():
        yield start_ms + round(number * 1000 / rate)


GENERATORS: dict[str, Callable[[random.Random, int, float], Iterator[Event]]] = {
    "word_count": lines,
    "sessions": clicks,
    "fraud": payments,
    "change_stream": orders,
    "access_logs": access_log,
}


def start_of(*, now_ms: int, count: int | None, rate: float) -> int:
    """The time of the first event, so that the last of `--count` events happens about now."""
    return now_ms if count is None else now_ms - round(count * 1000 / rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("example", choices=GENERATORS, help="the example to generate data for")
    parser.add_argument("--brokers", default=os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "localhost:9092"))
    parser.add_argument("--count", type=int, help="write this many records at once, with past timestamps")
    parser.add_argument("--rate", type=float, default=200.0, help="records per second of event time")
    said = parser.parse_args()
    start_ms = start_of(now_ms=time.time_ns() // 1_000_000, count=said.count, rate=said.rate)
    events = GENERATORS[said.example](random.Random(), start_ms, said.rate)
    written = 0
    try:
        with Producer(said.brokers) as producer:
            for event in itertools.islice(events, said.count):
                if said.count is None:
                    time.sleep(max(0.0, event.ms / 1000 - time.time()))
                producer.send(event.topic, event.value, key=event.key, timestamp_ms=event.ms)
                written += 1
    except KeyboardInterrupt:
        pass
    print(f"{written:,} records written")


if __name__ == "__main__":
    main()
