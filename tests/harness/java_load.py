"""The load of `harness.load` with the Java client's producer."""

from __future__ import annotations

import subprocess

from compat.clients.java import JVM_OPTIONS, class_path
from harness.brokers import tool
from harness.load import BURST_RECORDS, FLUSH_SECONDS, KEY_COUNT, PAUSE_SECONDS, NumberedLoad

SETTINGS = {
    "linger.ms": "1",
    "request.timeout.ms": "5000",
    "delivery.timeout.ms": "60000",
    "reconnect.backoff.max.ms": "200",
}


class JavaLoad(NumberedLoad):
    """Writes with the Java client's idempotent producer, in a process of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self._refused: list[str] = []
        self._is_complete = False
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(tool("java"), *JVM_OPTIONS, "-cp", class_path(), "NumberedProducer"),
                *(self._bootstrap, self._topic, str(KEY_COUNT), str(BURST_RECORDS)),
                str(round(1_000 * PAUSE_SECONDS)),
                *("=".join(pair) for pair in SETTINGS.items()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # its log
            text=True,
        )
        super().start()

    def stop(self) -> None:
        process = self._running()
        assert process.stdin is not None
        process.stdin.close()
        self._thread.join(3 * FLUSH_SECONDS)
        assert not self._refused, self._refused[0]
        assert self._is_complete, "the Java producer did not end cleanly"

    def abandon(self) -> None:
        super().abandon()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "not started"
        return self._process

    def _run(self) -> None:
        output = self._running().stdout
        assert output is not None
        with output:
            for line in output:
                kind, *fields = line.split(maxsplit=3)
                if kind == "written":
                    partition, offset, number = map(int, fields)
                    self.written[partition, offset] = number
                elif kind == "end":
                    self._is_complete = True
                else:
                    self._refused.append(line.strip())
