"""Stages as Spark queries. This module only connects parts; the computation is elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.spark import transforms
from penstock.spark.sink import AT_LEAST_ONCE, EXACTLY_ONCE
from penstock.streams.compile import exchange, names, outputs, shuffle
from penstock.streams.compile.cut import Stage
from penstock.streams.compile.reading import NAMES
from penstock.streams.compile.starts import RealCluster, starting_offsets
from penstock.streams.compile.tasks import Program, StatelessTask
from penstock.streams.compile.topics import logged_stores
from penstock.streams.settings import AppSettings
from penstock.streams.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.streams.compile.stateful import Domains


@dataclass(frozen=True)
class Compiled:
    """One stage, ready to start."""

    name: str
    stage: Stage
    writer: DataStreamWriter
    """Complete except for its trigger."""
    domains: Domains | None = None
    """The domains with state; None if there are none."""


def compile_stage(
    spark: SparkSession, topology: Topology, stage: Stage, program: Program, settings: AppSettings
) -> Compiled:
    domains: Domains | None = None
    if not stage.is_stateful:
        cells = _read(spark, stage, program, settings, StatelessTask(program, stage), "cell binary")
    else:
        from penstock.streams.compile.stateful import Domains, processed

        logged = {name: True for name, _ in logged_stores(topology)}
        task = shuffle.ShufflingTask(program, stage)
        packs = _read(spark, stage, program, settings, task, shuffle.SPARK_SCHEMA)
        domains = Domains(program, stage, topology.nodes, logged)
        cells = processed(packs, domains)
    return Compiled(stage.name, stage, _write(outputs.counted(cells), stage, program, settings), domains)


def _read(
    spark: SparkSession, stage: Stage, program: Program, settings: AppSettings, task: Any, schema: str
) -> DataFrame:
    options = {f"kafka.{name}": _text(value) for name, value in settings.client.items()}
    options |= {
        "columns": ",".join(NAMES),
        "includeHeaders": "true",
        "groupId": program.application_id,
        "kafka.isolation.level": "read_committed",
        "startingOffsets": starting_offsets(
            stage, program, settings.get("auto.offset.reset"), RealCluster(settings.client)
        ),
        transforms.OPTION: transforms.pack(task),
        **_topics(stage, program.application_id),
    }
    if most := settings.get("buffered.records.per.partition"):
        counts = sum(program.topics.get(topic, 1) for topic in _names(stage, program.application_id))
        options["maxOffsetsPerTrigger"] = str(most * max(1, counts))
    return spark.readStream.format("penstock").options(**options).schema(schema).load()


def _write(cells: DataFrame, stage: Stage, program: Program, settings: AppSettings) -> DataStreamWriter:
    options = {f"kafka.{name}": _text(value) for name, value in settings.client.items()}
    options |= {
        "includeHeaders": "true",
        "guarantee": EXACTLY_ONCE if settings.is_exactly_once else AT_LEAST_ONCE,
        "checkpointLocation": f"{settings.state_folder}/{stage.name}",
        transforms.OPTION: transforms.pack(
            exchange.unpacked if exchange.is_needed(stage) else outputs.unpacked
        ),
    }
    name = names.query(program.application_id, stage.name)
    return cells.writeStream.format("penstock").outputMode("append").options(**options).queryName(name)


def _names(stage: Stage, application_id: str) -> list[str]:
    own = [names.internal(application_id, topic) for topic in stage.internal_topics]
    return list(dict.fromkeys([*(topic for source in stage.sources for topic in source.topics), *own]))


def _topics(stage: Stage, application_id: str) -> dict[str, str]:
    patterns = [source.pattern for source in stage.sources if source.pattern is not None]
    known = _names(stage, application_id)
    if not patterns:
        return {"subscribe": ",".join(known)}
    names_meant = "|".join([*(f"({p})" for p in patterns), *map(re.escape, known)])
    return {"subscribePattern": f"^(?:{names_meant})$"}  # whole names, as in Kafka Streams


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple | list) else str(value)
