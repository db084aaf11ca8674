"""Groups of Kafka Streams applications, to whose members the coordinator assigns tasks (KIP-1071)."""
