"""A cluster under the control of a test: simulated nodes answer by script, late, wrongly or not at all.

    world = ScriptedCluster(node_ids=(1, 2))
    world.topics["orders"] = {0: Led(leader=1, epoch=5)}
    world.answer(ProduceRequest, lambda request, node: ProduceResponse(...))
    world.run(test)                                  # a coroutine function; time is virtual

Metadata, FindCoordinator and ApiVersions are answered from `topics`, `coordinators` and `versions`. Every other
request needs a script, and `answer` may replace any of them. A script returns a response, `NOTHING` (never answered),
`HANG_UP` (the connection closes), or an awaitable of one of these (a late response that delays later ones, as with a
real broker).
"""

from __future__ import annotations

import asyncio
import inspect
import random
import struct
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.net.framing import FrameReader
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import encode_response_header, read_request_header
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.runtime.network import Listening, Stream
from simulator.loop import VirtualClock, VirtualLoop, run_virtual
from simulator.network import SimulatedNetwork

NOTHING = object()
HANG_UP = object()

Script = Callable[[Any, "ScriptedNode"], Any]


@dataclass
class Led:
    """One partition in a node's metadata."""

    leader: int
    epoch: int = 0
    replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass
class ScriptedNode:
    id: int
    host: str
    port: int
    rack: str | None = None
    asked: list[Any] = field(default_factory=list)
    """All requests, in order."""
    streams: list[Stream] = field(default_factory=list)
    connections: int = 0
    """How many there have been."""

    def asked_for(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.asked if isinstance(request, kind)]

    def hang_up(self) -> None:
        """Close every connection."""
        for stream in list(self.streams):
            stream.abort()


class ScriptedCluster:
    def __init__(self, *, node_ids: tuple[int, ...] = (1,), seed: int = 1) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.random = random.Random(seed)
        self.network = SimulatedNetwork(random.Random(seed))
        self.nodes = {node_id: ScriptedNode(node_id, f"node{node_id}", 9092) for node_id in node_ids}
        self.cluster_id = "scripted"
        self.controller_id = node_ids[0]
        self.topics: dict[str, dict[int, Led]] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.topic_errors: dict[str, ErrorCode] = {}
        self.coordinators: dict[str, int | ErrorCode] = {}
        """By key. The first node coordinates all other keys."""
        self.versions: dict[ApiKey, tuple[int, int]] = {
            key: (key.first_version, key.last_version) for key in ApiKey
        }
        self._scripts: dict[type[Any], Script] = {
            ApiVersionsRequest: self._api_versions,
            MetadataRequest: self._metadata,
            FindCoordinatorRequest: self._find_coordinator,
        }
        self._listening: dict[int, list[Listening]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{node.host}:{node.port}" for node in self.nodes.values())

    def run(self, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            for node_id in list(self.nodes):
                await self.start(node_id)
            await test()

        run_virtual(self.loop, main())

    async def start(self, node_id: int, *, also_as: str | None = None) -> None:
        """Make the node listen on its own address, and on another one that is not in the metadata."""
        node = self.nodes[node_id]
        for host in filter(None, [node.host, also_as]):
            listening = await self.network.listen(host, node.port, lambda stream: _Served(self, node, stream))
            listening.start()
            self._listening.setdefault(node_id, []).append(listening)

    def kill(self, node_id: int) -> None:
        """Stop listening and close all connections."""
        for listening in self._listening.pop(node_id):
            listening.close()
        self.nodes[node_id].hang_up()

    def answer(self, kind: type[Any], script: Script) -> None:
        """From now on the script answers requests of this class."""
        self._scripts[kind] = script

    def answer_in_turn(self, kind: type[Any], *answers: Any) -> None:
        """One answer after the other, and then the earlier script again."""
        before = self._scripts.get(kind)
        left = list(answers)

        def script(request: Any, node: ScriptedNode) -> Any:
            if left:
                return left.pop(0)
            assert before is not None, f"no answer is left for {kind.__name__}"
            return before(request, node)

        self._scripts[kind] = script

    def script_of(self, request: Any) -> Script:
        script = self._scripts.get(type(request))
        assert script is not None, f"no script for {type(request).__name__}"
        return script

    # -- default scripts

    def _api_versions(self, request: ApiVersionsRequest, node: ScriptedNode) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in self.versions.items()
            ]
        )

    def _metadata(self, request: MetadataRequest, node: ScriptedNode) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [str(each.name) for each in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=each.id, host=each.host, port=each.port, rack=each.rack)
                for each in self.nodes.values()
                if each.id in self._listening
            ],
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        error = self.topic_errors.get(name, ErrorCode.NONE)
        if error == ErrorCode.NONE and name not in self.topics:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        led: Mapping[int, Led] = self.topics.get(name, {}) if error == ErrorCode.NONE else {}
        return MetadataResponseTopic(
            error_code=error,
            name=name,
            topic_id=self.topic_ids.get(name, ZERO_UUID),
            partitions=[
                MetadataResponsePartition(
                    error_code=each.error,
                    partition_index=index,
                    leader_id=each.leader,
                    leader_epoch=each.epoch,
                    replica_nodes=list(each.replicas or (each.leader,)),
                    isr_nodes=list(each.replicas or (each.leader,)),
                )
                for index, each in led.items()
            ],
        )

    def _find_coordinator(
        self, request: FindCoordinatorRequest, node: ScriptedNode
    ) -> FindCoordinatorResponse:
        if request.key:
            found = self._coordinator(request.key)
            return FindCoordinatorResponse(
                error_code=found.error_code, node_id=found.node_id, host=found.host, port=found.port
            )
        return FindCoordinatorResponse(coordinators=list(map(self._coordinator, request.coordinator_keys)))

    def _coordinator(self, key: str) -> Coordinator:
        found = self.coordinators.get(key, next(iter(self.nodes)))
        if isinstance(found, ErrorCode):
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=found)
        return Coordinator(key=key, node_id=found, host=self.nodes[found].host, port=self.nodes[found].port)


