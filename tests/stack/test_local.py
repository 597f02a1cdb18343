from headwater.stack import Addresses


def test_each_test_gets_a_database_and_a_bucket_of_its_own(stack: Addresses, catalog_dsn: str, bucket: str) -> None:
    assert catalog_dsn != stack.postgres
    assert bucket != stack.s3
