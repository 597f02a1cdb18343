-- Content that was put off because its source's root is away: detail says why while it is uploading, and stays until
-- verify has judged it, because no record of the log brings it again. Few rows, unless a root is away for long.
CREATE INDEX objects_deferred ON objects (claim_topic, claim_partition, source, changed_at)
    WHERE state IN ('uploading', 'stored') AND detail <> '';
