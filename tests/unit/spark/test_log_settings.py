"""What a JVM of ours says when it starts: nothing that it need not."""

from __future__ import annotations

from penstock.spark.sessions import LOG_SETTINGS


def test_spark_finds_no_level_that_it_would_have_to_tell_about() -> None:
    lines = LOG_SETTINGS.read_text().splitlines()
    told = dict(
        map(str.strip, line.split("=", 1)) for line in lines if "=" in line and not line.startswith("#")
    )

    assert told["logger.gateway.name"] == "org.apache.spark.api.python.PythonGatewayServer"
    assert told["logger.gateway.level"] == told["rootLogger.level"]
