-- Sources, file states, objects, dataset versions: the authority of the main job.
-- (epoch, seq) is the clock of a state of a path; rows about a path are written only under a larger clock.

CREATE TABLE sources (
    source        text PRIMARY KEY,
    site          text NOT NULL,
    root          bytea NOT NULL,
    dataset       text NOT NULL,
    epoch         bigint NOT NULL,           -- changes with the index that owns the source
    index_id      uuid NOT NULL,             -- the owner's index: the same index resumes the same epoch
    agent         text NOT NULL,             -- host and incarnation of the agent, for people
    partitions    int NOT NULL,              -- of its fs.changes topic: how many checkpoints make a complete_to
    heartbeat_at  timestamptz NOT NULL DEFAULT now(),
    stopped_at    timestamptz                -- the agent said goodbye: another may take over at once
);

-- Append-only: every settled state of every path. A rename is two rows with one clock: renamed (path, from_path)
-- and deleted (the old path, renamed_to).
CREATE TABLE file_versions (
    source       text NOT NULL,
    path         bytea NOT NULL,
    epoch        bigint NOT NULL,
    seq          bigint NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('created', 'modified', 'renamed', 'deleted', 'metadata')),
    file_type    text NOT NULL,
    hash         bytea,                      -- null: no content (deleted, symlink)
    size         bigint NOT NULL,
    mtime_ns     bigint NOT NULL,
    mode         int NOT NULL,
    uid          bigint NOT NULL,
    gid          bigint NOT NULL,
    link_target  bytea,
    from_path    bytea,
    renamed_to   bytea,
    guarantee    text NOT NULL,
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, path, epoch, seq)
);
CREATE INDEX file_versions_hash ON file_versions (hash) WHERE hash IS NOT NULL;

-- One row per path: the newest clock that was recorded and the clock that the last published version holds.
CREATE TABLE paths (
    source           text NOT NULL,
    path             bytea NOT NULL,
    epoch            bigint NOT NULL,
    seq              bigint NOT NULL,
    content_bytes    bigint,                 -- of the newest state; null: deleted. Keeps counters files and bytes
    committed_epoch  bigint NOT NULL DEFAULT 0,
    committed_seq    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (source, path)
);
CREATE INDEX paths_uncommitted ON paths (source) WHERE (epoch, seq) > (committed_epoch, committed_seq);

-- What each partition of fs.changes has applied, per source: the lowest one is the source's complete_to.
CREATE TABLE checkpoints (
    source     text NOT NULL,
    partition  int NOT NULL,
    epoch      bigint NOT NULL,
    seq        bigint NOT NULL,
    PRIMARY KEY (source, partition)
);

-- Paths that cannot be carried now, and why (busy, unreadable, dead-lettered). active = false: cleared, clock kept.
CREATE TABLE exceptions (
    source  text NOT NULL,
    path    bytea NOT NULL,
    epoch   bigint NOT NULL,
    seq     bigint NOT NULL,
    reason  text NOT NULL,
    active  boolean NOT NULL,
    since   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, path)
);

