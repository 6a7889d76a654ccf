"""Kafka by librdkafka, through confluent-kafka."""
