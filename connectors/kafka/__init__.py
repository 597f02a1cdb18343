"""Apache Kafka: one client, its errors mapped to ours, and the topics that the catalogue asks for."""
