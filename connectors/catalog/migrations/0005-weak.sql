-- Files whose newest state was read where nothing proved that nobody wrote: kept for the counter weak_files.
ALTER TABLE paths ADD COLUMN weak boolean NOT NULL DEFAULT false;
UPDATE paths p SET weak = true FROM file_versions v
    WHERE v.source = p.source AND v.path = p.path AND v.epoch = p.epoch AND v.seq = p.seq
        AND v.guarantee = 'weak' AND p.content_bytes IS NOT NULL;
ALTER TABLE counters DROP CONSTRAINT counters_name_check;
ALTER TABLE counters ADD CONSTRAINT counters_name_check CHECK (name IN (
    'files', 'bytes', 'objects_claimed', 'bytes_claimed', 'objects_stored', 'bytes_stored', 'objects_verified',
    'bytes_verified', 'objects_condemned', 'weak_files'));
INSERT INTO counters (source, name, value) SELECT source, 'weak_files', count(*) FROM paths WHERE weak GROUP BY source;
