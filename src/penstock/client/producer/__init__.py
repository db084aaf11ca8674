"""Producers: send records in batches to partition leaders, once each and in order.

    sync.py, aio.py        the public classes
    core.py                their common core
    preparing.py           serializes and checks a record if the compiled path cannot
    rows.py                sends the rows of a table, and the receipt of all rows
    arrow_rows.py          Arrow columns in the form that the kernel reads
    sender.py              the driver: requests, responses, timers
    batch_outcomes.py      completes, retries, splits or fails a batch
    transactor.py          the driver of transactions
    transaction_consumer.py
                           the consumer whose offsets a transaction commits
    produce_requests.py    builds Produce requests and reads responses
    accumulator.py         which batches wait, are due, or have expired
    idempotence.py         producer ids, epochs and sequence numbers
    transactions.py        the state machine of a transaction
    partitioners.py        chooses the partition of a record
    interceptors.py        callbacks for every record

Records become bytes and batches in `penstock.records.producing`, in the thread that sends; everything else runs on the
client's loop. Cores use no clock, no socket and no thread.
"""
