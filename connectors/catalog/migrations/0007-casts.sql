-- Casts: one file each, broadcast to hosts. Epochs come from one sequence for all names, in the order of announcement
-- within a name: the newest epoch of a name replaces the older ones.
CREATE SEQUENCE cast_epochs;
CREATE TABLE casts (
    epoch         bigint PRIMARY KEY DEFAULT nextval('cast_epochs'),
    name          text NOT NULL,
    state         text NOT NULL DEFAULT 'announced' CHECK (state IN ('announced', 'sealed', 'aborted', 'removed')),
    told          boolean NOT NULL DEFAULT false,   -- the log has acknowledged the record of this state
    reason        text NOT NULL,                    -- of its state, in a sentence
    origin        text NOT NULL,                    -- the host that has the file
    file          bytea NOT NULL,                   -- its path there
    file_name     text NOT NULL,                    -- what peers call it
    size          bigint NOT NULL,
    chunk_bytes   int NOT NULL,
    targets       text[] NOT NULL,
    root          bytea,                            -- of a sealed cast
    copy_key      text,                             -- of its copy in S3, which may be unfinished; null: none
    announced_at  timestamptz NOT NULL DEFAULT now(),
    changed_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL
);
CREATE INDEX casts_name ON casts (name, epoch);
CREATE INDEX casts_untold ON casts (name) WHERE NOT told;
CREATE INDEX casts_copies ON casts (expires_at) WHERE copy_key IS NOT NULL;
