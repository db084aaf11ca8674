"""Producers: what an application sends, in batches, to the leaders of partitions, once each and in order.

    sync.py, aio.py        what a program holds
    core.py                what both are faces of
    preparing.py           a record as bytes with a place, where the compiled way does not do
    rows.py                a table's rows on their way into batches, and the receipt of all of them
    arrow_rows.py          columns of Arrow as the kernel reads them
    sender.py              the driver: requests out, answers in, timers
    batch_outcomes.py      a batch completed, retried, split or failed, and everything that depends on it
    transactor.py          the driver of transactions
    transaction_consumer.py
                           the consumer whose offsets a transaction commits, and when it is rewound
    produce_requests.py    builds Produce requests and reads responses
    accumulator.py         which batches wait, which are due, which have run out of time
    idempotence.py         numbers that let a broker tell a repetition from a new batch
    transactions.py        what may be done when, and what an error means for a transaction
    prepared.py            a transaction whose end somebody else decides
    partitioners.py        where a record goes
    interceptors.py        what an application wants to see of every record

Records are made bytes and batches in `penstock.records.producing`, in the thread that sends; all else runs on the
client's loop. Cores know no clock, no socket and no thread.
"""
