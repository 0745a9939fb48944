"""Kafka topics as a source of batches; needs ``pip install 'monolith-recsys[kafka]'`` once a broker is asked."""

from monolith.data.kafka.kafka_source import KafkaSource
from monolith.data.kafka.settings import BrokerError, KafkaSettings
from monolith.data.kafka.writer import KafkaWriter

__all__ = ["BrokerError", "KafkaSettings", "KafkaSource", "KafkaWriter"]
