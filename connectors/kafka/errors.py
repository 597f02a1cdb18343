"""Kafka's errors as ours: whether waiting helps, what was kept, and what to do."""

from __future__ import annotations

from confluent_kafka import KafkaError

from headwater.rules.errors import BadSettings, Fenced, HeadwaterError, Refused, TopicMismatch, Unavailable, Unclear

CREDENTIALS = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError._SSL,
}
_PERMISSION = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_NO_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
}
_NEWER_OWNER = {
    KafkaError._FENCED,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
}
_NO_ANSWER = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_ENOUGH_REPLICAS,
}
_KEPT = "What was committed is kept; the rest is read again."


def as_headwater_error(
    error: KafkaError, servers: str, *, asked: str = "", cause: KafkaError | None = None
) -> HeadwaterError:
    """``cause`` is what the client heard before the broker merely stopped answering, such as refused credentials."""
    code, said = error.code(), error.str()
    if code in _NO_ANSWER and cause is not None:
        code, said = cause.code(), cause.str()
    if code in CREDENTIALS:
        return Refused(
            f"Kafka at {servers} refused the connection: {said}.",
            asked=asked,
            kept=_KEPT,
            advice="Check in kafka.client: security.protocol, sasl.mechanism, sasl.username, sasl.password, ssl.*.",
        )
    if code in _PERMISSION:
        return Refused(
            f"Kafka at {servers} does not permit it: {said}.",
            asked=asked,
            kept=_KEPT,
            advice="Give this user read and write on the topics, groups and transactional ids of this installation.",
        )
    if code == KafkaError.INVALID_SESSION_TIMEOUT:
        return BadSettings(
            f"Kafka at {servers} refuses session.timeout.ms: it lies outside the broker's "
            "group.min.session.timeout.ms (6000 by default) and group.max.session.timeout.ms.",
            asked=asked,
            kept="Nothing was read.",
            advice="Raise session.timeout.ms in kafka.client, or lower group.min.session.timeout.ms on the brokers.",
        )
    if code == KafkaError.INVALID_REPLICATION_FACTOR:
        return BadSettings(
            f"Kafka at {servers} has too few brokers for so many copies: {said}.",
            asked=asked,
            kept="No topic was created.",
            advice="Lower kafka.replication (or --replication) to the number of brokers, or add brokers.",
        )
    if code in _NO_TOPIC:
        return TopicMismatch(
            f"Kafka at {servers} has no such topic or partition: {said}.",
            asked=asked,
            kept=_KEPT,
            advice="Run `headwater topics apply`.",
        )
    if code in _NEWER_OWNER:
        return Fenced(f"the group at {servers} went on without this member: {said}.", asked=asked, kept=_KEPT)
    if code == KafkaError._INVALID_ARG:
        return BadSettings(f"{said}.", asked=asked, kept="Nothing was started.", advice="Check kafka.client.")
    if code in _NO_ANSWER or error.retriable():
        return Unavailable(
            f"Kafka at {servers} does not answer: {said}.",
            asked=asked,
            kept=_KEPT,
            advice="Check that the brokers run, and that kafka.bootstrap_servers (or HEADWATER_KAFKA) names them.",
        )
    return Unclear(f"Kafka at {servers} answered {error.name()}: {said}.", asked=asked, kept=_KEPT)