class _Served:
    """One connection to a scripted node."""

    def __init__(self, world: ScriptedCluster, node: ScriptedNode, stream: Stream) -> None:
        self._world = world
        self._node = node
        self._stream = stream
        self._frames = FrameReader(memoryview(bytearray(1 << 16)), frame_bytes_max=1 << 28)
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._serve())
        node.streams.append(stream)
        node.connections += 1

    def lend_buffer(self) -> memoryview:
        return self._frames.lend()

    def received(self, size: int) -> None:
        self._frames.received(size)
        while (frame := self._frames.next_frame()) is not None:
            self._requests.put_nowait(bytes(frame))

    def drained(self) -> None:
        pass

    def closed(self, reason: BaseException | None) -> None:
        self._node.streams.remove(self._stream)
        self._task.cancel()

    async def _serve(self) -> None:
        """One request after the other: a late response delays the next ones."""
        while True:
            await self._serve_one(await self._requests.get())

    async def _serve_one(self, frame: bytes) -> None:
        key, version, correlation_id, _, position = read_request_header(memoryview(frame))
        described = api(key)
        first, last = self._world.versions.get(described.key, (1, 0))
        if not first <= version <= last:
            assert described.key == ApiKey.API_VERSIONS, f"{described.name} v{version} is not served here"
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[])
            refusal.api_keys = [ApiVersion(api_key=key, min_version=first, max_version=last)]
            self._respond(refusal, described.key, 0, correlation_id)
            return
        request, _ = codec(described.request_class(), version).decode(frame, position)
        self._node.asked.append(request)
        answer = self._world.script_of(request)(request, self._node)
        if inspect.isawaitable(answer):
            awaited: Awaitable[Any] = answer
            answer = await awaited
        if answer is HANG_UP:
            self._stream.abort()
        elif answer is not NOTHING:
            self._respond(answer, described.key, version, correlation_id)

    def _respond(self, response: Any, key: ApiKey, version: int, correlation_id: int) -> None:
        head = encode_response_header(key, version, correlation_id)
        parts = codec(type(response), version).encode_parts(response, head)
        self._stream.send([struct.pack(">i", sum(map(len, parts))), *parts])
