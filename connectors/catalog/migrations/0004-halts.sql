-- Deletes that an agent holds back until an operator consents to them; one row per source, while it is so.
CREATE TABLE source_halts (
    source     text PRIMARY KEY,
    reason     text NOT NULL,
    paths      bigint NOT NULL,              -- how many would be deleted
    subtree    bytea NOT NULL,               -- the directory that they share; empty: the root
    examples   bytea[] NOT NULL,
    since      timestamptz NOT NULL DEFAULT now(),
    consented  bigint                        -- so many may be deleted: the agent takes it, and removes the row
);
