-- Since when content is put off: changed_at moves with every try. What was put off before this is as old as its last try.
ALTER TABLE objects ADD COLUMN deferred_at timestamptz;
UPDATE objects SET deferred_at = changed_at WHERE state IN ('uploading', 'stored') AND detail <> '';
CREATE INDEX objects_deferred_at ON objects (source, deferred_at) WHERE state = 'uploading' AND detail <> '';
