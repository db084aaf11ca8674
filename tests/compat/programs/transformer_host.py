"""Shared by the Python transformers: the order and events of compat.transactions.transformers."""

import json
import sys
import threading
import traceback


class Order:
    """The order, from the first line of stdin; `ending` is set when stdin ends."""

    def __init__(self):
        order = json.loads(sys.stdin.readline())
        self.bootstrap = order["bootstrap"]
        self.group = order["group"]
        self.input = order["input"]
        self.output = order["output"]
        self.transactional_id = order["transactional_id"]
        self.batch_records = order["batch_records"]
        self.consumer_settings = order["consumer"]
        self.producer_settings = order["producer"]
        self.ending = threading.Event()
        self._abort_one_in = order["abort_one_in"]
        self._turn = 0
        threading.Thread(target=self._wait, daemon=True).start()

    def is_to_abort(self):
        """Some transactions are aborted on purpose, so that readers have something to skip."""
        self._turn += 1
        return self._turn % self._abort_one_in == 0

    def _wait(self):
        sys.stdin.read()
        self.ending.set()


def transformed(partition, offset, value):
    """The output names its input, so that each input has one right output, in the same partition."""
    return b"%d:%d:%s" % (partition, offset, value)


def report(event, count=0, error=""):
    sys.stdout.write(json.dumps({"event": event, "count": count, "error": str(error)}) + "\n")
    sys.stdout.flush()


def run_until_stopped(order, transform, is_worth_another):
    """`transform(order)` returns when `order.ending` is set. After a fatal error a new producer replaces the old
    one."""
    while not order.ending.is_set():
        try:
            transform(order)
        except Exception as error:
            if not is_worth_another(error):
                report("failed", error=traceback.format_exc()[-3000:])
                return
            report("replaced", error=repr(error))
    report("left")
