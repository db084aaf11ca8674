"""Programs that exit, are interrupted, or drop a producer: no record is lost silently and nothing hangs."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

from harness.admin import create_topic
from harness.brokers import Broker, penstock_environment
from penstock import Consumer

WAIT_SECONDS = 60.0

pytestmark = pytest.mark.penstock_only("tests the client's process")


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=penstock_environment(),
    )


def values(broker: Broker, topic: str) -> list[str]:
    with Consumer(topic, bootstrap_servers=broker.bootstrap) as consumer:
        return [message.value.decode() for message in consumer.read(until="end").to_messages()]


def test_a_program_that_exits_without_closing_still_sends(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "ending")
    program = """
        import sys
        from penstock import Producer
        producer = Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000)
        for number in range(10):
            producer.send(sys.argv[2], str(number))
    """
    ended = start(program, cluster.bootstrap, topic)
    _, errors = ended.communicate(timeout=WAIT_SECONDS)

    assert (ended.returncode, errors) == (0, "")
    assert values(cluster, topic) == [str(number) for number in range(10)]


def test_a_garbage_collected_producer_warns_and_leaves_no_thread_and_no_unsent_record(
    cluster: Broker,
) -> None:
    topic = create_topic(cluster.bootstrap, "thrown")
    program = """
        import gc, sys, threading
        from penstock import Producer
        producer = Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000)
        producer.send(sys.argv[2], "kept")
        del producer
        gc.collect()
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join(30)
        print(threading.active_count())
    """
    ended = start(program, cluster.bootstrap, topic)
    output, errors = ended.communicate(timeout=WAIT_SECONDS)

    assert (ended.returncode, output) == (0, "1\n")
    assert "ResourceWarning: a producer was garbage collected" in errors
    assert values(cluster, topic) == ["kept"]


def test_a_producer_collected_with_a_cycle_is_closed(cluster: Broker) -> None:
    """Its thread was collected with it and ended first: closing failed with "Event loop is closed"."""
    program = """
        import gc, sys, threading
        from penstock import Producer
        gc.disable()
        producer = Producer(sys.argv[1])
        producer.flush()
        cycle = [producer]
        cycle.append(cycle)
        del producer, cycle
        gc.collect()
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join(30)
    """
    ended = start(program, cluster.bootstrap)
    _, errors = ended.communicate(timeout=WAIT_SECONDS)

    assert ended.returncode == 0
    assert "Traceback" not in errors


def test_ctrl_c_ends_a_wait_at_once(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "waiting")
    program = """
        import sys
        from penstock import Producer
        producer = Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000)
        receipt = producer.send(sys.argv[2], "a")
        try:
            print("waiting", flush=True)
            receipt.result()
        except KeyboardInterrupt:
            producer.close()
            print(receipt.result().offset)
    """
    ended = start(program, cluster.bootstrap, topic)
    assert ended.stdout is not None
    assert ended.stdout.readline() == "waiting\n"
    ended.send_signal(signal.SIGINT)
    output, errors = ended.communicate(timeout=WAIT_SECONDS)

    assert (ended.returncode, output, errors) == (0, "0\n", "")


def test_a_forked_child_of_a_process_with_clients_exits_normally(cluster: Broker) -> None:
    """It died of SIGSEGV while exiting, waiting for threads of its parent."""
    topic = create_topic(cluster.bootstrap, "forking")
    program = """
        import os, sys
        from penstock import Admin, Consumer, Producer
        address = sys.argv[1].replace("127.0.0.1", "localhost")
        producer = Producer(address)
        producer.send(sys.argv[2], "a").result(timeout=30)
        consumer = Consumer(sys.argv[2], bootstrap_servers=address)
        consumer.poll(30)
        admin = Admin(address)
        admin.list_topics()
        child = os.fork()
        if child == 0:
            for client in (producer, consumer, admin):
                client.close()
            sys.exit(7)
        print(os.waitpid(child, 0)[1])
        for client in (producer, consumer, admin):
            client.close()
    """
    ended = start(program, cluster.bootstrap, topic)
    output, errors = ended.communicate(timeout=WAIT_SECONDS)

    assert (ended.returncode, output, errors) == (0, f"{7 << 8}\n", "")


SENDS = """
        import asyncio, gc, sys
        from penstock import aio

        async def send(count, producer=None):
            producer = producer or aio.Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000)
            for number in range(count):
                await producer.send(sys.argv[2], str(number))
            return producer
"""
ENDINGS = {
    "asyncio.run": """
        async def main():
            await send(1000)
        asyncio.run(main())
    """,
    "asyncio.run, with a reference to the producer": """
        kept = asyncio.run(send(1000))
    """,
    "uvloop": """
        import uvloop
        async def main():
            await send(1000)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
    """,
    "a loop that is never closed": """
        loop = asyncio.new_event_loop()
        loop.run_until_complete(send(1000))
    """,
    "a loop that continues": """
        async def main():
            await send(1000)
            gc.collect()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            while tasks:
                await asyncio.wait(tasks)
                tasks = asyncio.all_tasks() - {asyncio.current_task()}
        asyncio.run(main())
    """,
    "a task that is cancelled while it waits": """
        async def wait_for_ever(sent):
            producer = await send(1000)
            sent.set()
            await asyncio.Event().wait()
        async def main():
            sent = asyncio.Event()
            task = asyncio.create_task(wait_for_ever(sent))
            await sent.wait()
        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_async_program_that_exits_without_closing_still_sends(cluster: Broker, ending: str) -> None:
    """It exited with status 0, and the topic was empty."""
    topic = create_topic(cluster.bootstrap, "async-ending")
    ended = start(SENDS + ENDINGS[ending], cluster.bootstrap, topic)
    _, errors = ended.communicate(timeout=WAIT_SECONDS)

    assert ended.returncode == 0, errors
    assert "Traceback" not in errors
    assert "pending" not in errors
    assert "asynchronous generator" not in errors
    assert len(values(cluster, topic)) == 1000, errors


def test_records_are_sent_although_the_closing_task_is_cancelled_before_the_tasks_that_it_needs(
    cluster: Broker,
) -> None:
    """It tried again at once, waited for tasks that were about to be cancelled, and gave up after 30 seconds."""
    topic = create_topic(cluster.bootstrap, "async-cancelled")
    program = (
        SENDS
        + """
        async def main():
            await send(1000)
            gc.collect()
            tasks = set()
            while "penstock-unclosed-producer" not in {task.get_name() for task in tasks}:
                await asyncio.sleep(0)
                tasks = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.sleep(0)  # it starts to wait
            for task in sorted(tasks, key=lambda task: task.get_name() != "penstock-unclosed-producer"):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        asyncio.run(main())
    """
    )
    ended = start(program, cluster.bootstrap, topic)
    _, errors = ended.communicate(timeout=WAIT_SECONDS)

    assert ended.returncode == 0, errors
    assert len(values(cluster, topic)) == 1000, errors


def test_an_async_program_that_closes_its_loop_itself_gets_the_number_of_lost_records(
    cluster: Broker,
) -> None:
    topic = create_topic(cluster.bootstrap, "async-lost")
    program = (
        SENDS
        + """
        loop = asyncio.new_event_loop()
        kept = loop.run_until_complete(send(7))
        loop.close()
        if sys.argv[3] == "drop":
            del kept
    """
    )
    for ending in ("drop", "exit"):
        ended = start(program, cluster.bootstrap, topic, ending)
        _, errors = ended.communicate(timeout=WAIT_SECONDS)

        assert ended.returncode == 0
        assert f"lost 7 record(s) for {topic}" in errors, ending
        assert "await producer.close()" in errors
