"""What the Python transformers share: their order and their events, as compat.transactions.transformers has them."""

import json
import sys
import threading
import traceback


class Order:
    """What to do, read from stdin's first line; `ending` is set when stdin ends."""

    def __init__(self):
        told = json.loads(sys.stdin.readline())
        self.bootstrap = told["bootstrap"]
        self.group = told["group"]
        self.input = told["input"]
        self.output = told["output"]
        self.transactional_id = told["transactional_id"]
        self.lump_records = told["lump_records"]
        self.consumer_settings = told["consumer"]
        self.producer_settings = told["producer"]
        self.ending = threading.Event()
        self._abort_one_in = told["abort_one_in"]
        self._turn = 0
        threading.Thread(target=self._wait, daemon=True).start()

    def is_to_abort(self):
        """Some transactions are rolled back for no reason, so that readers have something to leave out."""
        self._turn += 1
        return self._turn % self._abort_one_in == 0

    def _wait(self):
        sys.stdin.read()
        self.ending.set()


def transformed(partition, offset, value):
    """Says where it came from, so that each input has one output that is right, in the partition of the same number."""
    return b"%d:%d:%s" % (partition, offset, value)


def tell(event, count=0, error=""):
    sys.stdout.write(json.dumps({"event": event, "count": count, "error": str(error)}) + "\n")
    sys.stdout.flush()


def run_until_told(order, transform, is_worth_another):
    """`transform(order)` returns when `order.ending` is set; after what ends a producer a new one takes its place."""
    while not order.ending.is_set():
        try:
            transform(order)
        except Exception as error:
            if not is_worth_another(error):
                tell("failed", error=traceback.format_exc()[-3000:])
                return
            tell("replaced", error=repr(error))
    tell("left")