-- Who may write on behalf of an input partition: its newest owner has the largest epoch.
CREATE TABLE partition_epochs (
    topic      text NOT NULL,
    partition  int NOT NULL,
    epoch      bigint NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- Generations of stored content. "We have it" means state = 'verified', never an answer of S3.
CREATE TABLE objects (
    hash             bytea NOT NULL,
    generation       int NOT NULL,
    state            text NOT NULL CHECK (state IN ('uploading', 'stored', 'verified', 'condemned', 'gone')),
    size             bigint NOT NULL,
    source           text NOT NULL,          -- whose uploader claimed it first: progress is counted there
    parts            int NOT NULL DEFAULT 0, -- 0: stored whole
    claim_topic      text NOT NULL,          -- the input partition that holds the claim, and its owner's epoch
    claim_partition  int NOT NULL,
    claim_epoch      bigint NOT NULL,
    upload_id        text,                   -- multipart upload, while uploading
    detail           text NOT NULL DEFAULT '',
    changed_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (hash, generation)
);
-- At most one generation of a hash is wanted at a time.
CREATE UNIQUE INDEX objects_current ON objects (hash) WHERE state IN ('uploading', 'stored', 'verified');

CREATE TABLE object_parts (
    hash        bytea NOT NULL,
    generation  int NOT NULL,
    index       int NOT NULL,
    first_byte  bigint NOT NULL,
    length      bigint NOT NULL,
    part_hash   bytea NOT NULL,
    etag        text,                        -- set when S3 has the part
    PRIMARY KEY (hash, generation, index)
);

CREATE TABLE datasets (
    dataset          text PRIMARY KEY,
    repository       text NOT NULL,          -- lakeFS repository
    committer_epoch  bigint NOT NULL DEFAULT 0,
    head             bigint NOT NULL DEFAULT 0,  -- newest published version
    head_commit      text,                       -- its lakeFS commit; null: the repository's first commit
    files            bigint NOT NULL DEFAULT 0,
    content_bytes    bigint NOT NULL DEFAULT 0,
    uncommitted      bigint NOT NULL DEFAULT 0   -- changes recorded since the last intent: triggers a commit
);

CREATE TABLE versions (
    dataset        text NOT NULL REFERENCES datasets,
    version        bigint NOT NULL,
    parent         bigint,
    epoch          bigint NOT NULL,           -- of the committer that wrote the intent or took it over
    state          text NOT NULL CHECK (state IN ('intent', 'published')),
    cut            jsonb NOT NULL,            -- per source: complete_to and the exceptions below it
    message        text NOT NULL DEFAULT '',
    manifest_hash  bytea,
    base_hash      bytea,                     -- full manifest, where this version has one
    commit_id      text,
    added          bigint NOT NULL DEFAULT 0,
    changed        bigint NOT NULL DEFAULT 0,
    removed        bigint NOT NULL DEFAULT 0,
    files          bigint NOT NULL DEFAULT 0,
    content_bytes  bigint NOT NULL DEFAULT 0,
    exceptions     bigint NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT now(),
    published_at   timestamptz,
    announced_at   timestamptz,               -- its record is on dataset.versions
    PRIMARY KEY (dataset, version)
);

-- The frozen delta of a version: what its manifest says, row for row.
CREATE TABLE version_changes (
    dataset       text NOT NULL,
    version       bigint NOT NULL,
    source        text NOT NULL,
    path          bytea NOT NULL,
    epoch         bigint NOT NULL,
    seq           bigint NOT NULL,
    change        text NOT NULL CHECK (change IN ('added', 'changed', 'removed')),
    file_type     text NOT NULL,
    hash          bytea,
    generation    int,
    size          bigint NOT NULL,
    mtime_ns      bigint NOT NULL,
    mode          int NOT NULL,
    uid           bigint NOT NULL,
    gid           bigint NOT NULL,
    link_target   bytea,
    guarantee     text NOT NULL,
    PRIMARY KEY (dataset, version, source, path)
);
-- What the newest version that names a path says of it: the state that the next version changes.
CREATE INDEX version_changes_path ON version_changes (dataset, source, path, version DESC);

CREATE TABLE commit_requests (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset       text NOT NULL,
    message       text NOT NULL,
    requested_at  timestamptz NOT NULL DEFAULT now(),
    done_at       timestamptz,
    version       bigint                      -- the version that answers it; null with done_at: nothing had changed
);
CREATE INDEX commit_requests_open ON commit_requests (dataset, id) WHERE done_at IS NULL;

-- Progress, kept with the state changes in the same transaction: nothing counts rows.
CREATE TABLE counters (
    source  text NOT NULL,
    name    text NOT NULL CHECK (name IN ('files', 'bytes', 'objects_claimed', 'bytes_claimed', 'objects_stored',
                                          'bytes_stored', 'objects_verified', 'bytes_verified', 'objects_condemned')),
    value   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (source, name)
);
