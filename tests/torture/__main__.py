"""`make torture`: kill -9 under load, ROUNDS times. Prints the seed; the same seed kills at the same moments."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from harness.brokers import Broker, KafkaBroker, PenstockBroker
from torture.run import SETTINGS, torture


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--broker", choices=("penstock", "kafka"), default="penstock")
    parser.add_argument("--no-damage", action="store_true", help="kill only, and leave the files as they are")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().getrandbits(32)
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    print(f"seed {seed}, data in {folder}", flush=True)
    started = time.monotonic()
    broker = _broker(arguments.broker, folder)
    try:
        report = torture(
            broker,
            rounds=arguments.rounds,
            seed=seed,
            is_damaging=not arguments.no_damage,
            say=lambda line: print(line, flush=True),
        )
    finally:
        broker.close()
    seconds = time.monotonic() - started
    print(
        f"{report.kills} kills in {report.rounds} rounds and {seconds:.0f} s: "
        f"{report.acknowledged:,} records acknowledged, {report.found:,} found"
    )
    if report.faults:
        print("\n".join(["FAILED", *report.faults]))
        print(f"again: make torture ROUNDS={arguments.rounds} SEED={seed}; the data stays in {folder}")
        return 1
    print("nothing acknowledged is missing, nothing is there twice, all is in order")
    shutil.rmtree(folder)
    return 0


def _broker(kind: str, folder: Path) -> Broker:
    if kind == "penstock":
        return PenstockBroker(folder, settings=SETTINGS)
    # A KRaft broker that was killed is not let in again before its old session ends.
    return KafkaBroker(folder, settings={**SETTINGS, "broker.session.timeout.ms": "1000"})


if __name__ == "__main__":
    sys.exit(main())
