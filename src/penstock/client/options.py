"""Every setting as a typed keyword, which `Unpack` shows to editors and type checkers.

    class Producer:
        def __init__(self, bootstrap_servers: First = None, /, **options: Unpack[ProducerOptions]) -> None: ...

The names are Kafka's with underscores. None counts as not set. Text is accepted for every setting too
(`linger_ms="5"`), though a type checker wants the number; in `settings={"linger.ms": "5"}` it accepts text. A test
compares these names and types with the tables that declare the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from penstock.client.serializers.base import Deserializer, Serializer
from penstock.config.values import Secret

if TYPE_CHECKING:
    from ssl import SSLContext

Strings = str | Sequence[str]
"""A list, or text with commas."""
Objects = str | Sequence[object]
"""Objects or names: a list, or text with commas."""
SerializerSpec = str | type[object] | Serializer | Callable[[Any], object] | Callable[[Any, Any], object]
"""A name, a type, an object, or a function of a value and optionally a context: see `penstock.serializers`."""
DeserializerSpec = str | type[object] | Deserializer | Callable[[Any], object] | Callable[[Any, Any], object]


class TlsOptions(TypedDict, total=False):
    """TLS: encryption and certificates."""

    ssl_keystore_type: str | None
    ssl_keystore_location: str | None
    ssl_keystore_password: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_keystore_key: str | Secret | None
    ssl_keystore_certificate_chain: str | Secret | None
    ssl_truststore_type: str | None
    ssl_truststore_location: str | None
    ssl_truststore_password: str | Secret | None
    ssl_truststore_certificates: str | Secret | None
    ssl_enabled_protocols: Strings | None
    ssl_protocol: str | None
    ssl_cipher_suites: Strings | None
    ssl_endpoint_identification_algorithm: str | None
    ssl_engine_factory_class: SSLContext | None
    ssl_provider: str | None
    security_providers: str | None
    ssl_keymanager_algorithm: str | None
    ssl_trustmanager_algorithm: str | None
    ssl_secure_random_implementation: str | None


class SaslOptions(TypedDict, total=False):
    """Authentication of the client."""

    sasl_mechanism: str | None
    sasl_jaas_config: str | Secret | None
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_client_callback_handler_class: object | None
    sasl_login_class: object | None
    sasl_login_callback_handler_class: Callable[[], object] | str | None
    sasl_kerberos_service_name: str | None
    sasl_kerberos_kinit_cmd: str | None
    sasl_kerberos_ticket_renew_window_factor: float | None
    sasl_kerberos_ticket_renew_jitter: float | None
    sasl_kerberos_min_time_before_relogin: int | None
    sasl_login_refresh_window_factor: float | None
    sasl_login_refresh_window_jitter: float | None
    sasl_login_refresh_min_period_seconds: int | None
    sasl_login_refresh_buffer_seconds: int | None
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int | None
    sasl_login_retry_backoff_max_ms: int | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | Secret | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool | None
    sasl_oauthbearer_jwt_retriever_class: object | None
    sasl_oauthbearer_jwt_validator_class: object | None
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int | None
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int | None
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int | None
    sasl_oauthbearer_expected_audience: Strings | None
    sasl_oauthbearer_expected_issuer: str | None
    sasl_oauthbearer_clock_skew_seconds: int | None
    sasl_oauthbearer_scope_claim_name: str | None
    sasl_oauthbearer_sub_claim_name: str | None
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | Secret | None
    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"] | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int | None
    sasl_oauthbearer_assertion_claim_nbf_seconds: int | None
    sasl_oauthbearer_assertion_claim_jti_include: bool | None


class ClientOptions(TlsOptions, SaslOptions, total=False):
    """Options of all clients."""

    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"] | None
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None
    metadata_max_age_ms: int | None
    metadata_recovery_strategy: Literal["rebootstrap", "none"] | None
    metadata_recovery_rebootstrap_trigger_ms: int | None
    send_buffer_bytes: int | None
    socket_connection_setup_timeout_ms: int | None
    socket_connection_setup_timeout_max_ms: int | None
    reconnect_backoff_ms: int | None
    reconnect_backoff_max_ms: int | None
    request_timeout_ms: int | None
    retry_backoff_ms: int | None
    retry_backoff_max_ms: int | None
    metric_reporters: Objects | None
    metrics_num_samples: int | None
    metrics_sample_window_ms: int | None
    metrics_recording_level: Literal["INFO", "DEBUG", "TRACE"] | None
    config_providers: Strings | None


class RegistryOptions(TypedDict, total=False):
    """The schema registry of serializers that are given by name."""

    schema_registry_url: Strings | None
    basic_auth_user_info: str | Secret | None


class ProducerOptions(ClientOptions, RegistryOptions, total=False):
    """Options of a producer; `serializer` is short for `value_serializer`."""

    serializer: SerializerSpec | None
    bootstrap_servers: Strings | None
    client_id: str | None
    receive_buffer_bytes: int | None
    connections_max_idle_ms: int | None
    metadata_max_idle_ms: int | None
    enable_metrics_push: bool | None
    key_serializer: SerializerSpec | None
    value_serializer: SerializerSpec | None
    interceptor_classes: Objects | None
    partitioner_class: object | None
    partitioner_ignore_keys: bool | None
    partitioner_adaptive_partitioning_enable: bool | None
    partitioner_availability_timeout_ms: int | None
    batch_size: int | None
    linger_ms: int | None
    buffer_memory: int | None
    max_request_size: int | None
    max_block_ms: int | None
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    acks: Literal["all", -1, 0, 1, "-1", "0", "1"] | None
    retries: int | None
    delivery_timeout_ms: int | None
    max_in_flight_requests_per_connection: int | None
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int | None
    transaction_two_phase_commit_enable: bool | None


class ConsumerOptions(ClientOptions, RegistryOptions, total=False):
    """Options of a consumer; `deserializer` and `group` are short for `value_deserializer` and `group_id`."""

    deserializer: DeserializerSpec | None
    group: str | None
    bootstrap_servers: Strings | None
    client_id: str | None
    client_rack: str | None
    receive_buffer_bytes: int | None
    connections_max_idle_ms: int | None
    default_api_timeout_ms: int | None
    enable_metrics_push: bool | None
    group_id: str | None
    group_instance_id: str | None
    group_protocol: Literal["classic", "consumer"] | None
    group_remote_assignor: str | None
    partition_assignment_strategy: Objects | None
    session_timeout_ms: int | None
    heartbeat_interval_ms: int | None
    max_poll_interval_ms: int | None
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int | None
    share_acknowledgement_mode: Literal["implicit", "explicit"] | None
    share_acquire_mode: Literal["batch_optimized", "record_limit"] | None
    auto_offset_reset: str | None
    fetch_min_bytes: int | None
    fetch_max_bytes: int | None
    fetch_max_wait_ms: int | None
    max_partition_fetch_bytes: int | None
    max_poll_records: int | None
    isolation_level: Literal["read_committed", "read_uncommitted"] | None
    check_crcs: bool | None
    allow_auto_create_topics: bool | None
    exclude_internal_topics: bool | None
    key_deserializer: DeserializerSpec | None
    value_deserializer: DeserializerSpec | None
    interceptor_classes: Objects | None
    internal_throw_on_fetch_stable_offset_unsupported: bool | None


class AdminOptions(ClientOptions, total=False):
    """Options of an admin."""

    bootstrap_servers: Strings | None
    bootstrap_controllers: Strings | None
    client_id: str | None
    receive_buffer_bytes: int | None
    connections_max_idle_ms: int | None
    default_api_timeout_ms: int | None
    retries: int | None
    enable_metrics_push: bool | None
