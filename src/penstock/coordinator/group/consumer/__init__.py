"""Groups to whose members the coordinator assigns partitions (KIP-848): ConsumerGroupHeartbeat."""
