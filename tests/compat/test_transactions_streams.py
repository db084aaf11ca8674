"""Java Kafka Streams with processing.guarantee=exactly_once_v2: each word is counted once, whatever is killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compat.conftest import TRANSACTION_SETTINGS
from compat.streams.word_count import (
    EXACTLY_ONCE,
    INPUT,
    OUTPUT,
    PARTITION_COUNT,
    Lines,
    WordCount,
    each_once,
)
from harness.admin import create_topics
from harness.brokers import Broker

LINE_COUNT = 40


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_each_word_is_counted_once_whatever_is_killed(
    tmp_path: Path, make_broker: Callable[..., Broker], protocol: str
) -> None:
    # A KRaft broker that was killed registers again only after its old session has expired.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    broker = make_broker(tmp_path / "broker", settings={**TRANSACTION_SETTINGS, **session})
    broker.start()
    application = None
    try:
        create_topics(broker.bootstrap, INPUT, OUTPUT, partitions=PARTITION_COUNT)
        application = WordCount(broker, tmp_path, protocol=protocol, settings=EXACTLY_ONCE)
        lines = Lines(broker.bootstrap)
        killed = application.start()
        application.start()
        application.wait_until_counted(lines.write(LINE_COUNT))

        lines.write(LINE_COUNT)
        killed.kill()
        killed.wait()
        application.start(number=0)
        application.wait_until_counted(lines.write(LINE_COUNT))

        lines.write(LINE_COUNT)
        broker.kill()
        broker.start()
        application.wait_until_counted(lines.write(LINE_COUNT))

        assert application.counts_by_word == each_once(lines.written)
    finally:
        if application is not None:
            application.close()
        broker.close()
    broker.check_output()
