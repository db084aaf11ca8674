"""Messages of refused requests."""

from penstock.metadata.errors import MESSAGE_LENGTH_MAX, Refused
from penstock.protocol.errors import ErrorCode


def test_a_refusal_without_a_message_has_the_message_of_its_code() -> None:
    assert Refused(ErrorCode.NOT_CONTROLLER).message == ErrorCode.NOT_CONTROLLER.message


def test_a_refusal_that_quotes_a_very_long_name_is_shortened() -> None:
    refused = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {'x' * 32767}.")

    assert len(refused.message) == MESSAGE_LENGTH_MAX
    assert refused.message.startswith("There is no topic xxx")
    assert str(refused) == refused.message
