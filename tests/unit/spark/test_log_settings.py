"""The JVM prints nothing unnecessary when it starts."""

from __future__ import annotations

from penstock.spark.sessions import LOG_SETTINGS


def test_spark_does_not_print_that_it_changes_the_log_level() -> None:
    lines = LOG_SETTINGS.read_text().splitlines()
    reported = dict(
        map(str.strip, line.split("=", 1)) for line in lines if "=" in line and not line.startswith("#")
    )

    assert reported["logger.gateway.name"] == "org.apache.spark.api.python.PythonGatewayServer"
    assert reported["logger.gateway.level"] == reported["rootLogger.level"]
