"""Refusals: the words that a client is told."""

from penstock.metadata.errors import MESSAGE_LENGTH_MAX, Refused
from penstock.protocol.errors import ErrorCode


def test_a_refusal_says_what_its_code_means_where_there_is_nothing_more_to_say() -> None:
    assert Refused(ErrorCode.NOT_CONTROLLER).message == ErrorCode.NOT_CONTROLLER.message


def test_a_refusal_that_quotes_a_very_long_name_still_fits_into_an_answer() -> None:
    refused = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {'x' * 32767}.")

    assert len(refused.message) == MESSAGE_LENGTH_MAX
    assert refused.message.startswith("There is no topic xxx")
    assert str(refused) == refused.message
